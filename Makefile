# Two commands: `make demo` and `make test`. They need Python 3.10 or newer, and install the rest into .venv.
#
#   make demo [ARGS="--quick"]   the whole job on a real model and real reviews
#   make test                    every check: format, lint, types, docs, the wheel without extras, all tests
#   make format docs             write what `make test` compares
#   make clean                   remove the environments
#
#   PYTHON=python3.12            the Python to make the environments with
#   TORCH="torch==2.9.1"         the torch to install where that Python has none for a GPU, and
#   TORCH_INDEX=URL              the index to take it from: README.md has the pair for each kind of machine

PYTHON ?= python3
TORCH ?=
TORCH_INDEX ?=
ARGS ?=
BIN := .venv/bin
BARE := build/bare/bin

.PHONY: help demo test check bare format docs clean FORCE
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

demo: .venv/demo.stamp
	$(BIN)/tonetune demo $(ARGS)

test: check bare
	$(BIN)/python -m pytest -m "not alone and not gpu"
	$(BIN)/python -m pytest -n 0 -m alone

check: .venv/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/hadolint Dockerfile
	$(BIN)/python scripts/docs --check

# What users get: the wheel, without extras, away from the source tree.
bare: .venv/dev.stamp build/bare/torch.txt
	rm -rf dist
	$(BIN)/hatchling build -t wheel
	$(BARE)/python -m pip uninstall --quiet --yes tonetune
	$(BARE)/python -m pip install --quiet -c build/bare/torch.txt dist/*.whl pytest pytest-xdist
	$(BARE)/tonetune --help
	$(BARE)/python -m pytest tests/flows tests/unit/api tests/unit/test_public.py

format: .venv/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/dev.stamp
	$(BIN)/python scripts/docs

clean:
	rm -rf .venv build dist

# An extra is installed once for each pyproject.toml and torch; the stamp comes last, so a failure leaves none.
.venv/demo.stamp .venv/dev.stamp: .venv/%.stamp: .venv/torch.txt pyproject.toml
	$(BIN)/python -m pip install -c .venv/torch.txt -e '.[$*]'
	@touch $@

# Looked at every time, and written only when it changes, so that TORCH can be chosen later too.
.venv/torch.txt build/bare/torch.txt: %/torch.txt: FORCE
	@$(PYTHON) scripts/venv $* --torch "$(TORCH)" --index "$(TORCH_INDEX)"
