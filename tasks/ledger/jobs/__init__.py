"""A job's life: accepted, claimed, renewed, ended, deleted."""
