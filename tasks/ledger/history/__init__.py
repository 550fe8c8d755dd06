"""The tables to which rows are only ever added: the events of jobs, and the audit log of operators."""
