"""The doors of the data path: which paths lead to it, and under which door.

Aliases: `/openai/v1/...` (Groq's flavour) and `/openai/deployments/{model}/...` (Azure's: the model stands in the path, the
`api-key` header is the bearer, `api-version` is for Azure alone). A trailing slash is forgiven, and a path with needless percent
signs is the path that it means (RFC 3986 6.2.2.2). /v1/systemone is eidex's door and has no alias.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from autohedge.core.types import Door

DOORS: dict[str, Door] = {
    "/v1/chat/completions": Door.CHAT,
    "/v1/completions": Door.COMPLETIONS,
    "/v1/embeddings": Door.EMBEDDINGS,
    "/v1/responses": Door.RESPONSES,
    "/v1/messages": Door.MESSAGES,
    "/v1/rerank": Door.RERANK,
    "/v1/sparse-embeddings": Door.SPARSE,
    "/v1/embeddings:both": Door.BOTH,
    "/v1/systemone": Door.SYSTEMONE,
}
DEPLOYMENTS = "/openai/deployments/"
OPENAI = "/openai"


@dataclass(frozen=True, slots=True)
class Entry:
    """A door that a path leads to. `target` is the engines' path, `model` the name that stood in the path."""

    door: Door
    target: str
    model: str | None = None
    azure: bool = False


ENTRIES: dict[str, Entry] = {
    prefix + path: Entry(door, path, azure=bool(prefix))
    for path, door in DOORS.items()
    for prefix in ("", OPENAI)
    if not prefix or door is not Door.SYSTEMONE
}


def find(raw_path: str) -> Entry | None:
    """The data-path entry of a request path (still percent-encoded, so a model may hold an encoded slash)."""
    entry = ENTRIES.get(raw_path)
    if entry is not None:
        return entry
    path = raw_path.removesuffix("/")
    if path.startswith(DEPLOYMENTS):
        model, _, rest = path[len(DEPLOYMENTS) :].partition("/")
        target = "/v1/" + unquote(rest)  # some clients encode the colon of "embeddings:both"
        door = DOORS.get(target)
        if door is not None and door is not Door.SYSTEMONE and model:
            return Entry(door, target, unquote(model), azure=True)
        return None
    return ENTRIES.get(unquote(path))
