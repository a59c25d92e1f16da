"""A tiny model with random weights that a real llama.cpp server loads: for the quickstart and the tests.

It speaks word salad, but through the real engine: its window, its tokenizer, its errors, its stream. Rules of the file:
the same seed gives the same model byte for byte, so two seeds tell two engines apart at temperature 0; control tokens and
raw bytes are never the best guess, so answers are printable and end by length.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, PoolingType, TokenType

Array = np.ndarray

CHAT_TEMPLATE = (
    "{%- if tools %}<|system|>You may call: {{ tools | tojson }}</s>{% endif -%}"
    "{%- for message in messages %}<|{{ message.role }}|>{{ message.content or '' }}"
    "{%- for call in message.tool_calls or [] %}<call>{{ call.function | tojson }}</call>{% endfor %}</s>{% endfor -%}"
    "{%- if add_generation_prompt %}<|assistant|>{% endif -%}"
)
# One question of a decision; llama.cpp compares the letters that could follow.
DECISION_TEMPLATE = (
    "{%- set letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz' -%}"
    "{{ state if state is string else state | tojson }}\n"
    "{{ type }}: {{ instructions if instructions is string else instructions | tojson }}\n"
    "{%- for option in options %}\n({{ letters[loop.index0] }}) {{ option.key }}"
    "{%- if option.description %} = {{ option.description | tojson }}{% endif %}{% endfor %}\nLetter: "
)
RESERVED = 3 + 256  # unknown, begin, end, and one token per byte: readable, never written


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of the model. `window` is its context length in tokens; `width` 64 and 2 layers make about 0.6 MB."""

    window: int = 400
    width: int = 64
    layers: int = 2
    seed: int = 7
    embeds: bool = False  # a BERT-like encoder instead of a chat model
    decides: bool = False  # answers System One as well
    heads: int = 4


def write_model(path: Path, shape: Shape, name: str = "tiny-random") -> None:
    """Write the model to `path` (GGUF). About 0.3 s."""
    kind = "bert" if shape.embeds else "llama"
    writer = GGUFWriter(str(path), kind)
    writer.add_name(name)
    words = list(_words())
    _describe(writer, shape, len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([-float(rank) if rank >= RESERVED else -10000.0 for rank in range(len(words))])
    special = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    writer.add_token_types(special + [TokenType.NORMAL] * (len(words) - RESERVED))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    if shape.decides:
        _decide(writer, kind)
    else:
        writer.add_chat_template(CHAT_TEMPLATE)
    for tensor, values in (_encoder if shape.embeds else _decoder)(shape, len(words)):
        writer.add_tensor(tensor, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _decide(writer: GGUFWriter, kind: str) -> None:
    """What makes llama.cpp (b11361 and later) serve POST /v1/systemone with a model."""
    templates = {"default": CHAT_TEMPLATE, "systemone": DECISION_TEMPLATE}
    writer.add_chat_template([{"name": name, "template": text} for name, text in templates.items()])
    writer.add_string(f"{kind}.decision.type", "openjev")
    for question in ("choice", "score", "noul"):
        writer.add_float32(f"{kind}.decision.temperature.{question}", 1.0)


def _words() -> Iterator[str]:
    yield from ("<unk>", "<s>", "</s>")
    yield from (f"<0x{byte:02X}>" for byte in range(256))
    yield "\u2581"
    yield from (chr(code) for code in range(0x21, 0x7F))
    for consonant, vowel in product("bdfgklmnprstvz", "aeiou"):
        yield "\u2581" + consonant + vowel
        yield consonant + vowel


def _describe(writer: GGUFWriter, shape: Shape, words: int) -> None:
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.window)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(2 * shape.width)
    writer.add_head_count(shape.heads)
    writer.add_vocab_size(words)
    writer.add_file_type(0)
    if shape.embeds:
        writer.add_layer_norm_eps(1e-12)
        writer.add_causal_attention(False)
        writer.add_pooling_type(PoolingType.MEAN)
        writer.add_token_type_count(2)
    else:
        writer.add_head_count_kv(shape.heads)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_dimension_count(shape.width // shape.heads)


def _decoder(shape: Shape, words: int) -> Iterator[tuple[str, Array]]:
    draw = _Drawer(shape)
    ones = np.ones(shape.width, np.float32)
    output = draw(words, shape.width) * np.float32(3)
    output[:RESERVED] = 0
    yield "token_embd.weight", draw(words, shape.width) * np.float32(4)
    yield "output_norm.weight", ones
    yield "output.weight", output
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", ones
        yield block + "ffn_norm.weight", ones
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{block}{part}.weight", draw(shape.width, shape.width)
        yield block + "ffn_gate.weight", draw(2 * shape.width, shape.width)
        yield block + "ffn_up.weight", draw(2 * shape.width, shape.width)
        yield block + "ffn_down.weight", draw(shape.width, 2 * shape.width)


def _encoder(shape: Shape, words: int) -> Iterator[tuple[str, Array]]:
    draw = _Drawer(shape)
    ones, zeros = np.ones(shape.width, np.float32), np.zeros(shape.width, np.float32)
    yield "token_embd.weight", draw(words, shape.width)
    yield "token_types.weight", draw(2, shape.width)
    yield "position_embd.weight", draw(shape.window, shape.width)
    yield "token_embd_norm.weight", ones
    yield "token_embd_norm.bias", zeros
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{block}{part}.weight", draw(shape.width, shape.width)
            yield f"{block}{part}.bias", zeros
        for part in ("attn_output_norm", "layer_output_norm"):
            yield f"{block}{part}.weight", ones
            yield f"{block}{part}.bias", zeros
        yield block + "ffn_up.weight", draw(2 * shape.width, shape.width)
        yield block + "ffn_up.bias", np.zeros(2 * shape.width, np.float32)
        yield block + "ffn_down.weight", draw(shape.width, 2 * shape.width)
        yield block + "ffn_down.bias", zeros


class _Drawer:
    """Random matrices whose rows have about unit length, from one seed."""

    def __init__(self, shape: Shape) -> None:
        self._random = np.random.default_rng(shape.seed)

    def __call__(self, *size: int) -> Array:
        values: Array = self._random.standard_normal(size) / np.sqrt(size[-1])
        return values.astype(np.float32)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tiny_model")
    parser.add_argument("path", type=Path)
    parser.add_argument("--window", type=int, default=400)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--embeds", action="store_true")
    parser.add_argument("--decides", action="store_true")
    asked = parser.parse_args(argv)
    shape = Shape(asked.window, asked.width, asked.layers, asked.seed, asked.embeds, asked.decides)
    write_model(asked.path, shape)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
