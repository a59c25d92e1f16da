"""The keys of sources.swarm."""

from __future__ import annotations

import pytest

from autohedge.settings.errors import ConfigErrors
from autohedge.settings.load import load_text
from autohedge.settings.swarm import NETWORK, SOCKET, Swarm


def nothing(_path: str) -> str:
    raise FileNotFoundError


def read(text: str) -> Swarm:
    return load_text(f"sources: {{swarm: {{{text}}}}}\n", "c.yaml", {}, nothing).settings.sources.swarm


def test_it_is_off_and_its_defaults_are_the_article_s_network_and_docker_s_socket() -> None:
    """S28: the network is called autohedge-net."""
    swarm = read("")
    assert (swarm.enabled, swarm.host, swarm.network) == (False, SOCKET, NETWORK)
    assert (float(swarm.interval), float(swarm.timeout)) == (1.0, 4.0)
    assert swarm.env.names == {"MODEL", "MAX_MODEL_LEN"}


@pytest.mark.parametrize(
    "host",
    ["unix:///run/docker.sock", "tcp://guard:2375", "http://guard:2375/", "https://10.0.0.1:2376", "tcp://[::1]:2375"],
)
def test_hosts(host: str) -> None:
    assert read(f"host: '{host}'").host == host.rstrip("/")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host: guard", "must be unix:///path, tcp://host:port or https://host:port"),
        ("host: 'tcp://guard'", "must be unix:///path"),
        ("host: 'unix://docker.sock'", "must be unix:///path"),
        ("host: 'ssh://root@h:22'", "credentials inside an address are refused"),
        ("host: 'tcp://a:b@h:1'", "credentials inside an address are refused"),
        ("host: 'tcp://h:99999'", "invalid port"),
        ("env: {model: ['A B']}", "is not the name of an environment variable"),
        ("tls: {cert: /c}", "give cert and key, or none of them"),
        ("tls: {key: /k}", "give cert and key, or none of them"),
        ("interval: 0", "sources.swarm.interval"),
        ("netwrk: x", 'did you mean "network"?'),
    ],
)
def test_mistakes(text: str, words: str) -> None:
    with pytest.raises(ConfigErrors) as raised:
        read(text)
    assert words in str(raised.value)


def test_the_variables_and_the_certificates() -> None:
    swarm = read("env: {model: [A, B], max_model_len: [], port: [P]}, tls: {ca: /ca, cert: /c, key: /k}")
    assert swarm.env.names == {"A", "B", "P"}
    assert (swarm.tls.ca, swarm.tls.cert, swarm.tls.key) == ("/ca", "/c", "/k")
