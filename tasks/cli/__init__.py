"""The commands of `python -m tasks`: their parsers, and what each prints."""
