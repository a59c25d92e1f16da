"""Docker's lists in, backends out: recognition, what is declared, updates, claims, and that one bad service spoils nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import BackendSpec, Kind, Rank, Seen
from autohedge.rules.swarm import MOST_NOTES, Reader, Wanted
from autohedge.rules.tasks import nodes_down
from tests.support.swarm import INGRESS, NETWORK, NODE, attachment, container, node, service, task

STACK = "com.docker.stack.namespace"
ON = {"autohedge.enable": "true"}


def looked(services: Sequence[Any], tasks: Sequence[Any], nodes: Sequence[Any] = (), **wanted: Any) -> Seen:
    return again(Reader(Wanted(**wanted)), services, tasks, nodes or [node()])


def again(reader: Reader, services: Sequence[Any], tasks: Sequence[Any], nodes: Sequence[Any] = ()) -> Seen:
    read = [reader.service(raw, NETWORK) for raw in services]
    return reader.look(read, [reader.task(raw, NETWORK) for raw in tasks], nodes_down(nodes))


def one(
    name: str = "vllm-a", labels: dict[str, str] | None = None, spec: dict[str, Any] | None = None, **wanted: Any
) -> BackendSpec:
    """The backend of one service with one task."""
    seen = looked([service(name, labels, spec)], [task(name, "10.0.1.3", spec)], **wanted)
    (backend,) = seen.backends
    return backend


def hosts(backend: BackendSpec) -> list[str]:
    return [address.host for address in backend.addresses]


# --- who is a backend --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("vllm-qwen2-7b", 8000),
        ("ollama-llama3", 11434),
        ("sglang-x", 30000),
        ("tgi-x", 80),
        ("llamacpp-x", 8080),
        ("llm_vllm-qwen2", 8000),
        ("my_stack_ollama-x", 11434),
    ],
)
def test_a_service_is_known_by_its_name(name: str, port: int) -> None:
    """S137: the article's names, more kinds, and a stack's prefix before them; the engine's usual port."""
    backend = one(name)
    assert (backend.name, backend.kind) == (name, Kind.AUTO)
    assert [(address.host, address.port) for address in backend.addresses] == [("10.0.1.3", port)]


@pytest.mark.parametrize("name", ["web", "vllm", "vllm-", "my-vllm-x", "notvllm-x", "redis", "autohedge"])
def test_other_services_are_no_backends_and_need_no_word(name: str) -> None:
    assert looked([service(name)], [task(name, "10.0.1.3")]) == Seen(())


def test_a_label_makes_any_service_a_backend_or_keeps_it_out() -> None:
    assert one("web", ON).name == "web"
    seen = looked([service("vllm-a", {"autohedge.enable": "false"})], [task("vllm-a", "10.0.1.3")])
    assert seen == Seen((), ("service vllm-a is left out by its label autohedge.enable=false",))
    assert looked([service("web", {"autohedge.enable": "false"})], []) == Seen(())


def test_labels_alone_may_be_asked_for() -> None:
    """Least privilege: `labelled_only`."""
    seen = looked([service("vllm-a"), service("b", ON)], [task("b", "10.0.1.3")], labelled_only=True)
    assert [backend.name for backend in seen.backends] == ["b"]
    assert seen.notes == ("service vllm-a has an engine's name, but no label autohedge.enable=true",)


def test_labels_on_the_container_and_misspelt_ones_are_told() -> None:
    """Traefik's most frequent trouble: nothing is discovered, silently."""
    spec = container(labels={"autohedge.enable": "true"})
    seen = looked(
        [service("web", spec=spec), service("x", {"autohedge.enabled": "true"})], [task("web", "10.0.1.3", spec)]
    )
    assert [backend.name for backend in seen.backends] == ["web"]
    assert seen.notes == (
        "service web: label autohedge.enable stands on the container; it counts, but belongs to the service (deploy.labels)",
        "service x: label autohedge.enabled is not known; did you mean autohedge.enable?",
        "service x has labels of ours, but no autohedge.enable=true and no engine's name",
    )


