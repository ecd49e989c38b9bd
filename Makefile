# One command per purpose. Needs make and a Python from 3.11 up; everything else goes into .venv.
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
# What .venv holds: what running needs, what tests, checks and measurements need beyond it, and the fuzzer.
RUN_STAMP := $(VENV)/.run-installed
TEST_STAMP := $(VENV)/.test-installed
FUZZ_STAMP := $(VENV)/.fuzz-installed
# An installed Leveret with a compiled core, as its wheels have it; the checkout itself contains nothing compiled.
SSH_SERVER := build/ssh-server
COMPILED := build/installed
COMPILED_STAMP := $(COMPILED)/.installed
COMPILED_FROM := $(shell find broker leveret leveret_events leveret_spark migrations pipeline pytest_leveret storage tools/compiled_core.py \
	-type f -not -name '*.pyc')
# Where the system has no C compiler, one is installed for the crash recorder and the failing disks.
TEST_EXTRAS := test$(shell for c in cc gcc clang; do command -v $$c && exit; done >/dev/null; echo ,compiler)
# Four test processes, a file each at a time, in the order of tests/conftest.py, because tests wait for half of their
# time; WORKERS= for one.
WORKERS ?= -n 4 --dist loadfile --no-loadscope-reorder
SOURCES := leveret pytest_leveret broker storage migrations pipeline leveret_spark leveret_events tools harness tests bench examples

# Seeds that `make crash-states` explores at one time.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# Modules are compiled once, and not by each of a thousand brokers that tests start.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that is new enough; PYTHON=/path/to/python overrides it.
ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 \
	"$$HOME"/.pyenv/versions/3.13*/bin/python3 "$$HOME"/.pyenv/versions/3.12*/bin/python3 "$$HOME"/.pyenv/versions/3.11*/bin/python3; do \
	"$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
endif

# Minor versions of the Pythons for `make wheel` and `make pythons`, each where it is found.
MINORS ?= 11 12 13 14 15

INSTALL := sh tools/install.sh "$(PYTHON)" $(VENV)

# make fuzz: how long each target is given inputs, and which; all of them when none is named.
SECONDS ?= 60
TARGET ?=
# make crash-kill and crash-audit: how often; prove, soak, exhaustion, operators, restore-drill, shipped-states, standby-kills, fenced-worlds, hostile-contents and model-walks: for how long; simulate: how many, how long each.
CYCLES ?= 300
MINUTES ?= 60
SEEDS ?= 200
HOURS ?= 10

# Two installations into one environment would meet.
.NOTPARALLEL:
.PHONY: help venv run compiled run-compiled test fast pythons test-compiled test-portable check lint format bench wire dist wheel release single check-clients check-image crash-states shipped-states fuzz crash-kill crash-audit crash-streams exhaustion operators restore-drill standby-kills fenced-worlds hostile-contents soak disk-faults simulate audited-lives model-walks prove clean newcomer cluster-page

help:
	@echo "make run           a broker on localhost:5672, data in ./leveret-data"
	@echo "make check         make lint, and the fast tests"
	@echo "make lint          format, lint, strict types, import contracts, generated sources"
	@echo "make test          every test: crash states, client libraries, restarts"
	@echo "make pythons       the fast tests with each Python from 3.11 up that is found, MINORS=\"12 14\" for some"
	@echo "make test-portable the fast tests without what macOS and musl lack"
	@echo "make test-compiled the fast tests on a compiled core, in a copy of this checkout in build/compiled; takes a C compiler"
	@echo "make prove         all the campaigns below but soak in turn, MINUTES=60; one page of figures in build/prove.md"
	@echo "make crash-states  the crash explorer without end, on JOBS= cores; continues where it stopped"
	@echo "make shipped-states every prefix of the pieces at a second place, restored and judged, MINUTES=60 SEED="
	@echo "make fuzz          coverage-guided inputs for each target, SECONDS=60 TARGET=session (see docs/testing.md)"
	@echo "make crash-kill    kill -9 under real clients, at least CYCLES=300 times, SEED="
	@echo "make crash-audit   the same with the event log, audited at the end without a doubt; CYCLES=300 SEED="
	@echo "make crash-streams kill -9 of Spark and broker while a stream goes into files, MINUTES=60 SEED="
	@echo "make exhaustion    brokers that run out of disk, memory, descriptors and time, MINUTES=60 SEED="
	@echo "make hostile-contents messages and names that look like records, log lines, frames and markup, MINUTES=60 SEED="
	@echo "make operators     operations around a crash: commands, settings, copies, harmed files, MINUTES=60 SEED="
	@echo "make restore-drill the drill of docs/backup.md on brokers that lose their directory, MINUTES=60 SEED="
	@echo "make standby-kills promotions of standbys with kills of broker and standby, a place that fails; MINUTES=60 SEED="
	@echo "make fenced-worlds brokers, standbys and one place in virtual time: who may confirm; MINUTES=60 SEED="
	@echo "make soak          MINUTES=60 of mixed load: does anything grow, slow down, get lost?"
	@echo "make disk-faults   every failure of the disk against the broker, 25 minutes"
	@echo "make simulate      SEEDS=200 whole brokers in virtual time, HOURS=10 each, on all cores"
	@echo "make audited-lives the same with the event log, each run judged by the audit, SEEDS=200 HOURS=10"
	@echo "make model-walks   long walks of the models in tests/models, on all cores, MINUTES=60 SEED="
	@echo "make newcomer      README's commands in a root directory with only Python, git and make, 1 minute; as root"
	@echo "make cluster-page  docs/clusters.md by its own commands: a master, two workers, TLS, Spark Connect; pip fetches 500 MB"
	@echo "make bench         measurements that need no other broker, 10 minutes (see bench/)"
	@echo "make wire          generate broker/wire from the specification's XML"
	@echo "make compiled      Leveret with a compiled core in $(COMPILED), 3 minutes once; takes a C compiler. make run-compiled starts it"
	@echo "make release       all that is published, each tried: make dist, wheel and check-clients, and the image where docker is"
	@echo "make dist          the wheel and the sdist in dist/, each tried in an empty environment"
	@echo "make wheel         a wheel with a compiled core in dist/ for each Python from 3.11 up, each tried; takes a C compiler"
	@echo "make single        Leveret in one directory that needs no Python, in build/single, and for npm; takes a C compiler; as root"
	@echo "make check-clients make single and the packages for npm, used in empty projects, and by newcomers with one language each"
	@echo "make check-image   the image's stages without docker, 5 minutes, CORE=pure 1; takes debootstrap; as root"
	@echo "make format        rewrite the sources in the house format"

