"""The way of a job to the queue: the outbox, the operator's gate, and the fair order of accounts."""
