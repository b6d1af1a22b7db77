# Pages that are made from the code, and the book.

GENERATED := cli api reasons exit-codes

.PHONY: docs
docs: docs-generate $(MDBOOK) ## write the generated pages and build the book into book/
	'$(MDBOOK)' build

.PHONY: docs-generate
docs-generate:
	$(CARGO) build --quiet $(LOCKED) -p ensemble-cli
	mkdir -p docs/reference
	for page in $(GENERATED); do \
		$(CARGO) run --quiet $(LOCKED) -p ensemble-cli -- docs "$$page" > "docs/reference/$$page.md"; \
	done
	$(CARGO) run --quiet $(LOCKED) -p ensemble-cli -- docs guarantees > docs/guarantees.md
