# Fairbell's commands. Each sets up what it needs on a fresh machine; extra options of the binary
# go into ARGS: make run ARGS="--sequencer off".

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
export PATH := $(HOME)/.cargo/bin:$(PATH)

# The laboratory: one profile and one target folder for everything that is checked; release for what
# is measured.
CHECKED := cargo run --locked --package fairbell-lab --
MEASURED := cargo run --locked --release --package fairbell-lab --
# Packages that `make test` tests; .ci/run tests the laboratory beside all others.
TESTED := --workspace

.DEFAULT_GOAL := help
.PHONY: help run test test-lab tests format bench bench-book bench-peers bench-transports referee replay-check package deploy-check sdk-test web-test web-api web-book stress cloud drill soak mutate mutations coverage lint interop sim fix-acceptance setup sample

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1|/' \
		| while IFS='|' read -r name text; do printf '  make %-16s %s\n' "$$name" "$$text"; done

run: sample ## play the real sample through a whole exchange on this machine, then report
	cargo run --locked --release --package fairbell -- up --once $(ARGS)

test: sample ## all tests, a thousand simulated networks, and the interoperability check
	cargo test --locked --no-fail-fast $(TESTED)
	FAIRBELL_BINARY=$${CARGO_TARGET_DIR:-target}/debug/fairbell $(MAKE) --no-print-directory interop

test-lab: sample ## the tests of the laboratory alone: venues in a box, drills, attacks
	cargo test --locked --no-fail-fast --package fairbell-lab

sim: setup ## a thousand simulated networks with losses, duplicates, reordering and dead proxies
	$(CHECKED) sim --seeds 0..1000 $(ARGS)

fix-acceptance: setup ## QuickFIX's server acceptance scripts, their folder in FAIRBELL_FIX_SCRIPTS
	FAIRBELL_FIX_CLOCK=1 cargo test --locked --package fix --test acceptance

interop: sample ## our feed in somebody else's ITCH 5.0 parser, our FIX door with QuickFIX clients, the samples
	scripts/interop/run.sh
	scripts/interop/fix.sh
	scripts/interop/kit.sh

bench: setup ## order to acceptance, beside its floor
	$(MEASURED) bench rtt $(ARGS)

bench-book: setup ## the order book alone on both workloads, and the whole engine pipeline
	$(MEASURED) bench book --workload w1 $(ARGS)
	$(MEASURED) bench book --workload w2 $(ARGS)
	$(MEASURED) bench engine $(ARGS)

bench-peers: setup ## order books of the public registries beside ours, ratios of one run
	scripts/bench-peers.sh $(ARGS)
	scripts/bench-plan.sh

bench-transports: setup ## gateway to engine over our transport, Redis lists and ZeroMQ
	scripts/bench-transports.sh $(ARGS)

referee: setup ## the public matching benchmark, its harness folder in FAIRBELL_REFEREE_DIR
	cargo build --locked --release --package book-capi
	python3 scripts/referee.py $(ARGS)

package: setup ## Debian package, tarball, image, wheel and bill of materials in target/package
	scripts/package.py $(ARGS)

sdk-test: setup ## the Python client library: lint, types, tests against a real exchange
	cargo build --locked --package fairbell
	scripts/sdk-test.sh $${CARGO_TARGET_DIR:-target}/debug/fairbell

web-test: setup ## the trading page: models under node, pages that trade in Chromium
	cargo build --locked --package fairbell
	scripts/web-test.sh $${CARGO_TARGET_DIR:-target}/debug/fairbell

web-api: setup ## the web door against its own OpenAPI document, by schemathesis
	cargo build --locked --package fairbell
	scripts/web-api.sh $${CARGO_TARGET_DIR:-target}/debug/fairbell

web-book: setup ## books rebuilt from the web door by ccxt's class, beside the engine's at 1,000 positions
	cargo build --locked --package fairbell --package fairbell-lab
	scripts/web-book.sh

deploy-check: setup ## packages, units, image, a fleet, Ansible role, Helm chart, clouds, tried without a cloud; needs root
	deploy/check.sh $(ARGS)

stress: sample ## 300 FIX clients at 10,000 requests/s, then a million requests within a second
	cargo build --locked --release
	scripts/stress clients
	scripts/stress burst

cloud: setup ## a venue of 25 machines in a network in a box: real processes, delays and clocks, judged by the truth
	$(MEASURED) cloud --compare 15s $(ARGS)

drill: setup ## replicas killed, paused, cut off, replaced under load; disks full and rotten; gateways; whole groups
	cargo build --locked --release --package fairbell-lab
	scripts/drill.sh $(ARGS)

soak: setup ## half an hour at 10,000 orders/s, after a warm-up: is memory flat? ARGS="--minutes 5 --warmup-minutes 2"
	cargo build --locked --release
	scripts/soak $(ARGS)

replay-check: setup ## five million commands replayed from start, from a snapshot and by a debug build
	scripts/replay-check.sh $(ARGS)

mutate: setup ## deliberate faults in the book, each to be caught by the comparison with the model
	scripts/mutate-book $(ARGS)

mutations: setup ## ten million faulty messages into each decoder and session
	scripts/mutations $(ARGS)

coverage: setup ## branches that a slice of the mutations reaches in each decoder
	scripts/coverage $(ARGS)

tests: sample ## compile what `make test` runs
	cargo test --locked --workspace --no-run

format: setup ## is everything formatted?
	cargo fmt --all --check

lint: format ## formatting, clippy, documentation and licences, all without a warning
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --no-deps --quiet
	python3 scripts/licences.py

setup:
	@scripts/setup.sh

sample: setup
	@scripts/fetch-sample.sh
