# Every target works from a fresh clone: python3 with venv, make and a package index are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_STORE ?= demo-store

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint types bench clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY)  ## Make the environment in .venv (again only when setup.cfg changes)

$(READY): setup.cfg
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m compileall -q dscompile
	@touch $@

demo: $(READY)  ## Build the synthetic dataset, train from the cache twice, print a table
	$(BIN)/python scripts/demo.py --store $(DEMO_STORE)

test: $(READY)  ## Run the tests
	$(BIN)/python -m pytest

lint: $(READY)  ## Check style with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## Check types with mypy, strict
	$(BIN)/mypy

bench: $(READY)  ## Time the loader and the build against plain-torch limits
	$(BIN)/python scripts/bench.py

clean:  ## Remove the environment, caches and the demo's store
	rm -rf $(VENV) $(DEMO_STORE) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .coverage
