# `make help` lists the targets. Everything is installed into .venv; outside the checkout only
# the user's caches change.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
# Ray starts many Python processes, each of which would recompile all its imports.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHART := charts/railhead
PIP_AUDIT_VERSION := 2.10.1
CRDS := crds/railhead.dev_trainjobs.yaml $(CHART)/files/crds/railhead.dev_trainjobs.yaml
EXAMPLES := $(wildcard manifests/examples/*.yaml manifests/examples/*/*.yaml)

.PHONY: help setup setup-publish check check-types check-code check-generated format generate manifests checksums test test-unit test-all test-gpu test-kueue coverage mutants demo record-demo e2e e2e-install e2e-node bench-goodput-simulated bench-queue-simulated docs image sbom release keep-crd audit publish example-image clean

help: ## List the targets
	@grep -E '^[a-z0-9%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY) ## Create .venv with everything that the tests and the demo need

$(READY): constraints.txt uv.txt pyproject.toml
	@echo "== creating $(VENV) (with Ray and torch: a few GB the first time)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is required; set PYTHON=")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement uv.txt
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes --requirement constraints.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

check: $(READY) ## Format, lint, types, layers, dead code, stale generated files
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-types check-code check-generated

check-types: $(READY)
	$(BIN)/mypy

check-code: $(READY)
	$(BIN)/ruff format --check operator tests tools benchmarks manifests
	$(BIN)/ruff check operator tests tools benchmarks manifests
	$(BIN)/lint-imports
	$(BIN)/vulture

check-generated: $(READY)
	for crd in $(CRDS); do $(BIN)/python -m railhead.api.crd $$crd --check; done
	$(BIN)/python -m tools.reference --check
	$(BIN)/python -m tools.manifests --check
	$(BIN)/python tools/embed_example.py $(EXAMPLES) --check

format: $(READY) ## Format the code and apply automatic lint fixes
	$(BIN)/ruff format operator tests tools benchmarks manifests
	$(BIN)/ruff check --fix operator tests tools benchmarks manifests

generate: $(READY) ## Write the generated files: the CRD, the tables of the reference, manifests, the examples' inline code
	for crd in $(CRDS); do $(BIN)/python -m railhead.api.crd $$crd; done
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.manifests
	$(BIN)/python tools/embed_example.py $(EXAMPLES)

