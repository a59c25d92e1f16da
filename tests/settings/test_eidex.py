"""eidex's mode: when it holds, and what it changes (seed 000, configuration)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autohedge.settings.eidex import FILE, OURS, started
from autohedge.settings.load import EXPOSED, ConfigErrors, Loaded, load, load_text
from autohedge.settings.model import Settings

EXAMPLE = Path(__file__).resolve().parents[2] / "config" / "eidex.yaml"
MODE = {"AUTOHEDGE_MODE": "eidex"}


def nothing(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def text(content: str, env: Mapping[str, str] | None = None) -> Loaded:
    return load_text(content, FILE, {**MODE, **(env or {})}, nothing)


# --- which file, and which mode ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "own", "env", "there", "config", "eidex"),
    [
        ("f.yaml", None, {"EIDEX_CONFIG": "e.yaml"}, True, "f.yaml", True),  # the flag comes first
        (None, None, {"EIDEX_CONFIG": "e.yaml"}, True, "e.yaml", True),
        (None, None, {}, True, FILE, True),
        (None, None, {"EIDEX_CONFIG": ""}, True, FILE, True),  # empty is not set
        (None, None, {"EIDEX_CONFIG": "  "}, False, None, False),
        (None, None, {"EIDEX_SERVER_LISTEN": ":1"}, False, FILE, True),
        (None, None, {"EIDEX_SERVER_ACCESS_LOG": "info"}, False, FILE, True),
        (None, None, {"EIDEX_SERVER_LISTEN": ""}, False, None, False),
        (None, None, {"AUTOHEDGE_MODE": "Eidex"}, False, FILE, True),
        (None, None, {}, False, None, False),
        (None, "a.yaml", {"EIDEX_CONFIG": "e.yaml"}, True, "a.yaml", False),  # a file of our own
        (None, None, {"AUTOHEDGE_CONFIG": "a.yaml", "EIDEX_CONFIG": "e.yaml"}, True, "a.yaml", False),
        (None, "a.yaml", {"AUTOHEDGE_MODE": "eidex"}, False, "a.yaml", True),
        ("f.yaml", "a.yaml", {}, False, "f.yaml", True),
    ],
)
def test_the_file_and_the_mode(
    flag: str | None, own: str | None, env: dict[str, str], there: bool, config: str | None, eidex: bool
) -> None:
    """E86, E108: -config, then EIDEX_CONFIG, then /etc/eidex/config.yaml; the mode follows from how it was started."""
    start = started(flag, own, env, lambda path: there and path == FILE)
    assert start.config == config
    assert (start.env.get("AUTOHEDGE_MODE", "").lower() == "eidex") is eidex
    assert load(None, start.env, nothing).settings.mode == ("eidex" if eidex else "autohedge")


def test_a_container_of_ours_finds_its_file_without_a_word_about_it() -> None:
    """S100: mounted where the article has it. A file or a variable of eidex's comes first, and so does one that is named."""
    assert started(None, None, {}, lambda path: path == OURS).config == OURS
    assert started(None, None, {"AUTOHEDGE_CONFIG": "a.yaml"}, lambda _path: True).config == "a.yaml"
    assert started(None, None, {}, lambda _path: True).config == FILE


def test_a_missing_file_is_a_warning_and_defaults_hold() -> None:
    """E87, E90."""
    loaded = load(FILE, MODE, nothing)
    assert loaded.settings.server.bind == ("0.0.0.0", 8080)
    assert "defaults hold" in loaded.warnings[0]


@pytest.mark.parametrize(
    "content", ["server: [", "server: {listen: nowhere}", "workers: [{url: x}]", "routing: 5\nhealth: 5"]
)
def test_an_invalid_file_is_an_error(content: str) -> None:
    """E88: what is unknown is ignored, what is wrong is not."""
    with pytest.raises(ConfigErrors):
        text(content)


def test_unknown_keys_are_ignored_with_a_warning() -> None:
    """E89: at every depth."""
    loaded = text(
        "older: 1\nserver: {color: red}\nmodels: [{id: dex, x: 1}]\nworkers: [{url: 'http://w', weight: 3}]\n"
    )
    told = [warning.split(": ")[1] for warning in loaded.warnings if warning != EXPOSED]
    assert sorted(told) == ["models[0].x", "older", "server.color", "workers[0].weight"]
    assert [worker.url for worker in loaded.settings.workers.static] == ["http://w"]


