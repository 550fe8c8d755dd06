"""The killable child process that reads documents, and the worker's side of the conversation with it."""
