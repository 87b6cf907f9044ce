#!/usr/bin/env python3
"""Runs the public benchmark flash1-dev/matching-engine-benchmark on our book and on a peer.

    FAIRBELL_REFEREE_DIR=FOLDER make referee

FOLDER is the benchmark's own repository, fetched and built by you with its own instructions: the
programs `harness` and `generator`, and the adapter of the peer, cpp_orderbook_adapter.so
(geseq/cpp-orderbook; additional_references/cpp_orderbook_adapter there has its README).

The benchmark's own trusted engines, liquibook_adapter.so and quantcup_adapter.so
(scripts/build_baselines.sh there), write the references of seeds that have none, and the audits of
the book's state compare with them. The harness gives a trusted engine 120 s to play an audit's
messages once more. Liquibook, whose cancel walks its price's queue, needs twice that in `static`
(42,000 orders at few prices), so there quantcup takes its part; see AUDITORS. Without either the
peer writes the references, and there are no audits.

First every seed and scenario is run and audited once, then both engines take turns at seed 23, run
by run, so that both meet the same machine. The figure of a scenario is the median of its runs, that
of an engine its worst scenario. What the harness does not call VALID in so many words is not: a
run that is INVALID, ends without a verdict or takes too long is named with its reason and fails the
whole. Exit code 0 only if everything is VALID.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

SCENARIOS = ["static", "normal", "swing-25", "swing-40", "flash-crash"]
CANONICAL_SEED = 23
# Who is asked, first of those that are built: where, and for everything else.
AUDITORS = {"static": ["quantcup", "liquibook"], "": ["liquibook", "quantcup"]}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="of each engine, at seed 23")
    parser.add_argument("--seeds", default="101,202,303", help="further seeds, checked once each")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--engine", default="target/release/libbook_capi.so")
    parser.add_argument("--peer", default="cpp_orderbook", help="NAME of NAME_adapter.so")
    parser.add_argument("--matcher-core", default="0")
    parser.add_argument("--drainer-core", default="1")
    parser.add_argument("--queue", choices=["own", "harness"], default="own",
                        help="what carries our reports; the peer's adapter uses the harness's")
    parser.add_argument("--timeout", type=float, default=700, help="seconds, of any one run")
    parser.add_argument("--no-audit", action="store_true", help="leave the audits out")
    parser.add_argument("--json", action="store_true", help="one JSON document, no table")
    return parser.parse_args()


class Outcome:
    """What the harness said about one run.

    >>> good = "  Throughput:         8.03 M msgs/s\\n  Status: PASS\\n\\nVerdict: VALID\\n"
    >>> Outcome(good, 0).valid, Outcome(good, 0).rate, Outcome(good, 0).why
    (True, 8.03, '')
    >>> audit = "  State audit: PASS - 192 state checks matched baseline 'quantcup'\\n"
    >>> Outcome(audit + good, 0).audited
    "192 states as quantcup's"
    >>> Outcome(good, 1).why
    'exit code 1'
    >>> bad = Outcome("  Status: FAIL\\nVerdict: INVALID\\n", 1)
    >>> bad.valid, bad.rate, bad.why
    (False, 0.0, 'Status: FAIL')
    >>> Outcome("ERROR: engine run exceeded the time limit\\n", 3).why
    'no verdict: ERROR: engine run exceeded the time limit'
    >>> Outcome("about a Verdict: VALID one\\n", 0).why
    'no verdict'
    """

    BLAME = re.compile(r"ERROR|Status: (?!PASS)|State audit: (?!PASS)|INVALID|FAILED|reallocated")

    def __init__(self, text, code):
        verdict = re.search(r"^Verdict: (VALID|INVALID)$", text, re.M)
        rate = re.search(r"^\s*Throughput:\s+([0-9.]+) M", text, re.M)
        audit = re.search(r"State audit: PASS \S+ (\d+) .* matched baseline '(\w+)'", text)
        self.rate = float(rate[1]) if rate else 0.0
        self.audited = f"{audit[1]} states as {audit[2]}'s" if audit else ""
        self.valid = bool(verdict) and verdict[1] == "VALID" and code == 0
        self.why = ""
        if not self.valid:
            lines = [line.strip() for line in text.splitlines()]
            blame = [line for line in lines if self.BLAME.search(line) and line[:8] != "Verdict:"]
            if not verdict:
                blame.insert(0, "no verdict")
            self.why = ": ".join(blame) or f"exit code {code}"

    def __str__(self):
        return "VALID" if self.valid else f"NOT VALID ({self.why})"


class Harness:
    def __init__(self, folder, engine, options):
        self.folder, self.engine, self.peer = folder, engine, options.peer
        self.timeout = options.timeout
        self.environment = dict(os.environ, FAIRBELL_REFEREE_QUEUE=options.queue)
        self.cores = ["--matcher-core", options.matcher_core]
        self.cores += ["--drainer-core", options.drainer_core]

    def run(self, engine, scenario, seed, *more):
        command = ["./harness", *engine, "--scenario", scenario, "--seed", str(seed)]
        try:
            done = subprocess.run(command + self.cores + list(more), cwd=self.folder, text=True,
                                  errors="replace", capture_output=True, timeout=self.timeout,
                                  env=self.environment)
        except subprocess.TimeoutExpired:
            return Outcome(f"ERROR: stopped after {self.timeout:.0f} s\n", 1)
        return Outcome(done.stdout + done.stderr, done.returncode)

    def measure(self, name, scenario, seed):
        engine = ["--engine", str(self.engine)] if name == "fairbell" else ["--baseline", name]
        return self.run(engine, scenario, seed, "--mode", "perf")

    def has(self, name):
        return (self.folder / f"{name}_adapter.so").exists()

    def trusted(self, scenario):
        """The benchmark's own engines that are there, the one to ask first."""
        return list(filter(self.has, AUDITORS.get(scenario, AUDITORS[""])))

    def audit(self, scenario, seed):
        auditor = self.trusted(scenario)[0]
        if auditor == "liquibook":
            return self.run(["--engine", str(self.engine)], scenario, seed, "--mode", "audit")
        # The harness takes quantcup for an engine of the name liquibook, and for no other.
        with tempfile.TemporaryDirectory() as scratch:
            link = pathlib.Path(scratch) / "liquibook.so"
            link.symlink_to(self.engine)
            return self.run(["--engine", str(link)], scenario, seed, "--mode", "audit")

    def reference(self, scenario, seed):
        """Who wrote the reference: the benchmark's authors, or an engine that is asked to now."""
        file = self.folder / "reference/correctness_hash.txt"
        tag = f"{scenario}_seed{seed}_count1000000_reports.txt"
        if tag in file.read_text():
            return "there already"
        for name in self.trusted(scenario) + [self.peer]:
            self.run(["--baseline", name], scenario, seed, "--write-reference")
            if tag in file.read_text():
                return name
        return "nobody"


