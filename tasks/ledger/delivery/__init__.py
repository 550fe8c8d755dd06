"""Which job is handed to the queue next: the outbox, the operator's gate, and the fair order of accounts."""
