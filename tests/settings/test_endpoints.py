"""AIBrix's endpoints file: table B, B2 to B19, row by row."""

from __future__ import annotations

import pytest

from autohedge.core.types import Address, Fact, Kind, Rank, Secret
from autohedge.settings.endpoints import parse
from autohedge.settings.errors import ConfigErrors


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        parse(text, "e.yaml")
    return str(caught.value).splitlines()


def test_b02_one_model_with_two_endpoints() -> None:
    """In order, with the model, without role labels."""
    seen = parse('models:\n- name: "Qwen/Qwen2.5-1.5B-Instruct"\n  endpoints: ["vllm-0:8000", "vllm-1:8000"]\n')
    (spec,) = seen.backends
    assert (spec.name, spec.models) == ("Qwen/Qwen2.5-1.5B-Instruct", ("Qwen/Qwen2.5-1.5B-Instruct",))
    assert spec.addresses == (Address("vllm-0", 8000), Address("vllm-1", 8000))
    assert (spec.kind, dict(spec.labels), spec.origins, seen.notes) == (Kind.AUTO, {}, ("file",), ())


def test_b03_prefill_and_decode_keep_role_roleset_and_engine() -> None:
    """One backend per role, prefill first."""
    text = """\
models:
- name: Qwen/Qwen2.5-72B
  engine: vllm
  rolesets:
  - {name: default, prefill: ["prefill-0:8000", "prefill-1:8000"], decode: ["decode-0:8000"]}
"""
    prefill, decode = parse(text).backends
    assert [str(address) for address in prefill.addresses + decode.addresses] == [
        "http://prefill-0:8000",
        "http://prefill-1:8000",
        "http://decode-0:8000",
    ]
    assert prefill.labels == {"engine": "vllm", "roleset": "default", "role": "prefill"}
    assert decode.labels == {"engine": "vllm", "roleset": "default", "role": "decode"}
    assert (prefill.kind, prefill.name, prefill.models) == (
        Kind.VLLM,
        "Qwen/Qwen2.5-72B/default/prefill",
        ("Qwen/Qwen2.5-72B",),
    )


def test_b04_two_rolesets_keep_their_names() -> None:
    """Pairing happens inside one roleset, so four backends."""
    text = "models:\n- name: m\n  rolesets:\n" + "".join(
        f"  - {{name: group-{g}, prefill: [p{g}], decode: [d{g}]}}\n" for g in "ab"
    )
    names = [spec.name for spec in parse(text).backends]
    assert names == ["m/group-a/prefill", "m/group-a/decode", "m/group-b/prefill", "m/group-b/decode"]


@pytest.mark.parametrize(
    ("row", "text", "errors"),
    [
        (
            "B5",
            "models:\n- name: m\n  endpoints: [a]\n  rolesets: [{name: r, prefill: [a], decode: [b]}]",
            ['e.yaml:4: models[0].rolesets: model "m": endpoints and rolesets are mutually exclusive'],
        ),
        (
            "B6",
            "models:\n- name: m\n  rolesets: [{name: '', prefill: [a], decode: [b]}]",
            ['e.yaml:3: models[0].rolesets[0].name: model "m": roleset name is required'],
        ),
        (
            "B6",
            "models:\n- name: m\n  rolesets:\n  - {prefill: [a], decode: [b]}",
            ['e.yaml:4: models[0].rolesets[0].name: model "m": roleset name is required'],
        ),
        (
            "B9",
            "models:\n- name: m\n  endpoints:\n  - h:abc\n  - 'h:'",
            [
                'e.yaml:4: models[0].endpoints[0]: model "m": invalid port "abc" in "h:abc"',
                'e.yaml:5: models[0].endpoints[1]: model "m": the port is missing after ":" in "h:"',
            ],
        ),
        (
            "B10",
            "models:\n- name: m\n  endpoints: [h:0, h:-1, h:70000]",
            [
                f'e.yaml:3: models[0].endpoints[{i}]: model "m": invalid port "{p}" in "h:{p}": it must be 1 to 65535'
                for i, p in enumerate((0, -1, 70000))
            ],
        ),
        (
            "B12",
            "models:\n- name: m\n  endpoints: ['::1']",
            ['e.yaml:3: models[0].endpoints[0]: model "m": IPv6 addresses need brackets: "[::1]:8000"'],
        ),
        (
            "B13",
            "models:\n- name: m\n  endpoints: [':8000']",
            ['e.yaml:3: models[0].endpoints[0]: model "m": ":8000" has no host'],
        ),
        (
            "B15",
            "models:\n- {name: m, endpoints: [a]}\n- {name: m, endpoints: [b]}",
            ['e.yaml:3: models[1].name: model "m": the model "m" stands twice, first in line 2'],
        ),
        (
            "B15",
            "models:\n- name: m\n  rolesets:\n  - {name: r, prefill: [a], decode: [b]}\n  - {name: r, prefill: [c], decode: [d]}",
            ['e.yaml:5: models[0].rolesets[1].name: model "m": the roleset "r" stands twice, first in line 4'],
        ),
        (
            "B16",
            "models:\n- {name: m, endpoint: [a]}",
            [
                'e.yaml:2: models[0].endpoint: model "m": unknown key "endpoint"; did you mean "endpoints"?',
                'e.yaml:2: models[0].rolesets: model "m": endpoints or rolesets is required',
            ],
        ),
        ("B16", "modles: []", ['e.yaml:1: modles: unknown key "modles"; did you mean "models"?']),
        ("B17", "models: []", ["e.yaml:1: models: the file declares no backends"]),
        ("B17", "", ["e.yaml:1: models: the file declares no backends"]),
        ("B17", "models:\n- name: m", ['e.yaml:2: models[0].rolesets: model "m": endpoints or rolesets is required']),
        ("B17", "models:\n- name: ''\n  endpoints: [a]", ["e.yaml:2: models[0].name: must not be empty"]),
        ("B17", "models:\n- endpoints: [a]", ["e.yaml:2: models[0].name: is required"]),
        (
            "B18",
            "models:\n- name: m\n  rolesets: [{name: r, prefill: [a]}]",
            [
                'e.yaml:3: models[0].rolesets[0].decode: model "m": a roleset needs prefill and decode servers; missing: decode'
            ],
        ),
        (
            "B18",
            "models:\n- name: m\n  rolesets: [{name: r}]",
            [
                'e.yaml:3: models[0].rolesets[0].decode: model "m": a roleset needs prefill and decode servers; missing: prefill, decode'
            ],
        ),
    ],
)
def test_every_mistake_is_told(row: str, text: str, errors: list[str]) -> None:
    """AIBrix starts with fewer or no backends on most of these and says nothing."""
    assert faults(text) == errors, row


