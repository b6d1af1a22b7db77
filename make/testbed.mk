# The testbed: a real Kubernetes on this machine. See docs/testbed.md.

# Where cargo puts what it builds, also when the caller has moved it.
TARGET_DIR ?= $(or $(CARGO_TARGET_DIR),target)
TESTBED ?= $(TARGET_DIR)/debug/testbed
IMAGE_ARCHIVE ?= $(TARGET_DIR)/ensemble-image.tar
WRITER_ARCHIVE ?= $(TARGET_DIR)/writer-image.tar
# Tests that need a cluster are behind features.
CLUSTER_TESTS := --features ensemble-testbed/cluster-tests,ensemble-apitests/api,ensemble-e2e/e2e
CLUSTER_TEST = $(CARGO) test --workspace $(LOCKED) $(MUTANTS) $(CLUSTER_TESTS)

.PHONY: testbed testbed-build testbed-up testbed-down testbed-status image image-writer test-api e2e bench-upgrade bench-memory

# The program itself, as the tests beside it need it: of the package alone cargo would build half of the
# dependencies anew.
testbed:
	$(CLUSTER_TEST) --no-run --test control_plane

testbed-build: testbed ## build all that the full testbed is made of; takes minutes the first time
	$(TESTBED) build

testbed-up: testbed
	$(TESTBED) up

testbed-down: testbed
	$(TESTBED) down

testbed-status: testbed ## say which programs of the testbed run
	$(TESTBED) status

# Both programs at once: one after the other, cargo would build what they share twice.
PROGRAMS = $(CARGO) build --release $(LOCKED) \
	--package ensemble-cli --package ensemble-writer --bin ensemble --bin writer

image: testbed
	$(PROGRAMS)
	$(TESTBED) image --binary $(TARGET_DIR)/release/ensemble --archive $(IMAGE_ARCHIVE)

# The client that writes all the time, for the tests with PostgreSQL.
image-writer: testbed
	$(PROGRAMS)
	$(TESTBED) image --binary $(TARGET_DIR)/release/writer --archive $(WRITER_ARCHIVE)

# On real control planes of the newest and of the oldest supported Kubernetes: everything, or with
# API_PART=1/3 only a third of it on the oldest. API_TEST=NAME is one test alone, on the newest unless
# ENSEMBLE_KUBERNETES=oldest.
API_PART ?= $(PART)
API_TESTS = $(CLUSTER_TEST) --test api -- --test-threads=4
ifdef API_TEST
test-api: testbed
	$(TESTBED) build --profile control-plane --version $(or $(ENSEMBLE_KUBERNETES),current)
	test=$$(bash make/chosen.sh '$(API_TEST)' '' $(API_TESTS)); \
	$(API_TESTS) --exact $$test
else
test-api: testbed
	$(TESTBED) build --profile control-plane --version current
	$(TESTBED) build --profile control-plane --version oldest
	$(CLUSTER_TEST) --test control_plane -- --test-threads=2
	bash make/again.sh 'make test-api API_TEST=' $(API_TESTS)
	oldest=$$($(API_TESTS) --list --format terse | bash make/part.sh '$(API_PART)'); \
	export ENSEMBLE_KUBERNETES=oldest; \
	bash make/again.sh 'make test-api ENSEMBLE_KUBERNETES=oldest API_TEST=' $(API_TESTS) --exact $$oldest
endif

# The binary as it is shipped, measured from outside. Takes minutes: 5,000 pods are created.
bench-memory: testbed ## memory of the controller with 500 ensembles and 5,000 pods
	$(TESTBED) build --profile control-plane --version current
	$(PROGRAMS)
	ENSEMBLE_BIN=$(abspath $(TARGET_DIR))/release/ensemble \
		$(CARGO) run $(LOCKED) --package ensemble-apitests --example memory -- $(BENCH)

# simkube and a real API server, asked the same at random, which `make test-api` does for a minute.
# ENSEMBLE_FIDELITY_SEED says where to begin.
OPS ?= 3000
.PHONY: fidelity
fidelity: testbed ## compare simkube with a real API server over OPS random calls
	$(TESTBED) build --profile control-plane --version current
	ENSEMBLE_FIDELITY_OPS=$(OPS) $(CLUSTER_TEST) --test api fidelity -- --nocapture --test-threads=1

# Everything; or with E2E_PART=2/3 the second third of the tests that are marked to be ignored, beside all
# that are not; or with E2E_TEST=NAME one test alone. The testbed is taken down however the tests end; their
# verdict is the target's. All tests are started at once: which of them run together is decided on their
# stage, see docs/testbed.md.
E2E_PART ?= $(PART)
E2E = $(CLUSTER_TEST) --test e2e --
E2E_TIMES ?= $(TARGET_DIR)/e2e-times.tsv
e2e: image image-writer
	tests=$$(bash make/chosen.sh '$(E2E_TEST)' '$(E2E_PART)' $(E2E)); \
	trap '$(TESTBED) down' EXIT; \
	$(TESTBED) up; \
	$(TESTBED) push $(IMAGE_ARCHIVE); \
	$(TESTBED) push $(WRITER_ARCHIVE); \
	rm -f $(E2E_TIMES); \
	export ENSEMBLE_E2E_TIMES=$(abspath $(E2E_TIMES)); \
	export ENSEMBLE_BIN=$(abspath $(TARGET_DIR))/release/ensemble; \
	status=0; \
	AGAIN=4 bash make/again.sh 'make e2e E2E_TEST=' \
		$(E2E) --include-ignored --test-threads=1000 --exact $$tests || status=$$?; \
	bash make/slowest.sh $(E2E_TIMES); \
	exit $$status

# What real kubelets say about pods, for crates/simkube/tests/traces.rs.
.PHONY: traces
traces: testbed ## record what real kubelets say, to hold simkube's against it
	$(CARGO) build --workspace $(LOCKED) --example record-traces
	trap '$(TESTBED) down' EXIT; \
	$(TESTBED) up; \
	$(TARGET_DIR)/debug/examples/record-traces

# What an upgrade of PostgreSQL costs its clients; see docs/bench-upgrade.md. RUNS=1 for a glimpse.
RUNS ?= 5
bench-upgrade: image image-writer
	$(CARGO) build --workspace $(LOCKED) --example bench-upgrade
	trap '$(TESTBED) down' EXIT; \
	$(TESTBED) up; \
	$(TESTBED) push $(IMAGE_ARCHIVE); \
	$(TESTBED) push $(WRITER_ARCHIVE); \
	ENSEMBLE_BIN=$(abspath $(TARGET_DIR))/release/ensemble \
		$(TARGET_DIR)/debug/examples/bench-upgrade --runs $(RUNS) $(BENCH)
