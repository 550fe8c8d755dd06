"""Failures staged on purpose, against the real database and the real Redis, with a scripted provider.

Each drill has its own queue, account, worker processes and provider, and removes them all at its end.
"""
