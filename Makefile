# `make demo` and `make test` need Python only, and install their dependencies into .venv. `make test-cluster` also needs
# Go, or binaries in KUBEBUILDER_ASSETS; `make test-monitoring` needs Prometheus, on the PATH or in PROMETHEUS_BIN.
PYTHON ?= python3
JOBS ?= auto
UPGRADE ?= --upgrade
DIST ?= dist
VENV := .venv
BIN := $(VENV)/bin
LOCK_RUN := $(VENV)/.installed-run
LOCK_DEV := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help demo test test-all virtual-time test-every-case coverage check test-cluster cluster-tools test-monitoring test-image test-oracle fuzz swarm night round-trip format bench bench-simulator bench-quarter bench-load generate docs dist sbom lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

# A lock is complete, so pip resolves nothing: pip 23 refuses a lock whose `name[extra]` has a newer release than the pin.
$(LOCK_RUN): requirements.lock pyproject.toml provisioner/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is required: set it with make PYTHON=python3.12"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked dependencies into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable ./provisioner
	@touch $@

$(LOCK_DEV): requirements-dev.lock $(LOCK_RUN)
	@echo "installing the locked test dependencies into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock -r requirements-dev.lock
	@$(BIN)/python -m pip --disable-pip-version-check check
	@touch $@

demo: $(LOCK_RUN)  ## on an embedded cluster: NodeClaims, then pods, become GPU nodes and are removed (about a minute)
	@$(BIN)/gpu-provisioner try --once
	@$(BIN)/gpu-provisioner try --pods --once

# One process more than processors: a quarter of the time, tests wait for other processes.
test: JOBS = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
test: check  ## what a newcomer needs: representatives of each matrix; Python and PyPI are enough (JOBS=1 for one process)
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-all: export FIRST := cluster-tools
# The suites with real programs leave half of the processors idle, two at a time. At low priority, the cases on virtual
# time use what is left, and all of it in the end; only time limits on real time need priority. test-cluster runs all
# cases of its folder.
BESIDE := tests/unit tests/swarm tests/wire tests/contract tests/fuzz
test-all: $(LOCK_DEV)  ## every suite with every case; needs Go and Prometheus besides; what .ci/run runs
	@$(MAKE) --no-print-directory --jobs=3 --keep-going --output-sync=target virtual-time check test-cluster test-image test-monitoring test-oracle test-every-case CASES="$(BESIDE)" JOBS=1

virtual-time: $(LOCK_DEV)
	@nice -n 10 $(BIN)/python -m pytest -n auto --dist worksteal --every-case $(addprefix --ignore=,$(BESIDE) tests/cluster)

test-every-case: $(LOCK_DEV)  ## every case of every matrix, without cluster, image and monitoring (CASES=tests/unit)
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --every-case $(CASES)

coverage: $(LOCK_DEV)  ## branch coverage of what ships, by the tests of make test-every-case; no gate
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --every-case --cov --cov-report=term:skip-covered --cov-report=html:dist/coverage

