"""Loading as a whole: the article's file, precedence, origins, and every mistake at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from autohedge.core.types import Address, Fact, Rank, Secret
from autohedge.settings.errors import ConfigErrors
from autohedge.settings.load import Loaded, load, load_text
from autohedge.settings.model import Settings

HERE = Path(__file__).parent


def nothing(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def text(content: str, env: dict[str, str] | None = None, *, lenient: bool = False) -> Loaded:
    return load_text(content, "/etc/autohedge/config.yaml", env or {}, nothing, lenient=lenient)


def article(env: dict[str, str]) -> Loaded:
    return load(str(HERE / "article.yaml"), env, lambda path: Path(path).read_text(encoding="utf-8"))


def test_the_article_s_configuration_loads_as_it_stands() -> None:
    """Seed 003, 3.4 and 4.2: registry, limits, chain, redis_url and ${AZURE_API_KEY}."""
    loaded = article({"AZURE_API_KEY": "k"})
    settings = loaded.settings
    assert loaded.warnings == ()
    vllm, ollama = settings.backends()
    assert (vllm.addresses, ollama.addresses) == ((Address("vllm-qwen2-7b", 8000),), (Address("ollama-llama3", 11434),))
    assert vllm.hints.max_output == Fact(32768, "model_limits.max_tokens in article.yaml line 7", Rank.CONFIG)
    assert vllm.hints.max_input == Fact(16384, "model_limits.max_input_length in article.yaml line 7", Rank.CONFIG)
    assert vllm.hints.context is None
    assert [rung.provider for rung in settings.fallback_chain] == ["swarm", "ollama", "azure"]
    assert [rung.names for rung in settings.fallback_chain] == [("vllm-qwen2-7b",), ("llama3:8b",), ()]
    assert settings.fallback_chain[2].api_key == Secret("k")
    assert settings.redis_url == "redis://redis:6379/0"


def test_the_article_s_deployment_gives_another_redis_in_the_environment() -> None:
    """Seed 003, 4.2: the command line names the manager's address, the file the service; the environment wins."""
    loaded = article({"AZURE_API_KEY": "k", "REDIS_URL": "redis://192.168.1.10:6379/0"})
    assert loaded.settings.state.url == "redis://192.168.1.10:6379/0"
    assert len(loaded.warnings) == 1


def test_the_article_s_key_must_be_there() -> None:
    """A missing key is told with variable and line, before any provider sees an empty one."""
    with pytest.raises(ConfigErrors) as caught:
        article({})
    assert [(error.line, error.path) for error in caught.value.errors] == [(18, "fallback_chain[2].api_key")]
    assert "AZURE_API_KEY" in str(caught.value)


def test_no_file_means_defaults_and_environment() -> None:
    """The contract: path None."""
    assert load(None, {}, nothing).settings == Settings()
    assert load(None, {"AUTOHEDGE_SERVER_WORKERS": "4"}, nothing).settings.server.workers == 4


def test_a_missing_file_is_an_error_unless_lenient() -> None:
    """Table B, B8, and eidex, which starts with defaults."""
    with pytest.raises(ConfigErrors) as caught:
        load("/etc/x.yaml", {}, nothing)
    assert str(caught.value) == "/etc/x.yaml: cannot read the configuration file: no such file or directory"
    loaded = load("/etc/x.yaml", {"AUTOHEDGE_SERVER_WORKERS": "4"}, nothing, lenient=True)
    assert loaded.settings.server.workers == 4
    assert "defaults hold" in loaded.warnings[0]


