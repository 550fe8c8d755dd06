"""The schemas of request and response bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tasks.ledger.errors import Category
from tasks.ledger.states import State
from tasks.settings import Settings
from tasks.workflows import Choice, Option, Workflow
from webapp.jobs.parsing import offered
from webapp.jobs.titles import MAX_TITLE_LENGTH
from webapp.upload_links import links
from webapp.upload_links.links import LinkState

Json = dict[str, Any]
INSTANT: Json = {"type": "string", "format": "date-time"}
ID: Json = {"type": "string", "format": "uuid"}
COUNT: Json = {"type": "integer", "minimum": 0}
ADDRESS: Json = {"type": "string", "format": "uri-reference"}
VISIBLE = r"\S"


def all_schemas(settings: Settings) -> Json:
    """Return every named schema."""
    return {
        **{f"Options_{one.name}": options_schema(one) for one in offered()},
        "JobRequest": job_request(settings),
        "JobForm": job_form(settings),
        "Job": JOB,
        "JobList": listing("jobs", "Job"),
        "Result": RESULT,
        "UploadLinkRequest": upload_link_request(),
        "UploadLink": UPLOAD_LINK,
        "UploadLinkList": listing("upload_links", "UploadLink"),
        "Usage": USAGE,
        "Problem": PROBLEM,
    }


def described(schema: Mapping[str, Any], about: str) -> Json:
    return {**schema, "description": about}


def or_null(schema: Mapping[str, Any], about: str = "") -> Json:
    """Return the schema, extended to allow null."""
    if "$ref" in schema or "enum" in schema:
        either: Json = {"oneOf": [dict(schema), {"type": "null"}]}
    else:
        either = {**schema, "type": [schema["type"], "null"]}
    return {**either, "description": about} if about else either


def object_schema(properties: Mapping[str, Any], *, optional: Iterable[str] = ()) -> Json:
    """Return the schema of an object with these properties and no others."""
    required = [name for name in properties if name not in set(optional)]
    return {
        "type": "object",
        "properties": dict(properties),
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def listing(name: str, of: str) -> Json:
    """Return the schema of one page of a list."""
    return object_schema(
        {
            name: {"type": "array", "items": ref(of)},
            "next": or_null(ADDRESS, "URL of the next, older page; null on the last page."),
        }
    )


def option_schema(option: Option) -> Json:
    """Return the schema of an option's value."""
    if isinstance(option, Choice):
        labels = ", ".join(f"`{word}` ({label})" for word, label in option.words.items())
        about = f"{option.label}: {labels}."
        return {"type": "string", "enum": list(option.words), "default": option.default, "description": about}
    line = {"type": "string", "minLength": 1, "maxLength": option.max_length, "pattern": VISIBLE}
    lines = {"type": "array", "items": line, "minItems": 1, "maxItems": option.max_lines}
    text = {"type": "string", "minLength": 1, "pattern": VISIBLE}
    return {"oneOf": [lines, text], "description": f"{option.label}: {option.hint} As a list, or as text."}


def options_schema(workflow: Workflow) -> Json:
    """Return the schema of a workflow's options."""
    choices: Sequence[Option] = workflow.choices
    with_default = [option.name for option in choices if isinstance(option, Choice)]
    schema = object_schema({option.name: option_schema(option) for option in choices}, optional=with_default)
    return {**schema, "description": str(workflow.hint)}


def workflow_fields(workflow: Workflow) -> tuple[Json, list[str]]:
    """Return the schemas of `workflow` and `options` for this workflow, and the names of the required ones."""
    name = described({"const": workflow.name}, f"{workflow.title}. {workflow.hint}")
    needed = [] if workflow.name == "summary" else ["workflow"]
    if any(not isinstance(option, Choice) for option in workflow.choices):
        needed.append("options")
    return {"workflow": name, "options": ref(f"Options_{workflow.name}")}, needed


