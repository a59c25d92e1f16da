"""docs/parity.md is true: what it counts, and every test that it names as the one that holds a behaviour of a seed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "parity.md"

SEEDS = {"E": "eidex", "R": "bge-router", "X": "AIBrix discovery", "S": "the article"}
HOWS = ("same", "better", "different")
HELD, PLANNED, UNTESTED, NOTHING = "held by tests", "planned", "no test yet", "nothing to test"
FAULT = "(a fault)"  # built, but not as the row says
PROOFS = (HELD, PLANNED, UNTESTED, NOTHING)

ROW = re.compile(r"^\| ([A-Z]\w*) \|(.*)\|$", re.MULTILINE)
NODE = re.compile(r"`([^`\s]+\.py)::(\w+)(?:\[[^`]*\])?`")
COUNTS = re.compile(r"<!-- counts -->\n(.*?)\n<!-- /counts -->", re.DOTALL)
AREAS = re.compile(r"^Areas that are planned: (.*)\.$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """One behaviour of a seed. `test` is the last cell as it is written."""

    id: str
    behaviour: str
    how: str
    test: str

    @property
    def status(self) -> str:
        """The word that the third cell begins with: same, better or different."""
        return re.split(r"\W", self.how, maxsplit=1)[0]

    @property
    def proof(self) -> str:
        """Which of PROOFS the last cell is."""
        for kind in (PLANNED, UNTESTED, NOTHING):
            if self.test.startswith(kind):
                return kind
        return HELD

    @property
    def nodes(self) -> list[tuple[str, str]]:
        """File and function of every test that is named."""
        return [(found[1], found[2]) for found in NODE.finditer(self.test)]


def rows(text: str) -> list[Row]:
    """The rows of all tables of the page but that of the counts."""
    found = []
    for match in ROW.finditer(text):
        cells = [cell.strip() for cell in match[2].split("|")]
        assert len(cells) == 3, f"{match[1]} has {len(cells) + 1} cells; a | inside of a cell breaks the table"
        found.append(Row(match[1], *cells))
    return found


def counted(table: list[Row]) -> str:
    """The counts as they stand in the head of the page."""
    words = ("seed", "rows", *HOWS, *PROOFS)
    lines = ["| " + " | ".join(words) + " |", "|" + "---|" * len(words)]
    for name, part in [
        *((name, [row for row in table if row.id.startswith(letter)]) for letter, name in SEEDS.items()),
        ("all", table),
    ]:
        hows, proofs = Counter(row.status for row in part), Counter(row.proof for row in part)
        numbers = [len(part), *(hows[how] for how in HOWS), *(proofs[proof] for proof in PROOFS)]
        lines.append(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(lines)


TEXT = PAGE.read_text() if PAGE.exists() else ""
TABLE = rows(TEXT)


@cache
def functions(path: Path) -> frozenset[str]:
    """Every test function of a file, also those of classes."""
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_there_are_rows_for_every_seed() -> None:
    """A page that lost a table, or that the pattern does not read any more, is not true."""
    for letter in SEEDS:
        assert sum(row.id.startswith(letter) for row in TABLE) >= 30


def test_every_row_of_a_table_is_read() -> None:
    """No row hides behind an id of another form."""
    written = [line for line in TEXT.splitlines() if line.startswith("| ") and "| test |" not in line]
    assert len(written) == len(TABLE) + len(SEEDS) + 2  # the counts: a head, the seeds, all


def test_ids_are_unique_and_those_of_a_seed() -> None:
    ids = [row.id for row in TABLE]
    assert [one for one, number in Counter(ids).items() if number > 1] == []
    assert [one for one in ids if not re.fullmatch(r"[ERXS][1-9]\d*[a-z]?", one)] == []


@pytest.mark.parametrize("row", TABLE, ids=[row.id for row in TABLE])
def test_a_row_is_complete(row: Row) -> None:
    """A behaviour, what we do about it and why, and what holds it; every test that is named exists."""
    assert len(row.behaviour) > 10
    assert row.status in HOWS
    if row.status != "same":
        assert re.match(rf"{row.status}: \S", row.how), "say what is better, or why it is different"
    for file, function in row.nodes:
        path = ROOT / file
        assert path.is_relative_to(ROOT / "tests"), f"{file} is no file of tests/"
        assert path.is_file(), f"{file} does not exist"
        assert function in functions(path), f"{file} has no {function}"
    assert row.test.count("::") == len(row.nodes), "a test is written as `tests/folder/test_file.py::test_name`"
    if row.proof == HELD:
        assert row.nodes, "name a test, or say planned, no test yet or nothing to test"
        assert FAULT not in row.how, "a row with a fault is not held"
    elif row.proof == NOTHING:
        assert re.match(rf"{NOTHING}: \S", row.test)
        assert not row.nodes


def test_planned_areas_are_those_of_the_head() -> None:
    """What is planned has one name each, and the head lists them all and no others."""
    found = AREAS.search(TEXT)
    assert found is not None
    planned = {row.test.removeprefix(f"{PLANNED}: ").partition(";")[0] for row in TABLE if row.proof == PLANNED}
    assert set(found[1].split(", ")) == planned


def test_the_counts_are_true() -> None:
    """The head says how many rows there are of each kind. When it does not, put in what is printed here."""
    found = COUNTS.search(TEXT)
    assert found is not None
    true = counted(TABLE)
    print(true)
    assert found[1] == true
