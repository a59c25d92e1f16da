"""Faults that remember: what the second request meets depends on the first."""

from __future__ import annotations

import time

from autohedge.engine.sample import SampleEngine
from tests.engine.calls import CHAT, HELLO, SHORT, Patience, Serve, ask, dial, listen, request, stream, talk, until
from tests.support.fair import Watch


def stopped(engine: SampleEngine, fault: str) -> list[float]:
    """Give it this fault on a clock that only the test moves."""
    clock = [0.0]
    engine.state.now = lambda: clock[0]
    engine.set_faults(fault)
    return clock


def test_frozen_after_the_first_stream(serve: Serve) -> None:
    """B02: the first stream stops in the middle, every later chat is silent, health and models stay well."""
    engine = serve("vllm", faults=["B02=1"])
    assert len(stream(engine).events) == 2
    assert talk(engine, request(CHAT, HELLO), SHORT).data == b""
    assert ask(engine, "/health").status_code == 200
    assert ask(engine, "/v1/models").status_code == 200
    engine.set_faults()
    assert ask(engine, CHAT, HELLO).status_code == 200


def test_wedged_by_two_at_once(serve: Serve) -> None:
    """B20: one at a time is well; two at a time stop both for ever."""
    engine = serve("vllm", latency=1.0, faults=["B20"])
    assert ask(engine, CHAT, HELLO).status_code == 200
    with dial(engine) as first:
        first.sendall(request(CHAT, HELLO))
        assert until(lambda: engine.state.running == 1)
        assert talk(engine, request(CHAT, HELLO), SHORT).data == b""
        assert listen(first, Patience(first=1.2)).data == b""


def test_dead_engine_whose_api_stays(serve: Serve) -> None:
    """real_backends 5: health is 200 for 0.9 s and then 503; models and tokenize answer as before."""
    engine = serve("vllm")
    clock = stopped(engine, "engine-dead-kept")
    assert ask(engine, CHAT, HELLO).status_code == 500
    assert ask(engine, "/health").status_code == 200
    clock[0] = 1.0
    assert ask(engine, "/health").status_code == 503
    assert ask(engine, "/v1/models").status_code == 200
    assert ask(engine, "/tokenize", {"prompt": "a"}).status_code == 200


def test_loading_ends_by_itself(serve: Serve) -> None:
    """B22: 503 on every path, then well."""
    engine = serve("llamacpp")
    clock = stopped(engine, "B22=0.4")
    assert {ask(engine, path).status_code for path in ("/health", "/v1/models", "/props")} == {503}
    clock[0] = 0.5
    assert ask(engine, "/health").status_code == 200
    assert ask(engine, CHAT, HELLO).status_code == 200


def test_cold_model_is_loaded_by_work_and_unloaded_when_idle(serve: Serve) -> None:
    """B14: /api/ps is empty, then has the model, then is empty again; the loads are counted."""
    engine = serve("ollama")
    clock = stopped(engine, "cold=0.3,0.1")

    def loaded() -> bool:
        return bool(ask(engine, "/api/ps").json()["models"])

    assert not loaded()
    ask(engine, "/api/show", {"model": "m"})
    assert not loaded()
    began = time.monotonic()
    assert ask(engine, CHAT, HELLO).status_code == 200
    assert time.monotonic() - began >= 0.1
    assert loaded()
    assert engine.state.loads == 1
    clock[0] = 0.4
    assert not loaded()


def test_a_load_begins_again_when_the_client_leaves(serve: Serve) -> None:
    """B16: a client that gives up before the end never gets a loaded model; a patient one does, and the next is fast."""
    engine = serve("ollama", faults=["load-restarts=0.3"])
    for _ in range(2):
        assert talk(engine, request(CHAT, HELLO), Patience(first=0.1)).data == b""
    assert until(lambda: engine.cancelled[CHAT] == 2)
    assert engine.state.loads == 0
    assert talk(engine, request(CHAT, HELLO)).first >= 0.28
    assert engine.state.loads == 1
    assert talk(engine, request(CHAT, HELLO)).status == 200
    assert engine.state.loads == 1


def test_queue_grows_with_the_work_in_progress(serve: Serve) -> None:
    """B29: no cap, each further request waits longer."""
    engine = serve("ollama", faults=["B29=0.5"])
    with dial(engine) as first, dial(engine) as second:
        first.sendall(request(CHAT, HELLO))
        assert until(lambda: engine.state.running == 1)
        second.sendall(request(CHAT, HELLO))
        later = listen(second).first
    assert later >= 0.6


def test_burst_slows_everything(serve: Serve) -> None:
    """B11: health is slow only while many requests are in progress."""
    engine = serve("vllm", latency=60.0, faults=["B11=0.3,2"])
    watch = Watch()
    assert ask(engine, "/health").status_code == 200
    assert watch.seconds < 0.3
    with dial(engine) as first, dial(engine) as second:
        first.sendall(request(CHAT, HELLO))
        second.sendall(request(CHAT, HELLO))
        assert until(lambda: engine.state.running == 2)
        assert ask(engine, "/health").elapsed.total_seconds() >= 0.3
