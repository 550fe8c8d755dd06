"""What the ledger asks about accounts: their limits, and whether they are disabled."""
