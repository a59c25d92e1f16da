"""The closed family of errors that AutoHedge answers itself. The door picks the envelope; this file knows no HTTP library.

Problem
├── BadRequest        400  the request cannot succeed anywhere; `details` lists every finding
│   └── Unprocessable 422  the same, where an operator wants System One clients to see what TypeSafe answers
├── Unauthorized      401  the Authorization header is malformed or not accepted
├── Forbidden         403
├── NotFound          404  unknown path or model
├── MethodNotAllowed  405  known path, other method; carries Allow
├── Conflict          409  what is there already says something else
├── Gone              410  the model is retired and has nowhere to go
├── TooLarge          413  body over server.max_body_bytes
├── Unsupported       415  media type or content encoding that nobody here reads
├── TooManyRequests   429  a rate limit of ours
├── UpstreamFailed    502  every candidate failed; `details` lists the attempts
├── Unavailable       503  no candidate can be tried now; carries Retry-After
└── DeadlineExceeded  504  the time for the whole request is used up

Rules: each class fixes its status; `code` is one of `CODES` (a test holds that every one is documented and used);
messages carry no address, no credential and no long value of the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

CODES = {
    "invalid_json": "the body is not JSON; the message gives byte, line and column",
    "invalid_body": "the body is JSON, but not an object",
    "invalid_value": "one or more fields are refused by every backend that could serve the model",
    "limit_exceeded": "a number or the prompt is over what the model accepts",
    "context_length_exceeded": "the prompt, counted by the engine itself, does not fit the model's window",
    "unsupported_feature": "tools, images, response_format or this API are known to be missing on every backend of the model",
    "invalid_encoding": "Content-Encoding does not fit the bytes, or the decoded body is too large",
    "invalid_token_format": "Authorization is not 'Bearer <token>'",
    "unauthorized": "the credential is missing or not accepted",
    "forbidden": "the caller may not do this",
    "model_not_found": "no backend serves this model; the nearest names are given",
    "model_retired": "the provider retired this model and no rung is left",
    "not_found": "no such path",
    "method_not_allowed": "the path exists with other methods",
    "body_too_large": "the body is over server.max_body_bytes",
    "unsupported_media_type": "the Content-Type or Content-Encoding is not one that can be read",
    "empty_body": "System One: the body holds nothing",
    "missing_field": "System One: a field that the model's servers need is not there",
    "invalid_type": "System One: a field holds another kind of value",
    "unknown_field": "System One: the server refuses this field by name; the message tells the right one",
    "unsupported_field": "System One: the field belongs to another API, or this kind of server does not take it",
    "empty_state": "System One: the server needs a state that is not empty",
    "empty_questions": "System One: questions holds none",
    "invalid_question_id": "System One: a question's id is empty or blank",
    "missing_type": "System One: a question has no type",
    "invalid_question_type": "System One: the type is none of those that are known",
    "nothing_to_decide": "System One: a question has neither instructions nor a description to decide on",
    "invalid_option_name": "System One: an option's name is blank or breaks the line",
    "duplicate_option": "System One: two options differ by nothing but case or outer spaces",
    "invalid_level": "System One: the description of a level is not one",
    "too_many_questions": "System One: more questions than the model takes in one request",
    "too_few_options": "System One: fewer options than the model needs",
    "too_many_options": "System One: more options than the model takes",
    "too_few_levels": "System One: fewer levels than the model needs",
    "too_many_levels": "System One: more levels than the model takes",
    "too_many_images": "System One: more images than the model takes",
    "images_not_supported": "System One: the model reads no images",
    "duplicate_key": "System One: model, state or questions stands twice at the top of the body",
    "invalid_number": "System One: NaN or Infinity, which are not JSON",
    "too_deep": "System One: objects and arrays nest deeper than the server can read",
    "unsupported_encoding": "System One: a Content-Encoding other than gzip and zstd",
    "rate_limited": "over the caller's rate",
    "upstream_failed": "every attempt ended badly",
    "no_backend": "the model is known, but nothing can serve it now",
    "no_workers": "System One: no worker can be asked, or none for this model",
    "workers_unreachable": "System One: every worker that was asked failed; the message names the last one",
    "queue_full": "every replica is at its concurrency cap and the queue is full or took too long",
    "request_loop": "the request has been here before: two AutoHedges have each other as backends",
    "starting": "the startup gate has not opened yet",
    "deadline_exceeded": "the time for the whole request is used up",
    "internal_error": "a fault of AutoHedge itself",
    "BAD_REQUEST": "eidex's workers API: the body or the URL is wrong, or the body is too large",
    "WORKER_NOT_FOUND": "eidex's workers API: no worker has this id",
    "WORKER_ALREADY_EXISTS": "eidex's workers API: the URL is registered with other fields",
    "NOT_FOUND": "no such path, in eidex's words (its paths and its mode)",
    "METHOD_NOT_ALLOWED": "the path exists with other methods, in eidex's words (its paths and its mode)",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """One finding. `param` is the field's path ("messages[0].role"), `value` a shortened copy of what was sent,
    `limit` the number that was exceeded and `source` where that number was learned.
    """

    param: str | None
    code: str
    message: str
    value: Any = None
    limit: int | None = None
    source: str | None = None
    steps: tuple[str | int, ...] = ()  # the path step by step, where the door tells it that way

    def shown(self) -> dict[str, Any]:
        """The finding as JSON, without the empty fields."""
        return {
            key: value
            for key, value in asdict(self).items()
            if key != "steps" and (value is not None or key in {"param", "code", "message"})
        }


class Problem(Exception):  # noqa: N818 - the design's word for an error that we answer ourselves
    """An error that AutoHedge answers itself; never raised bare."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    default_code: ClassVar[str] = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        param: str | None = None,
        details: Sequence[Detail] = (),
        retry_after: float | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.param = param
        self.details = tuple(details)
        self.retry_after = retry_after  # seconds
        self.headers = tuple(headers)

    def __reduce__(self) -> tuple[Any, ...]:
        """Problems cross the process border of the examiner with all their fields."""
        more = {name: getattr(self, name) for name in ("code", "param", "details", "retry_after", "headers")}
        return _rebuilt, (type(self), self.message, more)


