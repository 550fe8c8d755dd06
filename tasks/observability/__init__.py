"""Logs, error reports and traces."""
