"""The readers, one for each document format. They run in the sandbox only."""
