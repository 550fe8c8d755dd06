"""Loops that put things right: reconciler, replayer, response cleanup and alerts."""
