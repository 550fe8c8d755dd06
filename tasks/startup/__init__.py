"""Checks of the settings against each other, before a process starts."""
