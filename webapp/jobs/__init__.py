"""Submission of documents, and the pages of an account's jobs."""

from __future__ import annotations

from flask import Flask


def init_app(app: Flask) -> None:
    """Register the pages of jobs, and the template filters that they use."""
    from webapp.jobs import downloads, messages, usage, views, workflow_messages
    from webapp.jobs.results import html, plain_text, provenance

    app.register_blueprint(views.jobs)
    app.register_blueprint(downloads.documents)
    app.jinja_env.filters.update(
        summary_html=html.summary_html,
        plain_text=plain_text.as_text,
        kind_label=provenance.kind_label,
        workflow_title=workflow_messages.title_of,
        mid_sentence=workflow_messages.mid_sentence,
        usage=usage.usage_in_words,
        counted=messages.counted,
    )