def test_b07_a_host_without_port_gets_8000() -> None:
    """And Ollama its own."""
    assert parse("models: [{name: m, endpoints: [vllm-host]}]").backends[0].addresses == (Address("vllm-host", 8000),)
    assert parse("models: [{name: m, engine: ollama, endpoints: [o]}]").backends[0].addresses == (Address("o", 11434),)


def test_b08_a_file_that_is_no_yaml_says_parse_and_line() -> None:
    """Missing files are told by whoever reads them."""
    (line,) = faults("models: [\n")
    assert line.startswith("e.yaml:2: cannot be parsed as YAML")


def test_b11_a_url_keeps_its_scheme() -> None:
    """Never the host "http://h"."""
    addresses = parse("models: [{name: m, endpoints: ['http://h:8000', 'https://h']}]").backends[0].addresses
    assert addresses == (Address("h", 8000), Address("h", 443, tls=True))


def test_b14_an_endpoint_that_stands_twice_counts_once() -> None:
    """Twice would be double weight in AIBrix."""
    seen = parse("models:\n- name: m\n  endpoints:\n  - h\n  - ' h:8000 '\n", "e.yaml")
    assert seen.backends[0].addresses == (Address("h", 8000),)
    assert seen.notes == (
        'e.yaml:5: models[0].endpoints[1]: model "m": http://h:8000 stands here and at models[0].endpoints[0]; it counts once',
    )
    roles = "models: [{name: m, rolesets: [{name: r, prefill: [a, a], decode: [b]}]}]"
    assert len(parse(roles).notes) == 1


def test_b19_one_mistake_and_the_file_declares_nothing() -> None:
    """Three good ones and a bad one: only the error leaves."""
    text = (
        "models:\n"
        + "".join(f"- {{name: m{i}, endpoints: [h{i}]}}\n" for i in range(3))
        + "- {name: bad, endpoints: [h:x]}\n"
    )
    assert len(faults(text)) == 1


def test_an_engine_that_nobody_knows_is_noted_and_asked() -> None:
    """AIBrix takes any word; it stays as a label."""
    seen = parse("models:\n- name: m\n  engine: xllm\n  endpoints: [h]\n", "e.yaml")
    assert (seen.backends[0].kind, seen.backends[0].labels) == (Kind.AUTO, {"engine": "xllm"})
    assert seen.notes == (
        'e.yaml:3: models[0].engine: model "m": "xllm" is not an engine known here; the server is asked what it is',
    )


def test_our_own_registry_may_stand_in_such_a_file() -> None:
    """With hints, keys from the environment, and merged addresses."""
    text = """\
upstream_registry:
  a:
    hosts: ['https://h', 'https://h:443']
    api_key: ${KEY}
    model_limits: {max_model_len: 9}
models:
- {name: m, endpoints: [x]}
"""
    seen = parse(text, "/etc/e.yaml", {"KEY": "k"})
    other, own = seen.backends
    assert (other.name, own.name, own.key, own.origins) == ("m", "a", Secret("k"), ("file",))
    assert own.hints.context == Fact(9, "model_limits.max_model_len in e.yaml line 5", Rank.CONFIG)
    assert len(own.addresses) == len(seen.notes) == 1


def test_two_backends_of_one_name_are_refused() -> None:
    """A model and an entry of the registry."""
    (line,) = faults("models: [{name: a, endpoints: [x]}]\nupstream_registry: {a: {host: y}}")
    assert line == 'e.yaml:2: upstream_registry.a: two backends are called "a"'


def test_variables_are_errors_where_there_is_no_environment() -> None:
    """The default of `parse`."""
    assert "NOPE is not set" in faults("models: [{name: m, endpoints: ['${NOPE}']}]")[0]
    assert "not allowed" in faults("models: [{name: m, endpoints: ['${file:/x}']}]")[0]


def test_a_model_name_becomes_a_legal_backend_name() -> None:
    """Blanks and "@" have a meaning elsewhere."""
    (spec,) = parse("models: [{name: 'a b@c', endpoints: [h]}]").backends
    assert (spec.name, spec.models) == ("a-b-c", ("a b@c",))
