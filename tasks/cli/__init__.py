"""The commands of `python -m tasks`: their parsers, and the lines that they print."""
