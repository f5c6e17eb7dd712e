# The two commands of the README, and the steps they are made of. `make` alone lists them.

CARGO ?= cargo
OUT := out
HARRIER := $(or $(CARGO_TARGET_DIR),target)/release/harrier

.PHONY: help bench perf test build fmt lint unit docs clean

help: ## List the targets.
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

build: ## Build the program: target/release/harrier.
	$(CARGO) build --release --locked -p harrier

bench: build ## Two benchmarks through a real broker: tables here, figures in out/report.html. Three minutes after the build.
	@rm -f $(OUT)/report.html
	$(HARRIER) bench de-spsc --report $(OUT)/report.html
	$(HARRIER) bench de-pp --report $(OUT)/report.html
	@echo "figures: $(OUT)/report.html"

perf: build ## The figures of docs/measurements, measured side by side with RabbitMQ and a raw relay. Long.
	tests/rabbitmq/install
	$(HARRIER) bench perf

test: ## Everything: formatting, lints, licences, unit tests, fuzzing, simulation, real clients. Up to 45 minutes.
	tests/suite

fmt: ## Format the sources.
	$(CARGO) fmt --all
	cd fuzz && $(CARGO) fmt --all

lint: ## The lints that `make test` starts with.
	tests/suite format lint licences

unit: ## The tests of the crates alone.
	tests/suite unit

docs: ## Build the documentation of the crates: target/doc.
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

clean: ## Remove what was built and measured.
	$(CARGO) clean
	rm -rf $(OUT)