def test_a_service_on_another_network_is_told() -> None:
    seen = looked(
        [service("vllm-a", networks=[INGRESS]), service("web", networks=[INGRESS])], [task("vllm-a", "10.0.1.3")]
    )
    assert seen == Seen((), ("service vllm-a is not on network autohedge-net",))


# --- what it declares --------------------------------------------------------------------------------------------------


def test_the_environment_declares_model_and_context() -> None:
    """S93, S94, S138: MODEL and MAX_MODEL_LEN, as hints of the rank of an environment."""
    backend = one(spec=container(env=["MODEL=qwen2-7b-instruct", "MAX_MODEL_LEN=32768", "HF_TOKEN=hf_secret"]))
    assert backend.models == ("qwen2-7b-instruct",)
    assert backend.hints.context is not None
    assert (backend.hints.context.value, backend.hints.context.rank) == (32768, Rank.ENV)
    assert backend.hints.context.source == "MAX_MODEL_LEN in the environment of service vllm-a"
    assert not backend.by_args
    assert "secret" not in repr(backend)


def test_which_variables_are_read_is_the_operator_s_word() -> None:
    spec = container(env=["NAME=m", "LEN=5", "HTTP=9000", "MODEL=x"])
    backend = one(spec=spec, model_env=("NAME",), window_env=("LEN",), port_env=("HTTP",))
    assert backend.models == ("m",)
    assert backend.hints.context is not None
    assert backend.hints.context.value == 5
    assert backend.addresses[0].port == 9000


def test_the_arguments_stand_over_environment_and_labels() -> None:
    """S95: --max-model-len is the real limit; ranks ARGS > ENV > LABEL."""
    labels = {"autohedge.max_model_len": "1"}
    env, args = ["MAX_MODEL_LEN=2"], ["vllm", "serve", "q/q", "--max-model-len", "3"]
    found = [
        one(labels=labels).hints.context,
        one(labels=labels, spec=container(env=env)).hints.context,
        one(labels=labels, spec=container(args, env)).hints.context,
    ]
    assert [(fact.value, fact.rank) for fact in found if fact] == [(1, Rank.LABEL), (2, Rank.ENV), (3, Rank.ARGS)]
    assert [fact.source for fact in found if fact][0::2] == [
        "label autohedge.max_model_len of service vllm-a",
        "--max-model-len of service vllm-a",
    ]


def test_the_port_is_told_by_label_then_arguments_then_environment_then_the_engine() -> None:
    """Traefik #1388: a Swarm task does not tell its port."""
    args, env = ["--port", "2"], ["PORT=3"]

    def port(labels: dict[str, str] | None = None, spec: dict[str, Any] | None = None) -> int:
        return one(labels=labels, spec=spec, port_env=("PORT",)).addresses[0].port

    assert port({"autohedge.port": "1"}, container(args, env)) == 1
    assert port(None, container(args, env)) == 2
    assert port(None, container(env=env)) == 3
    assert port() == 8000
    assert port({"autohedge.provider": "ollama"}) == 11434


def test_labels_say_the_rest() -> None:
    labels = ON | {
        "autohedge.models": "a,b",
        "autohedge.aliases": "gpt=a,fast",
        "autohedge.provider": "sglang",
        "autohedge.pool": "gpu",
        "autohedge.priority": "10",
        "autohedge.weight": "4",
        "autohedge.concurrency": "8",
        STACK: "llm",
    }
    backend = one("x", labels)
    assert (backend.models, backend.kind, backend.pool) == (("a", "b"), Kind.SGLANG, "gpu")
    assert (backend.priority, backend.weight, backend.concurrency) == (10, 4, 8)
    assert backend.aliases == {"gpt": "a"}  # "fast" would need one model
    assert one("x", ON | {"autohedge.model": "m", "autohedge.aliases": "fast"}).aliases == {"fast": "m"}
    assert backend.labels == {"stack": "llm"}
    assert (one().priority, one().weight, one().concurrency) == (50, 1, None)


