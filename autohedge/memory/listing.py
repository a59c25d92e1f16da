"""The list of models as clients read it: one body for OpenAI clients and for System One clients.

Rules
- `data` is OpenAI's list, with `root`, `parent` and `max_model_len` as vLLM, SGLang and the eidex seed have them;
  `models` is what System One clients need (typesafe-sdk 0.7: name, description and release_date, all strings, or it
  refuses the whole answer). One body with both satisfies everyone.
- The list is the union of what is served; the order is by name and the figures do not depend on when one asks.
- `max_model_len` is the largest context among the places that serve the model: a request that fits there is served.
- Nothing of the inside is shown: no backend, no address, no path on an engine's disk.

It must not know: breakers (the caller says what is usable), doors, settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autohedge.core.types import Candidate, Route, Snapshot

EPOCH = "1970-01-01"  # release date of a model whose date nobody told us; `created` is 0 for the same reason

Usable = Callable[[Candidate], bool]


def models_page(snapshot: Snapshot, usable: Usable | None = None) -> dict[str, Any]:
    """The body of GET /v1/models. A model whose candidates are all refused by `usable` is left out."""
    routes = [route for _, route in sorted(snapshot.routes.items()) if _served(route, usable)]
    return {
        "object": "list",
        "data": [_entry(route) for route in routes],
        "models": [_metadata(route) for route in routes],
    }


def one_model(snapshot: Snapshot, name: str, usable: Usable | None = None) -> dict[str, Any] | None:
    """The body of GET /v1/models/{name}, or None when it is not served."""
    route = snapshot.routes.get(name)
    return _entry(route) if route is not None and _served(route, usable) else None


def _served(route: Route, usable: Usable | None) -> bool:
    return usable is None or any(usable(candidate) for candidate in route.candidates)


def _context(route: Route) -> int | None:
    facts = (candidate.limits.context for candidate in route.candidates)
    return max((fact.value for fact in facts if fact is not None), default=None)


def _entry(route: Route) -> dict[str, Any]:
    entry = {
        "id": route.model,
        "object": "model",
        "created": 0,
        "owned_by": route.owned_by,
        "root": route.model,
        "parent": None,
    }
    context = _context(route)
    return entry if context is None else entry | {"max_model_len": context}


def _metadata(route: Route) -> dict[str, str]:
    context = _context(route)
    window = f", up to {context} tokens" if context is not None else ""
    return {"name": route.model, "description": f"Served by {route.owned_by}{window}.", "release_date": EPOCH}
