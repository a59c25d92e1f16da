"""What the replicas of one model owe each other: how many may be out at once, and what is left when most are.

Rules (resilience facts 4.3.7, 4.3.8, 7.1; Envoy's outlier detection)
- Soft evidence (a ratio) takes out at most floor(half) of a pool, and never the last replica that is known to answer.
  Hard evidence (refused, the engine's obituary, a vanished task) is proof and has no such bound.
- When half of a pool, and at least two, opened within one probe interval, the fault is probably ours or the network's:
  soft ejection freezes for 30 s. What is open stays open and is probed as usual.
- Panic: fewer than half of a pool usable and the whole chain exhausted. Then softly opened replicas are tried after all,
  the ones with the fewest failures first. Hard-opened ones never.

Everything is computed from the views; nothing is remembered here.
It must not know: breakers' inner counts, the chain, requests.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autohedge.rules.standing import NEVER, Tier, View


@dataclass(frozen=True, slots=True)
class PoolRules:
    """`share`: of a pool that soft evidence may take out, and under which panic begins. Times in seconds."""

    share: float = 0.5
    interval: float = 10.0  # one probe interval
    freeze: float = 30.0


DEFAULT = PoolRules()


def hold(others: Sequence[View], now: float, rules: PoolRules = DEFAULT) -> str:
    """Why soft evidence may not take out one more replica now, or "". `others`: the pool without the one in question."""
    if not any(view.tier <= Tier.RAMPING for view in others):
        return "the last replica known to answer stays in"
    size = len(others) + 1
    out = sum(view.tier is Tier.RATIO for view in others)
    if out + 1 > int(size * rules.share):
        return f"{out} of {size} replicas are out by ratio already"
    until = frozen_until(others, size, rules)
    if now < until:
        return f"too many replicas failed at once, ejection is frozen for {until - now:.0f} s"
    return ""


def frozen_until(views: Sequence[View], size: int, rules: PoolRules = DEFAULT) -> float:
    """Until when ejection is frozen in a pool of `size`; NEVER when nothing suggests a common cause."""
    times = sorted(view.opened_at for view in views if view.opened_at != NEVER)
    until = NEVER
    for last, at in enumerate(times):
        together = sum(at - earlier <= rules.interval for earlier in times[: last + 1])
        if together >= max(2, size * rules.share):
            until = at + rules.freeze
    return until


def panics(tiers: Collection[Tier], rules: PoolRules = DEFAULT) -> bool:
    """Whether so few of these replicas are usable that softly opened ones count again, once the chain is exhausted."""
    return sum(tier <= Tier.UNKNOWN for tier in tiers) < rules.share * len(tiers)
