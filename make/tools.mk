# Tools that a fresh machine does not have. Each is built once, at a pinned version, into the cache
# outside of the checkout; nothing is installed into the user's own cargo directory.

TOOLS := $(ENSEMBLE_CACHE)/tools

CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := $(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny

MDBOOK_VERSION := 0.5.4
MDBOOK := $(TOOLS)/mdbook-$(MDBOOK_VERSION)/bin/mdbook

# Built in a directory of their own: the workspace's profile and lock file are not theirs.
install-tool = cd / && CARGO_TARGET_DIR='$(TOOLS)/build' $(CARGO) install --locked

$(CARGO_DENY):
	$(install-tool) cargo-deny --version $(CARGO_DENY_VERSION) \
		--root '$(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION)'

$(MDBOOK):
	$(install-tool) mdbook --version $(MDBOOK_VERSION) --no-default-features --features search \
		--root '$(TOOLS)/mdbook-$(MDBOOK_VERSION)'
