"""One house for all end-to-end tests: real llama.cpp servers behind, AutoHedge as a process of its own in front."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import Child, edge, ending, llama

CONFIG = """
server: {{listen: "127.0.0.1:0", access_log: debug}}
learning: {{interval: 2s}}
upstream_registry:
  chat: {{hosts: ["{one}", "{two}"], aliases: {{gpt-4o-mini: tiny}}}}
  vectors: {{host: "{vectors}"}}
  locked: {{host: "{locked}"}}
  opened: {{host: "{opened}", api_key: "${{LOCKED_KEY}}"}}
"""


@dataclass(slots=True)
class House:
    """`edge` is AutoHedge; `one` and `two` are replicas of the model "tiny", `vectors` embeds, `locked` wants a key and `opened` gets one."""

    edge: Child
    one: Child
    two: Child
    vectors: Child
    locked: Child
    opened: Child


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    one = llama("--alias", "tiny")
    two = llama("--alias", "tiny")
    vectors = llama("--alias", "vectors", embeds=True, window=512)
    locked = llama("--alias", "locked", "--key", "sk-engine")
    opened = llama("--alias", "opened", "--key", "sk-engine")
    engines = (one, two, vectors, locked, opened)
    with ending(*engines):
        config = CONFIG.format(one=one.url, two=two.url, vectors=vectors.url, locked=locked.url, opened=opened.url)
        front = edge(config, Path(tmp_path_factory.mktemp("edge")), {"LOCKED_KEY": "sk-engine"})
        with ending(front):
            yield House(front, *engines)
