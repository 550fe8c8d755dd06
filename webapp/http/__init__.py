"""The HTTP layer of every request: errors, security headers, locale, logs, bodies, pagination and downloads."""