def _rebuilt(kind: type[Problem], message: str, more: dict[str, Any]) -> Problem:
    return kind(message, **more)


class InternalError(Problem):
    pass


class BadRequest(Problem):
    status = 400
    type = "invalid_request_error"
    default_code = "invalid_value"


class Unprocessable(BadRequest):
    """The same at the System One door where `systemone.validation_status` is 422."""

    status = 422


class Unauthorized(Problem):
    status = 401
    type = "authentication_error"
    default_code = "unauthorized"


class Forbidden(Problem):
    status = 403
    type = "permission_error"
    default_code = "forbidden"


class NotFound(Problem):
    status = 404
    type = "invalid_request_error"
    default_code = "not_found"


class MethodNotAllowed(Problem):
    status = 405
    type = "invalid_request_error"
    default_code = "method_not_allowed"


class Conflict(Problem):
    status = 409
    type = "invalid_request_error"
    default_code = "WORKER_ALREADY_EXISTS"


class Gone(Problem):
    status = 410
    type = "invalid_request_error"
    default_code = "model_retired"


class TooLarge(Problem):
    status = 413
    type = "invalid_request_error"
    default_code = "body_too_large"


class Unsupported(Problem):
    status = 415
    type = "invalid_request_error"
    default_code = "unsupported_media_type"


class TooManyRequests(Problem):
    status = 429
    type = "rate_limit_error"
    default_code = "rate_limited"


class UpstreamFailed(Problem):
    status = 502
    default_code = "upstream_failed"


class Unavailable(Problem):
    status = 503
    type = "overloaded_error"
    default_code = "no_backend"


class DeadlineExceeded(Problem):
    status = 504
    default_code = "deadline_exceeded"


def by_status(status: int) -> type[Problem]:
    """The problem that stands for a status of the 4xx; BadRequest for one that has none of its own."""
    return next((kind for kind in Problem.__subclasses__() if kind.status == status < 500), BadRequest)


def gathered(details: Sequence[Detail]) -> Problem:
    """One 400 for all findings: the first one's sentence leads, the rest are counted and listed. A Content-Type that nobody
    reads is a 415.
    """
    first = details[0]
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    kind = Unsupported if first.code == Unsupported.default_code else BadRequest
    return kind(first.message + more, code=first.code, param=first.param, details=details)
