"""The samples of examples/python against a running exchange: what they print must be so.

Usage: samples.py FAIRBELL FOLDER. The exchange is quiet, so that all orders in its books are the samples'.
"""

import pathlib
import re
import signal
import subprocess
import sys
import time

SAMPLES = pathlib.Path("examples/python")
CONFIG = pathlib.Path("scripts/interop/samples.toml")


def fail(what):
    raise SystemExit(f"FAIL: {what}")


def addresses(progress):
    """The addresses that the exchange prints once it serves: OUCH, feed, receiver, retransmission."""
    patterns = [
        r"^OUCH 5\.0 over SoupBinTCP: (\S+)",
        r"listen on UDP (\S+?),",
        r"take it from (\S+)",
        r"^MoldUDP64 retransmission: (\S+)",
    ]
    for _ in range(150):
        found = [re.search(pattern, progress.read_text(), re.MULTILINE) for pattern in patterns]
        if all(found):
            return [one[1] for one in found]
        time.sleep(0.2)
    fail(f"the exchange does not say where it is\n{progress.read_text()}")


def order(gateway, *options):
    """Runs order.py; its exit code, and what it printed without the numbers that differ."""
    command = [sys.executable, SAMPLES / "order.py", gateway, *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    printed = ran.stdout + ran.stderr
    printed = re.sub(r"\bFB\d{8} next message \d+|(?<=accepted )\d+ .*|(?<= match )\d+", "*", printed)
    time.sleep(0.2)  # tenths of a second are order.py's order numbers
    return ran.returncode, printed.splitlines()


def expect(what, found, expected):
    if found != expected:
        fail(f"{what}: {found}, not {expected}")
    print(f"ok: {what}")


def listen(options, seconds=3):
    """What listen.py prints last."""
    command = [sys.executable, SAMPLES / "listen.py", *options, "--seconds", str(seconds)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if ran.returncode != 0 or not ran.stdout:
        fail(f"listen.py: {ran.returncode} {ran.stdout} {ran.stderr}")
    return ran.stdout.splitlines()[-1]


def best(progress):
    """The best prices that the exchange says last, as it says them every second."""
    time.sleep(1.5)
    found = re.findall(r"GENA (\S+)/(\S+)", progress.read_text())
    return tuple(None if price == "-" else float(price) for price in found[-1])


def main():
    fairbell, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    progress = folder / "progress.txt"
    up = [fairbell, "up", "--json", "--config", CONFIG, "--port-base", "0", "--out", folder]
    with open(progress, "wb") as file:
        exchange = subprocess.Popen(up, stdout=subprocess.DEVNULL, stderr=file)
    try:
        check(progress)
    finally:
        exchange.send_signal(signal.SIGINT)
        exchange.wait(30)


def check(progress):
    gateway, *feed = addresses(progress)
    session, accepted = "session *", "accepted *"
    refused = "login refused: wrong user name or password"
    expect("order.py, wrong password", order(gateway, "--password", "wrong"), (1, [refused]))
    expect("order.py, no such symbol", order(gateway, "--symbol", "NONE"),
           (1, [session, "rejected, reason 0x0017"]))
    expect("order.py, canceled", order(gateway), (0, [session, accepted, "canceled 100"]))
    expect("order.py, a bid that stays", order(gateway, "--keep", "--price", "99.50"),
           (0, [session, accepted]))
    expect("order.py, an offer that stays", order(gateway, "--keep", "--side", "sell", "--price", "100.25"),
           (0, [session, accepted]))
    expect("order.py, traded in part", order(gateway, "--user", "OTHER", "--side", "sell", "--lots", "140",
                                             "--price", "99.10"),
           (0, [session, accepted, "executed 100 at 99.50 match *", "canceled 40"]))
    expect("order.py, another bid", order(gateway, "--user", "OTHER", "--keep", "--price", "98.75"),
           (0, [session, accepted]))
    line = listen(feed)
    shown = re.fullmatch(r"message (\d+) of (\d+)  GENA (\S+) / (\S+)", line)
    if not shown or shown[1] != shown[2] or int(shown[1]) < 9:
        fail(f"listen.py does not have the whole feed: {line}")
    said = best(progress)
    expect("listen.py, best prices", (float(shown[3]), float(shown[4])), (98.75, 100.25))
    expect("the exchange says the same", said, (98.75, 100.25))


main()
