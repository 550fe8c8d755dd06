"""The parameters, bodies and responses of each route.

A route that is missing here makes the document fail, and the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.settings import Settings
from webapp.api.jobs import MAX_PAGE, MAX_REVISION, PAGE
from webapp.api.openapi import schemas
from webapp.api.openapi.responses import EVERYWHERE, given, refused
from webapp.http import pagination
from webapp.http.long_polling import LONGEST_WAIT_SECONDS
from webapp.jobs.submission import MAX_KEY_LENGTH

Json = Mapping[str, Any]
TAGS = {
    "Jobs": "A job is a document and the work requested for it.",
    "Upload links": "With a link, people without an account hand in documents for yours, on your page or on ours.",
}


@dataclass(frozen=True)
class Operation:
    """Describes one route. `good` are its successful responses, `bad` the statuses of its errors."""

    tag: str
    good: Mapping[int, Json]
    bad: Sequence[int] = ()
    parameters: Sequence[Json] = ()
    bodies: Mapping[str, str] = field(default_factory=dict)

    def in_openapi(self, settings: Settings) -> Json:
        """Return the operation as an OpenAPI object."""
        found: dict[str, Any] = {}
        if self.parameters:
            found["parameters"] = list(self.parameters)
        if self.bodies:
            content = {media: {"schema": schemas.ref(name)} for media, name in self.bodies.items()}
            found["requestBody"] = {"required": True, "content": content}
        bad = {str(status): refused(status) for status in sorted({*self.bad, *EVERYWHERE})}
        found["responses"] = {**{str(status): response for status, response in self.good.items()}, **bad}
        return found


PATH_PARAMETERS: Json = {
    "job_id": {"name": "job_id", "in": "path", "required": True, "schema": schemas.ID, "description": "The job's id."},
    "link_id": {
        "name": "link_id",
        "in": "path",
        "required": True,
        "schema": schemas.ID,
        "description": "The upload link's id.",
    },
}


def path_parameter(name: str) -> Json:
    return {"$ref": f"#/components/parameters/{name}"}


def in_query(name: str, schema: Json, about: str) -> Json:
    return {"name": name, "in": "query", "schema": schema, "description": about}


JOB_ID, LINK_ID = path_parameter("job_id"), path_parameter("link_id")
IDEMPOTENCY_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": r"^[!-~]([ -~]*[!-~])?$", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
    "description": "A key of your own for this one request, such as a random UUID. Sent again with the same content, "
    "it leads to the same job; with other content it is refused.",
}
LIST = (
    in_query(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": PAGE},
        "Maximum number of entries per page.",
    ),
    in_query(
        "before",
        {"type": "string", "pattern": pagination.PATTERN},
        "The cursor of the page: take it from `next`.",
    ),
)
STATE = in_query("state", schemas.STATE, "Only jobs in this state.")
WAIT = (
    in_query(
        "wait",
        {"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT_SECONDS},
        "Maximum seconds to wait for a change.",
    ),
    in_query(
        "revision",
        {"type": "integer", "minimum": 0, "maximum": MAX_REVISION},
        "The `revision` you know. With `wait`, the response comes once the job has another one.",
    ),
)

ALL: Mapping[str, Operation] = {
    "api.create": Operation(
        "Jobs",
        {
            202: given("A new job.", "Job", "Location"),
            200: given("The job that the same request created before.", "Job", "Location"),
        },
        bad=(400, 409, 413, 415, 422),
        parameters=(IDEMPOTENCY_KEY,),
        bodies={"application/json": "JobRequest", "multipart/form-data": "JobForm"},
    ),
    "api.index": Operation(
        "Jobs", {200: given("A page of the list.", "JobList", "Link")}, bad=(422,), parameters=(*LIST, STATE)
    ),
    "api.show": Operation(
        "Jobs", {200: given("The job.", "Job", "Waybill-Wait")}, bad=(404, 422), parameters=(JOB_ID, *WAIT)
    ),
    "api.delete": Operation("Jobs", {204: given("Deleted.", None)}, bad=(404,), parameters=(JOB_ID,)),
    "api.result": Operation("Jobs", {200: given("The result.", "Result")}, bad=(404, 409, 410), parameters=(JOB_ID,)),
    "api.cancel": Operation(
        "Jobs",
        {
            200: given("The job is cancelled.", "Job"),
            202: given("The worker has been asked to stop.", "Job"),
        },
        bad=(404, 409),
        parameters=(JOB_ID,),
    ),
    "api.retry": Operation(
        "Jobs",
        {
            200: given("The job waits or runs already.", "Job"),
            202: given("The job is queued again.", "Job"),
        },
        bad=(404, 409),
        parameters=(JOB_ID,),
    ),
    "api.create_upload_link": Operation(
        "Upload links",
        {201: given("The link.", "UploadLink", "Location")},
        bad=(400, 409, 413, 415, 422),
        bodies={"application/json": "UploadLinkRequest"},
    ),
    "api.list_upload_links": Operation(
        "Upload links", {200: given("A page of the list.", "UploadLinkList", "Link")}, bad=(422,), parameters=LIST
    ),
    "api.show_upload_link": Operation(
        "Upload links", {200: given("The link.", "UploadLink")}, bad=(404,), parameters=(LINK_ID,)
    ),
    "api.list_jobs_of_upload_link": Operation(
        "Upload links",
        {200: given("A page of the list.", "JobList", "Link")},
        bad=(404, 422),
        parameters=(LINK_ID, *LIST, STATE),
    ),
    "api.revoke_upload_link": Operation(
        "Upload links", {200: given("The link.", "UploadLink")}, bad=(404,), parameters=(LINK_ID,)
    ),
}
