"""A real llama.cpp HTTP server (the engine's own C++ code, from the xllamacpp wheel) as a process of its own.

    python -m autohedge.demo.llama_server MODEL.gguf [--port N] [--window N] [--slots N] [--alias NAME] [--key KEY] [--embeds]

It prints `READY http://127.0.0.1:PORT` and serves until SIGTERM. A process per engine, so that one can be killed or frozen.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

import xllamacpp

from autohedge.parent import announce, end_with_parent


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="llama_server")
    parser.add_argument("model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--window", type=int, default=400)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--alias", default="")
    parser.add_argument("--key", default="")
    parser.add_argument("--embeds", action="store_true")
    parser.add_argument("--with-parent", type=int, metavar="PID", help="end with the process that started this one")
    asked = parser.parse_args(argv)
    if asked.with_parent:
        end_with_parent(asked.with_parent)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    server = xllamacpp.Server(_params(asked))
    announce(server.listening_address)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    sys.stdout.flush()
    os._exit(0)  # the engine's own shutdown joins threads for seconds; nothing here needs saving


def _params(asked: argparse.Namespace) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = asked.model
    params.hostnames = [asked.host] if isinstance(params.hostnames, list) else asked.host
    params.port = asked.port
    params.n_parallel = asked.slots
    params.n_ctx = asked.window * asked.slots
    params.n_threads_http = 4
    params.cpuparams.n_threads = asked.threads
    params.cpuparams_batch.n_threads = asked.threads
    params.warmup = False
    params.ui = False
    params.use_jinja = True
    params.endpoint_slots = True
    params.endpoint_metrics = True
    params.embedding = asked.embeds
    params.verbosity = 2
    if asked.alias:
        params.model_alias = {asked.alias} if isinstance(params.model_alias, set) else asked.alias
    if asked.key:
        params.api_keys = [asked.key]
    return params


if __name__ == "__main__":
    raise SystemExit(main())