$(RUN_STAMP): pyproject.toml
	$(INSTALL) --editable .
	@touch $@

$(TEST_STAMP): pyproject.toml
	$(INSTALL) --editable '.[$(TEST_EXTRAS)]'
	@touch $(RUN_STAMP) $@

# Atheris has wheels for some interpreters only, and building it takes a compiler with libFuzzer.
$(FUZZ_STAMP): $(TEST_STAMP)
	@$(INSTALL) --only-binary atheris --editable '.[test,fuzz]' || \
		{ echo "leveret: no wheel of atheris was found for $$($(BIN)/python --version); try make clean fuzz PYTHON=/path/to/python3.11" >&2; exit 1; }
	@touch $@

venv: $(TEST_STAMP)

# An SSH server for tests that ship to one, where the system has none. Without packages to be had, such tests are skipped.
$(SSH_SERVER):
	sh tools/ssh_server.sh $@

run: $(RUN_STAMP)
	$(BIN)/leveret serve

$(COMPILED_STAMP): pyproject.toml $(COMPILED_FROM)
	rm -rf $(COMPILED)
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true sh tools/install.sh "$(PYTHON)" $(COMPILED) .
	@touch $@

compiled: $(COMPILED_STAMP)
	@echo "leveret: with a compiled core: $(COMPILED)/bin/leveret"

run-compiled: $(COMPILED_STAMP)
	$(COMPILED)/bin/leveret serve

# What needs no run: format, lint, types, import contracts, generated sources.
lint: $(TEST_STAMP)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_wire.py --check

check: lint fast

test: $(TEST_STAMP) $(SSH_SERVER)
	$(BIN)/python -m pytest -q $(WORKERS)

fast: $(TEST_STAMP) $(SSH_SERVER)
	$(BIN)/python -m pytest -q -m "not slow" $(WORKERS)

# The fast tests with each Python that is found, each in an environment of its own.
pythons:
	for n in $(MINORS); do for python in "$$(command -v python3.$$n)" "$$HOME"/.pyenv/versions/3.$$n.*/bin/python3; do \
		"$$python" -c "import sys, venv; sys.exit(sys.version_info[:2] != (3, $$n))" 2>/dev/null || continue; \
		$(MAKE) VENV=build/python-3.$$n PYTHON="$$python" fast || exit 1; \
		break; \
	done; done

# Python loads harness/portable/sitecustomize.py, also in the brokers that tests start.
test-portable: $(TEST_STAMP)
	PYTHONPATH="$(CURDIR)/harness/portable:$(CURDIR)" $(BIN)/python -m pytest -q -m "not slow" $(WORKERS)

# A copy, so that nothing compiled lies beside the sources.
test-compiled: $(TEST_STAMP) $(SSH_SERVER)
	$(BIN)/python -m tools.compiled_core build/compiled
	ln -s "$(CURDIR)/$(VENV)" build/compiled/$(VENV)
	mkdir -p build/compiled/build && ln -s "$(CURDIR)/$(SSH_SERVER)" build/compiled/$(SSH_SERVER)
	cd build/compiled && $(BIN)/python -m pytest -q -m "not slow" $(WORKERS)

crash-states: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.crash run --jobs $(JOBS)

fuzz: $(FUZZ_STAMP)
	$(BIN)/python -m tests.security.fuzz --seconds $(SECONDS) $(TARGET)

