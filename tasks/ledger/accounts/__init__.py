"""The facts about accounts that the ledger needs: their limits, and which of them are disabled."""
