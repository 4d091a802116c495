# Every target works from nothing: it makes its own virtual environment where that is missing or older than
# pyproject.toml. The plain commands stand beside each target in README.md, for machines without make.

VENV   ?= .venv
PYTHON ?=
JOBS   ?= 2

# Real ALFWorld games, where there are some: make demo DATA=/path/to/json_2.1.1
DATA ?= $(ALFWORLD_DATA)

BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo train-demo test lint bench faults soak determinism audit adapters format clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

$(VENV)/.stamp: pyproject.toml scripts/venv.sh
	@PYTHON="$(PYTHON)" sh scripts/venv.sh $(VENV)

demo: $(VENV)/.stamp  ## start a server and watch three players on it: a table and a report with pictures
	@sh scripts/demo.sh $(BIN) runs/demo $(if $(DATA),--data "$(DATA)")

train-demo: $(VENV)/.stamp  ## clone an expert, let the clone learn by reinforcement: a table and a curve, in under 20 minutes on two cores
	@$(BIN)/python -c 'import torch, transformers' 2>/dev/null || $(BIN)/python -m pip install -e '.[train]'
	$(BIN)/python benchmarks/train_demo.py $(ARGS)

test: $(VENV)/.stamp  ## run the tests
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

lint: $(VENV)/.stamp  ## check style, types, import rules and spelling, and report the shape of the code
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python scripts/env_pages.py --check
	$(BIN)/python scripts/serving_page.py --check
	$(BIN)/python scripts/shape.py --check

bench: $(VENV)/.stamp  ## measure steps per CPU-second: a table
	$(BIN)/python benchmarks/household.py $(if $(DATA),--data "$(DATA)")

faults: $(VENV)/.stamp  ## kill, starve and cut off servers under load for half an hour, and account for every turn
	$(BIN)/python benchmarks/faults.py $(ARGS)

soak: $(VENV)/.stamp  ## load a server for half an hour: is its memory flat, does anything leak?
	$(BIN)/python benchmarks/soak.py $(ARGS)

determinism: $(VENV)/.stamp  ## check golden digests on every Python 3.11-3.13 here and under other hash seeds
	$(BIN)/python scripts/determinism.py

audit: $(VENV)/.stamp  ## audit the rewards of all worlds at full size: hacks, anchors, mutants of the score
	@for env in household webshop searchworld; do $(BIN)/agentenvs audit $$env $(ARGS) || exit 1; done

adapters: $(VENV)/.stamp  ## play every plug with the software it is for, and write docs/plugs/README.md
	$(BIN)/python scripts/adapters.py $(ARGS)

format: $(VENV)/.stamp  ## mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:  ## remove environments, caches and build outputs; runs/ stays
	rm -rf $(VENV) .venvs build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