crash-kill: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.kills --cycles $(CYCLES) $(if $(SEED),--seed $(SEED))

crash-audit: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.kills --audit --cycles $(CYCLES) $(if $(SEED),--seed $(SEED))

crash-streams: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.stream_kills --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

exhaustion: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.exhaustion --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

hostile-contents: $(TEST_STAMP)
	$(BIN)/python -m tests.security.contents --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

restore-drill: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.drill --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

standby-kills: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.standby_kills --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

fenced-worlds: $(TEST_STAMP)
	$(BIN)/python -m tests.simulation.second_place --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

operators: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.operators --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

soak: $(TEST_STAMP)
	$(BIN)/python -m bench.soak.soak --minutes $(MINUTES)

shipped-states: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.shipped_states --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

disk-faults: $(TEST_STAMP)
	$(BIN)/python -m tests.durability.faults.matrix

simulate: $(TEST_STAMP)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --hours $(HOURS)

audited-lives: $(TEST_STAMP)
	$(BIN)/python -m tests.simulation --audited --seeds $(SEEDS) --hours $(HOURS)

cluster-page: $(TEST_STAMP)
	$(BIN)/python -m tests.documents.cluster

model-walks: $(TEST_STAMP)
	$(BIN)/python -m tests.models --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

newcomer: $(TEST_STAMP)
	$(BIN)/python -m bench.newcomer

# Without a wheel of atheris the page says that fuzz was not run.
prove: $(TEST_STAMP)
	-@$(MAKE) --silent $(FUZZ_STAMP)
	$(BIN)/python -m tests.prove --minutes $(MINUTES)

bench: $(TEST_STAMP)
	$(BIN)/python -m bench.scenarios
	$(BIN)/python -m bench

wire: $(TEST_STAMP)
	$(BIN)/python tools/generate_wire.py

dist: $(TEST_STAMP)
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist
	$(BIN)/python -m tools.try_distributions dist/*

wheel: $(TEST_STAMP)
	for n in $(MINORS); do for python in "$$(command -v python3.$$n)" "$$HOME"/.pyenv/versions/3.$$n.*/bin/python3; do \
		"$$python" -c "import sys, venv; sys.exit(sys.version_info[:2] != (3, $$n))" 2>/dev/null || continue; \
		rm -rf build/wheel && HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BIN)/python -m pip --python "$$python" wheel --quiet \
			--disable-pip-version-check --no-deps --wheel-dir build/wheel . && \
		$(BIN)/python -m tools.try_distributions --python "$$python" build/wheel/* && \
		mkdir -p dist && mv build/wheel/* dist/ || exit 1; \
		break; \
	done; done

# The directory runs on the glibc of this system and later ones: it is built on the oldest that is served. WHEEL=dist/... is
# one for that Python, in place of one that is compiled first.
single: $(TEST_STAMP)
	$(BIN)/python -m tools.single_directory --python "$(PYTHON)" $(if $(WHEEL),--wheel $(WHEEL)) build/single
	$(BIN)/python -m tools.try_single build/single

check-clients: single
	rm -rf build/npm
	$(BIN)/python -m tools.node_packages build/single build/npm
	$(BIN)/python -m tools.try_node_packages build/npm
	$(BIN)/python -m bench.newcomer.green_tests build/single build/npm

# The image's stages by the Dockerfile's own lines, in root directories: what docker would make of it, where no docker is.
check-image: $(TEST_STAMP)
	[ -d build/debian ] || { rm -rf build/debian.part && debootstrap --variant=minbase \
		--include=ca-certificates,python3-dev,python3-pip,python3-venv trixie build/debian.part && mv build/debian.part build/debian; }
	$(BIN)/python -m tools.try_image $(if $(CORE),--core $(CORE)) build/debian build/image

# What is published; docs/releasing.md has the order. The directory and the archives for npm take root and npm, the image
# docker: each is left out without.
release: dist wheel
	@if [ "$$(id -u)" = 0 ] && command -v npm >/dev/null; then \
		tag=$$("$(PYTHON)" -c 'import sys; print("cp%d%d" % sys.version_info[:2])'); \
		$(MAKE) check-clients WHEEL="$$(ls dist/*-"$$tag"-*.whl 2>/dev/null)" && \
		cp build/single/*.tar.xz build/npm/*.tgz dist/; \
	else echo "leveret: no single directory and no archives for npm were made: they take root and npm"; fi
	@if docker info >/dev/null 2>&1; then \
		version=$$($(BIN)/python -c 'import broker; print(broker.__version__)') && \
		docker build --tag leveret:$$version --build-arg VERSION=$$version . && \
		docker run --rm leveret:$$version leveret --version && \
		docker save leveret:$$version | gzip > dist/leveret-$$version-image.tar.gz; \
	elif [ "$$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then \
		$(MAKE) check-image && echo "leveret: no docker answers here: the image's stages were tried, no image was made"; \
	else echo "leveret: no docker answers here: no image was made"; fi
	cd dist && sha256sum * > SHA256SUMS
	@ls -l dist

format: $(TEST_STAMP)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
