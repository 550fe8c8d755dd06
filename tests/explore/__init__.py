"""An explorer of interleavings: runs operations of the ledger against each other, statement by statement.

    python -m tests.explore.run --minutes 2 --seed 1        `make explore MINUTES=2 SEED=1` does the same

Each operation is the application's own function on a connection of its own, and stops before each statement and each
COMMIT (`actor`). The stage lets one of them go on at a time (`stage`), and the search tries every order that can make a
difference (`search`). Every end is checked, then brought to rest by the real loops, and checked again (`verdict`).
"""
