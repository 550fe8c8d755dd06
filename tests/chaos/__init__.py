"""Runs many jobs while everything around them is killed, frozen, emptied and restarted at random."""