@pytest.mark.parametrize(
    ("image", "words", "port"),
    [
        ("vllm/vllm-openai:v0.9", (), 8000),
        ("lmsysorg/sglang", (), 30000),
        ("ollama/ollama@sha256:vllm", (), 11434),
        ("ghcr.io/huggingface/text-generation-inference", (), 80),
        ("ghcr.io/ggml-org/llama.cpp:server", (), 8080),
        ("mine", ("llama-server", "-m", "x"), 8080),
        ("mine", ("python3", "-m", "sglang.launch_server"), 30000),
        ("mine", (), 8000),
    ],
)
def test_a_labelled_service_is_guessed_by_what_it_runs(image: str, words: tuple[str, ...], port: int) -> None:
    assert one("x", ON, container(words, image=image)).addresses[0].port == port


def test_a_name_that_the_engine_was_told_is_exact() -> None:
    """The engine lists exactly that: another one at this address is found out (memory/identity.py)."""
    backend = one(spec=container(["vllm", "serve", "q/q", "--served-model-name", "qwen"], ["MODEL=nice"]))
    assert (backend.models, backend.by_args) == (("nice", "qwen"), True)
    assert not one(spec=container(["--model", "q"])).by_args  # nothing says that this is vLLM but the service's name


# --- replicas ----------------------------------------------------------------------------------------------------------


def test_replicas_of_one_service_are_one_backend() -> None:
    """Each task is a tenant of its address; global services have no slots (traefik #1138)."""
    tasks = [task("vllm-a", f"10.0.1.{n}") for n in (3, 4, 5)]
    for each in tasks:
        del each["Slot"]
    (backend,) = looked([service("vllm-a")], tasks).backends
    assert hosts(backend) == ["10.0.1.3", "10.0.1.4", "10.0.1.5"]
    assert len({address.tenant for address in backend.addresses}) == 3
    assert all(len(address.tenant) == 12 for address in backend.addresses)


def test_a_service_without_a_running_task_stays_known() -> None:
    """Traefik #9907: a model whose service starts, or is scaled to zero, is unavailable and not unknown."""
    spec = container(env=["MODEL=m"])
    seen = looked([service("vllm-a", spec=spec)], [task("vllm-a", "10.0.1.3", spec, state="starting")])
    assert [(backend.addresses, backend.models) for backend in seen.backends] == [((), ("m",))]
    assert seen.notes == ("service vllm-a has no running task on autohedge-net (its tasks are starting)",)
    assert looked([service("vllm-a")], []).notes == ("service vllm-a has no running task on autohedge-net",)


def test_dnsrr_and_published_ports_change_nothing() -> None:
    """Never a virtual IP, never the ingress network."""
    raw = service("vllm-a", networks=[NETWORK, INGRESS])
    raw["Endpoint"]["Ports"] = [{"TargetPort": 8000, "PublishedPort": 80, "PublishMode": "ingress"}]
    both = task("vllm-a", "") | {
        "NetworksAttachments": [attachment("10.0.0.5/24", INGRESS), attachment("10.0.1.5/24")],
    }
    assert hosts(looked([raw], [both]).backends[0]) == ["10.0.1.5"]
    raw["Endpoint"] = {"Spec": {}}
    assert hosts(looked([raw], [both]).backends[0]) == ["10.0.1.5"]


def test_in_an_update_only_what_all_tasks_say_is_declared() -> None:
    """start-first: old and new run side by side, each with its own limit, model and port."""
    old = container(["vllm", "serve", "q/q", "--max-model-len", "10", "--port", "1"], ["MODEL=a"])
    new = container(["vllm", "serve", "q/q", "--max-model-len", "20", "--port", "2"], ["MODEL=b"])
    tasks = [task("vllm-a", "10.0.1.3", old), task("vllm-a", "10.0.1.4", new)]
    (backend,) = looked([service("vllm-a", spec=new)], tasks).backends
    assert [address.port for address in backend.addresses] == [1, 2]
    assert backend.models == ("q/q",)
    assert backend.by_args
    assert backend.hints.context is None
    tasks[0]["DesiredState"] = "shutdown"
    (backend,) = looked([service("vllm-a", spec=new)], tasks).backends
    assert hosts(backend) == ["10.0.1.4"]
    assert backend.models == ("b", "q/q")
    assert backend.hints.context is not None
    assert backend.hints.context.value == 20


