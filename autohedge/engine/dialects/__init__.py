"""One dialect per kind of engine."""

from collections.abc import Mapping

from autohedge.core.types import Kind
from autohedge.engine.dialects.base import Dialect
from autohedge.engine.dialects.llamacpp import LlamaCpp
from autohedge.engine.dialects.ollama import Ollama
from autohedge.engine.dialects.openai import Azure, OpenAi
from autohedge.engine.dialects.sglang import Sglang
from autohedge.engine.dialects.systemone import SystemOne
from autohedge.engine.dialects.tgi import Tgi
from autohedge.engine.dialects.vllm import Vllm

DIALECTS: Mapping[Kind, type[Dialect]] = {
    dialect.kind: dialect for dialect in (OpenAi, Azure, Vllm, Sglang, Ollama, Tgi, LlamaCpp, SystemOne)
}