def one_per_workflow(*wanted: tuple[str, Mapping[str, Any], Sequence[str]]) -> Json:
    """Return a schema with one variant per workflow, so that `workflow` and `options` go together.

    Each variant is a text that is added to the workflow's title, the properties, and the required ones.
    """
    kinds = [kind for one in wanted for kind in _kinds(*one)]
    return kinds[0] if len(kinds) == 1 else {"oneOf": kinds}


def _kinds(about: str, properties: Mapping[str, Any], required: Sequence[str]) -> Iterator[Json]:
    for workflow in offered():
        fields, needed = workflow_fields(workflow)
        schema = object_schema({**properties, **fields}, optional={*properties, *fields} - {*required, *needed})
        yield {"title": f"{workflow.title}{about}", **schema}


TITLE = f"What to call it, at most {MAX_TITLE_LENGTH} characters; else the file's name or the first words."


def text_of_document(settings: Settings) -> Json:
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": settings.max_document_chars,
        "pattern": VISIBLE,
        "description": "The text of the document. Control characters are taken out of it.",
    }


def job_request(settings: Settings) -> Json:
    """Return the schema of a request that submits text."""
    title = or_null({"type": "string"}, TITLE)
    return one_per_workflow(("", {"text": text_of_document(settings), "title": title}, ["text"]))


def job_form(settings: Settings) -> Json:
    """Return the schema of a form that submits a file or text."""
    file = {
        "type": "string",
        "contentMediaType": "application/octet-stream",
        "minLength": 1,
        "description": "PDF, Word (.docx), OpenDocument, RTF, HTML, Markdown, CSV or plain text, "
        f"at most {settings.max_upload_bytes:,} bytes.",
    }
    title = described({"type": "string"}, TITLE)
    text = text_of_document(settings)
    return one_per_workflow(
        (", of a file", {"file": file, "title": title}, ["file"]),
        (", of a text", {"text": text, "title": title}, ["text"]),
    )


FRAME_ORIGINS: Json = {
    "type": "array",
    "items": {"type": "string", "pattern": links.ORIGIN},
    "maxItems": links.MAX_ORIGINS,
}
RETURN_URL: Json = {"type": "string", "pattern": links.ADDRESS, "maxLength": links.MAX_URL_LENGTH}
LINK_NAME = "Your name for the link; only you can see it."
SHOW_RESULT = "Whether the person who handed a document in may read its result."
WAY_BACK = "The URL that the pages link back to."


def whole(low: int, high: int, default: int) -> Json:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default}


def upload_link_request() -> Json:
    """Return the schema of a request for an upload link."""
    fields = {
        "name": or_null({"type": "string"}, f"{LINK_NAME} Cut at {links.MAX_NAME_LENGTH} characters."),
        "expires_in": described(
            whole(links.MIN_SECONDS, links.MAX_SECONDS, links.EXPIRES_IN),
            "Seconds until the link expires.",
        ),
        "max_uses": described(whole(1, links.MAX_USES, 1), "How many documents it accepts."),
        "frame_origins": described(
            FRAME_ORIGINS, "The sites whose pages may show the form, like https://www.example.org."
        ),
        "return_url": or_null(RETURN_URL, WAY_BACK),
        "show_result": described({"type": "boolean", "default": False}, SHOW_RESULT),
    }
    return one_per_workflow(("", fields, []))


