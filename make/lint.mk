# What a compiler does not notice by itself.

.PHONY: lint
lint: fmt-check clippy purity tidy deny ## format, clippy, purity, tidiness, licences

.PHONY: fmt
fmt: ## format all Rust code
	$(CARGO) fmt --all

.PHONY: fmt-check
fmt-check:
	$(CARGO) fmt --all --check

# Tests that need a cluster are code as any other.
.PHONY: clippy
clippy:
	$(CARGO) clippy --workspace --all-targets $(MUTANTS) $(CLUSTER_TESTS) $(LOCKED) -- -D warnings

.PHONY: purity
purity: ## prove that planner and conductor see no clock, no chance and no outside world
	bash make/purity.sh

.PHONY: tidy
tidy: ## no machine's paths, no dead links, no overgrown files
	bash make/tidy.sh

# The advisory database lives in a Git repository beside the registry. Builds reach the registry
# alone, so advisories are not checked here; see deny.toml.
.PHONY: deny
deny: $(CARGO_DENY) ## licences, sources and banned crates
	'$(CARGO_DENY)' --workspace $(LOCKED) check --hide-inclusion-graph bans licenses sources
