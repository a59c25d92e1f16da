"""The one judgement of an outcome: what an attempt or a probe proves about a replica, and whether another may be tried.

Rules
- Only SICK and DEAD speak against a replica, only ANSWER speaks for it. A client's fault, a full queue, a loading model, a
  wrong key and a call that somebody cancelled say nothing (sglang#25811, sglang PR #39464: breakers that counted them took
  whole fleets down).
- The status alone is not trusted: llama.cpp dresses clients' mistakes as 500, TGI its own failures as 424, and a 200 may
  hold an error. A body is judged by the error inside it.
- An answer with nothing in it is delivered, and proves nothing (content.py).
- Retirement is read from 410, from an error code, or from the wording of a 400 or 404; never from a 2xx, never from what a
  client may have written. Names in quotes are taken out before the wording is read (B116).
- What an engine writes never reaches `reason`: it may repeat prompts and keys. Only its error code is named.

The tables are read from top to bottom; the first row that fits decides. Texts of single engines are in their dialects.

It must not know: the breaker, the chain, the client's connection, or which replica it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autohedge.core.types import NOTHING, Failure, Judgement, Outcome, Verdict
from autohedge.providers.base import Dialect
from autohedge.providers.errors import Said, about_length, error_in, limits_named, parsed, said_in
from autohedge.rules.content import hollow

# After these the next candidate may be tried. The others end the request: there is an answer, or none is wanted.
MOVES_ON: frozenset[Verdict] = frozenset(Verdict) - {Verdict.ANSWER, Verdict.CLIENT_FAULT, Verdict.ABANDONED}

_ANSWER = Judgement(Verdict.ANSWER)

# --- how the transport failed -----------------------------------------------------------------------------------------

# REFUSED and UNREACHABLE: nobody listens there, which no timeout can say as surely. VANISHED is a timeout too: when our own
# cable is cut, every machine vanishes at once, and a pool is held back from ejecting them all for soft evidence only.
_FAILURES: Mapping[Failure, Judgement] = {
    failure: Judgement(verdict, failure.value, status=status)
    for failure, verdict, status in (
        (Failure.REFUSED, Verdict.DEAD, 502),
        (Failure.UNREACHABLE, Verdict.DEAD, 502),
        (Failure.TLS, Verdict.SICK, 502),
        (Failure.CONNECT_TIMEOUT, Verdict.SICK, 504),
        (Failure.RESET, Verdict.SICK, 502),
        (Failure.SILENT, Verdict.SICK, 502),
        (Failure.FIRST_BYTE_TIMEOUT, Verdict.SICK, 504),
        (Failure.STALLED, Verdict.SICK, 504),
        (Failure.VANISHED, Verdict.SICK, 504),
        (Failure.CUT, Verdict.SICK, 502),
        (Failure.MALFORMED, Verdict.SICK, 502),
        (Failure.TOO_BIG, Verdict.SICK, 502),
        (Failure.DEADLINE, Verdict.ABANDONED, 504),  # our own clock says nothing about the engine (B37)
        (Failure.SHARE, Verdict.ABANDONED, 504),
    )
}
# Reset before any answer: like a refusal, two in a row take a replica out (design 5). Inside a body it is one bad answer.
_RESET = Judgement(Verdict.DEAD, Failure.RESET.value, 502)
_LEFT = Judgement(Verdict.ABANDONED, "the client left, or another attempt won")

# --- what errors say --------------------------------------------------------------------------------------------------

RETIRED_CODES = frozenset(
    {"model_decommissioned", "model_deprecated", "model_retired", "github_models_retirement_brownout"}
)
QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error", "insufficient_balance"})
# The model itself is not there. The last one of NO_MODEL_CODES may be about the door: a chat with an embedding deployment.
ABSENT_CODES = frozenset(
    {"model_not_found", "unknown_model", "unavailable_model", "model_unavailable", "deploymentnotfound"}
)
NO_MODEL_CODES = ABSENT_CODES | {"operationnotsupported"}
# A status for errors that come inside a 200 and name none.
_STATUS_OF: Mapping[str, int] = {
    "invalid_request_error": 400,
    "badrequesterror": 400,
    "bad request": 400,
    "exceed_context_size_error": 400,
    "context_length_exceeded": 400,
    "validation": 422,
    "template_error": 422,
    "tool_error": 422,
    "unprocessableentityerror": 422,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "notfounderror": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "generation": 424,
    "incomplete_generation": 424,
    "incomplete_generation_stream": 424,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded": 429,
    "notimplementederror": 501,
    "not_supported_error": 501,
    "unavailable_error": 503,
    "overloaded_error": 529,
}
_GONE = (
    r"\b(?:decommissioned|(?:has|have) been (?:deprecated|retired|discontinued|shut down|sunset)|(?:is|was) retired"
    r"|no longer (?:supported|available|served|offered)|end[- ]of[- ]life)\b"
)
_RETIRED = re.compile(
    r"\b(?:model|deployment|engine|endpoint|api|service|version)\b.{0,200}?(?:" + _GONE + r"|\bsunset\b)", re.DOTALL
)
# A 404 is about the model or the path whatever it names, and nothing but a model is decommissioned.
_RETIRED_404 = re.compile(_GONE)
_DECOMMISSIONED = re.compile(r"\bdecommissioned\b")
# A parameter that is no longer supported is not a model that is gone.
_ABOUT_A_FIELD = re.compile(r"\b(?:parameters?|arguments?|fields?|options?|properties|property|roles?|format)\b")
_QUOTA = re.compile(r"credit balance|exceeded your current quota|insufficient (?:balance|quota|credit)|out of credits")
_NO_MODEL = re.compile(
    r"unknown model|non-serverless model|does not work with the specified model|server is pinned to"
    r"|model not found|model not exist|is not found for api version|not a valid model"
)
_ABSENT = re.compile(
    r"unknown model|non-serverless model|model not exist|not a valid model"
    r"|\b(?:models?|deployment)\b.{0,200}?\b(?:does not exist|not found)\b",
    re.DOTALL,
)
_UNQUOTED_NAME = re.compile(r"\bmodels?:\s.*|\bmodels/\S+", re.DOTALL)
_IDENTIFIER = re.compile(r"[a-z][a-z_]{2,47}")


def without_names(text: str) -> str:
    """`text` without what stands in quotes or after "model:": a client may have chosen it.

    From the first quote of a kind to the last one, so that a name with quotes inside cannot hide its end; apostrophes inside
    words are no quotes. Too much may go, never too little.
    """
    spans = [found.span() for found in _UNQUOTED_NAME.finditer(text)]
    spans += [span for mark in "'\"`" if (span := _quoted(text, mark)) is not None]
    kept, end = [], 0
    for start, stop in sorted(spans):
        if start > end:
            kept.append(text[end:start])
        end = max(end, stop)
    kept.append(text[end:])
    return " ".join(kept)


def _quoted(text: str, mark: str) -> tuple[int, int] | None:
    """From the first opening `mark` to the last closing one."""
    first = text.find(mark)
    while first > 0 and text[first - 1].isalnum():
        first = text.find(mark, first + 1)
    last = text.rfind(mark)
    while 0 <= last < len(text) - 1 and text[last + 1].isalnum():
        last = text.rfind(mark, 0, last)
    return (first, last + 1) if 0 <= first < last else None


@dataclass(frozen=True, slots=True)
class _Case:
    """One error, read. `status` is the one to judge by; `text` is the lower-case message, `safe` the same without names."""

    status: int
    said: Said
    text: str
    safe: str
    outcome: Outcome
    dialect: Dialect
    inside: bool  # the error came with a 2xx

    def any(self, table: tuple[str, ...], *, safe: bool = False) -> bool:
        """Whether one of the texts of `table` stands in the message."""
        text = self.safe if safe else self.text
        return any(part in text for part in table)

    @property
    def retired(self) -> bool:
        if self.inside:
            return False
        if self.status == 410 or self.said.code in RETIRED_CODES:
            return True
        if self.status not in (400, 404) or self.said.param not in ("", "model"):
            return False
        if _ABOUT_A_FIELD.search(self.safe):
            return False
        alone = _RETIRED_404 if self.status == 404 else _DECOMMISSIONED
        return bool(_RETIRED.search(self.safe) or alone.search(self.safe))

    @property
    def quota(self) -> bool:
        """Money or quota used up: some send it as 400 (B38) or as a 429 that no waiting mends."""
        if self.status == 402 or self.said.code in QUOTA_CODES or self.said.type in QUOTA_CODES:
            return True
        return self.status in (400, 403, 429) and bool(_QUOTA.search(self.safe))

    @property
    def no_model(self) -> bool:
        """The backend does not know the model: 404 in most cases, 400 at GitHub, Together, TypeSafe and others."""
        if self.status in (404, 405) or self.said.code in NO_MODEL_CODES:
            return True
        return self.status == 400 and bool(_NO_MODEL.search(self.text))

    @property
    def absent(self) -> bool:
        """It is the model that is missing (d3: MODEL404), not a path or a door of it."""
        if self.said.code in ABSENT_CODES or _ABSENT.search(self.text):
            return True
        return self.said.type == "not_found_error" and self.text.startswith("model:")


@dataclass(frozen=True, slots=True)
class _Row:
    """If `when` holds, the verdict is `verdict`, for the reason `why`; `status` is what a caller should see instead."""

    verdict: Verdict
    why: str
    when: Callable[[_Case], bool]
    status: int = 0


_ERRORS: tuple[_Row, ...] = (
    _Row(Verdict.RETIRED, "the provider retired it", lambda c: c.retired),
    _Row(Verdict.MISCONFIGURED, "its quota or credit is used up", lambda c: c.quota),
    _Row(Verdict.MISCONFIGURED, "our key is not accepted", lambda c: c.status in (401, 403) and c.outcome.own_key),
    _Row(Verdict.CLIENT_FAULT, "the client's credential is not accepted", lambda c: c.status in (401, 403)),
    # 408 and Ollama's 499 are neutral, 498 is Groq's and 529 Anthropic's word for a full queue.
    _Row(Verdict.BUSY, "it asks to wait", lambda c: c.status in (408, 429, 498, 499, 529)),
    # Before the texts of a dead engine: these messages repeat what the client sent, which could be such a text.
    _Row(
        Verdict.CLIENT_FAULT,
        "the request is wrong, though the engine calls it its own error",
        lambda c: c.status >= 500 and (c.any(c.dialect.client_faults) or about_length(c.said)),
        400,
    ),
    _Row(Verdict.CAPABILITY, "it cannot do this", lambda c: c.any(c.dialect.capability) or c.status == 501),
    _Row(
        Verdict.DEAD,
        "the engine has died",
        lambda c: (c.status >= 500 or c.status == 424) and c.any(c.dialect.engine_dead, safe=True),
    ),
    _Row(Verdict.LOADING, "the model is loading", lambda c: c.status == 503 and c.any(c.dialect.loading)),
    _Row(
        Verdict.BUSY,
        "its queue is full",
        lambda c: c.status == 503 and (c.any(c.dialect.busy) or c.outcome.retry_after is not None),
    ),
    _Row(Verdict.SICK, "the engine failed", lambda c: c.status >= 500 or c.status == 424),
    _Row(
        Verdict.SICK,
        "the engine failed, though it blames the request",
        lambda c: c.any(c.dialect.engine_failed, safe=True),
    ),
    _Row(
        Verdict.CLIENT_FAULT,
        "the request is too long for the model",
        lambda c: c.status != 404 and about_length(c.said),
    ),
    _Row(Verdict.CAPABILITY, "it does not know this model or path", lambda c: c.no_model),
    # llama.cpp reads no compressed bodies, its peers do.
    _Row(Verdict.CAPABILITY, "it does not read this encoding", lambda c: c.status == 415),
    _Row(Verdict.CLIENT_FAULT, "the request is wrong", lambda _c: True),
)


def judge(outcome: Outcome, dialect: Dialect) -> Judgement:
    """The verdict of one attempt or probe. Pure and total: whatever came back, there is one judgement."""
    status = outcome.status
    if outcome.left:
        return _LEFT
    if 200 <= status < 300:
        return _success(outcome, dialect)
    if status >= 400:
        return _error(outcome, dialect, said_in(outcome.excerpt), status)
    if outcome.failure is not None:
        return _RESET if outcome.failure is Failure.RESET and not status else _FAILURES[outcome.failure]
    if status >= 300:
        return Judgement(Verdict.CLIENT_FAULT, f"{status}: a redirect, which is passed on")
    return Judgement(Verdict.SICK, "no answer came", status=502)


def _success(outcome: Outcome, dialect: Dialect) -> Judgement:
    excerpt = outcome.excerpt
    if outcome.streamed:
        if not excerpt and outcome.finished:
            return _nothing_in_it(outcome.hollow) if outcome.hollow else _ANSWER
    elif outcome.finished and _plainly_good(excerpt):
        why = "" if outcome.repeats is None else hollow(excerpt, outcome.repeats)
        return _nothing_in_it(why) if why else _ANSWER
    said = error_in(excerpt)
    if said is not None:
        return _error(
            outcome, dialect, said, said.status or _STATUS_OF.get(said.code) or _STATUS_OF.get(said.type) or 502
        )
    if not outcome.finished:
        if outcome.failure is not None:
            return _FAILURES[outcome.failure]
        why = "the stream ended without finish_reason or [DONE]" if outcome.streamed else "the answer was cut short"
        return _unusable(outcome, why)
    why = "" if outcome.streamed else _no_answer(outcome)
    return _unusable(outcome, why) if why else _ANSWER


def _error(outcome: Outcome, dialect: Dialect, said: Said, status: int) -> Judgement:
    inside = outcome.status < 300
    text = said.message.lower()
    case = _Case(status, said, text, without_names(text), outcome, dialect, inside)
    row = next(row for row in _ERRORS if row.when(case))
    shown = row.status or (status if inside else 0)
    seen = f"{outcome.status} with an error inside" if inside else str(status)
    name = next((word for word in (said.code, said.type) if _IDENTIFIER.fullmatch(word)), "")
    reason = f"{seen}: {row.why}{f' ({name})' if name else ''}"
    teaches = limits_named(said) if row.verdict is Verdict.CLIENT_FAULT and status != 404 else NOTHING
    return Judgement(
        row.verdict,
        reason,
        status=shown,
        retry_after=outcome.retry_after,
        certain=row.verdict is Verdict.DEAD,  # an obituary, where a refused connection may be a restart
        absent=row.verdict is Verdict.CAPABILITY and status in (400, 404) and case.absent,
        teaches=teaches,
    )


def _nothing_in_it(why: str) -> Judgement:
    return Judgement(Verdict.CLIENT_FAULT, f"200: {why}; the request may have wanted that, so it proves nothing")


def _unusable(outcome: Outcome, why: str) -> Judgement:
    return Judgement(Verdict.SICK, f"{outcome.status}: {why}", status=502, retry_after=outcome.retry_after)


# --- bodies that came with a 2xx --------------------------------------------------------------------------------------

# The beginning of an answer: a key of one of the APIs with something in it. Inside a JSON string the quotes would be
# escaped, so no text of a model can look like this.
_SIGN = re.compile(rb'"(?:choices|data|answers|output|results|content|embedding|embeddings)":\s?[\[{]\s?[^\]}\s]')
_LOOKED_AT = 1 << 16
_ENVELOPE = {"detail", "message", "code", "status", "type", "success"}


def _plainly_good(body: bytes) -> bool:
    """Whether a body is an answer, without parsing it: this is the happy path and stays below a microsecond."""
    if body.find(b'"error"', 0, _LOOKED_AT) >= 0:
        return False
    return body.find(b'"choices":[{', 0, 512) >= 0 or _SIGN.search(body, 0, 2048) is not None


def _no_answer(outcome: Outcome) -> str:
    """Why a finished plain body is no answer, or "" when it may be one. What cannot be read (compressed) may be one."""
    body = outcome.excerpt.lstrip()
    if not body:
        return "an empty body"
    if body[:1] == b"<" or outcome.content_type.startswith("text/html"):
        return "an HTML page"
    if body[:1] in b"{[":
        return _no_answer_in(body, outcome)
    readable = body[:64].isascii() and b"".join(body[:64].split()).decode().isprintable()
    return "a body that is no answer" if readable else ""


def _no_answer_in(body: bytes, outcome: Outcome) -> str:
    value = parsed(body)
    if value is None and len(body) < _LOOKED_AT and outcome.content_type.startswith("application/json"):
        return "broken JSON"
    if not isinstance(value, dict):
        return ""
    if "choices" in value and not value["choices"]:
        return "no choices"
    if value.get("object") == "list" and not value.get("data", True):
        return "no data"
    return "a body without an answer" if value.keys() <= _ENVELOPE else ""
