"""Run the whole app on one machine: the demo, and the PostgreSQL and Redis that it and the tests bring along."""
