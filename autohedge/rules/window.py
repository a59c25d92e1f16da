"""The window judge: the last outcomes of live traffic and deep probes, bounded by count and by age.

Rules (the AutoHedge article 3.3; resilience facts 4.2, 4.3.2 and 7.1)
- The last `size` outcomes, none older than `max_age` seconds, and at least `least` of them: fewer say nothing.
- Sick below `min_success` (7 of 10 is not below 0.70) and only when the last two failed: what is past and over opens
  nothing, and one lost probe cannot be the last straw.
- Live traffic alone has a shorter way (vllm#39863: "open after 3"): `row` live attempts in a row failed and nothing
  succeeded since. Probes do not count for it: at 3 % random loss three lost probes happen every few days.
- A light probe is a hint and never counted.

`Pace` is the separate rate of slow first bytes: slow ranks a replica down and opens nothing.

It must not know: back-off, generations, pools.
"""

from __future__ import annotations

from collections import deque

from autohedge.rules.standing import Via

LIGHT, LIVE = Via.LIGHT, Via.LIVE  # looked up in their enum they cost every request


class Window:
    """Judge of the last outcomes. One belongs to one (replica, model)."""

    __slots__ = ("_outcomes", "heals", "least", "max_age", "min_success", "row")

    def __init__(
        self, size: int = 10, max_age: float = 120.0, least: int = 5, min_success: float = 0.7, row: int = 3
    ) -> None:
        self._outcomes: deque[tuple[float, bool, bool]] = deque(maxlen=size)  # at, ok, live
        self.max_age = max_age
        self.least = least
        self.min_success = min_success
        self.row = row  # 0: off
        self.heals = False

    def note(self, ok: bool, via: Via, now: float) -> None:
        if via is not LIGHT:
            self._outcomes.append((now, ok, via is LIVE))

    def sick(self, now: float) -> str:
        fresh = self._fresh(now)
        good = sum(ok for _, ok, _ in fresh)
        if (
            len(fresh) >= self.least
            and good < self.min_success * len(fresh) - 1e-9
            and not fresh[-1][1]
            and not fresh[-2][1]
        ):
            return f"{good}/{len(fresh)} succeeded"
        row = self._row(fresh)
        if self.row and row >= self.row:
            return f"{good}/{len(fresh)} succeeded, the last {row} live attempts failed"
        return ""

    def failures(self, now: float) -> int:
        return sum(not ok for _, ok, _ in self._fresh(now))

    def clear(self) -> None:
        self._outcomes.clear()

    def told(self, now: float) -> str:
        fresh = self._fresh(now)
        return f"{sum(ok for _, ok, _ in fresh)}/{len(fresh)} succeeded" if fresh else "no evidence"

    def evidence(self, now: float) -> list[dict[str, object]]:
        return [
            {"ok": ok, "via": "live" if live else "probe", "age_s": round(now - at, 1)}
            for at, ok, live in self._fresh(now)
        ]

    def _fresh(self, now: float) -> list[tuple[float, bool, bool]]:
        return [seen for seen in self._outcomes if now - seen[0] <= self.max_age]

    @staticmethod
    def _row(fresh: list[tuple[float, bool, bool]]) -> int:
        row = 0
        for _, ok, live in reversed(fresh):
            if ok:
                break
            row += live
        return row


class Pace:
    """Share of late first bytes among the last ten: slow at 80 %, from five samples on. `limit` is in seconds."""

    __slots__ = ("_late", "limit")

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self._late: deque[bool] = deque(maxlen=10)

    def note(self, first_byte: float) -> bool:
        """Take one time to first byte in seconds; says whether the replica counts as slow now."""
        if self.limit is None:
            return False
        self._late.append(first_byte > self.limit)
        return len(self._late) >= 5 and sum(self._late) >= 0.8 * len(self._late)

    def clear(self) -> None:
        self._late.clear()
