"""Writes the parts of the documentation that are computed: docs/settings.md, and the tables of docs/reference.md.

    python docs/generate.py            (make docs)

A test holds that what is written equals what is computed, so a setting, metric or problem code is documented or it does not
exist.
"""

from __future__ import annotations

from pathlib import Path

from autohedge.core import problems
from autohedge.core.problems import CODES, Problem
from autohedge.memory.exposition import METRICS
from autohedge.memory.meters import COUNTERS, HISTOGRAMS
from autohedge.settings.schema import documented

HERE = Path(__file__).parent
SETTINGS_HEAD = """# Settings

Computed from `autohedge/settings/model.py` by `make docs`. Order of precedence: environment, file, default. Durations are written
as Go writes them ("300s", "1m30s", "0"). Any value may hold `${NAME}`, `${NAME:-default}` or `${file:/run/secrets/x}`.
`autohedge check --config FILE` prints the effective values and where each came from.

| setting | default | environment | what |
|---|---|---|---|
"""


def settings() -> str:
    """docs/settings.md."""
    rows = [
        f"| `{one.path}` | `{one.default or '-'}` | {f'`{one.env}`' if one.env else '-'} | {one.description.replace('|', '/')} |"
        for one in documented()
    ]
    return SETTINGS_HEAD + "\n".join(rows) + "\n"


def codes() -> str:
    """The table of problem codes."""
    rows = [f"| `{code}` | {meaning} |" for code, meaning in CODES.items()]
    return "\n".join(["| code | when |", "|---|---|", *rows])


def statuses() -> str:
    """The table of the problem family."""
    family = [
        kind
        for kind in vars(problems).values()
        if isinstance(kind, type) and issubclass(kind, Problem) and kind is not Problem
    ]
    rows = [
        f"| {kind.status} | {kind.__name__} | `{kind.type}` | `{kind.default_code}` |"
        for kind in sorted(family, key=lambda kind: kind.status)
    ]
    return "\n".join(["| status | problem | type | usual code |", "|---|---|---|---|", *rows])


def metrics() -> str:
    """The table of metrics."""
    labels = {**COUNTERS, **{name: names for name, (names, _) in HISTOGRAMS.items()}}
    rows = [f"| `{name}` | {', '.join(labels.get(name, ())) or '-'} | {text} |" for name, text in METRICS.items()]
    return "\n".join(["| metric | labels | what |", "|---|---|---|", *rows])


TABLES = {"codes": codes, "statuses": statuses, "metrics": metrics}


def reference(text: str) -> str:
    """docs/reference.md with its computed tables put between their marks."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        head, _, rest = text.partition(begin)
        tail = rest.partition(end)[2]
        text = f"{head}{begin}\n{table()}\n{end}{tail}"
    return text


def main() -> None:
    (HERE / "settings.md").write_text(settings())
    path = HERE / "reference.md"
    path.write_text(reference(path.read_text()))


if __name__ == "__main__":
    main()