# The environment of the job that may push: no Ray, no torch, nothing of the tests.
setup-publish: ## Create .venv with only what `make publish` needs
	@test ! -e $(READY) || { echo "$(VENV) is there already"; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement uv.txt
	@$(BIN)/uv pip install --quiet --only-binary :all: --python $(BIN)/python --constraint constraints.txt \
		--requirement pyproject.toml --extra local
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $(READY)

uv.txt: ## (by hand: make -B uv.txt) Pin the installer of all other packages
	echo uv | $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header - -o $@

manifests: $(READY) ## Render the kustomize overlays and install.yaml from the chart (part of generate)
	$(BIN)/python -m tools.manifests

constraints.txt: ## (by hand: make -B constraints.txt) Pin the dependencies of the tests and the demo
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--extra test --extra docs pyproject.toml -o $@

checksums: $(READY) ## (by hand, with the network) Pin the checksums of the release binaries that local mode downloads
	$(BIN)/python -m tools.checksums

test-unit: $(READY) ## Tests of the pure layers, and of the operator in a simulated cluster: a minute
	$(BIN)/pytest -n auto -m "not slow" tests/unit tests/architecture tests/model tests/fuzz

# The tests of the operator mostly wait, in two pytest processes with a cluster each; two more keep two processors
# busy meanwhile. The slowest tests and the total time are printed last. See ORDER in tests/conftest.py.
# One Ray job has about twenty processes, and waits for a third of its time: two side by side, and nothing beside them.
# (The tests of the model beside one at the lowest priority were tried: no gain, for they slow Ray down by as much as
# they take.)
RAY_TESTS := tests/ray tests/examples tests/e2e tests/install tests/local/test_demo.py
BY_SCOPE = --dist loadscope --no-loadscope-reorder
PARALLEL = -n 4 $(BY_SCOPE)
# A test that hangs ends its process after that many seconds: pytest-xdist then names it, below the stacks of its threads.
HANGS = -o faulthandler_timeout=1500 -o faulthandler_exit_on_timeout=true
test: $(READY) ## Every check that a commit must pass
	@began=$$SECONDS; nice $(BIN)/python -m tools.programs & programs=$$!; \
	trap 'kill $$programs 2>/dev/null || true; echo "== make test: $$((SECONDS - began)) s"' EXIT; \
	$(MAKE) --no-print-directory check; \
	echo "== tests without Ray"; \
	$(BIN)/pytest -q $(PARALLEL) $(HANGS) --durations=10 -m "not slow" --ignore tests/gpu $(addprefix --ignore ,$(RAY_TESTS)) tests; \
	echo "== tests with Ray"; \
	$(BIN)/pytest -q -n 2 $(BY_SCOPE) $(HANGS) --durations=10 -m "not slow" $(RAY_TESTS)

test-all: $(READY) ## Every test in named parts, each with its seconds: test, the slow tests, 50,000 random schedules, an older and a newer Kubernetes, a real node, older Rays [PARTS="e2e fuzz"]
	@$(BIN)/python -m tools.all_tests $(PARTS)

test-gpu: $(READY) ## Run real jobs on the NVIDIA GPUs of this machine; print what it has too few for, and exit 0 without any
	$(BIN)/pytest -q -rs tests/gpu

E2E_CLUSTER = --kubeconfig "$(KUBECONFIG)" --kubectl "$(or $(KUBECTL),kubectl)" --image "$(JOB_IMAGE)" \
	$(if $(OPERATOR_IMAGE),--operator-image "$(OPERATOR_IMAGE)") \
	$(if $(VOLUME_FOLDER),--volume-folder "$(VOLUME_FOLDER)")
e2e e2e-install: $(READY)
	@test -n "$(KUBECONFIG)" -a -n "$(JOB_IMAGE)" || { echo "KUBECONFIG= and JOB_IMAGE= are required"; exit 2; }
	$(BIN)/pytest -q $(if $(filter e2e,$@),tests/e2e,tests/install) $(E2E_CLUSTER) $(E2E_ARGS)$(if $(MAY_SELECT_NONE), || test $$? = 5)

e2e: ## Run the end-to-end tests on the cluster of KUBECONFIG= with OPERATOR_IMAGE= JOB_IMAGE= [VOLUME_FOLDER=] [KUBECTL=]
e2e-install: ## Test helm on such a cluster without Railhead in it: install, upgrade, roll back, uninstall

e2e-node: $(READY) ## Test what differs on a real kubelet and containerd, started on this machine where possible [E2E_ARGS= for all]
	@$(BIN)/python tools/e2e_node.py $(if $(filter undefined,$(origin E2E_ARGS)),-m node,$(E2E_ARGS))

KUEUE_TESTS = $(addprefix tests/operator/test_,kueue_rules.py queues.py queue_faults.py queue_topology.py real_kueue.py)
test-kueue: $(READY) ## Run the tests of queues with Kueue's own program, from the folder KUEUE= (tests/kueue/README.md) [KUEUE_ARGS="-k hold"]
	@test -x "$(KUEUE)/kueue" || { echo "KUEUE= must be a folder with Kueue's program and chart: see tests/kueue/README.md"; exit 2; }
	RAILHEAD_KUEUE="$(abspath $(KUEUE))" $(BIN)/pytest -q $(KUEUE_TESTS) $(KUEUE_ARGS)

coverage: $(READY) ## Print the percentage of lines that the tests without cluster and Ray run, per package
	@rm -f .coverage .coverage.*
	@$(BIN)/coverage run -m pytest -q -n auto tests/unit tests/architecture tests/model
	@$(BIN)/coverage combine -q
	@for package in $$(ls operator/railhead/*/__init__.py | xargs -n1 dirname); do \
		printf '%-12s %s %%\n' "$$(basename $$package)" "$$($(BIN)/coverage report --format=total --include="$$package/*")"; \
	done
	@printf '%-12s %s %%\n' all "$$($(BIN)/coverage report --format=total)"

mutants: $(READY) ## Change lines of the pure core, and print what no test notices; an hour [MUTANTS="changed" or "changed:COMMIT" or "contract/failure"]
	$(BIN)/python -m tools.mutants "$(MUTANTS)"

demo: $(READY) ## Train the digits example on a cluster on this machine, kill a worker, and verify the result
	$(BIN)/python tools/demo.py

record-demo: $(READY) ## (by hand) Run the demo, and draw its output as docs/assets/demo.svg for the README
	$(BIN)/python -m tools.record_demo

# One program per question: bench-worker-loss runs benchmarks/worker_loss.py. Those in simulated time have other names.
bench-%: $(READY) ## Measure start, data, elastic, worker-loss, head-loss, in-place, saves, goodput, scale, head-size or attack [BENCH_ARGS="--help"]
	$(BIN)/python -m benchmarks.$(subst -,_,$*) $(BENCH_ARGS)

bench-goodput-simulated: $(READY) ## Productive time of 30 days in simulated time, interrupted as often as Llama 3's training [BENCH_ARGS="--seeds 20"]
	$(BIN)/python -m benchmarks.goodput_simulation $(BENCH_ARGS)

bench-queue-simulated: $(READY) ## GPU-hours of a day of 50 jobs on 64 GPUs in simulated time: with a queue, with gangs, with neither [BENCH_ARGS="--seeds 1"]
	$(BIN)/python -m tests.model.contention $(BENCH_ARGS)

docs: $(READY) ## Build the documentation as a site into build/site, without the network; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

image: $(READY) ## Build the operator's image with docker, podman or buildah [BUILDER=buildah IMAGE_ARGS="--build-arg BASE_IMAGE=..."]
	@$(BIN)/python -m tools.image $(if $(BUILDER),--builder $(BUILDER)) --args="$(IMAGE_ARGS)"

example-image: $(READY) ## Build the image that manifests/examples name: Ray and all frameworks, several GB [BUILDER= IMAGE_ARGS=]
	@$(BIN)/python -m tools.image --examples $(if $(BUILDER),--builder $(BUILDER)) --args="$(IMAGE_ARGS)"

sbom: $(READY) ## Write the image's contents on top of its base into build/release, as CycloneDX
	@$(BIN)/python -m tools.sbom

release: $(READY) ## Build all files of a release into build/release, with checksums; TWICE=1 compares two builds [IMAGE_ARGS=...]
	@$(BIN)/python -m tools.release --image-args="$(IMAGE_ARGS)" $(if $(TWICE),--twice)

# --strict: a package that the service does not know is an error; without it, pip-audit says "No known vulnerabilities".
audit: $(READY) ## Look up the known vulnerabilities of all pinned packages in the package index
	@$(BIN)/uv tool run --quiet --from pip-audit==$(PIP_AUDIT_VERSION) pip-audit --strict --require-hashes --disable-pip \
		--requirement constraints.txt --requirement uv.txt

publish: $(READY) ## (by hand) Push the package, images and chart of build/release to REGISTRY= and INDEX= [UPLOAD= PLAIN_HTTP=1 DRY_RUN=1]
	@test -n "$(REGISTRY)" -a -n "$(INDEX)" || { echo "REGISTRY= and INDEX= are required"; exit 2; }
	@$(BIN)/python -m tools.publish --registry "$(REGISTRY)" --index "$(INDEX)" \
		$(if $(UPLOAD),--upload "$(UPLOAD)") $(if $(PLAIN_HTTP),--plain-http) $(if $(DRY_RUN),--dry-run)

keep-crd: $(READY) ## (by hand, for each release) Keep its CRD, which later ones must not narrow, in tests/released
	@$(BIN)/python -m tools.release --keep-crd

clean: ## Remove .venv and the checkout's caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
