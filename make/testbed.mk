# The testbed: a real Kubernetes on this machine. See docs/testbed.md.

# Where cargo puts what it builds, also when the caller has moved it.
TARGET_DIR ?= $(or $(CARGO_TARGET_DIR),target)
TESTBED ?= $(TARGET_DIR)/debug/testbed
IMAGE_ARCHIVE ?= $(TARGET_DIR)/ensemble-image.tar
WRITER_ARCHIVE ?= $(TARGET_DIR)/writer-image.tar
# Tests that need a cluster are behind features.
CLUSTER_TESTS := --features ensemble-testbed/cluster-tests,ensemble-apitests/api,ensemble-e2e/e2e

.PHONY: testbed testbed-build testbed-up testbed-down testbed-status image image-writer test-api e2e bench-upgrade bench-memory

# The program itself.
testbed:
	$(CARGO) build $(LOCKED) --package ensemble-testbed

testbed-build: testbed ## build all that the full testbed is made of; takes minutes the first time
	$(TESTBED) build

testbed-up: testbed
	$(TESTBED) up

testbed-down: testbed
	$(TESTBED) down

testbed-status: testbed ## say which programs of the testbed run
	$(TESTBED) status

image: testbed
	$(CARGO) build --release $(LOCKED) --package ensemble-cli --bin ensemble
	$(TESTBED) image --binary $(TARGET_DIR)/release/ensemble --archive $(IMAGE_ARCHIVE)

# The client that writes all the time, for the tests with PostgreSQL.
image-writer: testbed
	$(CARGO) build --release $(LOCKED) --package ensemble-writer --bin writer
	$(TESTBED) image --binary $(TARGET_DIR)/release/writer --archive $(WRITER_ARCHIVE)

# On real control planes of the newest and of the oldest supported Kubernetes.
test-api: testbed
	$(TESTBED) build --profile control-plane --version current
	$(TESTBED) build --profile control-plane --version oldest
	$(CARGO) test --workspace $(LOCKED) $(CLUSTER_TESTS) --test control_plane -- --test-threads=2
	$(CARGO) test --workspace $(LOCKED) $(CLUSTER_TESTS) --test api -- --test-threads=4
	ENSEMBLE_KUBERNETES=oldest \
		$(CARGO) test --workspace $(LOCKED) $(CLUSTER_TESTS) --test api -- --test-threads=4

# The binary as it is shipped, measured from outside. Takes minutes: 5,000 pods are created.
bench-memory: testbed ## memory of the controller with 500 ensembles and 5,000 pods
	$(TESTBED) build --profile control-plane --version current
	$(CARGO) build --release $(LOCKED) --package ensemble-cli --bin ensemble
	ENSEMBLE_BIN=$(abspath $(TARGET_DIR))/release/ensemble \
		$(CARGO) run $(LOCKED) --package ensemble-apitests --example memory -- $(BENCH)

# simkube and a real API server, asked the same at random, which `make test-api` does for a minute.
# ENSEMBLE_FIDELITY_SEED says where to begin.
OPS ?= 3000
.PHONY: fidelity
fidelity: testbed ## compare simkube with a real API server over OPS random calls
	$(TESTBED) build --profile control-plane --version current
	ENSEMBLE_FIDELITY_OPS=$(OPS) $(CARGO) test --workspace $(LOCKED) $(CLUSTER_TESTS) \
		--test api fidelity -- --nocapture --test-threads=1

# The testbed is taken down however the tests end; their verdict is the target's.
e2e: image image-writer
	trap '$(TESTBED) down' EXIT; \
	$(TESTBED) up; \
	$(TESTBED) push $(IMAGE_ARCHIVE); \
	$(TESTBED) push $(WRITER_ARCHIVE); \
	ENSEMBLE_BIN=$(abspath $(TARGET_DIR))/release/ensemble \
		$(CARGO) test --workspace $(LOCKED) --no-fail-fast $(CLUSTER_TESTS) \
		--test members --test postgres --test testbed --test testbed_faults

# What real kubelets say about pods, for crates/simkube/tests/traces.rs.
.PHONY: traces
traces: testbed ## record what real kubelets say, to hold simkube's against it
	$(CARGO) build $(LOCKED) --package ensemble-e2e --bin record-traces
	trap '$(TESTBED) down' EXIT; \
	$(TESTBED) up; \
	$(TARGET_DIR)/debug/record-traces

# What an upgrade of PostgreSQL costs its clients; see docs/bench-upgrade.md. RUNS=1 for a glimpse.
RUNS ?= 5
bench-upgrade: image image-writer
	$(CARGO) build $(LOCKED) --package ensemble-e2e --bin bench-upgrade
	trap '$(TESTBED) down' EXIT; \
	$(TESTBED) up; \
	$(TESTBED) push $(IMAGE_ARCHIVE); \
	$(TESTBED) push $(WRITER_ARCHIVE); \
	ENSEMBLE_BIN=$(abspath $(TARGET_DIR))/release/ensemble \
		$(TARGET_DIR)/debug/bench-upgrade --runs $(RUNS) $(BENCH)
