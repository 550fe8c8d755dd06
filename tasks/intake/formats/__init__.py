"""One reader for each document format. They run in the sandbox only."""
