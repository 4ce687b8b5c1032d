# `make run` and `make test` do everything on a fresh machine; README.md shows the plain commands behind them.
#
#   PYTHON=python3.12 make test     another interpreter for the virtual environment
#   make test TESTS=tests/storage   a part of the suite
#   WORKERS=4 make test             more processes for the suite

VENV ?= .venv
WORKERS ?= 2
TESTS ?= tests
# What `make check` runs besides lint: tests that start no process of their own and need no tools.
CHECKS ?= tests/base tests/world tests/records tests/wire tests/core tests/storage tests/client tests/controller \
	tests/services tests/apis tests/project/test_class_names.py tests/project/test_layers.py \
	tests/project/test_world_seam.py tests/project/test_documents.py --ignore tests/wire/test_fuzz.py
# What runs a second time, with the hot path compiled: the pure packages and the broker.
COMPILED_TESTS ?= tests/records tests/wire tests/core tests/storage tests/client tests/controller tests/services tests/apis \
	tests/broker tests/project/test_compiled_modules.py --ignore tests/wire/test_fuzz.py
SEEDS ?= 200
LISTEN ?= 127.0.0.1:9092
DATA ?= data
OUT ?= report
DURATION ?=
RATE ?= 200
BIN := $(VENV)/bin
export VENV

.PHONY: help run broker check test test-compiled lint tools bench sim mutants chaos lock ready-run ready-dev

help:
	@echo "make run     the example: broker, log generator, pipelines on Spark, a report; DURATION=90 to end by itself"
	@echo "make broker  the broker on $(LISTEN), or on the next free port, with its data in ./$(DATA)"
	@echo "make check   formatting, lint, types, layers, and the pure and fast tests: the daily loop, under 3 minutes on two cores"
	@echo "make test    formatting, lint, types, layers, and the whole suite; fetches the jars that it needs if Java and Maven are there"
	@echo "make test-compiled  compile the hot path, and run the pure and broker parts of the suite with it; part of make test"
	@echo "make lint    the same without the suite"
	@echo "make tools   what the foreign tests and the benchmarks need: Apache Kafka, ZooKeeper, Spark's Kafka connector, kcat"
	@echo "make bench   Penstock beside Apache Kafka (BENCH='--beside COMMIT': beside an earlier Penstock)"
	@echo "make sim     random seeds in the simulation; SEEDS=1000 for more"
	@echo "make mutants which seed detects each bug planted by tests/sim"
	@echo "make chaos   transactions and a cluster while processes are killed, and a broker under attack: CHAOS_SECONDS (180), CHAOS_SEED, CHAOS_ONLY"
	@echo "make lock    resolve the dependencies again"

# The broker runs before Spark is installed, so the story installs it itself.
run:
	@sh scripts/setup.sh sizes
	@sh scripts/setup.sh run
	@PYTHONPATH=examples exec $(BIN)/python -m app_logs.story --setup "sh scripts/setup.sh" --listen $(LISTEN) \
		--data $(DATA) --out $(OUT) --rate $(RATE) $(if $(DURATION),--duration $(DURATION))

broker: ready-run
	@exec $(BIN)/penstock serve --listen $(LISTEN) --or-next-port --data-dir $(DATA)

check: lint
	$(BIN)/python -m pytest -q -n $(WORKERS) $(CHECKS)

test: lint
	@sh scripts/tools.sh at-hand
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(TESTS)
	@[ "$(TESTS)" != tests ] || $(MAKE) --no-print-directory test-compiled

test-compiled: ready-dev
	@sh scripts/compile.sh
	@[ ! -d build/compiled ] || PYTHONPATH=$(CURDIR)/build/compiled $(BIN)/python -m pytest -q -n $(WORKERS) $(COMPILED_TESTS)

lint: ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tools:
	@sh scripts/tools.sh

bench: ready-dev tools
	$(BIN)/python -m bench $(BENCH)

sim: ready-dev
	$(BIN)/penstock sim run --seeds $(SEEDS)
	$(BIN)/penstock sim run --coordination --seeds $(SEEDS)
	$(BIN)/penstock sim run --cluster --seeds $(SEEDS)

mutants: ready-dev
	$(BIN)/python -m tests.sim.find_planted

chaos: ready-dev
	$(BIN)/python -m tests.chaos

lock: ready-dev
	@sh scripts/lock.sh

ready-run:
	@sh scripts/setup.sh run

ready-dev:
	@sh scripts/setup.sh dev
