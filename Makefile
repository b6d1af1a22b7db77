# `make` or `make help` lists what there is. Each target's line of help stands behind its `##`.
#
# The parts live in make/*.mk: tools (what is fetched and where it is kept), lint, docs, image, and
# testbed (a real Kubernetes on this machine, for test-api and e2e).

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules

CARGO ?= cargo
# In CI the lock file is the truth; at home cargo may bring it up to date.
LOCKED := $(if $(CI),--locked)
# Where tools and the parts of the testbed are kept between runs, outside of the checkout.
ENSEMBLE_CACHE ?= $(HOME)/.cache/ensemble
export ENSEMBLE_CACHE

.PHONY: help
help: ## list the targets
	@echo 'usage: make TARGET'
	@echo
	@cat $(MAKEFILE_LIST) \
		| sed -nE 's/^([a-z][a-z0-9-]*):.*## (.*)$$/\1\t\2/p' \
		| sort -u \
		| awk -F '\t' '{ printf "  %-14s %s\n", $$1, $$2 }'

.PHONY: build
build: ## build the `ensemble` binary, optimised, in target/release
	$(CARGO) build --release $(LOCKED) -p ensemble-cli

# In CI `make sweep` comes next, which tries all faults that this tries a part of.
SWEPT := $(if $(CI),-- --skip no_single_fault)

# Rules that tests can switch off are built into all tests, so that nothing is built once with and once
# without them. Tests are chosen by their targets and not by their packages for the same reason, here and in
# make/testbed.mk: of one package cargo would build the dependencies anew, with the features that this
# package alone asks for.
MUTANTS := --features ensemble-planner/mutants,ensemble-rehearsal/mutants

.PHONY: test
test: ## all tests that need Rust alone: no root, no cluster, no network
	$(CARGO) test --workspace $(LOCKED) $(MUTANTS) --no-fail-fast $(SWEPT)

# PART=3/24 plays the third of 24 parts, with what `make test` has built. The better optimised build plays
# twice as fast, but takes minutes to make, which pays for everything only.
SWEEP_BUILD := $(if $(PART),--workspace $(MUTANTS),--profile sweep -p ensemble-rehearsal)

.PHONY: sweep
sweep: ## every kind of fault at every call of every scenario, or one PART of it; no root, no network
	ENSEMBLE_SWEEP=$(or $(PART),all) $(CARGO) test $(SWEEP_BUILD) $(LOCKED) --no-fail-fast \
		--test sweep --test roles --test tight --test named -- --nocapture no_single_fault

# FINGERPRINTS="--against FILE" compares with an earlier output; "--help" says what else there is.
.PHONY: fingerprints
fingerprints: ## what is done in every rehearsal under every fault, as numbers: equal before and after a refactoring
	$(CARGO) run --quiet --profile sweep $(LOCKED) -p ensemble-rehearsal --example fingerprints -- $(FINGERPRINTS)

# MINUTES says for how long, SEED where to begin.
MINUTES ?= 5
SEED ?= 1
.PHONY: explore
explore: ## bad days in every scenario for MINUTES, beginning with SEED; no root, no network
	$(CARGO) run --quiet --profile sweep $(LOCKED) -p ensemble-cli -- explore --minutes $(MINUTES) --seed $(SEED)

.PHONY: nightly
nightly: ## everything, at every call and every version, whatever fails; takes hours and needs root
	bash make/nightly.sh

.PHONY: demo
demo: ## see it work: the real conductor on a simulated cluster, with a node that dies; no root, no network
	$(CARGO) run --quiet $(LOCKED) -p ensemble-cli -- demo $(DEMO)

.PHONY: bench
bench: ## benchmarks of the planner and the simulated API server
	$(CARGO) bench --workspace $(LOCKED) --benches

# What these do is in make/testbed.mk.
test-api: ## tests against a real kube-apiserver and etcd, built once; no root
e2e: ## tests on real nodes on this machine; needs root
bench-upgrade: ## what an upgrade of PostgreSQL costs its clients, on real nodes; needs root
image: ## the controller's image, as an OCI archive in target/
testbed-up: ## start a real three-node Kubernetes on this machine; needs root
testbed-down: ## stop it and remove all it made

# Tools come first: what a target needs is read where it stands, and a tool without a name is not built.
include make/tools.mk $(filter-out make/tools.mk,$(wildcard make/*.mk))
