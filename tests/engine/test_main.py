"""`autohedge engine` as a process: its line, its signals, its arguments."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from autohedge.engine import main
from autohedge.engine.main import run
from tests.engine.calls import CHAT, HELLO

CALL = "import sys; from autohedge.engine.main import run; sys.exit(run(sys.argv[1:], {}))"


@contextmanager
def child(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen([sys.executable, "-c", CALL, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().split()
        assert line[0] == "READY"
        yield process, line[1]
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_ready_serves_and_stops_at_once(number: signal.Signals) -> None:
    """One READY line; status 0 soon after the signal, even while an answer hangs."""
    with child("--kind", "llamacpp", "--model", "tiny", "--name", "n1", "--fault", "hang:on=/v1/completions") as (
        process,
        url,
    ):
        assert "n1 answers" in httpx.post(url + CHAT, json=HELLO, timeout=60).text
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url + "/v1/completions", json={"prompt": "a"}, timeout=httpx.Timeout(60, read=0.2))
        process.send_signal(number)
        assert process.wait(60) == 0


def test_it_finishes_what_it_has_begun_when_it_may() -> None:
    """With --drain a stream in progress comes to its end after SIGTERM; nobody new is let in; the process ends right after."""
    words = ("--kind", "vllm", "--model", "m", "--pace", "20", "--words", "20", "--drain", "60")
    with child(*words) as (process, url), httpx.Client(base_url=url, timeout=60) as client:
        asked = {**HELLO, "model": "m", "stream": True}
        with client.stream("POST", CHAT, json=asked) as answer:
            lines = answer.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            assert process.stdout is not None
            assert process.stdout.readline() == "ENDING\n"
            with pytest.raises(httpx.TransportError):
                httpx.post(url + CHAT, json=HELLO, timeout=60)
            assert [line for line in lines if line][-1] == "data: [DONE]"
        assert process.wait(60) == 0


def test_the_time_to_finish_has_an_end() -> None:
    """What takes longer than --drain allows is cut."""
    with child("--kind", "vllm", "--model", "m", "--pace", "5", "--words", "50", "--drain", "0.3") as (process, url):
        asked = {**HELLO, "model": "m", "stream": True}
        with httpx.stream("POST", url + CHAT, json=asked, timeout=60) as answer:
            lines = answer.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        assert process.wait(60) == 0


def test_its_options_reach_the_engine() -> None:
    words = [
        "--kind",
        "vllm",
        "--model",
        "q",
        "--context",
        "77",
        "--key",
        "k",
        "--latency",
        "20",
        "--slots",
        "2",
        "--words",
        "3",
    ]
    with child(*words, "--pace", "1000", "--fault", "slow=0.1", "--fault", "set-cookie") as (_, url):
        assert httpx.post(url + CHAT, json=HELLO, timeout=60).status_code == 401
        headers = {"authorization": "Bearer k"}
        answer = httpx.post(url + CHAT, json={**HELLO, "model": "q"}, headers=headers, timeout=60)
        assert answer.elapsed.total_seconds() >= 0.12
        assert answer.json()["usage"]["completion_tokens"] == 3
        assert httpx.get(url + "/v1/models", headers=headers, timeout=60).json()["data"][0]["max_model_len"] == 77
        assert httpx.get(url + "/_engine", timeout=60).json()["faults"] == ["slow=0.1", "set-cookie"]


def test_resets_are_resets_on_this_loop_too() -> None:
    """The process runs on uvloop, whose sockets are another class: RST must still be RST."""
    with child("--kind", "vllm", "--model", "m", "--fault", "reset") as (_, url), pytest.raises(httpx.ReadError):
        httpx.post(url + CHAT, json=HELLO, timeout=60)


def test_a_taken_port_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    with child("--kind", "vllm") as (_, url):
        assert run(["--port", url.rpartition(":")[2]], {}) == 1
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().out


def test_list_faults_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--list-faults"], {}) == 0
    assert "B26 error-event" in capsys.readouterr().out


def test_it_may_end_with_its_parent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The quickstart's word."""
    heard: list[int] = []
    monkeypatch.setattr(main, "end_with_parent", heard.append)
    assert run(["--list-faults", "--with-parent", "7"], {}) == 0
    assert heard == [7]
    assert capsys.readouterr().out


@pytest.mark.parametrize("words", [["--kind", "nope"], ["--fault", "nope"], ["--port", "x"]])
def test_bad_arguments_are_status_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(words, {})
    assert ended.value.code == 2
    assert capsys.readouterr().err
