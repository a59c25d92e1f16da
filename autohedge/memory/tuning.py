"""From the settings to the rules of health: which judge, and with which numbers.

It must not know: YAML, or who is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autohedge.core.types import Candidate
from autohedge.memory.entry import Rules
from autohedge.rules.breaker import EIDEX, Options
from autohedge.rules.pool import PoolRules
from autohedge.rules.standing import no_wait
from autohedge.rules.streak import Streak
from autohedge.rules.window import Window
from autohedge.settings.model import Settings


def rules_of(
    settings: Settings,
    spare: Callable[[Candidate], bool] = lambda _candidate: False,
    yields: Callable[[], float] = no_wait,
) -> Rules:
    """The rules for `Health`. `spare` tells whether another rung could take over from a candidate; `yields`: see `Breaker`."""
    breaker, health, probe = settings.breaker, settings.health, settings.probe
    options = Options(
        hard=breaker.hard,
        opens=breaker.open,
        cap=breaker.cap,
        close_after=breaker.close_after,
        lease=3 * probe.timeout,
        patience=max(30.0, 3 * probe.interval),
        grace=breaker.grace,
        recheck=breaker.recheck,
        slow=breaker.slow,
        probed=probe.enabled,
    )

    def window() -> Window:
        return Window(breaker.window, breaker.max_age, breaker.min_samples, breaker.min_success, breaker.live_row)

    def streak() -> Streak:
        return Streak(health.health_checks_down, health.health_checks_up)

    eidex = health.judge == "streak"
    return Rules(
        options=replace(EIDEX, slow=breaker.slow, probed=True) if eidex else options,
        judge=streak if eidex else window,
        unprobed_judge=window,
        unprobed=replace(options, probed=False),
        probed=lambda candidate: probe.external or not candidate.backend.external,
        pool=PoolRules(share=breaker.max_ejected, interval=probe.interval),
        spare=spare,
        yields=yields,
    )