check: $(LOCK_DEV)  ## check format, lint, types and imports
	@$(BIN)/ruff format --check --quiet . || { echo "run make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

test-cluster: cluster-tools  ## run stories, API suite, kubectl and Helm on a real API server (KUBE_VERSION=1.36)
	@$(BIN)/python -m pytest -m "cluster or not cluster" tests/cluster

# With FIRST=cluster-tools, make starts the longest suite, whose tools take minutes to build, before the short ones.
test-image test-monitoring test-oracle test-every-case: | $(FIRST)

fuzz: export MINUTES ?= 60
fuzz: $(LOCK_DEV)  ## draw objects at the API server's limits against the controller, under its memory limit (MINUTES=60 SEEDS=1-)
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seeds $(or $(SEEDS),1-)

swarm: export MINUTES ?= 60
swarm: export PLANS ?= dist/plans
swarm: $(LOCK_DEV)  ## draw faults, facts, features and settings by seed against the whole controller (MINUTES=60 SEEDS=1- PLANS=dist/plans FIGURES=FILE REPLAY=FILE SHRINK=FILE)
	@$(BIN)/python -m tests.swarm --minutes $(MINUTES) --seeds $(or $(SEEDS),1-) --plans $(PLANS) --jobs $$(getconf _NPROCESSORS_ONLN) $(if $(FIGURES),--figures $(FIGURES)) $(if $(REPLAY),--replay $(REPLAY)) $(if $(SHRINK),--shrink $(SHRINK)) $(if $(MUTANTS),--mutants $(MUTANTS))

night: export MINUTES ?= 480
night: export SEEDS ?= $(shell date +%Y%m%d)00000-
night: $(LOCK_DEV)  ## find the planted canary, then draw seeds of this date for eight hours (MINUTES=480)
	@$(BIN)/python -m tests.swarm --canary --minutes 30
	@$(MAKE) --no-print-directory swarm

round-trip: export MINUTES ?= 60
round-trip: cluster-tools  ## draw NodePools, pods and reality by seed, for the real kube-scheduler (MINUTES=60 SEEDS=1- JOBS=1)
	@$(BIN)/python -m tests.cluster.roundtrip --minutes $(MINUTES) --seeds $(or $(SEEDS),1-) --jobs $(if $(filter auto,$(JOBS)),1,$(JOBS))

test-image: $(LOCK_DEV)  ## install what the image contains and run it read-only as another user (needs PyPI)
	@$(BIN)/python -m pytest -m image tests/image

cluster-tools: $(LOCK_DEV)  ## build the control plane and the device manager once, in minutes (needs Go or KUBEBUILDER_ASSETS)
	@$(BIN)/python -m tests.cluster.assets
	@test -z "$$(command -v go)" || $(BIN)/python -m tests.cluster.gpunode

test-oracle: $(LOCK_DEV)  ## compare scheduling and disruption with Karpenter's (needs Go)
	@$(BIN)/python -m pytest -m oracle tests/oracle

test-monitoring: $(LOCK_DEV)  ## test dashboards and alerts with a real Prometheus (needs prometheus and promtool)
	@$(BIN)/python -m pytest -m monitoring tests/monitoring

format: $(LOCK_DEV)  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: cluster-tools  ## whole lives on a real API server: counts are asserted, times are printed (needs Go or KUBEBUILDER_ASSETS)
	@$(BIN)/python -m tests.bench

bench-simulator: $(LOCK_DEV)  ## more measurements, on the simulated API server (needs Python only)
	@$(BIN)/python -m tests.bench simulator

bench-quarter: export MACHINES ?= 60
bench-quarter: export DAYS ?= 14
bench-quarter: export SEED ?= 1
bench-quarter: $(LOCK_DEV)  ## what a simulated quarter deletes, reports and buys (MACHINES=200 DAYS=90 SEED=1)
	@$(BIN)/python -m tests.bench quarter

bench-load: export NODES ?= 1000
bench-load: export PODS ?= 4000
bench-load: cluster-tools  ## memory, CPU, requests and stalls on a large cluster, on a real API server (NODES=1000 PODS=4000 PENDING=1000 OURS=20)
	@$(BIN)/python -m tests.bench load

generate: $(LOCK_DEV)  ## write the generated files: CRDs, reference pages, dashboards, alerts
	@$(BIN)/python -m provisioner.api.crd charts/gpu-provisioner-crd/templates
	@$(BIN)/python -m tools.reference

docs: $(LOCK_DEV)  ## build the documentation site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --clean

dist: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
dist: $(LOCK_RUN)  ## build both wheels and the source distribution into dist/, reproducibly
	@$(BIN)/python -m hatchling build --clean --directory $(DIST)
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(DIST) ./provisioner

sbom: $(LOCK_DEV)  ## write the CycloneDX bill of materials of the image's Python packages into dist/
	@$(PYTHON) -m venv --clear --without-pip $(VENV)/image
	@$(BIN)/python -m pip --python $(VENV)/image/bin/python install --quiet --disable-pip-version-check --only-binary :all: --no-deps --require-hashes -r requirements-image.lock
	@mkdir -p $(DIST)
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file $(DIST)/sbom.cdx.json $(VENV)/image

lock: OWN := --no-emit-package aks-gpu-provisioner --no-emit-package aks-gpu-provisioner-try
lock:  ## update the lock files (needs uv); the dev lock contains only what the runtime lock does not
	uv pip compile $(UPGRADE) --quiet pyproject.toml --extra try --group editable $(OWN) --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o requirements.lock
	uv pip compile $(UPGRADE) --quiet pyproject.toml --extra try --extra dev --constraint requirements.lock $(OWN) --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $$(sed -nE 's/^([a-z0-9][a-z0-9._-]*)==.*/--no-emit-package \1/p' requirements.lock) -o requirements-dev.lock
	uv pip compile --quiet pyproject.toml --constraint requirements.lock --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o requirements-image.lock
	echo hatchling | uv pip compile --quiet - --constraint requirements.lock --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o requirements-build.lock

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
