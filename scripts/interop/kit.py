"""The FIX samples of examples/fix against the exchange of examples/fix/exchange.toml.

Each sample runs in each version, with the exchange's dictionaries and with its engine's own ones. It
must say that an order was accepted and cancelled, another filled, and that market data told of a
trade; the engine's log must have the same orders and lots. Controls: a wrong password, and a
dictionary that lacks a field, must end in failure.
"""

import argparse
import json
import pathlib
import re
import signal
import subprocess
import time

KIT = pathlib.Path("examples/fix").absolute()
VERSIONS = {"fix42": "FIX.4.2", "fix44": "FIX.4.4", "fix50sp2": "FIXT.1.1"}
# Accounts of exchange.toml, counted from 1.
ACCOUNTS = {"fix42": 3, "fix44": 5, "fix50sp2": 7}
LOTS = 10


def fail(what):
    raise SystemExit(f"FAIL: {what}")


def address(progress):
    """A FIX door, once the exchange prints it, and when its market has prices."""
    for _ in range(150):
        text = progress.read_text()
        door = re.search(r"^FIX: (\S+)", text, re.MULTILINE)
        if door and re.search(r"GENA [\d.]+/[\d.]+\s*$", text):
            return door[1]
        time.sleep(0.2)
    fail(f"the exchange does not say where it is, or has no market\n{progress.read_text()}")


class Client:
    """One sample: how it is started, where its engine has its own dictionaries, and what it says when
    its logon is refused."""

    def __init__(self, name, command, stock, denied, folder):
        self.name, self.command, self.stock, self.denied = name, command, stock, denied
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, version, door, spec, password="welcome"):
        """Exit code and output with these dictionaries."""
        host, port = door.rsplit(":", 1)
        text = (KIT / f"{version}.cfg").read_text()
        for old, new in [("=127.0.0.1\n", f"={host}\n"), ("=27001\n", f"={port}\n"),
                         ("=../spec/", f"={spec}"), ("=welcome\n", f"={password}\n")]:
            if old not in text:
                fail(f"{version}.cfg has no {old}")
            text = text.replace(old, new)
        settings = self.folder / f"{version}.cfg"
        settings.write_text(text)
        ran = subprocess.run([*self.command, settings.absolute()], cwd=self.folder, timeout=90,
                             capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr

    def trades(self, version, door, spec, whose):
        """One run that must trade: one order new and cancelled, another filled."""
        code, printed = self.run(version, door, spec)
        done = f"done: {VERSIONS[version]}, an order accepted and cancelled, another filled with {LOTS} lots"
        statuses = re.findall(r"OrdStatus (\w)", printed)
        filled = sum(int(lots) for lots in re.findall(r", traded (\d+) at ", printed))
        told = "market data: " in printed
        if code != 0 or done not in printed or filled != LOTS or not told or statuses[:3] != ["0", "4", "0"]:
            fail(f"{self.name}, {version}, {whose} dictionaries: {code}\n{printed}")
        print(f"ok: {self.name}, {VERSIONS[version]}, {whose} dictionaries: accepted, cancelled,"
              f" {filled} lots traded")

    def refused(self, what, why, door, spec, **options):
        """A control: this must fail, and say why."""
        code, printed = self.run("fix44", door, spec, **options)
        if code != 1 or not re.search(f"FAIL: {why}", printed):
            fail(f"{self.name}, {what}: {code}\n{printed}")
        print(f"ok: {self.name}, {what}: {re.search(f'FAIL: {why}[^|]*', printed)[0][:80].strip()}")


def spoilt(spec, folder):
    """The dictionary of 4.4 without a field that market data has."""
    folder.mkdir(exist_ok=True)
    text = (spec / "FIX44.xml").read_text()
    less = re.sub(r' *<field name="MDEntryPx" .*\n', "", text)
    if less == text:
        fail("FIX44.xml has no MDEntryPx")
    (folder / "FIX44.xml").write_text(less)
    return f"{folder}/"


def reconcile(fairbell, folder, runs):
    """What the engine's log says of the accounts, beside what the samples were told."""
    command = [fairbell, "statement", "--config", KIT / "exchange.toml", "--json",
               "--trades", folder / "trades.csv", "--log", folder / "exchange.log"]
    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    for version, account in ACCOUNTS.items():
        of = [one for one in said["statements"] if one["account"] == account]
        found = [(one["orders"], one["bought_lots"], one["open_orders"]) for one in of]
        expected = [(2 * runs, LOTS * runs, 0)]
        if found != expected:
            fail(f"{version}: orders, lots and open orders in the log {found}, not {expected}")
    print(f"ok: the engine's log has the same: {2 * runs} orders and {LOTS * runs} lots in each version")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("fairbell")
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--go", nargs=2, metavar=("PROGRAM", "SPEC"))
    arguments.add_argument("--java", metavar="CLASSPATH")
    options = arguments.parse_args()
    folder = options.folder.absolute()
    clients = []
    if options.go:
        program, stock = options.go
        clients.append(Client("quickfixgo", [pathlib.Path(program).absolute()], f"{stock}/",
                              "logon refused", folder))
    if options.java:
        # QuickFIX/J finds its own dictionaries, named without a folder, in its jar.
        command = ["java", "-cp", options.java, "Sample"]
        clients.append(Client("quickfixj", command, "", "logout: Logon refused", folder))
    spec = folder / "spec"
    subprocess.run([options.fairbell, "fix", "dictionary", "--out", spec], check=True,
                   stdout=subprocess.DEVNULL)
    progress = folder / "progress.txt"
    up = [options.fairbell, "up", "--config", KIT / "exchange.toml", "--port-base", "0", "--json",
          "--out", folder]
    with open(progress, "wb") as file:
        exchange = subprocess.Popen(up, stdout=subprocess.DEVNULL, stderr=file)
    try:
        door = address(progress)
        for client in clients:
            client.refused("wrong password", client.denied, door, f"{spec}/", password="wrong")
            client.refused("a dictionary that lacks a field", "we rejected: ", door,
                           spoilt(spec, folder / "spoilt"))
            for version in VERSIONS:
                client.trades(version, door, f"{spec}/", "our")
                client.trades(version, door, client.stock, "its own")
    finally:
        exchange.send_signal(signal.SIGINT)
        exchange.wait(60)
    reconcile(options.fairbell, folder, 2 * len(clients))


main()