def say(text):
    print(text, file=sys.stderr, flush=True)


def check(harness, options, scenarios, seeds):
    """Every seed and scenario once, reports and book states; (seed, scenario, audit, outcomes)."""
    rows = []
    for seed in seeds:
        for scenario in scenarios:
            writer = harness.reference(scenario, seed)
            reports = harness.measure("fairbell", scenario, seed)
            text, outcomes = f"reports {reports} (reference: {writer})", [reports]
            audited = ""
            if harness.trusted(scenario) and not options.no_audit:
                audit = harness.audit(scenario, seed)
                audited = audit.audited
                outcomes.append(audit)
                text += f", audit {audit} {audited}"
            say(f"seed {seed} {scenario}: {text}")
            rows.append((seed, scenario, audited, outcomes))
    return rows


def race(harness, options, scenarios):
    """Runs in turns at the canonical seed; who begins alternates."""
    names = ["fairbell", options.peer]
    rates = {name: {scenario: [] for scenario in scenarios} for name in names}
    faults = []
    for scenario in scenarios:
        for turn in range(options.runs):
            for name in names if turn % 2 == 0 else reversed(names):
                outcome = harness.measure(name, scenario, CANONICAL_SEED)
                rates[name][scenario].append(outcome.rate)
                say(f"seed {CANONICAL_SEED} {scenario} turn {turn + 1}: {name} "
                    f"{outcome.rate:.2f} M/s {outcome}")
                if not outcome.valid:
                    faults.append(f"{name} {scenario} turn {turn + 1}: {outcome.why}")
    return rates, faults


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
    missing = [path for path in (folder / "harness", folder / "generator", engine,
                                 folder / f"{options.peer}_adapter.so") if not path.exists()]
    if missing:
        say("missing: " + ", ".join(map(str, missing)))
        return 2
    harness = Harness(folder, engine, options)
    scenarios = options.scenarios.split(",")
    seeds = [CANONICAL_SEED] + [int(seed) for seed in options.seeds.split(",") if seed]
    checked = check(harness, options, scenarios, seeds)
    rates, faults = race(harness, options, scenarios)
    faults += [f"fairbell {scenario} seed {seed}: {outcome.why}"
               for seed, scenario, _, outcomes in checked for outcome in outcomes
               if not outcome.valid]
    report(options, scenarios, rates, checked, faults)
    return 1 if faults else 0


def report(options, scenarios, rates, checked, faults):
    medians = {name: {scenario: statistics.median(runs or [0.0]) for scenario, runs in rows.items()}
               for name, rows in rates.items()}
    worst = {name: min(rows.values()) for name, rows in medians.items()}
    ours, theirs = medians["fairbell"], medians[options.peer]
    ratio = worst["fairbell"] / worst[options.peer] if worst[options.peer] else 0.0
    valid = [row for row in checked if all(outcome.valid for outcome in row[3])]
    audited = [row for row in valid if row[2]]
    if options.json:
        verdicts = [{"seed": seed, "scenario": scenario, "audit": audit,
                     "valid": (seed, scenario, audit, outcomes) in valid}
                    for seed, scenario, audit, outcomes in checked]
        print(json.dumps({"rates": rates, "worst": worst, "ratio_of_worst": ratio,
                          "verdicts": verdicts, "faults": faults}))
        return
    print(f"\nMillions of messages a second at seed {CANONICAL_SEED}: median (min-max) of "
          f"{options.runs} runs, in turns; our reports over {options.queue} queue")
    print(f"{'scenario':<13}" + "".join(f"{name:>28}" for name in rates) + f"{'ratio':>8}")
    for scenario in scenarios if options.runs else []:
        cells = "".join(f"{medians[name][scenario]:>14.2f} ({min(runs):5.2f}-{max(runs):5.2f})"
                        for name in rates for runs in [rates[name][scenario]])
        share = ours[scenario] / theirs[scenario] if theirs[scenario] else 0.0
        print(f"{scenario:<13}{cells}{share:>8.2f}")
    print(f"{'worst':<13}" + "".join(f"{worst[name]:>28.2f}" for name in rates) + f"{ratio:>8.2f}")
    print(f"seeds and scenarios VALID: {len(valid)} of {len(checked)}, "
          f"book states audited as well: {len(audited)}")
    print("NOT VALID:\n  " + "\n  ".join(faults) if faults else "VALID everywhere")


if __name__ == "__main__":
    sys.exit(main())
