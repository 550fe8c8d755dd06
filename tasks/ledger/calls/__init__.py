"""Provider calls, the lanes they go through, and responses that the provider makes in the background."""
