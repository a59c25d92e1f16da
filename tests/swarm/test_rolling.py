"""Issue 4, acceptance 2: whatever is done to the services, callers do not notice. 40 requests/s run all the time, one in five is
a stream of three seconds; AutoHedge has two replicas behind one port.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.swarm import stack
from tests.swarm.cluster import Cluster
from tests.swarm.figures import tell
from tests.swarm.happenings import Happenings
from tests.swarm.load import Load
from tests.swarm.node import Node
from tests.swarm.shell import until

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(240)]
BACKEND, EDGE = "rolling_vllm-sample", "rolling_edge"
DOOR = 9200
ROUTED = 1.5  # seconds from the engine's word that a task runs until it has its first request
CONFIG = {
    "server": {"listen": f"0.0.0.0:{stack.PORT}"},
    "sources": {"swarm": {"enabled": True, "network": "backends"}},
    "admin": {"open": True},
}


@dataclass(frozen=True, slots=True)
class Stage:
    manager: Node
    door: str

    def docker(self, *words: str) -> str:
        return self.manager.docker("service", *words)

    def update(self, *words: str) -> None:
        self.docker("update", "--detach", "--no-resolve-image", *words)

    def models(self) -> set[str]:
        """What both replicas list: connections go to one after the other, and each hears of a change by itself."""
        answers = [stack.asked(f"http://{self.door}/v1/models") for _ in range(6)]
        return set.intersection(
            *({one["id"] for one in told["data"]} if status == 200 else set() for status, told in answers)
        )


@pytest.fixture(scope="module")
def stage(built: Cluster) -> Iterator[Stage]:
    manager = built.manager
    edge = stack.edge(volumes=[stack.socket(manager)], user="0", deploy={**stack.EDGE_DEPLOY, "replicas": 2})
    services = {"vllm-sample": stack.sample(), "edge": edge, "door": stack.splitter(EDGE, DOOR)}
    stack.deploy(manager, "rolling", services, CONFIG)
    stack.settled(manager, EDGE, 2)
    stack.settled(manager, BACKEND, 1)
    made = Stage(manager, f"{manager.address}:{DOOR}")
    until(lambda: "sample" in made.models(), what="the model is known")
    yield made
    stack.remove(manager, "rolling")


def test_scale_out_and_in(stage: Stage) -> None:
    """1 -> 5 -> 1. A new task has its first request 1.5 s after the engine says that it runs; one that goes has had its last
    before its SIGTERM.
    """
    with Happenings(stage.manager) as seen, Load([stage.door]) as load:
        time.sleep(2)
        for replicas in (5, 1):
            stage.docker("scale", "--detach", f"{BACKEND}={replicas}")
            stack.settled(stage.manager, BACKEND, replicas)
            time.sleep(5)
    report = load.report
    tell("scale out and in:", report)
    report.well()
    tasks = {task.name: task for task in seen.of(BACKEND)}
    assert set(report.speakers) == set(tasks)
    assert len(tasks) == 5
    new = [task for task in tasks.values() if task.states[0][1] != "running"]
    delays = [(report.first(task.name) or math.inf) - (task.running or 0.0) for task in new]
    spare = [seen.terms[name] - (report.last(name) or 0.0) for name in seen.terms if name in tasks]
    tell("first request after running:", _told(delays), "last request before SIGTERM:", _told(spare))
    assert len(delays) == len(spare) == 4
    assert max(delays) <= ROUTED
    assert min(spare) > 0


@pytest.mark.parametrize("order", ["start-first", "stop-first"])
def test_rolling_update_of_the_backend(stage: Stage, order: str) -> None:
    """Every task is replaced, one after the other; the old one finishes its streams, the new one takes over."""
    stage.docker("scale", "--detach", f"{BACKEND}=2")
    stack.settled(stage.manager, BACKEND, 2)
    with Happenings(stage.manager) as seen, Load([stage.door]) as load:
        time.sleep(3)
        stage.update("--update-order", order, "--env-add", f"ROUND={order}", BACKEND)
        stack.settled(stage.manager, BACKEND, 2)
        time.sleep(4)
    tell(f"rolling update of the backend, {order}:", load.report)
    load.report.well()
    assert len(load.report.speakers) == 4
    assert len([name for name in seen.terms if name.startswith(BACKEND)]) == 2


def test_an_only_task_is_replaced_start_first(stage: Stage) -> None:
    """With one replica the old task serves until the new one is healthy."""
    stage.docker("scale", "--detach", f"{BACKEND}=1")
    stack.settled(stage.manager, BACKEND, 1)
    time.sleep(2)
    with Load([stage.door]) as load:
        time.sleep(2)
        stage.update("--update-order", "start-first", "--force", BACKEND)
        stack.settled(stage.manager, BACKEND, 1)
        time.sleep(4)
    tell("an only task is replaced start first:", load.report)
    load.report.well()
    assert len(load.report.speakers) == 2


def test_rolling_update_of_autohedge_itself(stage: Stage) -> None:
    """Both replicas are replaced under load: who drains finishes its streams, and no connection is refused."""
    with Happenings(stage.manager) as seen, Load([stage.door]) as load:
        time.sleep(2)
        stage.update("--force", EDGE)
        stack.settled(stage.manager, EDGE, 2, 90)
        time.sleep(3)
    tell("rolling update of autohedge itself:", load.report)
    load.report.well()
    assert len([name for name in seen.terms if name.startswith(EDGE)]) == 2


def test_rollback_after_a_bad_image(stage: Stage) -> None:
    """The engine takes the update back by itself; the old tasks were never without work."""
    with Load([stage.door]) as load:
        time.sleep(1)
        stage.update("--image", "nobody/has-this:1", "--update-failure-action", "rollback", BACKEND)

        def state() -> str:
            told = stage.manager.api(f"/services/{BACKEND}").get("UpdateStatus") or {}
            return str(told.get("State", ""))

        until(lambda: state() == "rollback_completed", 60, what="the update is taken back")
        time.sleep(2)
    tell("rollback after a bad image:", load.report)
    load.report.well()


def test_a_label_is_taken_over(stage: Stage) -> None:
    """A new name for the model stands 1.5 s after the label does, and goes with it; no task is touched."""
    with Load([stage.door]) as load:
        stage.update("--label-add", "autohedge.aliases=also-sample", BACKEND)
        begun = time.monotonic()
        until(lambda: "also-sample" in stage.models(), 10, what="the label's model is known")
        took = time.monotonic() - begun
        stage.update("--label-rm", "autohedge.aliases", BACKEND)
        until(lambda: "also-sample" not in stage.models(), 10, what="the label's model is gone")
    tell("a label is taken over:", load.report, f"label after {took:.2f} s")
    load.report.well()
    assert took <= ROUTED
    assert len(load.report.speakers) == 1


def test_a_second_model_comes_and_goes(stage: Stage) -> None:
    """A new service is found, its model is served; when it is removed only its own model goes."""
    with Happenings(stage.manager) as seen, Load([stage.door]) as load:
        stack.deploy(stage.manager, "second", {"vllm-other": stack.sample("other")})
        until(lambda: "other" in stage.models(), 40, what="the second model is known")
        known = time.time()
        body = {"model": "other", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
        status, _ = stack.asked(f"http://{stage.door}/v1/chat/completions", body)
        assert status == 200
        stage.manager.docker("stack", "rm", "second")
        until(lambda: "other" not in stage.models(), 15, what="the second model is gone")
        time.sleep(2)
    task = seen.of("second_vllm-other")[0]
    assert task.running is not None
    tell("a second model comes and goes:", load.report, f"second model known after {known - task.running:.2f} s")
    load.report.well()
    assert known - task.running <= ROUTED


def _told(seconds: list[float]) -> str:
    return ", ".join(f"{one:.2f} s" for one in seconds)
