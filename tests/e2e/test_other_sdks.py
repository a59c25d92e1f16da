"""Other people's SDKs, unmodified, against AutoHedge in front of real llama.cpp servers: Anthropic's and Groq's.

They are skipped where they are not installed; what they send is recorded in `habits/` and replayed in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import House

pytestmark = pytest.mark.real
HELLO: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture
def claude(house: House) -> Iterator[Any]:
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=house.edge.url, api_key="sk-ant-any", max_retries=0) as made:
        yield made


@pytest.fixture
def groq(house: House) -> Iterator[Any]:
    module = pytest.importorskip("groq")
    with module.Groq(base_url=house.edge.url, api_key="gsk-any", max_retries=0) as made:
        yield made


def test_messages(claude: Any) -> None:
    """The Anthropic door: an answer with usage, and system blocks as its clients write them."""
    system = [{"type": "text", "text": "be short", "cache_control": {"type": "ephemeral"}}]
    answer = claude.messages.create(model="tiny", max_tokens=4, messages=HELLO, system=system)
    assert answer.content[0].text
    assert answer.usage.output_tokens == 4
    assert answer.stop_reason == "max_tokens"


def test_messages_streamed(claude: Any) -> None:
    with claude.messages.stream(model="tiny", max_tokens=6, messages=HELLO) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text
    assert final.content[0].text == text
    assert final.stop_reason == "max_tokens"


def test_messages_refused(claude: Any) -> None:
    """Our own errors come in Anthropic's envelope, so that its SDK raises its own classes."""
    anthropic = pytest.importorskip("anthropic")
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="tinny", max_tokens=4, messages=HELLO)
    assert missing.value.body["type"] == "error"
    assert missing.value.body["error"]["type"] == "not_found_error"
    assert "did you mean tiny" in missing.value.body["error"]["message"]
    with pytest.raises(anthropic.BadRequestError) as bad:
        claude.messages.create(model="tiny", max_tokens=4, messages=HELLO, extra_body={"temperature": "hot"})
    assert bad.value.body["error"]["type"] == "invalid_request_error"
    assert "temperature" in bad.value.body["error"]["message"]


def test_groq(groq: Any) -> None:
    """Groq's SDK puts /openai/v1 before every path."""
    answer = groq.chat.completions.create(model="tiny", messages=HELLO, max_completion_tokens=4)
    assert answer.usage.completion_tokens == 4
    pieces = list(groq.chat.completions.create(model="tiny", messages=HELLO, max_tokens=4, stream=True, stop=None))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert "tiny" in {model.id for model in groq.models.list().data}


def test_a_field_that_only_groq_reads(groq: Any) -> None:
    """llama.cpp answers 500 to reasoning_format "hidden"; here it is a 400 that names the four words it takes."""
    module = pytest.importorskip("groq")
    with pytest.raises(module.BadRequestError) as raised:
        groq.chat.completions.create(model="tiny", messages=HELLO, reasoning_format="hidden")
    assert raised.value.body["error"]["param"] == "reasoning_format"
    assert "deepseek-legacy" in raised.value.body["error"]["message"]
