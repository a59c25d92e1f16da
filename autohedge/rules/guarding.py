"""Which questions to a Docker engine `autohedge docker-guard` lets through: those that discovery asks, and nothing else.

What it decides: from method, path and query, the question that is put to the engine, written anew; or the reason why not.

Rules
- An allow list of whole paths. There is no rule about what is bad: a path with "..", "//", "%2e" or a host in it is simply
  none of the list, and neither are `/services/{id}/logs`, `/containers`, `/secrets` or the next thing that Docker invents.
- GET and HEAD only, without a body and without `Upgrade`: a taken-over connection would pass by every rule.
- Nothing of the caller's request travels on but the parts that were understood: path, API version, known query fields.

It must not know: sockets, HTTP libraries, what an answer holds (`stripping.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from urllib.parse import parse_qsl, urlencode

LONGEST_QUERY = 4096
SHOWN = 80  # characters of a refused path in a message


class Subject(Enum):
    """What a question is about; it decides how the answer is stripped."""

    PING = "_ping"
    VERSION = "version"
    SERVICES = "services"
    TASKS = "tasks"
    NODES = "nodes"
    NETWORKS = "networks"
    NETWORK = "networks/{id}"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the engine. `target` is path and query, made by us."""

    subject: Subject
    method: str
    target: str


class Refused(Exception):  # noqa: N818 - an answer, no failure
    """Why a question is not put to the engine."""


_QUERIES: Mapping[Subject, frozenset[str]] = {
    Subject.PING: frozenset(),
    Subject.VERSION: frozenset(),
    Subject.SERVICES: frozenset({"filters", "status"}),
    Subject.TASKS: frozenset({"filters"}),
    Subject.NODES: frozenset({"filters"}),
    Subject.NETWORKS: frozenset({"filters"}),
    Subject.NETWORK: frozenset({"verbose", "scope"}),
    Subject.EVENTS: frozenset({"filters", "since", "until"}),
}
_PATH = re.compile(
    r"(?P<version>/v1\.[0-9]{1,3})?/"
    r"(?:(?P<plain>_ping|version|services|tasks|nodes|networks|events)|networks/(?P<id>[A-Za-z0-9][A-Za-z0-9_.-]{0,127}))",
    re.ASCII,
)
ALLOWED = ", ".join(f"/{subject.value}" for subject in Subject)


def decide(method: str, path: str, query: str = "", *, upgrade: bool = False, body: bool = False) -> Question:
    """The question to put to the engine. `path` is as it stood on the wire, not decoded. Raises Refused."""
    if method not in {"GET", "HEAD"}:
        raise Refused(f"{_shown(method)} is not allowed: docker-guard reads and never writes")
    if upgrade:
        raise Refused("a change of protocol is not allowed")
    if body:
        raise Refused("a request with a body is not allowed")
    found = _PATH.fullmatch(path)
    if found is None:
        raise Refused(f"{_shown(path)} is not allowed; docker-guard answers for {ALLOWED}")
    subject = Subject(found["plain"]) if found["plain"] else Subject.NETWORK
    if subject is Subject.EVENTS and method == "HEAD":
        raise Refused("HEAD of an endless answer is not allowed")
    return Question(subject, method, path + _asked(subject, query))


def _asked(subject: Subject, query: str) -> str:
    if not query:
        return ""
    if len(query) > LONGEST_QUERY:
        raise Refused(f"a query over {LONGEST_QUERY} characters is not allowed")
    try:
        fields = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=8)
    except ValueError:
        raise Refused("the query cannot be read") from None
    names = [name for name, _ in fields]
    for name in names:
        if name not in _QUERIES[subject]:
            known = ", ".join(sorted(_QUERIES[subject])) or "none"
            raise Refused(f"the query field {_shown(name)} is not allowed on /{subject.value} (known: {known})")
    if len(set(names)) < len(names):
        raise Refused("a query field stands twice")
    return "?" + urlencode(fields)


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:SHOWN])
