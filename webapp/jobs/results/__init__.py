"""The result of a job as HTML, plain text and Word, and its provenance."""
