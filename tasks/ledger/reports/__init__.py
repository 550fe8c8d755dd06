"""The queries for pages, the API, operators and metrics. Only `inspection.inspect` writes: the event of its use."""
