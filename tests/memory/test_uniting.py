"""The union kept up to date is the union made from nothing, whatever the sources report in whatever order."""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import BackendSpec
from autohedge.memory import uniting as module
from autohedge.memory.merging import united
from autohedge.memory.uniting import Uniting
from tests.support.world import backend

SPEC = st.builds(
    lambda name, places, models, external: backend(name, *places, models=tuple(models), external=external),
    st.sampled_from("abcdef"),
    st.lists(st.sampled_from([f"t{n}" for n in range(12)]), max_size=3),
    st.lists(st.sampled_from("mn"), max_size=1),
    st.sampled_from([False, False, False, True]),
)
SETS = st.lists(SPEC, max_size=4, unique_by=lambda spec: spec.name) | st.lists(SPEC, max_size=4)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["one", "two", "three", "forget two"]), SETS), max_size=10), st.data())
def test_any_history_gives_the_same_as_from_nothing(history: list[tuple[str, list[BackendSpec]]], data: Any) -> None:
    """Backends, their order, the notes, and who was touched."""
    uniting = Uniting(("one",))
    declared: dict[str, tuple[BackendSpec, ...]] = {"one": ()}
    for source, listed in history:
        before = dict(uniting.backends)
        if source == "forget two":
            declared.pop("two", None)
            change = uniting.forget("two")
        else:
            kept = [spec for spec in declared.get(source, ()) if data.draw(st.booleans())]  # the same objects again
            names = {spec.name for spec in kept}
            declared[source] = (*kept, *(spec for spec in listed if spec.name not in names))
            change = uniting.report(source, declared[source])
        whole = united(declared)
        assert list(uniting.backends.items()) == list(whole.backends.items())
        assert {name: notes for name, notes in uniting.notes.items() if notes} == {
            name: notes for name, notes in whole.notes.items() if notes
        }
        assert change.old == before
        names = {*before, *uniting.backends}
        assert change.touched == {name for name in names if before.get(name) != uniting.backends.get(name)}
        assert all(uniting.backends[name] is before[name] for name in names - change.touched)
        both = [name for name in before if name in uniting.backends]
        assert change.reordered == (both != [name for name in uniting.backends if name in before])


def test_what_changes_alone_takes_the_short_way() -> None:
    """One of five hundred services: the other reports are not looked at."""
    uniting = Uniting(("swarm",))
    specs = [backend(f"s{n}", f"t{n}") for n in range(500)]
    uniting.report("swarm", tuple(specs))
    with mock.patch.object(module, "united", side_effect=AssertionError("the whole way")):
        specs[7] = backend("s7", "other")
        assert uniting.report("swarm", tuple(specs)).touched == {"s7"}
        del specs[9]
        assert uniting.report("swarm", tuple(specs)).touched == {"s9"}
        assert uniting.report("swarm", tuple(specs)).touched == frozenset()
        assert uniting.report("swarm", tuple(reversed(specs))).reordered
