"""Settings of semantic health: probes, the breaker, which judge decides, and the gate at the start.

Rules: the keys and defaults of eidex's `health` section stand as they are in its file, the judge beside them.

It must not know: how a probe is made or judged.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from autohedge.settings.durations import Duration
from autohedge.settings.scalars import AtLeastOne, Flag, NotNegative, Number, PositiveDuration, one_of, told
from autohedge.settings.section import Section


def _path(value: object) -> object:
    if isinstance(value, str) and not (value.startswith("/") and value.isascii() and value.isprintable()):
        raise ValueError(f"{told(value)} must be a path that begins with /")
    return value


Share = Annotated[Number, Field(le=1)]
Jitter = Annotated[Number, Field(le=0.9)]
Path = Annotated[str, BeforeValidator(_path)]
JudgeName = Annotated[str, one_of("window", "streak")]
Requirement = Annotated[str, one_of("all", "any", "none")]


class Probe(Section):
    """Minimal inference of our own; it feeds the window judge."""

    enabled: Flag = Field(default=True, description="Whether every replica and model is asked a minimal inference.")
    interval: PositiveDuration = Field(default=Duration.of("10s"), description="Between two probes of one model.")
    doubtful_interval: PositiveDuration = Field(
        default=Duration.of("3s"), description="The same while something failed lately or the replica is out."
    )
    timeout: PositiveDuration = Field(
        default=Duration.of("10s"),
        description="For one probe; after one that timed out the next ones get a third of it.",
    )
    tokens: AtLeastOne = Field(
        default=16, description="Tokens of answer that a probe asks for; reasoning models refuse fewer than 16."
    )
    parallel: AtLeastOne = Field(default=8, description="Probes that are begun at once.")
    external: Flag = Field(default=False, description="Whether external backends are probed too, which costs money.")
    light_interval: Duration = Field(
        default=Duration.of("0"),
        description="Between two looks at the engine's own health path, a hint only; 0 is off.",
    )
    jitter: Jitter = Field(default=0.2, description="Share of an interval by which it varies.")
    degenerate: NotNegative = Field(
        default=8,
        description="An answer of one character, so often repeated, is none: to a probe it is a failure, to a caller no proof; 0 never looks.",
    )


class Breaker(Section):
    """When a model on a replica is taken out, and how it comes back."""

    window: Annotated[AtLeastOne, Field(ge=2)] = Field(default=10, description="Outcomes that are looked at.")
    max_age: PositiveDuration = Field(default=Duration.of("120s"), description="Older outcomes do not count.")
    min_samples: Annotated[AtLeastOne, Field(ge=2)] = Field(
        default=5, description="Fewer outcomes than these say nothing."
    )
    min_success: Share = Field(default=0.7, description="Share of good outcomes under which it opens.")
    live_row: NotNegative = Field(
        default=3, description="Live attempts in a row whose failure opens, however good the past was; 0 is off."
    )
    hard: NotNegative = Field(
        default=2, description="Refused connections in a row that open at once; 0 leaves it to the share."
    )
    open: PositiveDuration = Field(
        default=Duration.of("15s"), description="How long the first opening lasts; each one more doubles it."
    )
    cap: PositiveDuration = Field(default=Duration.of("300s"), description="Longest opening.")
    close_after: AtLeastOne = Field(default=2, description="Good trials that close it again.")
    grace: Duration = Field(
        default=Duration.of("600s"), description="How long after its start a new task may fail and count as loading."
    )
    recheck: PositiveDuration = Field(
        default=Duration.of("60s"), description="Between two trials of a replica that refuses our key."
    )
    slow: PositiveDuration | None = Field(
        default=None, description="First bytes that are mostly later than this rank a replica down; absent: never."
    )
    max_ejected: Share = Field(
        default=0.5, description="Share of the replicas of a model that may be out because of their share of failures."
    )

    @model_validator(mode="after")
    def _enough_room(self) -> Self:
        if self.min_samples > self.window:
            raise ValueError(f"min_samples ({self.min_samples}) is more than the window holds ({self.window})")
        if self.cap < self.open:
            raise ValueError(f"cap ({self.cap}) is shorter than open ({self.open})")
        return self


class Health(Section):
    """Who decides. `window`: live traffic and probes. `streak`: eidex's two GETs and nothing else."""

    judge: JudgeName = Field(
        default="window",
        description="window: the share of good outcomes; streak: two GET probes decide alone, as in eidex.",
    )
    health_endpoint: Path = Field(default="/health", description="streak: path of the light probe.")
    health_gen_endpoint: Path = Field(default="/health_generate", description="streak: path of the deep probe.")
    health_check_interval: Duration = Field(
        default=Duration.of("5s"), description="streak: between two light probes; 0 is off."
    )
    health_gen_check_interval: Duration = Field(
        default=Duration.of("60s"), description="streak: between two deep probes; 0 is off."
    )
    health_timeout: PositiveDuration = Field(default=Duration.of("2s"), description="streak: for one probe.")
    health_checks_down: AtLeastOne = Field(default=2, description="streak: failures in a row that take a replica out.")
    health_checks_up: AtLeastOne = Field(default=1, description="streak: successes in a row that bring it back.")

    @model_validator(mode="after")
    def _one_probe_at_least(self) -> Self:
        if not self.health_check_interval and not self.health_gen_check_interval:
            raise ValueError("health_check_interval and health_gen_check_interval are both 0; one probe must be active")
        return self


class Startup(Section):
    require: Requirement = Field(
        default="none", description="Backends that must answer before requests are accepted: all, any or none."
    )
    max_wait: Duration = Field(
        default=Duration.of("60s"), description="After this long requests are accepted whatever is missing."
    )
