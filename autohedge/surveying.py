"""One look at every source, for `autohedge check --discover`: what is there, what was ignored and why.

What it decides: the words in which an operator reads it. No key, no value of a variable.

It must not know: the registry, engines; nobody is asked what it serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autohedge.core.types import BackendSpec, Blind, Kind, Seen, Sweep
from autohedge.discovery import STATIC, ReadFile, asking_of, declared, elsewhere
from autohedge.settings.model import Settings
from autohedge.sources.dns import DnsSource
from autohedge.sources.watch import look


async def survey(settings: Settings, env: Mapping[str, str], read_file: ReadFile) -> Mapping[str, Sweep]:
    """What each source sees now, by its name."""
    found: dict[str, Sweep] = {STATIC: Seen(declared(settings))}
    for watched in elsewhere(settings, env, read_file):
        found[watched.source.name] = await look(watched.source)
        watched.close()
    for spec in settings.backends(resolve=True):
        source = DnsSource(spec, asking_of(settings))
        found[source.name] = await look(source)
        source.close()
    return found


def told(name: str, sweep: Sweep) -> Iterator[str]:
    """A source as lines of text."""
    if isinstance(sweep, Blind):
        yield f"source {name} is blind: {sweep.reason}"
        return
    yield f"source {name} sees {_counted(len(sweep.backends), 'backend')}"
    for spec in sweep.backends:
        yield f"  {spec.name}: {', '.join(_facts(spec))}"
    for note in sweep.notes:
        yield f"  note: {note}"


def _facts(spec: BackendSpec) -> Iterator[str]:
    places = " ".join(str(address) for address in spec.addresses)
    yield f"{_counted(len(spec.addresses), 'replica')}{f' ({places})' if places else ''}"
    yield "provider asked for" if spec.kind is Kind.AUTO else f"provider {spec.kind}"
    yield f"models {' '.join(spec.models)}" if spec.models else "models asked for"
    if spec.aliases:
        yield f"aliases {' '.join(f'{public}={served}' for public, served in spec.aliases.items())}"
    for what, fact in (
        ("context", spec.hints.context),
        ("max_input", spec.hints.max_input),
        ("max_output", spec.hints.max_output),
    ):
        if fact is not None:
            yield f"{what} {fact.value} ({fact.source})"
    if spec.pool:
        yield f"pool {spec.pool}"
    if spec.concurrency is not None:
        yield f"concurrency {spec.concurrency}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
