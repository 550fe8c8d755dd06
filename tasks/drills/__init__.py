"""Failures staged on purpose, against the real database and the real Redis, with a provider that is scripted.

A drill has a queue, an account, worker processes and a provider of its own, and takes them all away after it.
"""
