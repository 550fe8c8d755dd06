"""The killable child process that reads documents, and how the worker talks to it."""
