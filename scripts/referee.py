#!/usr/bin/env python3
"""Runs the public benchmark flash1-dev/matching-engine-benchmark on our book and on a peer.

    FAIRBELL_REFEREE_DIR=FOLDER make referee

FOLDER is the benchmark's own repository, fetched and built by you with its own instructions: the
programs `harness` and `generator`, and the adapter of the peer, cpp_orderbook_adapter.so
(geseq/cpp-orderbook; additional_references/cpp_orderbook_adapter there has its README). The
adapter liquibook_adapter.so, if it is there, is the trusted engine: it makes the references of
seeds that have none, and the audits of the book's state compare with it. Without it the peer makes
the references, and audits are left out.

Both engines take turns, run by run, so that both meet the same machine. The figure of a scenario
is the median of its runs, that of an engine its worst scenario at seed 23; a run that is not VALID
fails the whole. Exit code 0 only if everything is VALID.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

SCENARIOS = ["static", "normal", "swing-25", "swing-40", "flash-crash"]
CANONICAL_SEED = 23
TIMEOUT_S = 1200


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="of each engine and scenario at seed 23")
    parser.add_argument("--seeds", default="101,202,303", help="further seeds, one run each")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--engine", default="target/release/libbook_capi.so")
    parser.add_argument("--peer", default="cpp_orderbook", help="NAME of NAME_adapter.so")
    parser.add_argument("--matcher-core", default="0")
    parser.add_argument("--drainer-core", default="1")
    parser.add_argument("--queue", choices=["own", "harness"], default="own",
                        help="what carries our reports; the peer's adapter uses the harness's")
    parser.add_argument("--no-audit", action="store_true", help="leave the audits out")
    parser.add_argument("--json", action="store_true", help="one JSON document, no table")
    return parser.parse_args()


class Harness:
    def __init__(self, folder, options):
        self.folder = folder
        self.environment = dict(os.environ, FAIRBELL_REFEREE_QUEUE=options.queue)
        self.cores = ["--matcher-core", options.matcher_core, "--drainer-core", options.drainer_core]

    def run(self, engine, scenario, seed, *more):
        """The harness's own words about one run."""
        command = ["./harness", *engine, "--scenario", scenario, "--seed", str(seed)]
        done = subprocess.run(command + self.cores + list(more), cwd=self.folder, text=True,
                              capture_output=True, timeout=TIMEOUT_S, env=self.environment)
        return done.stdout + done.stderr

    def measure(self, engine, scenario, seed):
        """Millions of messages a second, and whether the harness called the run VALID."""
        text = self.run(engine, scenario, seed, "--mode", "perf")
        rate = re.search(r"Throughput:\s+([0-9.]+)", text)
        return (float(rate[1]) if rate else 0.0), "Verdict: VALID" in text

    def audit(self, engine, scenario, seed):
        return "Verdict: VALID" in self.run(engine, scenario, seed, "--mode", "audit")

    def has(self, name):
        return (self.folder / f"{name}_adapter.so").exists()

    def reference(self, trusted, scenario, seed):
        """Lets a trusted engine write the hash of a scenario and seed that has none."""
        tag = f"{scenario}_seed{seed}_count1000000_reports.txt"
        known = (self.folder / "reference/correctness_hash.txt").read_text()
        if tag not in known:
            self.run(["--baseline", trusted], scenario, seed, "--write-reference")


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    options = parse()
    root = pathlib.Path(__file__).resolve().parent.parent
    named = os.environ.get("FAIRBELL_REFEREE_DIR")
    if not named:
        say("FAIRBELL_REFEREE_DIR is not set: it names the benchmark's folder, built by you\n")
        say(__doc__)
        return 2
    folder = pathlib.Path(named).resolve()
    engine = (root / options.engine).resolve()
    harness = Harness(folder, options)
    missing = [path for path in (folder / "harness", folder / "generator", engine,
                                 folder / f"{options.peer}_adapter.so") if not path.exists()]
    if missing:
        say("missing: " + ", ".join(map(str, missing)))
        return 2
    trusted = "liquibook" if harness.has("liquibook") else options.peer
    audits = harness.has("liquibook") and not options.no_audit
    scenarios = options.scenarios.split(",")
    engines = {"fairbell": ["--engine", str(engine)], options.peer: ["--baseline", options.peer]}

    invalid = []
    rates = {name: {scenario: [] for scenario in scenarios} for name in engines}
    for scenario in scenarios:
        for turn in range(options.runs):
            for name, how in engines.items():
                rate, valid = harness.measure(how, scenario, CANONICAL_SEED)
                rates[name][scenario].append(rate)
                say(f"seed {CANONICAL_SEED} {scenario} run {turn + 1}: {name} {rate:.2f} M/s"
                    f"{'' if valid else ' INVALID'}")
                if not valid:
                    invalid.append(f"{name} {scenario} seed {CANONICAL_SEED}")
    checked = []
    for seed in [CANONICAL_SEED] + [int(seed) for seed in options.seeds.split(",") if seed]:
        for scenario in scenarios:
            harness.reference(trusted, scenario, seed)
            valid = True
            if seed != CANONICAL_SEED:
                valid = harness.measure(engines["fairbell"], scenario, seed)[1]
            if audits:
                valid &= harness.audit(engines["fairbell"], scenario, seed)
            checked.append((seed, scenario, valid))
            say(f"seed {seed} {scenario}: {'VALID' if valid else 'INVALID'}"
                f"{', book state audited' if audits else ''}")
            if not valid:
                invalid.append(f"fairbell {scenario} seed {seed}")
    report(options, scenarios, rates, checked, audits, trusted, invalid)
    return 1 if invalid else 0


def report(options, scenarios, rates, checked, audits, trusted, invalid):
    medians = {name: {scenario: statistics.median(runs) for scenario, runs in rows.items()}
               for name, rows in rates.items()}
    worst = {name: min(rows.values()) for name, rows in medians.items()}
    ratio = worst["fairbell"] / worst[options.peer] if worst[options.peer] else 0.0
    seeds = sorted({seed for seed, _, _ in checked})
    if options.json:
        print(json.dumps({"rates": rates, "worst": worst, "ratio_of_worst": ratio, "seeds": seeds,
                          "audited": audits, "trusted": trusted, "invalid": invalid}))
        return
    print(f"\nMillions of messages a second at seed {CANONICAL_SEED}: median (min-max) of "
          f"{options.runs} runs, in turns; our reports over {options.queue} queue")
    print(f"{'scenario':<13}" + "".join(f"{name:>26}" for name in rates) + f"{'ratio':>8}")
    for scenario in scenarios:
        cells = ""
        for name in rates:
            runs = rates[name][scenario]
            cells += f"{statistics.median(runs):>12.2f} ({min(runs):5.2f}-{max(runs):5.2f})"
        theirs = medians[options.peer][scenario]
        print(f"{scenario:<13}{cells}{medians['fairbell'][scenario] / theirs if theirs else 0:>8.2f}")
    print(f"{'worst':<13}" + "".join(f"{worst[name]:>26.2f}" for name in rates) + f"{ratio:>8.2f}")
    print(f"seeds {', '.join(map(str, seeds))}: report hashes of all scenarios compared"
          f"{' and book states audited' if audits else ''} (references of other seeds: {trusted})")
    print("INVALID: " + "; ".join(invalid) if invalid else "VALID everywhere")


if __name__ == "__main__":
    sys.exit(main())
