# The commands of the project; `make help` lists them. README.md says what each needs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
JS := tests/conformance/js
PROTON := python-qpid-proton>=0.40
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# More workers than cores: most of the time a stock client is waiting. Tests of one group run in one
# of them: all Spark tests share a session.
PYTEST := $(BIN)/python -m pytest --numprocesses 4 --dist loadgroup
CHECKED := src tools $(wildcard bench)

# A stamp is named by the contents it was made from, so a second install has nothing to do,
# and a changed requirement or a compiled module older than its source has.
digest = $(shell cat $(wildcard $(1)) | sha256sum | cut -c1-16)
STALE := $(shell for so in $$(find src -name '*.so' 2>/dev/null); do \
	if [ "$${so%%.*}.py" -nt "$$so" ]; then echo yes; break; fi; done)
PYTHON_STAMP := .stamps/python-$(call digest,pyproject.toml setup.py)
JS_STAMP := .stamps/js-$(call digest,$(JS)/package.json $(JS)/package-lock.json)

NODE_MAJOR := $(shell node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
HAS_NODE := $(shell [ "$(NODE_MAJOR)" -ge 18 ] && command -v npm >/dev/null && echo yes)
HAS_JAVA := $(shell { [ -x "$${JAVA_HOME:-/nowhere}/bin/java" ] || command -v java; } >/dev/null && echo yes)

.PHONY: help install run demo test test-all bench rules lint format clean clean-compiled FORCE

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

install: $(PYTHON_STAMP) $(if $(HAS_NODE),$(JS_STAMP)) ## everything needed, into .venv; safe to repeat
	@$(if $(HAS_NODE),:,echo "Node 18 or newer with npm was not found: the JavaScript tests will be left out.")
	@$(if $(HAS_JAVA),:,echo "Java was not found: the Spark tests will be left out.")

$(PYTHON_STAMP): $(if $(STALE),FORCE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with: make install PYTHON=python3.12"; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import pyspark' 2>/dev/null || echo "Apache Spark is built once, which takes a minute."
	$(PIP) install --editable '.[test,flight,spark]'
	@$(PIP) install '$(PROTON)' 2>.venv/proton.log \
		|| echo "python-qpid-proton could not be built (see .venv/proton.log): its tests will be left out."
	@if [ -n "$$(find src -name '*.so' -print -quit)" ]; then echo "The hot modules are compiled."; \
		else echo "The hot modules run interpreted (no C compiler, or PARTIBUS_COMPILE=0)."; fi
	@mkdir -p .stamps && rm -f .stamps/python-* && touch $@

$(JS_STAMP):
	npm --prefix $(JS) ci --no-audit --no-fund --loglevel=error
	@mkdir -p .stamps && rm -f .stamps/js-* && touch $@

run: install ## the bus with the embedded store and a sample namespace, in the foreground
	@exec $(BIN)/partibus serve --config examples/namespace.toml

demo: install ## traffic through the stock SDK, SIGKILL, restart, and a printed report
	@$(BIN)/python tools/demo.py

test: lint ## the test suite, what CI runs
	$(PYTEST) -m "not slow"

test-all: lint ## the test suite with the slow tests
	$(PYTEST)

bench: install ## the benchmarks
	$(BIN)/python -m bench
	$(BIN)/python -m bench.scaling
	$(BIN)/python -m bench.duplicates
	$(BIN)/python -m bench.latency
	$(BIN)/python -m bench.spark

rules: install ## which rules of the rule book have a test, and which have none
	@$(BIN)/python tools/rules.py

lint: install ## ruff, mypy --strict, and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(CHECKED)
	$(BIN)/lint-imports

format: install ## what ruff can repair by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean-compiled: ## the compiled modules, so that the sources run
	find src -name '*.so' -delete

clean: clean-compiled ## everything that install, run and test have made, but not your data
	rm -rf .venv .stamps build dist src/*.egg-info $(JS)/node_modules
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