def test_an_address_that_two_tasks_have_belongs_to_the_newer_one() -> None:
    """moby #39028: after a split an old container runs on with an address that was given out again."""
    old = task("vllm-a", "10.0.1.3") | {"ID": "old", "CreatedAt": "2026-11-30T10"}
    new = task("vllm-b", "10.0.1.3") | {"ID": "new", "CreatedAt": "2026-11-30T11"}
    for tasks in ([old, new], [new, old]):
        seen = looked([service("vllm-a"), service("vllm-b")], tasks)
        assert [hosts(backend) for backend in seen.backends] == [[], ["10.0.1.3"]]
        assert "task old is left out: a newer one has its address" in seen.notes


# --- claims ------------------------------------------------------------------------------------------------------------


def claimants(*stacks: str, **wanted: Any) -> Seen:
    """One service per stack, each claiming model m, the later one younger."""
    services = [
        service(f"{stack}_vllm-m", {STACK: stack, "autohedge.model": "m"}, created=f"2026-11-30T{n:02}")
        for n, stack in enumerate(stacks)
    ]
    return looked(list(reversed(services)), [], **wanted)


def test_a_model_that_two_stacks_claim_belongs_to_the_first() -> None:
    """Labels are untrusted: who may deploy could take any model's traffic."""
    seen = claimants("prod", "evil")
    assert [backend.name for backend in seen.backends] == ["prod_vllm-m"]
    assert (
        "service evil_vllm-m is left out: its model m belongs to stack prod (sources.swarm.shared_models allows it)"
        in seen.notes
    )


@pytest.mark.parametrize("shared", ["m", "*"])
def test_sharing_may_be_allowed(shared: str) -> None:
    assert len(claimants("a", "b", shared=frozenset({shared})).backends) == 2
    assert len(claimants("a", "b", shared=frozenset({"other"})).backends) == 1


def test_services_of_one_stack_share_their_models() -> None:
    services = [service(f"s_vllm-{n}", {STACK: "s", "autohedge.model": "m"}) for n in "ab"]
    assert len(looked(services, []).backends) == 2
    assert len(looked([service(f"vllm-{n}", {"autohedge.model": "m"}) for n in "ab"], []).backends) == 2


def test_an_alias_is_a_claim() -> None:
    services = [
        service("a_vllm-m", {STACK: "a", "autohedge.model": "m"}, created="1"),
        service("b_vllm-x", {STACK: "b", "autohedge.model": "x", "autohedge.aliases": "m"}, created="2"),
    ]
    assert [backend.name for backend in looked(services, []).backends] == ["a_vllm-m"]


def test_two_stacks_with_the_same_short_name_are_two_backends() -> None:
    """The alias on the network is the same for both; the full name is not, and the Id tells their tasks apart."""
    services = [service("a_vllm-m", {STACK: "a"}), service("b_vllm-m", {STACK: "b"})]
    seen = looked(services, [task("a_vllm-m", "10.0.1.3"), task("b_vllm-m", "10.0.1.4")])
    assert [(backend.name, hosts(backend)) for backend in seen.backends] == [
        ("a_vllm-m", ["10.0.1.3"]),
        ("b_vllm-m", ["10.0.1.4"]),
    ]


# --- nothing spoils the rest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [None, 5, "x", {}, {"ID": "x", "Spec": {"Name": 7}}, {"ID": "x", "Spec": {"Name": "vllm-x", "TaskTemplate": []}}],
)
def test_a_service_or_task_that_cannot_be_read_spoils_nothing(bad: Any) -> None:
    """docker-flow-proxy #344, #396: one odd service broke all routes."""
    seen = looked([bad, service("vllm-a")], [bad, task("vllm-a", "10.0.1.3")])
    assert [hosts(backend) for backend in seen.backends] == [["10.0.1.3"]]
    assert len(seen.notes) == 2


