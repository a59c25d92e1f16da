"""What docker-guard keeps of labels, environment and command lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import Kind
from autohedge.rules.arguments import told
from autohedge.rules.keeping import DEFAULT_ENV, LONGEST, MANY, env, labels, words
from autohedge.rules.swarm import TRACES, start_of


@pytest.mark.parametrize(
    "key",
    [
        "autohedge.enable", "autohedge.model", "autohedge.nonsense", "autohdge.enable", "autohege.port", "auto-hedge.port",
        "AutoHedge.Port", "auto_hedge.model", "autohedged.model", "autohedge_enable", "autohedge", "com.docker.stack.namespace",
        "com.docker.stack.image",
    ],
)  # fmt: skip
def test_labels_of_ours_and_nearly_of_ours_stay(key: str) -> None:
    """A misspelt label can be named to its writer only when it is seen."""
    assert labels({key: "v"}) == {key: "v"}


@pytest.mark.parametrize(
    "key",
    [
        "traefik.http.middlewares.auth.basicauth.users", "com.example.password", "autoheal", "autoscale.max", "maintainer", "",
        "com.docker.stack", "com.docker.swarm.service.id", "x.autohedge.enable", "ofelia.job", "autohedge." + "x" * 200, "auto",
    ],
)  # fmt: skip
def test_other_labels_go(key: str) -> None:
    """Other tools keep passwords in labels: traefik's basic auth is one."""
    assert labels({key: "v"}) == {}


def test_labels_are_bounded() -> None:
    found = labels({f"autohedge.{i}": "x" * 10_000 for i in range(1000)})
    assert len(found) == MANY
    assert max(map(len, found.values())) <= LONGEST + 1


@pytest.mark.parametrize("found", [None, [], "autohedge.enable", 3, {"autohedge.x": 3}, {"autohedge.x": None}])
def test_what_are_no_labels_is_nothing(found: object) -> None:
    assert labels(found) == {}


def test_variables_stay_by_exact_name() -> None:
    """facts swarm 2b: GET /services tells the passwords of all services."""
    found = [
        "MODEL=tiny",
        "MODEL_KEY=s",
        "model=x",
        "MAX_MODEL_LEN=4096",
        "DB_PASSWORD=p",
        "MODEL",
        "=x",
        " MODEL=x",
        7,
        None,
    ]
    assert env(found, DEFAULT_ENV) == ["MODEL=tiny", "MAX_MODEL_LEN=4096"]
    assert env(found, frozenset()) == []


def test_a_credential_in_an_allowed_value_goes() -> None:
    assert env(["MODEL=https://u:hf_secret@host/x", "MODEL=" + "x" * 5000], DEFAULT_ENV) == []


@pytest.mark.parametrize("found", [None, {}, "MODEL=x", 3])
def test_what_is_no_environment_is_nothing(found: object) -> None:
    assert env(found, DEFAULT_ENV) == []


@pytest.mark.parametrize(
    ("command", "args", "kept"),
    [
        (None, ["--model", "qwen", "--api-key", "S", "--port", "80"], ["--model", "qwen", "--port", "80"]),
        (None, ["--model=qwen", "--api-key=S", "--max-model-len=32K"], ["--model=qwen", "--max-model-len=32K"]),
        (["vllm"], ["serve", "org/qwen", "--hf-token", "S"], ["vllm", "serve", "org/qwen"]),
        (["/usr/bin/vllm", "serve"], ["S3CRET WORD", "S"], ["vllm", "serve"]),
        (["sh", "-c"], ["export TOKEN=S && exec vllm serve q --port 8001 && curl S"], ["vllm", "serve", "q", "--port", "8001"]),
        (["bash", "-ec", "vllm serve q --api-key 'S'"], None, ["vllm", "serve", "q"]),
        (["bash", "-c", "vllm 'serve"], None, ["vllm"]),
        (None, ["--served-model-name", "a", "b,c", "--seed", "S"], ["--served-model-name", "a", "b,c"]),
        (None, ["--served_model_name", "a"], ["--served-model-name", "a"]),
        (None, ["--alias", "a", "&&", "S"], ["--alias", "a"]),
        (None, ["--model", "https://u:S@h/x", "S"], ["--model"]),
        (None, ["--model=https://u:S@h/x", "S"], ["--model"]),
        (None, ["--served-model-name=a", "b", "-x", "S"], ["--served-model-name=a", "b"]),
        (["vllm", "-v"], ["serve", "q"], ["vllm", "serve", "q"]),
        (None, ["--model", "q", "S"], ["--model", "q"]),
        (None, ["--port", "80", "S", "--model", "q"], ["--port", "80", "--model", "q"]),
        (["python3", "-m", "sglang.launch_server"], ["--model-path", "q"], ["sglang", "--model-path", "q"]),
        (None, ["-m", "S", "-e", "TOKEN=S"], []),
        (None, ["S", "loose", "words"], []),
        ("--model S", 7, []),
        (None, [None, {"--model": "S"}, 3], []),
    ],
)  # fmt: skip
def test_command_lines_keep_what_names_the_model(command: object, args: object, kept: list[str]) -> None:
    """Every S in these is a secret or stands where one could."""
    found = words(command, args)
    assert found == kept
    assert not any("S" in word.replace("S3", "S") for word in found)


@given(st.lists(st.text(max_size=20), max_size=20))
def test_only_plain_words_come_out(found: list[str]) -> None:
    """No space, quote, dollar or equals sign in a value: nothing that a shell would act on."""
    for word in words(None, found):
        assert word.startswith("--") or not set(word) & set(" '\"$=&;|\n")


WORDS = ("vllm", "serve", "q", "org/x:1", "--model", "--model=a", "--model=", "--port", "80", "--port=7", "--max-model-len",
         "32K", "-1", "--alias", "a,b", "--served-model-name", "--served_model_name=c", "--api-key", "SECRET", "-m", "-v",
         "sglang.launch_server", "--model-path", "python3", "--context-length=9",  "$X")  # fmt: skip


@given(
    st.lists(st.sampled_from(WORDS), max_size=8) | st.just(["bash", "-ec", "exec vllm serve z --port 5"]),
    st.lists(st.sampled_from(WORDS), max_size=8),
    st.sampled_from(Kind),
)
def test_a_shortened_command_line_means_the_same(command: list[str], args: list[str], kind: Kind) -> None:
    """To the rules that read it: the model, the window, the port, and which engine it is."""
    whole, short = [*command, *args], words(command, args)
    assert told(short, kind) == told(whole, kind)
    trace = next((trace for trace, _ in TRACES if trace in start_of(whole)), None)
    assert trace is None or next(trace for trace, _ in TRACES if trace in start_of(short)) == trace
