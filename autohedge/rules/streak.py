"""The streak judge: eidex's two probes, each with its own streaks.

Rules (seed 000, health manager; systemone facts 8.12 and 8.13)
- `down` failures of one probe in a row put that probe down; `up` successes in a row bring it back.
- When a probe changes sides, both of its streaks start again from nothing; when the worker does, those of the other probe as
  well: a deep failure of before an outage is not the first of two after it.
- The replica is well only while neither probe is down. One shared streak would let a light success every 5 s wipe out
  the deep failure of every 60 s, and a deep fault would never be seen.
- Live traffic is no evidence here: eidex fails over on it, but only probes move a worker's health.
- Optimistic: a new worker counts as well.

A probe is good on HTTP 200 and nothing else: whoever feeds this judge turns every other answer into SICK.

It must not know: intervals, timeouts, which path a probe asks.
"""

from __future__ import annotations

from autohedge.rules.standing import NEVER, Via


class _Probe:
    __slots__ = ("at", "bad", "down", "good", "ok")

    def __init__(self) -> None:
        self.bad = 0
        self.good = 0
        self.down = False
        self.ok = True
        self.at = NEVER


class Streak:
    """Judge of the light and the deep probe of one worker."""

    __slots__ = ("_down", "_probes", "_up", "heals")

    def __init__(self, down: int = 2, up: int = 1) -> None:
        self._down = down
        self._up = up
        self._probes: dict[Via, _Probe] = {Via.LIGHT: _Probe(), Via.DEEP: _Probe()}
        self.heals = True

    def note(self, ok: bool, via: Via, now: float) -> None:
        probe = self._probes.get(via)
        if probe is None:
            return
        probe.at, probe.ok = now, ok
        if ok:
            probe.good, probe.bad = probe.good + 1, 0
        else:
            probe.bad, probe.good = probe.bad + 1, 0
        turned = probe.good >= self._up if probe.down else probe.bad >= self._down
        if turned:
            probe.down = not probe.down
            alone = not any(other.down for other in self._probes.values() if other is not probe)
            for one in self._probes.values() if alone else (probe,):  # alone: it is the worker that changes
                one.good = one.bad = 0

    def sick(self, now: float) -> str:  # noqa: ARG002 - a streak has no age
        down = [via.value for via, probe in self._probes.items() if probe.down]
        return f"{' and '.join(down)} probe failed {self._down} times in a row" if down else ""

    def failures(self, now: float) -> int:  # noqa: ARG002 - a streak has no age
        return sum(self._down if probe.down else probe.bad for probe in self._probes.values())

    def clear(self) -> None:
        self._probes = {via: _Probe() for via in self._probes}

    def told(self, now: float) -> str:
        return self.sick(now) or "neither probe is down"

    def evidence(self, now: float) -> list[dict[str, object]]:
        return [
            {"ok": probe.ok, "via": via.value, "age_s": round(now - probe.at, 1), "down": probe.down}
            for via, probe in self._probes.items()
            if probe.at != NEVER
        ]
