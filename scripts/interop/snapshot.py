"""Takes a snapshot of the books as anybody could, and joins a captured feed at its sequence.

    snapshot.py fetch HOST:PORT SECONDS FILE   SECONDS after the server is there, log in and save
    snapshot.py join FILE CAPTURE              snapshot, then the feed from its end; compare
    snapshot.py --self-test                    made-up ones pass, and fail with several defects

SoupBinTCP is spoken by hand; every message goes through the third-party ITCH parser of check.py.
FILE: each message behind its length (u16, big endian), the end of the snapshot included. Best
prices are compared with CAPTURE.bbo.json at every position behind the snapshot.
"""

import json
import socket
import struct
import sys
import time

import check
from check import Books, Defect

CONNECT_FOR_S = 60
POSITIONS_MIN = 10


def fetch(address, seconds, path):
    """Logs in, saves the messages of the snapshot."""
    host, port = address.rsplit(":", 1)
    end = time.monotonic() + CONNECT_FOR_S
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            break
        except OSError as error:
            if time.monotonic() > end:
                raise Defect(f"{address}: {error}") from error
            time.sleep(0.1)
    time.sleep(seconds)
    with socket.create_connection((host, int(port)), 10) as soup, soup.makefile("rb") as stream:
        login = b"L" + b" " * 6 + b" " * 10 + b" " * 10 + b"1".rjust(20)
        soup.sendall(struct.pack(">H", len(login)) + login)
        found, kind, body = [], *packet(stream)
        if kind != b"A" or int(body[10:]) != 1:
            raise Defect(f"login refused: {kind} {body}")
        while (kind, body) != (b"Z", b""):
            kind, body = packet(stream)
            if kind == b"S":
                found.append(body)
    with open(path, "wb") as file:
        file.write(b"".join(struct.pack(">H", len(m)) + m for m in found))


def packet(stream):
    head = stream.read(3)
    if len(head) != 3:
        raise Defect("the server closed in the middle of the snapshot")
    (length,) = struct.unpack(">H", head[:2])
    return head[2:], stream.read(length - 1)


def parsed(raw, parser, where):
    try:
        message = parser.get_message_type(raw)
    except Exception as error:  # whatever a parser raises is a refusal
        raise Defect(f"{where}: {raw[:1]!r}: {error}") from error
    if len(raw) != message.message_size:
        raise Defect(f"{where}: {len(raw)} bytes, not {message.message_size}")
    return message


def load(snapshot):
    """Books of a snapshot and the feed position to go on from."""
    parser, books = check.itch_parser.MessageParser(), Books()
    all_of_it = list(check.framed(snapshot))
    for number, raw in enumerate(all_of_it, start=1):
        if raw[:1] == b"G":
            if number != len(all_of_it) or len(raw) != 21:
                raise Defect(f"snapshot message {number}: not a proper end")
            return books, int(raw[1:])
        if raw[:1] not in (b"S", b"R", b"H", b"J", b"A"):
            raise Defect(f"snapshot message {number}: {raw[:1]!r}")
        books.apply(parsed(raw, parser, f"snapshot message {number}"))
    raise Defect("the snapshot has no end")


def join(snapshot, capture, expected):
    """Summary of a snapshot that fits its feed; raises Defect for any other."""
    wanted = {}
    for quote in expected:
        best = tuple(quote[key] for key in ("bid_price", "bid_qty", "ask_price", "ask_qty"))
        wanted.setdefault(quote["feed_seq"], {})[quote["symbol"]] = best
    books, first = load(snapshot)
    orders, compared, last = len(books.orders), 0, 0
    parser = check.itch_parser.MessageParser()
    for position, raw in check.messages(capture):
        last = position
        if position < first:
            continue
        try:
            books.apply(parsed(raw, parser, f"feed position {position}"))
        except Defect as defect:
            raise Defect(f"feed position {position}: {defect}") from None
        if position in wanted:
            best = books.best()
            for symbol, quote in wanted[position].items():
                if best.get(symbol) != quote:
                    raise Defect(
                        f"feed position {position}: best prices of {symbol} are "
                        f"{best.get(symbol)}, not {quote}"
                    )
            compared += 1
    if compared < POSITIONS_MIN or orders == 0:
        raise Defect(f"{orders} orders, {compared} positions compared: too few")
    return (
        f"snapshot of {orders} orders, joined at {first} of {last}: best prices equal at "
        f"{compared} positions"
    )


def self_test():
    feed, expected = check.made_up()
    # An order of BBB far from the best price is deleted, which only who knows of it can follow.
    feed.append(struct.pack(">cHH6sQ", b"D", 2, 0, bytes(6), 48))

    def snapshot(until, left_out=None, seq=None):
        """Nothing was taken from an order of this feed before its last message."""
        messages = [m for at, m in enumerate(feed[:until]) if at != left_out]
        messages.append(b"G" + str(seq or until + 1).encode().rjust(20))
        return b"".join(struct.pack(">H", len(m)) + m for m in messages)

    capture = check.pack(feed)
    print("self-test:", join(snapshot(50), capture, expected))
    wrong = {
        "an order left out": snapshot(50, left_out=49),
        "a sequence one too low": snapshot(50, seq=50),
        "a sequence one too high": snapshot(50, seq=52),
        "no end": snapshot(50)[:-23],
        "a cut message": snapshot(50)[:-1],
    }
    for defect, spoilt in wrong.items():
        try:
            join(spoilt, capture, expected)
        except Defect:
            continue
        raise SystemExit(f"self-test: {defect} was not noticed")
    print(f"self-test: all of {len(wrong)} spoilt snapshots were refused")


def main(args):
    if args == ["--self-test"]:
        return self_test()
    try:
        if len(args) == 4 and args[0] == "fetch":
            fetch(args[1], float(args[2]), args[3])
        elif len(args) == 3 and args[0] == "join":
            with open(args[1], "rb") as snapshot, open(args[2], "rb") as capture:
                with open(args[2] + ".bbo.json", encoding="utf-8") as expected:
                    print("interop:", join(snapshot.read(), capture.read(), json.load(expected)))
        else:
            raise SystemExit(__doc__)
    except Defect as defect:
        raise SystemExit(f"interop: {defect}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
