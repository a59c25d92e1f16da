"""The list of models as clients read it: one body for OpenAI clients and for System One clients.

Rules
- `data` is OpenAI's list, with `root`, `parent` and `max_model_len` as vLLM, SGLang and the eidex seed have them;
  `models` is what System One clients need (typesafe-sdk 0.7: name, description and release_date, all strings, or it
  refuses the whole answer). One body with both satisfies everyone.
- The list is the union of what is served, so a model that is known but has no replica now is not in it. The order is by name,
  and the figures do not depend on when one asks.
- Static entries (eidex's `models[]`) stand before it in their own order, served or not. What one says counts; a figure that it
  leaves open is what was learned of a model of that name.
- What the engine behind a wildcard says it serves is listed as well.
- A model that was redirected because its provider retired it is listed as what serves it now, which stands under `root`.
- `max_model_len` is the largest context among the places that serve the model: a request that fits there is served.
- Nothing of the inside is shown: no backend, no address, no path on an engine's disk.

It must not know: breakers (the caller says what is usable), doors, where static entries are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from autohedge.core.types import NOTHING, Candidate, LearnedModel, Route, Snapshot
from autohedge.settings.upstream import StaticModel

FAR = 253_402_300_800  # the year 10000: later is no date
HOUSE = "autohedge"  # owned_by of a model whose engine names no owner
EPOCH = "1970-01-01"  # release date of a model whose date nobody told us; `created` is 0 for the same reason

Usable = Callable[[Candidate], bool]


def models_page(
    snapshot: Snapshot,
    usable: Usable | None = None,
    static: Sequence[StaticModel] = (),
    redirects: Mapping[str, str] = NOTHING,
) -> dict[str, Any]:
    """The body of GET /v1/models. A model whose candidates are all refused by `usable` is left out, a static one never."""
    known = _known(snapshot, usable, redirects)
    entries = [_fixed(model, known.pop(model.id, None)) for model in _distinct(static)]
    entries += [entry for _, entry in sorted(known.items())]
    return {"object": "list", "data": entries, "models": [_metadata(entry) for entry in entries]}


def one_model(
    snapshot: Snapshot,
    name: str,
    usable: Usable | None = None,
    static: Sequence[StaticModel] = (),
    redirects: Mapping[str, str] = NOTHING,
) -> dict[str, Any] | None:
    """The body of GET /v1/models/{name}, or None when it is neither served nor static."""
    known = _known(snapshot, usable, redirects).get(name)
    model = next((model for model in static if model.id == name), None)
    return known if model is None else _fixed(model, known)


def _known(snapshot: Snapshot, usable: Usable | None, redirects: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """An entry for every model that is served, by name."""
    known = {
        name: _entry(name, route.owned_by, _context(route))
        for name, route in snapshot.routes.items()
        if _served(route, usable)
    }
    for model in _behind_wildcards(snapshot):
        context = model.limits.context
        known.setdefault(
            model.id, _entry(model.id, model.owned_by or HOUSE, None if context is None else context.value)
        )
    instead = {name: known[target] | {"id": name} for name, target in redirects.items() if target in known}
    return known | instead


def _behind_wildcards(snapshot: Snapshot) -> list[LearnedModel]:
    """What those say they serve that are asked for any model."""
    wild = {name for name, spec in snapshot.backends.items() if spec.takes_any and spec.listed}
    lessons = (lesson for name, lesson in snapshot.lessons.items() if snapshot.replicas[name].backend in wild)
    return [model for lesson in lessons for model in lesson.models]


def _served(route: Route, usable: Usable | None) -> bool:
    return any(usable is None or usable(candidate) for candidate in route.candidates)


def _context(route: Route) -> int | None:
    facts = (candidate.limits.context for candidate in route.candidates)
    return max((fact.value for fact in facts if fact is not None), default=None)


def _entry(name: str, owner: str, context: int | None) -> dict[str, Any]:
    entry = {"id": name, "object": "model", "created": 0, "owned_by": owner, "root": name, "parent": None}
    return entry if context is None else entry | {"max_model_len": context}


def _fixed(model: StaticModel, known: dict[str, Any] | None) -> dict[str, Any]:
    """A static entry; `known` is what is known of a served model of that name."""
    entry = _entry(model.id, model.owned_by, model.max_model_len or (known or {}).get("max_model_len"))
    return entry | {"created": model.created, "root": model.root or model.id, "parent": model.parent}


def _distinct(static: Sequence[StaticModel]) -> list[StaticModel]:
    """Of two with one name the first counts."""
    return list({model.id: model for model in reversed(static)}.values())[::-1]


def _metadata(entry: dict[str, Any]) -> dict[str, str]:
    context, created = entry.get("max_model_len"), entry["created"]
    window = f", up to {context} tokens" if context is not None else ""
    date = datetime.fromtimestamp(created, UTC).date().isoformat() if 0 < created < FAR else EPOCH
    return {"name": entry["id"], "description": f"Served by {entry['owned_by']}{window}.", "release_date": date}
