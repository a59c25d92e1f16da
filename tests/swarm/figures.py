"""What was measured on the way, shown at the end of the run: how many requests, how soon something was noticed."""

from __future__ import annotations

FIGURES: list[str] = []


def tell(*parts: object) -> None:
    """Keep one line for the summary."""
    FIGURES.append(" ".join(map(str, parts)))
