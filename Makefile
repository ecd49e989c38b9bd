# One command per purpose. Needs make and a Python from 3.11 up; everything else goes into .venv.
SHELL := /bin/sh
VENV := .venv
STAMP := $(VENV)/.installed
FUZZ_STAMP := $(VENV)/.fuzz-installed
BIN := $(VENV)/bin
# Where the system has no C compiler, one is installed for the crash recorder and the failing disks.
EXTRAS := test$(shell for c in cc gcc clang; do command -v $$c && exit; done >/dev/null; echo ,compiler)
# Two test processes, a file each at a time, in the order of tests/conftest.py; WORKERS= for one.
WORKERS ?= -n 2 --dist loadfile --no-loadscope-reorder
SOURCES := broker storage migrations pipeline leveret_spark tools harness tests bench

# Seeds that `make crash-states` explores at one time.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# Modules are compiled once, and not by each of a thousand brokers that tests start.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that is new enough; PYTHON=/path/to/python overrides it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 \
	"$$HOME"/.pyenv/versions/3.13*/bin/python3 "$$HOME"/.pyenv/versions/3.12*/bin/python3 "$$HOME"/.pyenv/versions/3.11*/bin/python3; do \
	"$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

# make fuzz: how long each target is given inputs, and which; all of them when none is named.
SECONDS ?= 60
TARGET ?=
# make crash-kill, crash-audit and soak: how often, and for how long.
CYCLES ?= 300
MINUTES ?= 60
SEEDS ?= 200
HOURS ?= 10

.PHONY: help venv run test check format bench wire crash-states fuzz crash-kill crash-audit soak disk-faults simulate clean

help:
	@echo "make run           a broker on 127.0.0.1:5672, data in ./leveret-data"
	@echo "make check         format, lint, strict types, import layers, fast tests"
	@echo "make test          every test: crash states, client libraries, restarts"
	@echo "make crash-states  the crash explorer on and on, on JOBS= cores; goes on where it was"
	@echo "make fuzz          coverage-guided inputs for each target, SECONDS=60 TARGET=session (see docs/testing.md)"
	@echo "make crash-kill    kill -9 under real clients, CYCLES=300 times and more, SEED="
	@echo "make crash-audit   the same with the event log, which Spark audits at the end; CYCLES=300 SEED="
	@echo "make soak          MINUTES=60 of mixed load: does anything grow, slow down, get lost?"
	@echo "make disk-faults   every failure of the disk against the broker, 25 minutes"
	@echo "make simulate      SEEDS=200 whole brokers in virtual time, HOURS=10 each, on all cores"
	@echo "make bench         measurements that need no other broker, 10 minutes (see bench/)"
	@echo "make wire          generate broker/wire from the specification's XML"
	@echo "make format        rewrite the sources in the house format"

$(STAMP): pyproject.toml
	@if [ -z "$(PYTHON)" ]; then echo "leveret: no Python from 3.11 up was found; install one, or run: make PYTHON=/path/to/python3" >&2; exit 1; fi
	@[ -x $(BIN)/python ] || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $(STAMP)

venv: $(STAMP)

run: $(STAMP)
	$(BIN)/leveret serve

check: $(STAMP)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_wire.py --check
	$(BIN)/python -m pytest -q -m "not slow" $(WORKERS)

test: $(STAMP)
	$(BIN)/python -m pytest -q $(WORKERS)

crash-states: $(STAMP)
	$(BIN)/python -m tests.durability.crash run --jobs $(JOBS)

# Atheris has wheels for some interpreters only, and building it takes a compiler with libFuzzer.
$(FUZZ_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary atheris --editable '.[test,fuzz]' || \
		{ echo "leveret: no wheel of atheris was found for $$($(BIN)/python --version); try make clean fuzz PYTHON=/path/to/python3.11" >&2; exit 1; }
	@touch $(FUZZ_STAMP)

fuzz: $(FUZZ_STAMP)
	$(BIN)/python -m tests.security.fuzz --seconds $(SECONDS) $(TARGET)

crash-kill: $(STAMP)
	$(BIN)/python -m tests.durability.kills --cycles $(CYCLES) $(if $(SEED),--seed $(SEED))

crash-audit: $(STAMP)
	$(BIN)/python -m tests.durability.kills --audit --cycles $(CYCLES) $(if $(SEED),--seed $(SEED))

soak: $(STAMP)
	$(BIN)/python -m bench.soak.soak --minutes $(MINUTES)

disk-faults: $(STAMP)
	$(BIN)/python -m tests.durability.faults.matrix

simulate: $(STAMP)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --hours $(HOURS)

bench: $(STAMP)
	$(BIN)/python -m bench.scenarios
	$(BIN)/python -m bench

wire: $(STAMP)
	$(BIN)/python tools/generate_wire.py

format: $(STAMP)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
