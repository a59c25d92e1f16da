"""Faults of time: silence, slowness, loading, queues, and engines that hang for good."""

from __future__ import annotations

from autohedge.engine.acts.scene import Act, Scene, parts, upto
from autohedge.engine.dialects.base import empty
from autohedge.engine.messages import FOREVER, Answer, Piece, Refusal

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
KEPT_WELL = 0.9  # seconds: vLLM's /health stays 200 so long after its engine died (measured)


def hang(_: Scene) -> Answer:
    """Not one byte, for ever."""
    return Answer(wait=FOREVER)


def slow(scene: Scene) -> Answer:
    """The first byte `arg` seconds late."""
    answer = scene.answer()
    answer.wait += scene.number()
    return answer


def stall_after(scene: Scene) -> Answer:
    """`arg` content chunks (of a plain answer: half the body), then silence with the connection open."""
    answer = parts(scene.answer())
    answer.pieces = [*upto(answer, int(scene.number())), Piece(b"", pause=FOREVER)]
    return answer


def freeze_after(scene: Scene) -> Answer:
    """As stall_after, and every later work request is silent as well."""
    if scene.state.frozen:
        return hang(scene)
    scene.state.frozen = True
    return stall_after(scene)


def dead(scene: Scene) -> Answer:
    """The engine died: 500, then the process goes. With `arg` it is back after so many seconds."""
    scene.state.die(scene.number() if scene.arg else None)
    answer = scene.refuse(Refusal(500, DEAD))
    answer.close = True
    return answer


def dead_kept(scene: Scene) -> Answer:
    """The engine died and the API stays: work is 500, health is well for a moment and then 503, the rest answers."""
    if scene.request.on == "work":
        return scene.refuse(Refusal(500, DEAD))
    if scene.request.on == "health" and scene.age > KEPT_WELL:
        return empty(503)
    return scene.answer()


def loading(scene: Scene) -> Answer:
    return scene.dialect.loading(scene.request)


def slow_health(scene: Scene) -> Answer:
    """Health after the first number of seconds says 503; work answers after the second and is well."""
    late = scene.numbers()
    if scene.request.on == "health":
        answer = empty(503)
        answer.wait = late[0]
        return answer
    answer = scene.answer()
    if scene.request.on == "work":
        answer.wait += late[-1]
    return answer


def burst(scene: Scene) -> Answer:
    """Everything is `arg[0]` seconds late while more than `arg[1]` requests are in progress."""
    late, many = scene.numbers()
    answer = scene.answer()
    if scene.state.running + scene.state.waiting >= many:
        answer.wait += late
    return answer


def queue_grows(scene: Scene) -> Answer:
    """An unbounded queue: `arg` seconds later for every request in progress."""
    answer = scene.answer()
    answer.wait += scene.number() * (1 + scene.state.running + scene.state.waiting)
    return answer


def wedge(scene: Scene) -> Answer:
    """A second request at the same time stops both for ever."""
    if scene.state.running + scene.state.waiting:
        scene.state.wedged = True
        return hang(scene)
    return scene.answer()


def cold(scene: Scene) -> Answer:
    """A model that is loaded by the first work and unloaded after `arg[0]` idle seconds; loading takes `arg[1]`."""
    keep, takes = scene.numbers()
    state = scene.state
    fresh = not state.loaded
    answer = scene.answer()
    if fresh:
        answer.wait += takes

    def begun() -> None:
        state.loads += fresh
        state.loaded_until = state.now() + keep

    answer.begun = begun
    return answer


def load_restarts(scene: Scene) -> Answer:
    """A load of `arg` seconds that begins again for every client that leaves before its end."""
    state = scene.state
    answer = scene.answer()
    if state.loaded:
        return answer

    def begun() -> None:
        state.loads += 1
        state.loaded_until = None

    answer.wait += scene.number()
    answer.begun = begun
    return answer


def late_error(message: str) -> Act:
    """A 500 after `arg` seconds."""

    def act(scene: Scene) -> Answer:
        answer = scene.refuse(Refusal(500, message))
        answer.wait = scene.number()
        return answer

    return act
