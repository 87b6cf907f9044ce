"""A listener to the public feed: ITCH 5.0 by MoldUDP64. Prints the best prices once a second.

Needs nothing but Python 3. Start an exchange with `fairbell up`; then, with the addresses that it prints
after "listen on UDP", "take it from" and "MoldUDP64 retransmission":

    python3 listen.py 127.0.0.1:26700 127.0.0.1:26698 127.0.0.1:26400

It joins at any time while the first message is still kept, fetches what it missed and repairs what
its socket loses. Ends with the session, or after --seconds. docs/itch.md has all messages.
"""

import argparse
import socket
import struct
import time


def address(text):
    """HOST:PORT as sockets take it."""
    host, port = text.rsplit(":", 1)
    return host, int(port)


arguments = argparse.ArgumentParser(description="Prints the best prices of the public feed.")
arguments.add_argument("feed", nargs="?", type=address, default="127.0.0.1:26700",
                       help='the address after "listen on UDP"')
arguments.add_argument("receiver", nargs="?", type=address, default="127.0.0.1:26698",
                       help='the address after "take it from"')
arguments.add_argument("server", nargs="?", type=address, default="127.0.0.1:26400",
                       help='the address after "MoldUDP64 retransmission"')
arguments.add_argument("--seconds", type=float, default=float("inf"), help="how long to listen")
options = arguments.parse_args()

feed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
feed.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
feed.settimeout(0.2)
feed.bind(options.feed)

symbols = {}  # stock locate -> name
orders = {}  # order reference -> [stock locate, side, price, lots]
levels = {}  # (stock locate, side) -> {price: lots}


def add(ref, locate, side, price, lots):
    orders[ref] = [locate, side, price, lots]
    level = levels.setdefault((locate, side), {})
    level[price] = level.get(price, 0) + lots


def take(ref, lots=None):
    """Removes lots of an order, or all of it."""
    locate, side, price, open_lots = orders[ref]
    lots = open_lots if lots is None else lots
    orders[ref][3] -= lots
    if orders[ref][3] == 0:
        del orders[ref]
    level = levels[locate, side]
    level[price] -= lots
    if level[price] == 0:
        del level[price]


def apply(message):
    kind, locate = message[:1], int.from_bytes(message[1:3], "big")
    if kind == b"R":
        symbols[locate] = message[11:19].decode().strip()
    elif kind == b"A":
        ref, side, lots, _, price = struct.unpack_from(">QcI8sI", message, 11)
        add(ref, locate, side, price, lots)
    elif kind in (b"E", b"C", b"X"):
        take(*struct.unpack_from(">QI", message, 11))
    elif kind == b"D":
        take(*struct.unpack_from(">Q", message, 11))
    elif kind == b"U":
        old, new, lots, price = struct.unpack_from(">QQII", message, 11)
        side = orders[old][1]
        take(old)
        add(new, locate, side, price, lots)


def show():
    tops = []
    for locate, symbol in sorted(symbols.items()):
        bid = max(levels.get((locate, b"B"), {}), default=0) / 10_000
        ask = min(levels.get((locate, b"S"), {}), default=0) / 10_000
        tops.append(f"{symbol} {bid} / {ask}")
    print(f"message {want - 1} of {end - 1}  " + "  ".join(tops), flush=True)


want = 1  # the next message of the feed
end = 1  # one past the last message known to exist
asked = shown = 0.0
over = time.monotonic() + options.seconds
while (now := time.monotonic()) < over:
    if now - shown > 1:
        shown = now
        show()
    try:
        packet, source = feed.recvfrom(2048)
    except TimeoutError:
        continue  # not even a heartbeat: nobody speaks
    if source not in (options.receiver, options.server):
        continue  # a stranger's, not the exchange's
    session, seq, count = struct.unpack_from(">10sQH", packet)
    if count == 0xFFFF:
        break  # end of session
    before, at = want, 20
    for number in range(seq, seq + count):
        (length,) = struct.unpack_from(">H", packet, at)
        if number == want:
            apply(packet[at + 2 : at + 2 + length])
            want += 1
        at += 2 + length
    end = max(end, seq + count)
    # Behind: ask for what comes next. What came too early is thrown away and asked for again.
    if want < end and (want > before or now - asked > 0.02):
        # Padded to a third of a packet: an address that sends less gets less back.
        request = struct.pack(">10sQH", session, want, 1000).ljust(464, b"\0")
        feed.sendto(request, options.server)
        asked = now
show()
