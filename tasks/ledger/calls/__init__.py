"""Provider calls, the lanes that they go through, and responses that the provider makes in the background."""
