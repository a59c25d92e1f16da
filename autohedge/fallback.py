"""The fallback chains of the configuration as the plan reads them, and the backends that only a chain knows.

Rules
- A rung of provider `swarm` or `static` names models (or backends) that are known here anyway.
- `ollama` without an endpoint means the Ollama backends that are known here.
- A rung with an endpoint is a backend of its own: named by the rung, spoken to with the rung's key only, in no public list of
  models. An endpoint may be a full URL of one API, as the article writes Azure's: what belongs to the API is cut off.
- A redirect of a retired model is a fallback as well: where the caller (`X-AutoHedge-No-Fallback`) or the operator wants this
  model or none, or nobody serves the other one, there is no redirect. Nor where another backend still has the model.
- `models.<name>.fallback` replaces the common chain for one model; `off` is an empty one.

It must not know: health, snapshots, requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from autohedge.core.types import NOTHING, BackendSpec, Candidate, Kind, Route
from autohedge.rules.chain import Rung, RungKind
from autohedge.settings.addresses import parse_address
from autohedge.settings.model import Settings
from autohedge.settings.upstream import PEERS
from autohedge.settings.upstream import Rung as Written

NO_FALLBACK = b"x-autohedge-no-fallback"
DEPLOYMENTS = "/openai/deployments/"
APIS = ("/v1/", "/openai/", "/chat/", "/completions", "/embeddings")  # where the path of an API begins
SOURCE = "fallback_chain"


@dataclass(frozen=True, slots=True)
class Chains:
    """`common` is every model's chain but those of `own`; `backends` are those that only rungs name; `aliases` maps other
    names of a model to the name it is routed by.
    """

    common: tuple[Rung, ...] = ()
    own: Mapping[str, tuple[Rung, ...]] = field(default_factory=lambda: NOTHING)
    backends: tuple[BackendSpec, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=lambda: NOTHING)

    def of(self, model: str) -> tuple[Rung, ...]:
        return self.own.get(model, self.common)

    def spares(self, candidate: Candidate) -> bool:
        """Whether a rung could take over from the last replica of a model: one that leads to something else."""
        aliases = candidate.backend.aliases
        names = {candidate.served, *(alias for alias, served in aliases.items() if served == candidate.served)}
        itself = names | {candidate.backend.name}
        return any(_leads_on(rung, itself, candidate) for name in names for rung in self.of(name))


class Redirects(Protocol):
    def redirect_of(self, model: str) -> str: ...

    def fact_of(self, candidate: Candidate) -> object | None: ...


class Known(Protocol):
    """What is known of redirects and chains."""

    @property
    def retirements(self) -> Redirects: ...

    @property
    def chains(self) -> Chains: ...


def redirected(
    name: str, known: Known, served: Mapping[str, Route], headers: Iterable[tuple[bytes, bytes]] = ()
) -> str:
    """The model that a request for `name` with these headers goes to; `served` are the models that somebody serves."""
    target = known.retirements.redirect_of(name)
    if target == name or target not in served or not known.chains.of(name) or own_model_or_none(headers):
        return name
    return name if remains(served.get(name), known.retirements) else target


def remains(route: Route | None, retirements: Redirects) -> bool:
    """Whether a backend that is not retired still has the model."""
    return route is not None and any(retirements.fact_of(candidate) is None for candidate in route.candidates)


def _leads_on(rung: Rung, itself: set[str], candidate: Candidate) -> bool:
    if rung.kind is RungKind.EXTERNAL:
        return rung.backend != candidate.backend.name
    return not itself.issuperset(rung.models)


def own_model_or_none(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the caller wants its own model or nothing."""
    return any(name == NO_FALLBACK and value != b"0" for name, value in headers)


def chains(settings: Settings) -> Chains:
    """Everything that the settings say of fallback."""
    backends: dict[str, BackendSpec] = {}
    common = _rungs(settings.fallback_chain, "rung", backends)
    own = {
        name: _rungs(rule.fallback, f"{name}-rung", backends)
        for name, rule in settings.models.items()
        if rule.fallback is not None
    }
    aliases = {alias: name for name, rule in settings.models.items() for alias in rule.aliases}
    return Chains(common, own, tuple(backends.values()), aliases)


def _rungs(written: Iterable[Written], prefix: str, backends: dict[str, BackendSpec]) -> tuple[Rung, ...]:
    rungs = []
    for number, rung in enumerate(written, 1):
        name = rung.name or f"{prefix}-{number}-{rung.provider}"
        if rung.endpoint:
            backends[name] = _backend(rung, name)
            rungs.append(Rung(RungKind.EXTERNAL, rung.names, name, name))
        elif rung.provider in PEERS:
            rungs.append(Rung(RungKind(rung.provider), rung.names, name=name))
        elif rung.provider == Kind.OLLAMA:
            rungs.append(Rung(RungKind.OLLAMA, rung.names, name=name))
        else:
            rungs.append(Rung(RungKind.STATIC, rung.names, name=name))
    return tuple(rungs)


def _backend(rung: Written, name: str) -> BackendSpec:
    assert rung.endpoint is not None
    kind = Kind(rung.provider) if rung.provider not in PEERS else Kind.OPENAI
    parts = urlsplit(rung.endpoint)
    deployment, version = rung.deployment, rung.api_version
    _, found, rest = parts.path.partition(DEPLOYMENTS)
    if found:
        deployment = deployment or unquote(rest.partition("/")[0])
    version = version or parse_qs(parts.query).get("api-version", [""])[0]
    address = parse_address(f"{parts.scheme}://{parts.netloc}{_base(parts.path)}")
    models = rung.names or ((deployment,) if deployment else ())
    params = {key: value for key, value in (("deployment", deployment), ("api_version", version)) if value}
    return BackendSpec(
        name=name,
        kind=kind,
        addresses=(address,),
        models=models,
        key=rung.api_key,
        external=kind is not Kind.OLLAMA,
        listed=False,
        origins=(SOURCE,),
        params=params,
    )


def _base(path: str) -> str:
    """What stands before the path of the API: "/gpu1/v1/chat/completions" is served under "/gpu1"."""
    cuts = [at for at in (f"{path}/".find(api) for api in APIS) if at >= 0]
    return path[: min(cuts)] if cuts else path.rstrip("/")
