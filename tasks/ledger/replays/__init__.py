"""Replays: failed jobs that an operator puts back at a limited rate."""
