"""Runs the whole app on one machine: the demo, and the bundled PostgreSQL and Redis that it and the tests use."""
