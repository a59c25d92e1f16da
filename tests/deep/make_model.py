"""A tiny Qwen3 with random weights as a Hugging Face folder, made by the interpreter of the vLLM environment.

    .deep/vllm/bin/python tests/deep/make_model.py FOLDER

Nothing is downloaded: the tokenizer is trained here on invented syllables. The model ends an answer by its length only.
"""

from __future__ import annotations

import sys
from importlib import import_module  # torch and its relatives live in vLLM's environment, not in ours
from itertools import product
from pathlib import Path

WINDOW = 400
WORDS = 1024
ENDS = "<|end|>"
STARTS = "<|start|>"
PADS = "<|pad|>"
TEMPLATE = (
    "{% for one in messages %}<|start|>{{ one['role'] }}\n{{ one['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def _tokenizer() -> object:
    made, transformers = import_module("tokenizers"), import_module("transformers")
    syllables = ["".join(pair) for pair in product("bdfgklmnprst", "aeiou")]
    text = [f"{one}{two} {two}{one}n. " for one in syllables for two in syllables]
    bpe = made.Tokenizer(made.models.BPE())
    bpe.pre_tokenizer = made.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = made.decoders.ByteLevel()
    alphabet = made.pre_tokenizers.ByteLevel.alphabet()
    trainer = made.trainers.BpeTrainer(
        vocab_size=WORDS, initial_alphabet=alphabet, special_tokens=[PADS, STARTS, ENDS], show_progress=False
    )
    bpe.train_from_iterator(text, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=ENDS, pad_token=PADS, model_max_length=WINDOW
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def main(folder: Path) -> None:
    """Write tokenizer, configuration and weights."""
    torch, transformers = import_module("torch"), import_module("transformers")
    torch.manual_seed(7)
    tokenizer = _tokenizer()
    vocabulary = tokenizer.get_vocab()  # type: ignore[attr-defined]
    config = transformers.Qwen3Config(
        vocab_size=len(vocabulary),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=WINDOW,
        tie_word_embeddings=False,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=vocabulary[ENDS],
        pad_token_id=vocabulary[PADS],
    )
    model = transformers.Qwen3ForCausalLM(config)
    odd = [number for word, number in vocabulary.items() if word in (PADS, STARTS, ENDS) or not word.isascii()]
    with torch.no_grad():
        model.lm_head.weight[odd] = 0
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)  # type: ignore[attr-defined]
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
