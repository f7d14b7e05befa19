# Every target installs what it needs from the package registries by itself.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BREAK ?=
ARGS ?=

# Some images forbid Python to keep byte code. The suites start hundreds of processes, and each would compile all
# that it imports.
export PYTHONDONTWRITEBYTECODE :=

# The cluster's tests mostly wait. Each worker has a control plane of its own (half a gigabyte, and 5 s of a core
# to start it): the operator writes to every HawkNode of a cluster, so two tests on one would meet there.
SIDE_BY_SIDE := $(if $(HAWK_TEST_KUBECONFIG),,--numprocesses 4 --dist loadgroup --no-loadscope-reorder)

# Each writes files that are committed, and with --check fails where they are stale.
GENERATORS := crds/hawk_api/generate.py agents/hawk_agent/protocol/generate.py \
  operator/hawk_operator/status/reference.py tests/bench/policies/page.py charts/values_table.py docs/modules.py docs/options.py

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The editable install is repeated when the C kernel or the packaging changes.
EXTENSIONS := $(foreach room,layouts transports/verbs,$(wildcard agents/hawk_agent/$(room)/*.[ch]))

$(STAMP): requirements/dev.txt requirements/uv.txt pyproject.toml setup.py $(EXTENSIONS)
	@echo "==> Python environment in $(VENV) (a minute cold)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BIN)/python -m uv pip install --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m uv pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: venv
venv: $(STAMP) ## the Python environment that every other target uses

.PHONY: demo
demo: $(STAMP) ## the main job, start to end, on real parts (BREAK=swap-heads|drop-chunk|stale-epoch|no-metrics must fail)
	@$(BIN)/python -m tests.e2e.demo $(if $(BREAK),--break $(BREAK)) $(ARGS)

.PHONY: test
test: test-fast test-slow test-cluster ## the fast suite, the slow unit tests, the cluster suite and the demo's own tests

.PHONY: test-fast
test-fast: $(STAMP) ## pure functions, schemas, layouts, agents (under two minutes on two quiet cores)
	@$(BIN)/python -m pytest tests/unit -m "not slow" --numprocesses auto $(ARGS)

.PHONY: test-lowest
test-lowest: $(STAMP) ## the lowest versions that pyproject.toml allows, in out/lowest: every module, the fast suite (five to ten minutes)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python out/lowest
	@$(BIN)/uv pip compile --quiet --all-extras --resolution lowest-direct --python out/lowest pyproject.toml -o out/lowest.txt
	@$(BIN)/uv pip install --python out/lowest -r out/lowest.txt --group dev
	@$(BIN)/uv pip install --python out/lowest --no-deps --no-build-isolation --editable .
	@out/lowest/bin/python -m pytest tests/unit -m "not slow" --numprocesses auto $(ARGS)

.PHONY: coverage
coverage: $(STAMP) ## the fast suite with branch coverage
	@$(BIN)/python -m pytest tests/unit -m "not slow" --numprocesses auto --cov --cov-report=term:skip-covered $(ARGS)

.PHONY: test-slow
test-slow: $(STAMP) ## the kernel under sanitizers, and other unit tests that take long
	@$(BIN)/python -m pytest tests/unit -m slow --numprocesses auto $(ARGS)

.PHONY: test-cluster
test-cluster: $(STAMP) ## operator and agents as processes against a real API server; the demo
	@$(BIN)/python -m tests.cluster build
	@$(BIN)/python -m pytest tests/cluster tests/e2e --timeout 600 $(SIDE_BY_SIDE) $(ARGS)

.PHONY: test-nodes
test-nodes: $(STAMP) ## the chart and engines in pods on three real nodes (as root; fetches containerd, builds the image)
	@$(BIN)/python -m pytest tests/nodes $(ARGS)

.PHONY: demo-rdma
demo-rdma: $(STAMP) ## the demo's transfer and kill steps over verbs, in a guest (BREAK=swap-heads|drop-chunk|stale-epoch must fail)
	@$(BIN)/python -m tests.rdma demo $(if $(BREAK),--break $(BREAK)) $(ARGS)

.PHONY: test-rdma
test-rdma: $(STAMP) ## the RDMA suite on SoftRoCE, in a guest (ARGS: pytest's own, as in "tests/rdma/test_rig.py -k active")
	@$(BIN)/python -m tests.rdma test $(ARGS)
	@$(if $(ARGS),,$(BIN)/python -m pytest tests/rdma/rig)

.PHONY: lint
lint: $(STAMP) ## ruff, import contracts, declared dependencies, YAML, shell, generated files current
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/deptry .
	@$(BIN)/deptry . --exclude '(\.venv|\.git|build|out)/' --non-dev-dependency-groups dev,mutants --ignore DEP002
	@$(BIN)/yamllint --strict .
	@git ls-files '*.sh' .ci/run | xargs -r $(BIN)/shellcheck
	@for generator in $(GENERATORS); do PYTHONPATH=. $(BIN)/python $$generator --check; done

.PHONY: types
types: $(STAMP) ## strict static types
	@$(BIN)/mypy

.PHONY: crds
crds: $(STAMP) ## regenerate what is generated: CRDs, API and condition pages, protocols, the chart's table
	@for generator in $(GENERATORS); do PYTHONPATH=. $(BIN)/python $$generator; done

.PHONY: image
image: $(STAMP) ## the images of operator and agents: with docker, podman or buildah, without one as archives in out/ (ARGS="--registry R --tag T")
	@$(BIN)/python -m images $(ARGS)

AUDITED := operator agent
AUDIT := out/audit/bin

$(AUDIT)/.installed: requirements/audit.txt $(STAMP)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python out/audit
	@$(BIN)/uv pip install --quiet --python out/audit --require-hashes -r requirements/audit.txt
	@touch $@

.PHONY: sbom
sbom: $(AUDIT)/.installed ## the bill of materials of each image's wheels, as CycloneDX in out/
	@for name in $(AUDITED); do $(AUDIT)/cyclonedx-py requirements requirements/$$name.txt --pyproject pyproject.toml \
	  --output-reproducible --output-file out/sbom-$$name.json; done

.PHONY: audit
audit: $(AUDIT)/.installed ## known vulnerabilities of the locked versions (fails where PyPI's database has no answer)
	@for name in $(AUDITED); do $(AUDIT)/pip-audit --strict --disable-pip --require-hashes --requirement requirements/$$name.txt; done

.PHONY: bench
bench: $(STAMP) ## ours, the baselines and the limit, interleaved; JSON and a plot in out/ (minutes)
	@$(BIN)/python -m tests.bench $(ARGS)

.PHONY: bench-policies
bench-policies: $(STAMP) ## docs/scaling.md's tables and pictures: every policy on generated traffic and ARGS="TRACE-FILE …" (half an hour; goes on where it was)
	@$(BIN)/python -m tests.bench.policies $(ARGS)

.PHONY: soak-scale
soak-scale: $(STAMP) ## 1,000 pools and 10,000 nodes under one operator; figures in out/scale.json (a quarter of an hour)
	@$(BIN)/python -m tests.cluster.scale $(ARGS)

.PHONY: soak-transfers
soak-transfers: $(STAMP) ## 500 transfers of random shape over shared memory and TCP, compared with an oracle (HAWK_SOAK=N)
	@$(BIN)/python -m pytest tests/soak/test_transfers.py $(ARGS)

.PHONY: soak-cancelled
soak-cancelled: $(STAMP) ## every wait of every task of two agents is cut off, one a run, over shared memory and TCP (a quarter of an hour)
	@$(BIN)/python -m pytest tests/soak/test_cancelled.py -rP $(ARGS)

.PHONY: soak-rdma
soak-rdma: $(STAMP) ## 200 random faults over verbs, data checked after each (some minutes in a guest)
	@HAWK_RDMA_FAULTS=200 $(BIN)/python -m tests.rdma test --timeout 3600 tests/rdma/test_path_faults.py --timeout=3600 $(ARGS)

.PHONY: fuzz
fuzz: $(STAMP) ## a thousand examples of every property of the layouts: notations, nests, kernels, streams (minutes)
	@HAWK_TEST_PROFILE=thorough $(BIN)/python -m pytest tests/unit/layouts -m "not slow" --numprocesses auto --timeout 1200 $(ARGS)

.PHONY: mutants
mutants: $(STAMP) ## change the code of the pure modules and see a test fail (hours; ARGS="layouts --sample 200" a few minutes)
	@$(BIN)/python -m uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/mutants.txt
	@$(BIN)/python -m tests.mutants $(ARGS)

.PHONY: upgrade
upgrade: $(STAMP) ## move every locked version to the newest that the ranges in pyproject.toml allow
	@$(BIN)/python requirements/lock.py --upgrade

.PHONY: clean
clean: ## remove what the targets made in this clone (shared caches stay)
	@rm -rf $(VENV) build dist out .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name '__pycache__' -o -name '*.egg-info' -o -name '*.so' | xargs -r rm -rf
