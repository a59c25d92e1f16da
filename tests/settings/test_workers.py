"""Workers in the file: eidex's list, and our section around it."""

from __future__ import annotations

import pytest

from autohedge.core.types import Address
from autohedge.settings.load import ConfigErrors, load_text
from autohedge.settings.workers import Workers, place_of


def loaded(text: str) -> Workers:
    return load_text(text, "c.yaml", {}, lambda path: path).settings.workers


def refused(text: str) -> str:
    with pytest.raises(ConfigErrors) as raised:
        loaded(text)
    return str(raised.value)


def test_a_worker_has_eidex_defaults() -> None:
    """url is required; model_id empty is a wildcard, worker_type regular, priority 50, labels {}."""
    (one,) = loaded("workers: [{url: 'http://w1:8000/'}]\n").static
    assert (one.url, one.model_id, one.worker_type, one.priority, one.labels) == (
        "http://w1:8000",
        "",
        "regular",
        50,
        {},
    )
    assert one.address == Address("w1", 8000)


def test_a_worker_may_say_everything() -> None:
    text = (
        "workers:\n- {url: 'https://W1/base//', model_id: dex, worker_type: regular, priority: 7, labels: {zone: a}}\n"
    )
    (one,) = loaded(text).static
    assert (one.url, one.model_id, one.priority, one.labels) == ("https://w1/base", "dex", 7, {"zone": "a"})


def test_the_list_may_stand_in_our_section_beside_other_settings() -> None:
    workers = loaded("workers: {static: [{url: 'http://w1'}], persist: false, allow: [10.0.0.0/8, 'fd00::1']}\n")
    assert [one.url for one in workers.static] == ["http://w1"]
    assert not workers.persist
    assert [str(one) for one in workers.networks] == ["10.0.0.0/8", "fd00::1/128"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workers: [{model_id: dex}]", "c.yaml:1: workers[0].url: is required"),
        ("workers: [{url: 'ftp://w'}]", "http:// or https://"),
        ("workers: [{url: 'w1:8000'}]", "must be a URL with http:// or https://"),
        ("workers: [{url: 'http://'}]", "has no host"),
        ("workers: [{url: 'http://w', worker_type: prefill}]", 'must be "regular", not "prefill"'),
        ("workers: [{url: 'http://w', priority: -1}]", "at least 0"),
        ("workers: [{url: 'http://w', labels: [a]}]", "must be a mapping"),
        ("workers: [{url: 'http://w', modelid: x}]", 'did you mean "model_id"?'),
        ("workers: {allow: [lan]}", "must be a network"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(text: str, said: str) -> None:
    assert said in refused(text + "\n")


def test_a_url_that_stands_twice_is_told_and_counts_once() -> None:
    (told,) = load_text(
        "workers:\n- {url: 'http://w'}\n- {url: 'http://W/', model_id: x}\n", "c.yaml", {}, str
    ).warnings
    assert told == "c.yaml:3: workers[1]: http://w stands here and at workers[0]; it counts once"


def test_a_place_needs_its_scheme() -> None:
    with pytest.raises(ValueError, match="http://"):
        place_of("worker1:8000")