UPLOAD_LINK = object_schema(
    {
        "id": ID,
        "name": or_null({"type": "string"}, LINK_NAME),
        "state": {"type": "string", "enum": [str(state) for state in LinkState]},
        "workflow": {"type": "string"},
        "options": {"type": "object"},
        "uses": described(COUNT, "How many documents were handed in by it."),
        "max_uses": COUNT,
        "frame_origins": FRAME_ORIGINS,
        "return_url": or_null(RETURN_URL, WAY_BACK),
        "show_result": described({"type": "boolean"}, SHOW_RESULT),
        "created_at": INSTANT,
        "expires_at": INSTANT,
        "upload_url": described({"type": "string", "format": "uri"}, "The form's URL. Anyone who has it may use it."),
        "html": described({"type": "string"}, "The form for a page of your own: copy it there as it is."),
        "url": ADDRESS,
        "jobs_url": described(ADDRESS, "URL of the jobs that were handed in by it."),
    }
)
STATE: Json = {"type": "string", "enum": [str(state) for state in State]}
CATEGORY: Json = {"type": "string", "enum": [str(category) for category in Category]}
SPENT: Json = {
    "calls": described(COUNT, "Requests to the AI service."),
    "calls_not_reported": described(COUNT, "Requests whose usage is unknown."),
    "input_tokens": or_null(COUNT),
    "output_tokens": or_null(COUNT),
    "cost": or_null({"type": "string"}, "An amount without a currency; null if no prices are set."),
}
USAGE = object_schema({**SPENT, "wasted": described(object_schema(SPENT), "The part of it that led to no result.")})
JOB = object_schema(
    {
        "id": ID,
        "reference": described({"type": "string"}, "A reference to quote to the operator, like WB-7K3F-92QD."),
        "title": {"type": "string"},
        "workflow": {"type": "string"},
        "options": {"type": "object"},
        "state": described(STATE, "`succeeded`, `failed` and `cancelled` are final, unless the job is tried again."),
        "revision": described(COUNT, "Grows with every change."),
        "attempt": described(COUNT, "The attempt that runs or is next; after the end, how many there were."),
        "max_attempts": COUNT,
        "progress": or_null(
            object_schema({"done": COUNT, "total": COUNT}), "Parts of the document; null before it was read."
        ),
        "waiting_for": or_null(
            object_schema({"category": CATEGORY, "until": INSTANT}),
            "Why the job waits for the AI service, and until when at the latest; null if it does not.",
        ),
        "next_attempt_at": or_null(INSTANT, "When it is tried again; null unless the state is `retry_wait`."),
        "deadline_at": described(INSTANT, "The job has ended by then, one way or another."),
        "error": or_null(
            object_schema({"category": CATEGORY, "code": or_null({"type": "string"}), "message": {"type": "string"}}),
            "What went wrong, while `failed` or `retry_wait`; else null.",
        ),
        "unanswered_calls": described(COUNT, "Requests to the AI service that may have been billed without an answer."),
        "usage": or_null(ref("Usage"), "Its usage of the AI service; null if the site does not show it."),
        "created_at": INSTANT,
        "finished_at": or_null(INSTANT),
        "content_deleted_at": or_null(INSTANT, "When the document and its result were deleted, as set by the site."),
        "url": ADDRESS,
        "result_url": or_null(ADDRESS, "Where the result is; null until there is one."),
        "retry_url": or_null(ADDRESS, "Where to POST to try a failed job again; null where that cannot help."),
    }
)
RESULT = object_schema(
    {
        "id": described(ID, "The job's id."),
        "text": {"type": "string"},
        "format": {"const": "markdown"},
        "model": or_null({"type": "string"}),
        "label": or_null({"type": "string"}, "A notice to show with the text if it was made without AI."),
        "complete": described({"type": "boolean"}, "False if the AI service cut it off at its length limit."),
        "created_at": INSTANT,
    }
)
PROBLEM: Json = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": described({"type": "string"}, "What happened, for people."),
        "status": described({"type": "integer", "minimum": 400, "maximum": 599}, "The status of the response."),
        "detail": described({"type": "string"}, "What to do about it, for people."),
        "code": described({"type": "string"}, "What is wrong, as a fixed word."),
        "field": described({"type": "string"}, "Which value is wrong."),
        "state": described(STATE, "The job's state, if it prevents the request."),
        "deleted_at": described(INSTANT, "When it was deleted; only with status 410."),
        "until": described(INSTANT, "When a limit allows the next document, at the latest."),
    },
    "required": ["type", "title", "status"],
    "additionalProperties": False,
}
