"""What is retired, and where its requests go instead: asked by every plan, shared by all workers, kept over restarts.

Rules (engines facts d3, article 3.4; the decisions themselves are in rules/retirement.py)
- A fact belongs to a backend and to one model of it, or to all. A 410 that speaks of no model is about all ("api access has been
  retired", Hugging Face's "... is no longer supported"); everything else is about the model that was asked for.
- A provider that does not know the model (d3: MODEL404) is a fact as well, with a short time: others would be asked after it
  with every request. Only for providers outside: of our own engines one replica may lack what its peers have.
- One process sees it, all obey: facts and redirects are written through the shared book and taken in from it.
- Only a re-check that was due or an operator undoes a fact. An answer that was on its way when the fact came does not.
- A fact that nobody re-checks any more (its backend left the configuration) is forgotten after 30 days; an operator's is not.
- A redirect counts only while the fact that made it stands.

Times are epoch seconds. It must not know: Redis, mail, chains, who sends the re-checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Protocol
from urllib.parse import quote

from autohedge.core.types import Candidate, Judgement, Outcome, Verdict
from autohedge.providers.errors import Said, said_in
from autohedge.rules.retirement import (
    ALL,
    FIRST_PAUSE,
    NAMES,
    SHORT_PAUSE,
    Failures,
    Redirect,
    Retired,
    Sighting,
    by_operator,
    confirm,
    from_record,
    merged,
    rechecked,
    redirects,
    resolved,
)

FACTS = "retired:"
REDIRECTS = "redirect:"
LIFE = 30 * 86_400.0  # seconds
SHOWN = 1200  # bytes of a body that are looked at

Value = Mapping[str, Any]
_OF_A_MODEL = re.compile(r"\b(?:model|deployment)\b", re.IGNORECASE)


class News(StrEnum):
    """How a fact became known, or that it ended. SEEN and UNDONE come in one process only: what people should be told of."""

    SEEN = "seen"
    HEARD = "heard from another worker"
    UNDONE = "undone"


class Book(Protocol):
    """What is needed of the shared state; nothing here waits or fails."""

    def put_soon(self, key: str, value: Value, ttl: float | None = None) -> None: ...

    def delete_soon(self, key: str) -> None: ...

    def on_change(self, prefix: str, callback: Callable[[str, Value | None], object]) -> None: ...


class Retirements:
    """`clock` gives epoch seconds for the texts; `told` is called for each piece of news."""

    def __init__(
        self,
        book: Book,
        clock: Callable[[], float],
        told: Callable[[Retired, News], object] = lambda _fact, _news: None,
    ) -> None:
        self._book = book
        self._clock = clock
        self._told = told
        self._facts: dict[tuple[str, str], Retired] = {}
        self._redirects: dict[str, tuple[Redirect, str]] = {}  # with the model of the fact that made it
        self._active: dict[str, Redirect] = {}
        self._failures = Failures()
        book.on_change(FACTS, self._fact_changed)
        book.on_change(REDIRECTS, self._redirect_changed)

    # --- what a plan asks ---------------------------------------------------------------------------------------------

    def reason_against(self, candidate: Candidate) -> str:
        """Why `candidate` is left out, or "" when nothing is known against it."""
        fact = self.fact_of(candidate)
        return "" if fact is None else fact.told(self._clock())

    def fact_of(self, candidate: Candidate) -> Retired | None:
        """The evidence against `candidate`, for the 410 of a model that has nowhere to go."""
        if not self._facts:
            return None
        name = candidate.backend.name
        return self._facts.get((name, ALL)) or self._facts.get((name, candidate.served))

    def redirect_of(self, model: str) -> str:
        """The model that requests for `model` go to; `model` itself where it was not redirected."""
        return resolved(model, self._active)

    # --- what attempts and re-checks tell -----------------------------------------------------------------------------

    def note(
        self, candidate: Candidate, judgement: Judgement, outcome: Outcome, now: float, door: str = ""
    ) -> Retired | None:
        """Take the verdict of one attempt at `door`; what `is_gone` denies changes nothing. Returns the fact when it is new:
        one alert.
        """
        if not is_gone(candidate, judgement):
            return None
        provider = candidate.backend.name
        model = ALL if _of_all(outcome) else candidate.served or ALL
        known = self._facts.get((provider, ALL)) or self._facts.get((provider, model))
        named = (provider, model if known is None else known.model)
        fact, new = confirm(known, _sighting(named, judgement, outcome, door), now)
        self._keep(fact)
        if new:
            self._told(fact, News.SEEN)
        return fact if new else None

    def failed(self, candidate: Candidate, asked: str, now: float) -> None:
        """Take one failed request for the public model name `asked`: what `adapt` redirects later."""
        provider = candidate.backend.name
        for group in (provider, _group(provider, candidate.served)):
            self._failures.note(group, asked, now)

    def adapt(self, fact: Retired, usable: Callable[[str], str | None], now: float) -> tuple[Redirect, ...]:
        """Redirect every model that failed there within 24 h and has no redirect yet. `usable`: first usable target for a model, or None."""
        group = fact.provider if fact.model == ALL else _group(fact.provider, fact.model)
        failed = [one for one in self._failures.grouped(group, now)[:NAMES] if one[0] not in self._active]
        made = redirects(fact.provider, failed, usable)
        for redirect in made:
            self._redirects[redirect.model] = (redirect, fact.model)
            self._keep_redirect(redirect, fact)
        self._refresh()
        return made

    def due(self, now: float) -> tuple[Retired, ...]:
        """Facts that want a re-check, the longest overdue first."""
        return tuple(sorted((f for f in self._facts.values() if f.due(now)), key=lambda f: f.recheck_at or 0.0))

    def recheck(self, fact: Retired, judgement: Judgement, outcome: Outcome, now: float) -> Retired | None:
        """Take the outcome of a re-check of `fact`. Returns the fact as it stands now; None: it is undone."""
        known = self._facts.get((fact.provider, fact.model))
        if known is None:
            return None
        if judgement.verdict is Verdict.RETIRED or judgement.absent:
            seen = _sighting((known.provider, known.model), judgement, outcome, known.door)
            after: Retired | None = confirm(known, seen, now)[0]
        else:
            after = rechecked(known, judgement.verdict, now)
        if after is None:
            self.undo(fact.provider, fact.model)
            return None
        self._keep(after)
        for redirect in self._made_by(after):
            self._keep_redirect(redirect, after)
        return after

    # --- what an operator does ----------------------------------------------------------------------------------------

    def retire(self, provider: str, model: str, who: str, now: float) -> Retired:
        """Retire `model` (or ALL) of `provider` for good."""
        fact = by_operator(provider, model, who, now)
        self._keep(fact)
        self._told(fact, News.SEEN)
        return fact

    def undo(self, provider: str, model: str) -> bool:
        """Bring it back, in every process. False when it was not retired."""
        fact = self._facts.get((provider, model))
        if fact is None:
            return False
        self._book.delete_soon(_key(fact))
        self._drop(fact)
        self._told(fact, News.UNDONE)
        return True

    @property
    def facts(self) -> tuple[Retired, ...]:
        """All that is retired, by provider and model."""
        return tuple(self._facts[pair] for pair in sorted(self._facts))

    @property
    def redirects(self) -> tuple[Redirect, ...]:
        """All redirects that count, by model."""
        return tuple(self._active[model] for model in sorted(self._active))

    # --- the book -----------------------------------------------------------------------------------------------------

    def _keep(self, fact: Retired) -> None:
        self._facts[fact.provider, fact.model] = fact
        self._book.put_soon(_key(fact), fact.record(), _life(fact))
        self._refresh()

    def _keep_redirect(self, redirect: Redirect, fact: Retired) -> None:
        self._book.put_soon(_redirect_key(redirect.model), {**asdict(redirect), "cause": fact.model}, _life(fact))

    def _drop(self, fact: Retired) -> None:
        """Forget a fact that ended, and its redirects everywhere."""
        del self._facts[fact.provider, fact.model]
        for redirect in self._made_by(fact):
            del self._redirects[redirect.model]
            self._book.delete_soon(_redirect_key(redirect.model))
        self._refresh()

    def _made_by(self, fact: Retired) -> list[Redirect]:
        return [r for r, cause in self._redirects.values() if (r.provider, cause) == (fact.provider, fact.model)]

    def _refresh(self) -> None:
        self._active = {
            model: redirect
            for model, (redirect, cause) in self._redirects.items()
            if (redirect.provider, cause) in self._facts
        }

    def _fact_changed(self, key: str, value: Value | None) -> None:
        if value is None:
            for fact in [fact for fact in self._facts.values() if _key(fact) == key]:
                self._drop(fact)
            return
        fact_now = fact_in(value)
        if fact_now is None or _key(fact_now) != key:
            return
        new = (fact_now.provider, fact_now.model) not in self._facts
        self._facts[fact_now.provider, fact_now.model] = fact_now
        self._refresh()
        if new:
            self._told(fact_now, News.HEARD)

    def _redirect_changed(self, key: str, value: Value | None) -> None:
        for model in [model for model in self._redirects if _redirect_key(model) == key]:
            del self._redirects[model]
        match value:
            case {"model": str(model), "target": str(to), "provider": str(by), "failed": int(n), "cause": str(cause)}:
                if _redirect_key(model) == key:
                    self._redirects[model] = (Redirect(model, to, by, n), cause)
        self._refresh()


def fact_in(record: Value) -> Retired | None:
    """A stored fact; None when it is none that this version can read."""
    try:
        fact = from_record(record)
    except TypeError:
        return None
    texts = (fact.provider, fact.model, fact.code, fact.excerpt, fact.by, fact.door)
    recheck = 0.0 if fact.recheck_at is None else fact.recheck_at
    numbers = (fact.first_seen, fact.last_seen, fact.count, fact.status, fact.pause, recheck)
    sound = all(isinstance(text, str) for text in texts) and all(isinstance(number, int | float) for number in numbers)
    return fact if sound else None


def merge_facts(late: Value, early: Value) -> Value:
    """Two stored pictures of one fact; what a newer version wrote beside them is kept."""
    one, other = fact_in(late), fact_in(early)
    return late if one is None or other is None else {**late, **merged(one, other).record()}


MERGES: Mapping[str, Callable[[Value, Value], Value]] = {FACTS: merge_facts}


def is_gone(candidate: Candidate, judgement: Judgement) -> bool:
    """Whether a verdict is a fact to remember: retired, or a provider outside that does not know its model."""
    unknown = judgement.absent and candidate.backend.external and candidate.served
    return judgement.verdict is Verdict.RETIRED or bool(unknown)


def _of_all(outcome: Outcome) -> bool:
    """Whether an answer speaks of the provider as a whole, not of one model."""
    said = said_in(outcome.excerpt)
    return (
        outcome.status == 410 and not said.code.startswith("model") and not _OF_A_MODEL.search(_message(outcome, said))
    )


def _sighting(named: tuple[str, str], judgement: Judgement, outcome: Outcome, door: str) -> Sighting:
    said = said_in(outcome.excerpt)
    pause = SHORT_PAUSE if judgement.absent else FIRST_PAUSE
    return Sighting(*named, outcome.status, said.code, _message(outcome, said), door, pause)


def _message(outcome: Outcome, said: Said) -> str:
    """The engine's own message where there is one, else the start of the body."""
    return said.message or outcome.excerpt[:SHOWN].decode("utf-8", "replace")


def _life(fact: Retired) -> float | None:
    return None if fact.recheck_at is None else LIFE


def _group(provider: str, served: str) -> str:
    return f"{provider}\0{served}"


def _key(fact: Retired) -> str:
    return f"{FACTS}{_quoted(fact.provider)}:{_quoted(fact.model)}"


def _redirect_key(model: str) -> str:
    return REDIRECTS + _quoted(model)


def _quoted(name: str) -> str:
    """A name that a client or an engine chose, without ":" and without what no store can hold."""
    return quote(name, safe="*/@", errors="surrogatepass")
