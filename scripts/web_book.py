"""Follows the books of an exchange by the web door, with ccxt's OrderBook, and writes what it had after which message
of the feed; see scripts/web-book.sh. Its connection breaks every few hundred messages; a fault of the sandbox takes
updates away now and then. What it may not have: a book that fails its checksum, or a gap that it did not see."""

import hashlib
import hmac
import json
import random
import signal
import subprocess
import sys
import time
import urllib.request
import zlib
from bisect import insort
from decimal import Decimal
from functools import cache
from pathlib import Path

from ccxt.async_support.base.ws.order_book import OrderBook
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

PROGRAM, WORK = sys.argv[1], Path(sys.argv[2])
# Books of levels, books of orders.
POSITIONS, ORDERS, SEED = (int(text) for text in sys.argv[3:6])
# Refusals of a client that is slow on a busy machine; the connection ends behind them.
LATE = ("timeout", "late_timestamp")
# Longest time without an update of any book.
STILL_S = 30
KEY, SECRET = "book", "0123456789abcdef"
KEYS = f"""sandbox = true
[[key]]
name = "{KEY}"
secret = "{SECRET}"
username = "GUEST"
password = "welcome"
scopes = ["read", "sandbox"]
"""
CONFIG = """[overlay]
depth = 1
receivers = 1
hedge = 0
change_tree_at_percent = 0
[day]
auctions = false
halt_instrument = 0
[ports]
base = 0
[doors]
plain = true
"""
# Orders of a quarter of an hour: on a busy machine the books that are wanted take a while.
FLOW = "".join(
    f'[[flow]]\nat = "0s"\nfor = "15m"\nsymbol = "{symbol}"\nrate = {rate}\n'
    for symbol, rate in (("BTCUSD", 20), ("GENA", 150), ("GENB", 150))
)


def sign(method, path, body=b""):
    at = str(int(time.time() * 1000))
    text = at.encode() + method.encode() + path.encode() + body
    return at, hmac.new(SECRET.encode(), text, hashlib.sha256).hexdigest()


@cache
def plain(number):
    """A float of the book as it was written."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


@cache
def price_text(number):
    units = int((Decimal(repr(number)) * 10_000).to_integral_value())
    whole, part = divmod(units, 10_000)
    return f"{whole}.{part:04}" if part else str(whole)


def checksum(sides):
    digits = []
    for levels in sides:
        for number in levels[:10]:
            digits += [text.replace(".", "").lstrip("0") for text in number]
    return zlib.crc32("".join(digits).encode())


class Levels:
    """One symbol's book in ccxt's class."""

    def __init__(self):
        self.book, self.seq = OrderBook(), None

    def take(self, message):
        if message["type"] == "snapshot":
            side = lambda name: [[float(price), float(qty)] for price, qty in message[name]]
            self.book.reset({"bids": side("bids"), "asks": side("asks"), "nonce": message["seq"]})
            self.seq = message["seq"]
        elif self.seq is None or message["seq"] <= self.seq:
            return True
        elif message["prev_seq"] != self.seq:
            self.seq = None
            return False
        else:
            for name in ("bids", "asks"):
                for price, qty in message[name]:
                    self.book[name].store(float(price), float(qty))
            self.seq = message["seq"]
        self.book.limit()
        written = [[(price_text(p), plain(q)) for p, q in self.book[name][:10]] for name in ("asks", "bids")]
        assert checksum(written) == message["checksum"], f"the checksum differs after {self.seq}"
        return True

    def record(self, symbol):
        side = lambda name: [[price_text(price), plain(qty)] for price, qty in self.book[name]]
        return {"symbol": symbol, "seq": self.seq, "bids": side("bids"), "asks": side("asks")}


@cache
def rank(side, price):
    """Where a price belongs among those of its side: the best first."""
    return Decimal(price) * (-1 if side == "bids" else 1)


class Orders:
    """One symbol's orders in the order of their queues, by the rules of docs/web.md."""

    def __init__(self):
        self.sides, self.seq = {"bids": [], "asks": []}, None

    def take(self, message):
        if message["type"] == "snapshot":
            self.sides = {name: [list(order) for order in message[name]] for name in self.sides}
            self.seq = message["seq"]
        elif self.seq is None or message["seq"] <= self.seq:
            return True
        elif message["prev_seq"] != self.seq:
            self.seq = None
            return False
        else:
            for name, orders in self.sides.items():
                told = message[name]
                gone, changed = set(told["gone"]), dict(told["changed"])
                if gone or changed:
                    orders[:] = [[of, at, changed.get(of, qty)] for of, at, qty in orders if of not in gone]
                for order in told["come"]:
                    # Behind all others at its price.
                    insort(orders, order, key=lambda of: rank(name, of[1]))
            self.seq = message["seq"]
        digits = []
        for name in ("asks", "bids"):
            levels, last = 0, None
            for order, price, qty in self.sides[name]:
                levels, last = levels + (price != last), price
                if levels > 10:
                    break
                digits += [order] + [text.replace(".", "").lstrip("0") for text in (price, qty)]
        due = zlib.crc32("".join(digits).encode())
        assert due == message["checksum"], f"the checksum of orders differs after {self.seq}"
        return True

    def record(self, symbol):
        return {"symbol": symbol, "seq": self.seq, **{name: [list(o) for o in self.sides[name]] for name in self.sides}}


