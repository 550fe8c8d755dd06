"""The life of a job: it is accepted, claimed, renewed, ended and deleted."""
