"""The effective configuration: complete, with origins, without secrets, and loadable."""

from __future__ import annotations

from autohedge.settings.effective import render
from autohedge.settings.load import Loaded, load_text
from autohedge.settings.model import Settings

CONTENT = """\
server: {listen: ':1', cors: {origins: [https://a]}}
upstream_registry:
  a-b/c.d:
    host: https://h/base
    aliases: {x.y: z}
    model_limits: {max_tokens: 5}
fallback_chain:
- {provider: swarm, models: [m, n], name: "peers: all"}
- {provider: ollama, model: 'llama3:8b'}
models:
  big: {fallback: off, aliases: [huge]}
  small: {fallback: [{provider: swarm, model: m}]}
static_models: [{id: dex, max_model_len: 5}]
timeouts: {total: 90s}
"""


def read(content: str, env: dict[str, str] | None = None) -> Loaded:
    return load_text(content, "config.yaml", env or {}, lambda _path: "sk-hidden-file")


def test_what_is_printed_loads_again_and_means_the_same() -> None:
    """The strongest proof that nothing is missing."""
    loaded = read(CONTENT)
    assert read(render(loaded)).settings.model_dump() == loaded.settings.model_dump()
    defaults = read("")
    assert read(render(defaults)).settings == Settings()


def test_every_value_says_where_it_came_from() -> None:
    """Default, line, environment."""
    lines = render(read("server: {listen: ':1'}", {"AUTOHEDGE_SERVER_WORKERS": "2"})).splitlines()
    assert '  listen: ":1"  # config.yaml line 1' in lines
    assert "  workers: 2  # environment AUTOHEDGE_SERVER_WORKERS" in lines
    assert "  total: 5m0s  # default" in lines


def test_secrets_are_stars() -> None:
    """Keys, passwords in URLs, what a secret file held, and what a variable with a telling name held."""
    content = """\
redis_url: redis://u:hidden1@h
upstream_registry:
  a: {host: 'https://h', api_key: hidden2, labels: {one: '${MY_TOKEN}', two: '${file:/run/secrets/x}', three: '${TEAM}'}}
fallback_chain:
- {provider: azure, endpoint: 'https://h/x?api-key=hidden3&api-version=1', models: ['${OTHER_KEY}']}
"""
    shown = render(read(content, {"MY_TOKEN": "hidden4", "TEAM": "red", "OTHER_KEY": "hidden5"}))
    assert "hidden" not in shown
    assert "    three" not in shown.splitlines()
    assert 'three: "red"  # config.yaml line 3, ${TEAM}' in shown
    assert 'url: "redis://***@h"  # config.yaml line 1' in shown
    assert "api-key=***&api-version=1" in shown


def test_an_entry_shows_only_what_was_given_or_means_something() -> None:
    """Forty lines of null per backend would hide the one that matters."""
    shown = render(read("upstream_registry: {a: {host: h}}"))
    entry = shown.partition("  a:\n")[2].partition("sources:")[0]
    assert [line.split(":")[0].strip() for line in entry.splitlines()] == [
        "provider",
        "host",
        "model_limits",
        "priority",
        "weight",
    ]
