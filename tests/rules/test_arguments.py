"""What the command line of an engine tells."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import Kind
from autohedge.rules.arguments import Told, env_of, number, told


def said(line: str, kind: Kind = Kind.AUTO) -> Told:
    return told(shlex.split(line), kind)


@pytest.mark.parametrize(
    ("line", "kind", "names"),
    [
        ("vllm serve Qwen/Qwen2-7B --port 8000", Kind.VLLM, ("Qwen/Qwen2-7B",)),
        ("vllm serve Qwen/Qwen2-7B --served-model-name qwen fast", Kind.VLLM, ("qwen", "fast")),
        ("python3 -m vllm.entrypoints.openai.api_server --model /m/q", Kind.VLLM, ("/m/q",)),
        ("--model=/m/q --served_model_name=qwen", Kind.VLLM, ("qwen",)),
        ("python3 -m sglang.launch_server --model-path q/q", Kind.SGLANG, ("q/q",)),
        ("--model-id q/q --max-total-tokens 4096", Kind.TGI, ("q/q",)),
        ("--model-id q/q --served-model-name nice", Kind.TGI, ("q/q",)),
        ("llama-server -m /m/q.gguf --alias tiny,small", Kind.LLAMACPP, ("tiny", "small")),
        ("llama-server --model /m/q.gguf", Kind.LLAMACPP, ()),
        ("serve --model q", Kind.AUTO, ()),
        ("vllm serve", Kind.VLLM, ()),
        ("--served-model-name", Kind.VLLM, ()),
        ("--served-model-name http://h/m", Kind.VLLM, ()),
    ],
)
def test_the_name_that_the_engine_will_list(line: str, kind: Kind, names: tuple[str, ...]) -> None:
    """S95: the arguments are what the engine really got. llama.cpp's file is no name; it is known by its alias."""
    assert said(line, kind).exact == names


@pytest.mark.parametrize(
    ("line", "window", "by"),
    [
        ("--max-model-len 4096", 4096, "max-model-len"),
        ("--max_model_len=32k", 32_000, "max-model-len"),
        ("--max-model-len 1.5K", 1536, "max-model-len"),
        ("--context-length 8192", 8192, "context-length"),
        ("--max-total-tokens 2048", 2048, "max-total-tokens"),
        ("--max-model-len auto", None, ""),
        ("--max-model-len -1", None, ""),
        ("--max-model-len", None, ""),
        ("--max-model-len 4096 --max-model-len 8192", 8192, "max-model-len"),
    ],
)
def test_the_window(line: str, window: int | None, by: str) -> None:
    found = said(line)
    assert (found.window, found.window_by) == (window, by)


@pytest.mark.parametrize(
    ("line", "port"), [("--port 9000", 9000), ("--port=9000", 9000), ("--port 0", None), ("-p 9", None)]
)
def test_the_port(line: str, port: int | None) -> None:
    assert said(line).port == port


def test_a_shell_is_looked_into() -> None:
    found = said("/bin/sh -c 'exec vllm serve q/q --max-model-len 4096 --port 9000'", Kind.VLLM)
    assert (found.exact, found.window, found.port) == (("q/q",), 4096, 9000)
    assert said("sh -c 'never ends \"'") == Told()
    assert said("bash -e -c 'x --port 9'").port == 9


def test_what_is_filled_in_elsewhere_says_nothing() -> None:
    """A variable of the shell or a template of Swarm is no value."""
    assert said("vllm serve $MODEL --port ${PORT} --max-model-len {{.Task.Slot}}", Kind.VLLM) == Told()
    assert list(env_of(["MODEL={{.Service.Name}}", "MODEL=$X"], frozenset({"MODEL"}))) == []


def test_only_allowed_variables_are_read() -> None:
    """Least privilege: what is not on the list is not even looked at."""
    entries = ["MODEL=m", "API_KEY=sk-1", "MAX_MODEL_LEN = 4", "MODEL", 5, "=x"]
    assert list(env_of(entries, frozenset({"MODEL", "MAX_MODEL_LEN"}))) == [("MODEL", "m")]


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("0", None), ("", None), ("1e3", None), ("9" * 20, None), ("2g", None)]
)
def test_numbers(text: str, value: int | None) -> None:
    assert number(text) == value


@given(
    st.lists(
        st.text(max_size=20) | st.sampled_from(["--model", "--port", "sh", "-c", "serve", "--alias=a"]), max_size=12
    )
)
def test_no_command_line_breaks_it(words: list[str]) -> None:
    for kind in Kind:
        found = told(words, kind)
        assert found.port is None or 1 <= found.port <= 65535