def test_outside_of_the_mode_its_variables_are_told_and_not_read() -> None:
    loaded = load_text("", "a.yaml", {"EIDEX_SERVER_LISTEN": ":1", "EIDEX_CONFIG": ""}, nothing)
    assert loaded.settings.server.listen == Settings().server.listen
    assert [warning.partition(" ")[0] for warning in loaded.warnings] == ["EIDEX_SERVER_LISTEN"]


# --- what holds in it ---------------------------------------------------------------------------------------------------


def test_its_defaults() -> None:
    """E90 and the health manager; everything else is as ever."""
    settings = text("").settings
    assert settings.server.bind == ("0.0.0.0", 8080)
    assert settings.server.log_format == "json"
    assert settings.health.judge == "streak"
    assert settings.workers.open
    ours = Settings()
    assert settings.server.model_copy(update={"listen": ours.server.listen, "log_format": "text"}) == ours.server
    assert settings.failover == ours.failover
    assert text("").origins["server.listen"] == "default of eidex's mode"


def test_the_file_stands_over_its_defaults() -> None:
    settings = text("server: {listen: ':9'}\nhealth: {judge: window}\n").settings
    assert (settings.server.listen, settings.health.judge) == (":9", "window")


@pytest.mark.parametrize(
    ("env", "listen", "level"),
    [
        ({}, ":9", "error"),
        ({"EIDEX_SERVER_LISTEN": "", "EIDEX_SERVER_ACCESS_LOG": " "}, ":9", "error"),
        ({"EIDEX_SERVER_LISTEN": ":7"}, ":7", "error"),
        ({"EIDEX_SERVER_ACCESS_LOG": "Debug"}, ":9", "debug"),
        ({"EIDEX_SERVER_ACCESS_LOG": "OFF"}, ":9", "off"),
        ({"EIDEX_SERVER_LISTEN": ":7", "AUTOHEDGE_SERVER_LISTEN": ":5"}, ":5", "error"),
    ],
)
def test_its_variables_stand_over_the_file(env: dict[str, str], listen: str, level: str) -> None:
    """E109 to E111: in any case; empty is not set; our own variables stand over them."""
    settings = text("server: {listen: ':9', access_log: error}\n", env).settings
    assert (settings.server.listen, settings.server.access_log) == (listen, level)


def test_a_wrong_variable_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigErrors, match="EIDEX_SERVER_ACCESS_LOG"):
        text("", {"EIDEX_SERVER_ACCESS_LOG": "loud"})


def test_the_file_may_say_it_itself() -> None:
    settings = load_text("mode: eidex\nwhat: ever\n", "a.yaml", {}, nothing).settings
    assert (settings.mode, settings.server.bind[1]) == ("eidex", 8080)


@pytest.mark.parametrize(
    ("content", "exposed"),
    [
        ("", True),
        ("admin: {token: sesame}", False),
        ("workers: {allow: [10.0.0.0/8]}", False),
        ("workers: {open: false}", False),
    ],
)
def test_that_anybody_may_register_is_told(content: str, exposed: bool) -> None:
    """A registered worker gets the credentials of callers: eidex's hint 4, said at every start."""
    assert (EXPOSED in text(content).warnings) is exposed


def test_both_probes_off_are_refused() -> None:
    """E112: in every spelling of nothing."""
    for zero in ("0", "0s", '"0"', "0m"):
        with pytest.raises(ConfigErrors, match="one probe must be active"):
            text(f"health: {{health_check_interval: {zero}, health_gen_check_interval: {zero}}}")


# --- the complete example -----------------------------------------------------------------------------------------------


def test_the_example_is_complete_and_loads() -> None:
    """E115: every key of the seed, none of them unknown."""
    loaded = load_text(EXAMPLE.read_text(), FILE, MODE, nothing)
    assert loaded.warnings == (EXPOSED,)
    settings = loaded.settings
    (model,) = settings.static_models
    assert (model.id, model.parent, model.max_model_len) == ("dex", None, 262144)
    one, two = settings.workers.static
    assert (one.url, one.model_id, two.model_id) == ("http://worker1:8000", "dex", "")
    assert settings.health.health_checks_down == 2


def test_the_example_says_the_defaults() -> None:
    said, bare = (load_text(content, FILE, MODE, nothing).settings for content in (EXAMPLE.read_text(), ""))
    assert said.server == bare.server
    assert said.health == bare.health
