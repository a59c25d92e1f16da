"""The openai client, as it is, against three kinds: what AutoHedge's callers use must work against the engine itself."""

from __future__ import annotations

import openai
import pytest

from tests.engine.calls import Serve

KINDS = pytest.mark.parametrize("kind", ["vllm", "llamacpp", "ollama"])


def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=60)


@KINDS
def test_openai_client(serve: Serve, kind: str) -> None:
    """Chat, stream with usage, completions, embeddings (base64 by default) and the models list."""
    engine = serve(kind)
    with client(engine.url) as ai:
        chat = ai.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        text = chat.choices[0].message.content
        assert text is not None
        assert text.startswith("sample answers: 你好 🌍")
        assert chat.choices[0].finish_reason == "stop"
        assert chat.usage is not None
        assert chat.usage.prompt_tokens == 6
        pieces = list(
            ai.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "hi"}],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        streamed = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        assert streamed == text
        assert pieces[-1].usage is not None
        assert pieces[-1].usage.completion_tokens == chat.usage.completion_tokens
        assert [piece.choices[0].finish_reason for piece in pieces if piece.choices][-1] == "stop"
        completed = ai.completions.create(model="m", prompt="hi", max_tokens=2)
        assert completed.choices[0].text == "sample answers:"
        assert completed.choices[0].finish_reason == "length"
        vectors = ai.embeddings.create(model="m", input=["a b", "c"])
        assert [len(item.embedding) for item in vectors.data] == [64, 64]
        floats = ai.embeddings.create(model="m", input="a b", encoding_format="float")
        assert floats.data[0].embedding == pytest.approx(vectors.data[0].embedding, abs=1e-6)
        assert [model.id for model in ai.models.list()] == ["m"]


@KINDS
def test_openai_client_streams_responses(serve: Serve, kind: str) -> None:
    with client(serve(kind).url) as ai:
        whole = ai.responses.create(model="m", input="hi")
        events = list(ai.responses.create(model="m", input="hi", stream=True))
    assert whole.output_text.startswith("sample answers")
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text


def test_openai_client_sees_errors(serve: Serve) -> None:
    """The client maps the shapes to its classes; the error event of a stream raises (facts 6)."""
    engine = serve("vllm", context=20, faults=["error-event=2:on=/v1/chat/completions"])
    with client(engine.url) as ai:
        with pytest.raises(openai.NotFoundError):
            ai.completions.create(model="nope", prompt="hi")
        with pytest.raises(openai.BadRequestError, match="maximum context length is 20 tokens"):
            ai.completions.create(model="m", prompt="a " * 30)
        with pytest.raises(openai.APIError, match="EngineCore"):
            list(ai.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True))


def test_azure_client(serve: Serve) -> None:
    """The deployment stands in the path, the key in `api-key`."""
    engine = serve("azure", model="gpt-4o-mini", key="k")
    azure = openai.AzureOpenAI(azure_endpoint=engine.url, api_key="k", api_version="2026-01-01", max_retries=0)
    with azure as ai:
        chat = ai.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "hi"}])
        assert (chat.choices[0].message.content or "").startswith("sample")
        with pytest.raises(openai.NotFoundError, match="API deployment for this resource does not exist"):
            ai.chat.completions.create(model="other", messages=[{"role": "user", "content": "hi"}])
