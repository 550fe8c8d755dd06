"""A result as HTML, text and Word, and where it came from."""