def start():
    (WORK / "keys.toml").write_text(KEYS)
    told = open(WORK / "up.txt", "w+")
    (WORK / "exchange.toml").write_text(CONFIG)
    command = [PROGRAM, "up", "--config", str(WORK / "exchange.toml")]
    (WORK / "scenario.toml").write_text(FLOW)
    command += ["--out", str(WORK / "run"), "--web", str(WORK / "keys.toml")]
    command += ["--scenario", str(WORK / "scenario.toml")]
    process = subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    for _ in range(600):
        text = (WORK / "up.txt").read_text()
        found = [word for word in text.split() if word.startswith("http://") and word.rstrip(",:").endswith("/v1")]
        if found:
            return process, found[0].rstrip(",:")
        assert process.poll() is None, text
        time.sleep(0.1)
    sys.exit("web-book: no web door")


def main():
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    process, base = start()
    symbols = [one["symbol"] for one in json.load(urllib.request.urlopen(base + "/instruments"))["instruments"]]
    kinds = {"book": Levels, "l3": Orders}
    books = {(kind, symbol): made() for kind, made in kinds.items() for symbol in symbols}
    records, wanted = {"book": [], "l3": []}, {"book": POSITIONS, "l3": ORDERS}
    drops = gaps = replays = broken = 0

    def fault():
        body, path = json.dumps({"fault": "skip", "count": 2}).encode(), "/v1/sandbox/faults"
        at, signature = sign("POST", path, body)
        head = {"FB-KEY": KEY, "FB-TIMESTAMP": at, "FB-SIGN": signature}
        urllib.request.urlopen(urllib.request.Request(base[:-3] + path, body, head, method="POST"))

    def follow(socket):
        """One connection, until it has heard enough."""
        nonlocal gaps, replays
        at, signature = sign("GET", "/v1/ws")
        socket.send(json.dumps({"op": "auth", "key": KEY, "timestamp": at, "signature": signature}))
        for (kind, symbol), book in books.items():
            ask = {"op": "subscribe", "channels": [kind], "symbols": [symbol]}
            # Back again: what was missed, where the door still knows it.
            if book.seq is not None and rng.random() < 0.5:
                ask["since"] = book.seq
                replays += 1
            else:
                book.seq = None
            socket.send(json.dumps(ask))
        heard, until, last = 0, rng.randrange(100, 400), time.monotonic()
        while heard < until and any(len(records[kind]) < wanted[kind] for kind in kinds):
            message = json.loads(socket.recv(timeout=STILL_S))
            if message["channel"] not in kinds:
                assert message["channel"] != "error" or message["error"]["code"] in LATE, message
                # Heartbeats alone: the exchange's flow or the door's feed stands still.
                assert time.monotonic() - last < STILL_S, f"no update of a book for {STILL_S} s"
                continue
            heard, last = heard + 1, time.monotonic()
            kind, symbol = message["channel"], message["symbol"]
            book = books[kind, symbol]
            if not book.take(message):
                gaps += 1
                socket.send(json.dumps({"op": "subscribe", "channels": [kind], "symbols": [symbol]}))
            elif book.seq == message["seq"] and len(records[kind]) < wanted[kind]:
                records[kind].append(book.record(symbol))
            if rng.random() < 0.005:
                fault()

    try:
        while any(len(records[kind]) < wanted[kind] for kind in kinds):
            assert process.poll() is None, "the exchange has ended"
            drops += 1
            try:
                with connect(base.replace("http", "ws") + "/ws") as socket:
                    follow(socket)
            except ConnectionClosed:
                # On a busy machine this client is slow, and the door leaves who is slow.
                broken += 1
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)
    for kind, name in (("book", "levels"), ("l3", "orders")):
        (WORK / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records[kind]))
    wrong = json.loads(json.dumps(next(one for one in records["book"] if one["bids"])))
    wrong["bids"][-1][1] = plain(float(wrong["bids"][-1][1]) * 2)
    (WORK / "control.jsonl").write_text(json.dumps(wrong) + "\n")
    kept = {kind: len(all_of) for kind, all_of in records.items()}
    print(f"{kept['book']} books of levels, {kept['l3']} of orders; {drops} connections, {broken} of them broken by the door, {replays} replays, {gaps} gaps")
    assert drops > 1 and replays > 1 and gaps > 0, "nothing went wrong: the run shows less than it should"


main()
