"""What every request passes: errors, security headers, locale, logs, bodies, pagination and downloads."""
