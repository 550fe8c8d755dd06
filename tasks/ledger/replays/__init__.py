"""Failed jobs that an operator puts back, at a rate."""
