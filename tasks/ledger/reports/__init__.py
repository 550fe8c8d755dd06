"""Reads for pages, the API, operators and metrics. Nothing here writes."""
