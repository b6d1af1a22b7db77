# The testbed: a real Kubernetes on this machine. See docs/testbed.md.

CARGO ?= cargo
# Where cargo puts what it builds, also when the caller has moved it.
TARGET_DIR ?= $(or $(CARGO_TARGET_DIR),target)
TESTBED ?= $(TARGET_DIR)/debug/testbed
IMAGE_ARCHIVE ?= $(TARGET_DIR)/ensemble-image.tar

.PHONY: testbed testbed-build testbed-up testbed-down testbed-status image test-api e2e

# The program itself.
testbed:
	$(CARGO) build --package ensemble-testbed

# Everything the full testbed is made of; takes minutes the first time.
testbed-build: testbed
	$(TESTBED) build

testbed-up: testbed
	$(TESTBED) up

testbed-down: testbed
	$(TESTBED) down

testbed-status: testbed
	$(TESTBED) status

# The controller as an OCI archive.
image: testbed
	$(CARGO) build --release --package ensemble-cli --bin ensemble
	$(TESTBED) image --binary $(TARGET_DIR)/release/ensemble --archive $(IMAGE_ARCHIVE)

# API tests, on real control planes of the newest and the oldest supported Kubernetes.
test-api: testbed
	$(TESTBED) build --profile control-plane --version current
	$(TESTBED) build --profile control-plane --version oldest
	$(CARGO) test --package ensemble-testbed --features cluster-tests
	$(CARGO) test --package ensemble-apitests

# End-to-end tests. The testbed is taken down in any case, and the tests' verdict is kept.
e2e: image
	$(TESTBED) up
	$(TESTBED) push $(IMAGE_ARCHIVE)
	verdict=0; \
	$(CARGO) test --package ensemble-e2e --features e2e --no-fail-fast || verdict=$$?; \
	$(TESTBED) down || verdict=1; \
	exit $$verdict