def test_a_file_that_cannot_be_read_is_an_error_always() -> None:
    """No permission and no UTF-8 are not "no file"."""

    def locked(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    def binary(_path: str) -> str:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    for read_file, reason in ((locked, "permission denied"), (binary, "not UTF-8")):
        with pytest.raises(ConfigErrors, match=reason):
            load("x.yaml", {}, read_file, lenient=True)


def test_lenient_warns_of_unknown_keys_and_keeps_the_rest() -> None:
    """Facts 8, item 28: eidex ignores unknown keys; wrong types stay errors."""
    content = "server: {listen: ':8080', old: 1}\ntracing: {on: 1}\nmodels: [{id: dex, max_model_len: 262144, x: y}]\n"
    loaded = text(content, lenient=True)
    assert loaded.settings.server.listen == ":8080"
    assert loaded.settings.static_models[0].id == "dex"
    assert [warning.split(": ")[1] for warning in loaded.warnings] == ["server.old", "models[0].x", "tracing"]
    with pytest.raises(ConfigErrors):
        text(content)
    with pytest.raises(ConfigErrors) as caught:
        text("tracing: x\nserver: {workers: x}", lenient=True)
    assert [error.path for error in caught.value.errors] == ["server.workers"]


def test_every_kind_of_mistake_is_in_one_exception() -> None:
    """Duplicate key, missing variable, contradiction, unknown key, wrong value, wrong variable."""
    content = """\
server:
  workers: x
  workers: 1
  nope: 1
openai: {model_override: "${NOPE}"}
redis_url: redis://a
state: {url: redis://b}
"""
    with pytest.raises(ConfigErrors) as caught:
        text(content, {"AUTOHEDGE_QUEUE_SIZE": "many"})
    assert [(error.line, error.path) for error in caught.value.errors] == [
        (2, "server.workers"),
        (3, "server.workers"),
        (4, "server.nope"),
        (5, "openai.model_override"),
        (6, "redis_url"),
        (None, "queue.size"),
    ]
    lines = str(caught.value).splitlines()
    assert lines[0] == '/etc/autohedge/config.yaml:2: server.workers: must be a whole number, not "x"'
    assert lines[-1] == 'queue.size: must be a whole number, not "many" (from the environment AUTOHEDGE_QUEUE_SIZE)'


def test_origins_tell_for_every_leaf_where_its_value_came_from() -> None:
    """Default, line, environment, and what was put in."""
    loaded = text(
        "server:\n  workers: ${N}\nupstream_registry:\n  a: {hosts: [x, '${H}']}\n",
        {"N": "2", "H": "y", "AUTOHEDGE_QUEUE_SIZE": "1"},
    )
    assert loaded.origins["server.listen"] == "default"
    assert loaded.origins["server.workers"] == "config.yaml line 2, ${N}"
    assert loaded.origins["upstream_registry.a.hosts"] == "config.yaml line 4, ${H}"
    assert loaded.origins["queue.size"] == "environment AUTOHEDGE_QUEUE_SIZE"
    assert loaded.settings.server.workers == 2


def test_hints_of_a_backend_tell_file_and_line_but_no_folder_and_no_variable() -> None:
    """The sentence goes to clients in a 400."""
    loaded = text("upstream_registry:\n  a:\n    host: h\n    model_limits:\n      max_model_len: ${N}\n", {"N": "9"})
    (spec,) = loaded.settings.backends()
    assert spec.hints.context == Fact(9, "model_limits.max_model_len in config.yaml line 5", Rank.CONFIG)


def test_an_address_that_stands_twice_is_merged_with_a_warning() -> None:
    """Table B, B14."""
    loaded = text("upstream_registry:\n  a:\n    hosts:\n    - h\n    - h:8000\n")
    assert loaded.settings.backends()[0].addresses == (Address("h", 8000),)
    first, second = "upstream_registry.a.hosts[0]", "upstream_registry.a.hosts[1]"
    notice = f"/etc/autohedge/config.yaml:5: {second}: http://h:8000 stands here and at {first}; it counts once"
    assert loaded.warnings == (notice,)


def test_the_same_input_makes_equal_settings() -> None:
    """A watcher compares two loads; another line is another origin of a hint, so it is a change too."""
    content = "upstream_registry: {a: {host: h, model_limits: {max_tokens: 5}}}"
    assert text(content) == text(content)
    assert text(content).settings != text("\n" + content).settings


def test_a_secret_file_fills_a_key() -> None:
    """Docker secrets: the file's content without its line break, never shown."""
    loaded = load_text(
        "upstream_registry: {a: {host: 'https://h', api_key: '${file:/run/secrets/k}'}}",
        "c.yaml",
        {},
        lambda _path: "sk-hidden\n",
    )
    assert loaded.settings.backends()[0].key == Secret("sk-hidden")
    assert "hidden" not in repr(loaded)


@pytest.mark.parametrize(
    "content", ["", "server:\n", "server:\n  cors:\n", "upstream_registry:\nfallback_chain:\nmodels:\n", "# only\n"]
)
def test_empty_parts_are_defaults(content: str) -> None:
    """Everything below a key commented out."""
    assert text(content).settings == Settings()


def test_off_and_zero_as_people_write_them() -> None:
    """YAML 1.1 traps: `off` is a boolean there, 0 an integer; here both mean what they say."""
    settings = text(
        "server: {access_log: off}\nvalidation: {mode: off}\nqueue: {wait: 0}\nmodels: {no: {fallback: off}}"
    ).settings
    assert (settings.server.access_log, settings.validation.mode, settings.queue.wait) == ("off", False, 0.0)
    assert settings.models["no"].fallback == ()