def test_notes_are_bounded() -> None:
    seen = looked([service(f"s{n}", {"autohedge.enabled": "x"}) for n in range(MOST_NOTES)], [])
    assert len(seen.notes) == MOST_NOTES + 1
    assert seen.notes[-1] == f"and {MOST_NOTES} more"


def test_what_did_not_change_is_the_same_object() -> None:
    """A look that confirms costs the registry nothing."""
    reader = Reader(Wanted())
    services, tasks = [service("vllm-a"), service("vllm-b")], [task("vllm-a", "10.0.1.3")]
    first = again(reader, services, tasks)
    second = again(reader, services, [*tasks, task("vllm-b", "10.0.1.4")])
    assert second.backends[0] is first.backends[0]
    assert second.backends[1] != first.backends[1]


@pytest.mark.parametrize(
    ("was", "counts"), [("ready", True), ("unknown", True), ("disconnected", True), ("down", False)]
)
def test_only_a_node_that_is_down_is_down(was: str, counts: bool) -> None:
    """After a change of leader every node is "unknown" for a moment while its tasks serve; moby #31999: a task says running
    on a node that is down.
    """
    seen = looked([service("vllm-a")], [task("vllm-a", "10.0.1.3")], [node(state=was), node("other")])
    assert hosts(seen.backends[0]) == (["10.0.1.3"] if counts else [])
    assert counts or "its tasks are on a node that is down" in seen.notes[0]


STATES = ("new", "pending", "starting", "running", "complete", "shutdown", "failed", "rejected", "orphaned")


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_no_soup_of_tasks_yields_a_foreign_or_idle_address(draw: random.Random) -> None:
    """Whatever is listed in whatever order: an address is one of a running task, on our network, on a node that is up."""
    nodes = [node(f"n{n}", draw.choice(["ready", "unknown", "down"])) for n in range(3)]
    services = [service(f"vllm-{n}", networks=[draw.choice([NETWORK, INGRESS])]) for n in range(4)]
    tasks = []
    for n in range(draw.randrange(25)):
        attached = [
            attachment(f"10.0.{draw.randrange(3)}.{draw.randrange(9)}/24", draw.choice([NETWORK, INGRESS, "x"]))
            for _ in range(draw.randrange(3))
        ]
        state, wanted = (
            draw.choice([*STATES, *["running"] * 9]),
            draw.choice(["running", "running", "shutdown", "remove"]),
        )
        raw = task(f"vllm-{draw.randrange(6)}", "", state=state, desired=wanted)
        tasks.append(raw | {"ID": f"t{n}", "NodeID": f"n{draw.randrange(3)}", "NetworksAttachments": attached})
    draw.shuffle(tasks)
    up = {each["ID"] for each in nodes if each["Status"]["State"] != "down"} | {NODE}
    allowed = {
        (raw["ServiceID"], text.partition("/")[0])
        for raw in tasks
        if raw["Status"]["State"] == raw["DesiredState"] == "running" and raw["NodeID"] in up
        for each in raw["NetworksAttachments"]
        if each["Network"]["ID"] == NETWORK
        for text in each["Addresses"]
    }
    here = {raw["ID"] for raw in services if raw["Spec"]["TaskTemplate"]["Networks"][0]["Target"] == NETWORK}
    seen = looked(services, tasks, nodes)
    assert {f"id-{backend.name}" for backend in seen.backends} == here
    found = [(f"id-{backend.name}", address.host) for backend in seen.backends for address in backend.addresses]
    assert set(found) <= allowed
    assert len({where for _, where in found}) == len(found)
    claimed = {where for owner, where in allowed if owner in {raw["ID"] for raw in services}}
    assert {where for _, where in found} <= claimed
