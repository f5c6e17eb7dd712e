# The two commands of the README, and the steps they are made of. `make` alone lists them.

CARGO ?= cargo
OUT := out
HARRIER := $(or $(CARGO_TARGET_DIR),target)/release/harrier

.PHONY: help bench perf test build packages image fmt lint unit sim crash soak attacks mutants docs clean

help: ## List the targets.
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

# The commit is noted in every document of the benchmarks; a build outside a checkout has none.
export BENCH_COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)

# Backtraces and profilers find the symbols beside the program. Cargo's own copy stays whole, and is what this begins with
# each time.
build: ## Build the program, stripped: target/release/harrier, with its symbols in harrier.debug beside it. FEATURES="--no-default-features --features broker": without the tools.
	$(CARGO) build --release --locked -p harrier $(FEATURES)
	objcopy --only-keep-debug $(HARRIER) $(HARRIER).debug
	objcopy --strip-all --add-gnu-debuglink=$(HARRIER).debug $(HARRIER) $(HARRIER).stripped
	mv -f $(HARRIER).stripped $(HARRIER)

# Of the whole program: the packages have its symbols apart. The C library is of the profile whose panics end at its boundary.
packages: ## Packages of program and C library for Debian and RPM, a tarball, debug symbols, bills of materials: out/packages. PACKAGES="--level 9 deb": see `packages/build --help`.
	$(CARGO) build --release --locked -p harrier
	$(CARGO) build --profile wheel --locked -p harrier-capi
	packages/build --program $(HARRIER) $(PACKAGES)

image: ## An image for containers, which podman and docker load: out/packages/harrier-*.oci.tar.
	$(CARGO) build --release --locked -p harrier
	packages/build --program $(HARRIER) image

bench: build ## All benchmarks through a real broker, briefly: tables here, figures in out/report.html. About two minutes after the build.
	$(HARRIER) bench suite --quick --out $(OUT)

perf: build ## Harrier, RabbitMQ and a raw relay side by side. PERF="--only latency", PERF=--write: see `harrier bench perf --help`.
	tests/rabbitmq/install
	$(HARRIER) bench perf --out $(OUT) $(PERF)

test: ## Everything: formatting, lints, licences, unit tests, fuzzing, simulation, real clients. About 45 minutes on two cores, 12 GiB of disk.
	tests/suite

fmt: ## Format the sources.
	$(CARGO) fmt --all
	cd fuzz && $(CARGO) fmt --all

lint: ## The lints of `make test`.
	tests/suite format lint licences

unit: ## The tests of the crates alone.
	tests/suite unit

SEEDS ?= 1000000
FROM ?= 0
sim: ## The simulation, SEEDS=1000000 seeds from FROM=0: on all cores, with progress; Ctrl-C ends it with what it has found.
	$(CARGO) run --quiet --release --locked -p harrier-sim -- --seeds $(FROM)..$$(($(FROM) + $(SEEDS)))

KILLS ?= 100
crash: build ## The tests of crashes on real files, for longer: KILLS=100 kills, power cuts and replays of each kind, each call that fails.
	HARRIER_BIN=$(abspath $(HARRIER)) HARRIER_KILLS=$(KILLS) HARRIER_KILLED_CALLS=$(KILLS) HARRIER_FAILED_CALLS=1 HARRIER_FLIPS=$(KILLS) \
		$(CARGO) test --locked -p harrier --test durability -- --nocapture
	HARRIER_CHAIN_KILLS=5 $(CARGO) test --locked -p harrier --test program durable_chain -- --nocapture
	HARRIER_BIN=$(abspath $(HARRIER)) HARRIER_CUTS=$(KILLS) HARRIER_REPLAYS=$(KILLS) tests/lab/run --only power
	INTEROP_SUITE_S=$$((240 + 10 * $(KILLS))) INTEROP_KILLS=$(KILLS) HARRIER=$(abspath $(HARRIER)) tests/interop/run --broker harrier --only kills

SOAK ?= 3600
SOAK_RATE ?= 20
soak: build ## A broker with a store under a steady load for SOAK=3600 seconds (rounds of 1,000 messages, SOAK_RATE=20 a second), and 100 GB past messages that nobody acknowledges; memory, files, messages lost and doubled are printed.
	HARRIER_BIN=$(abspath $(HARRIER)) HARRIER_SOAK=$(SOAK) HARRIER_SOAK_ROUNDS=$(SOAK_RATE) HARRIER_UNSETTLED=full $(CARGO) test --locked -p harrier --test soak -- \
		--test-threads 1 --nocapture

attacks: build ## The attacks of the tests `turns` and `memory` as large as they were found, one after another: what a bystander waits and what the broker holds are printed. ATTACKS=headers: those with this in their names; HARRIER_ATTACKS_STORE=1: brokers with a store.
	HARRIER_BIN=$(abspath $(HARRIER)) HARRIER_ATTACKS=full $(CARGO) test --locked -p harrier --test turns --test memory -- \
		--test-threads 1 --nocapture $(ATTACKS)

mutants: ## Mutation testing of broker, queues and catalog, many hours whole; MUTANTS="--shard 0/20 --minutes 60": see `tests/mutants/run --help`.
	tests/mutants/run $(MUTANTS)

docs: ## The documentation as a book with a search, out/book/html; before it the generated pages, and the crates' own documentation in target/doc.
	$(CARGO) run --quiet --locked -p harrier-config --example reference > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md
	$(CARGO) run --quiet --locked -p harrier-management --example reference -- page > docs/management.md.new
	mv docs/management.md.new docs/management.md
	$(CARGO) run --quiet --locked -p harrier-management --example reference -- openapi > docs/management/openapi.json.new
	mv docs/management/openapi.json.new docs/management/openapi.json
	tests/interop/page
	docs/build-book
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

clean: ## Remove what was built and measured.
	$(CARGO) clean
	rm -rf $(OUT)
