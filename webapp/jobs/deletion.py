"""Deletes a document at its owner's request."""

from __future__ import annotations

import uuid

from tasks.ledger.jobs import deletion
from tasks.ledger.reports import job_views
from webapp.database import transaction


def delete_document_of_job(job_id: uuid.UUID, account_id: uuid.UUID) -> bool:
    """Delete the document of a job, with all its jobs. Returns False if the account has no such job."""
    with transaction() as database:
        job = job_views.job_of(database, job_id, account_id)
        return job is not None and deletion.delete_document(database, job.document_id, account_id) is not None
