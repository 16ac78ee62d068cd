# Everything a fresh machine with Python 3.11+ and make needs is done by these targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test lint bench clean help

help:
	@echo "make demo   install what is needed and run the two-week story through LangChain and LlamaIndex"
	@echo "make test   install what is needed and run every test"
	@echo "make lint   ruff and mypy"
	@echo "make bench  timings as ratios against a floor measured in the same run"

$(VENV)/.base:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.demo: $(VENV)/.base pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[all]"
	@touch $@

$(VENV)/.dev: $(VENV)/.demo pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/sf-ams demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.demo
	$(BIN)/sf-ams bench

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
