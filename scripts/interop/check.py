"""Reads a capture of a released feed with parsers that somebody else wrote.

    check.py CAPTURE          compare with CAPTURE.bbo.json
    check.py --self-test      a made-up capture passes, and fails with any of several defects

CAPTURE: pcap of the released datagrams, MoldUDP64 packets, in order of arrival; what was repaired
stands where it came. CAPTURE.bbo.json: a list of {"feed_seq", "symbol", "bid_price", "bid_qty", "ask_price",
"ask_qty"}, null for an empty side, prices in 1/10000: the best prices of an instrument that
Fairbell's own listener held after that feed message.

dpkt reads the pcap, itchfeed every message of every instrument; books are plain
dictionaries. Exit 0 when the feed has no gap, nothing is refused and all positions agree.
"""

import io
import json
import os
import struct
import sys

os.environ["ITCH_NO_CPP"] = "1"  # the pure-Python parser, whatever else is installed
import dpkt  # noqa: E402
from itch import parser as itch_parser  # noqa: E402

POSITIONS_MIN = 20
END_OF_SESSION = 0xFFFF


class Defect(Exception):
    """What is wrong with a capture, in one line."""


def packets(data):
    """The datagrams of a pcap file, whole and with right IP checksums, in order of time."""
    read, before = 24, 0.0
    try:
        for time, frame in dpkt.pcap.Reader(io.BytesIO(data)):
            read += 16 + len(frame)
            ip = dpkt.ethernet.Ethernet(frame).data
            udp = ip.data
            if not isinstance(udp, dpkt.udp.UDP) or udp.ulen != 8 + len(udp.data):
                raise Defect(f"byte {read}: a frame that is no whole datagram")
            if dpkt.in_cksum(frame[14:34]) != 0 or time < before:
                raise Defect(f"byte {read}: a wrong checksum or time")
            before = time
            yield udp.data
    except (dpkt.Error, ValueError) as error:
        raise Defect(f"byte {read}: {error}") from None
    if read != len(data):
        raise Defect(f"byte {read}: a record is cut off")


def framed(data):
    """Byte strings, each behind its length (u16, big endian)."""
    at = 0
    while at < len(data):
        if at + 2 > len(data):
            raise Defect(f"byte {at}: a length is cut off")
        (length,) = struct.unpack_from(">H", data, at)
        at += 2
        if at + length > len(data):
            raise Defect(f"byte {at}: a packet of {length} bytes is cut off")
        yield data[at : at + length]
        at += length


def messages(data):
    """(feed position, ITCH message) of a capture in order of the feed, from position 1 on."""
    session, feed = None, {}
    for packet in packets(data):
        if len(packet) < 20:
            raise Defect(f"a packet of {len(packet)} bytes has no MoldUDP64 header")
        name, position, count = struct.unpack_from(">10sQH", packet)
        session = session or name
        if name != session:
            raise Defect(f"session {name!r} after {session!r}")
        at = 20
        for _ in range(0 if count == END_OF_SESSION else count):
            if at + 2 > len(packet):
                raise Defect(f"feed position {position}: message length is cut off")
            (length,) = struct.unpack_from(">H", packet, at)
            message = packet[at + 2 : at + 2 + length]
            if length == 0 or len(message) != length:
                raise Defect(f"feed position {position}: message is cut off")
            if feed.setdefault(position, message) != message:
                raise Defect(f"feed position {position}: two different messages")
            at += 2 + length
            position += 1
        if at != len(packet):
            raise Defect(f"before feed position {position}: {len(packet) - at} stray bytes")
    for due, position in enumerate(sorted(feed), start=1):
        if position != due:
            raise Defect(f"feed position {due} is missing, {position} is there")
        yield position, feed[position]


class Books:
    """All books, rebuilt from parsed messages."""

    def __init__(self):
        self.symbols = {}  # locate -> symbol
        self.orders = {}  # reference -> [locate, side, price, quantity]
        self.levels = {}  # (locate, side) -> {price: quantity}
        self.added = {}  # symbol -> orders added

    def apply(self, message):
        kind = message.message_type.decode()
        if kind == "R":
            self.symbols[message.stock_locate] = message.stock.decode().strip()
        elif kind in "AF":
            side = message.buy_sell_indicator.decode()
            self._add(message, message.order_reference_number, side)
        elif kind in "EC":
            self._reduce(message.order_reference_number, message.executed_shares)
        elif kind == "X":
            self._reduce(message.order_reference_number, message.cancelled_shares)
        elif kind == "D":
            self._reduce(message.order_reference_number, None)
        elif kind == "U":
            _, side, _, _ = self._find(message.order_reference_number)
            self._reduce(message.order_reference_number, None)
            self._add(message, message.new_order_reference_number, side)

    def _find(self, reference):
        if reference not in self.orders:
            raise Defect(f"order {reference} is not in any book")
        return self.orders[reference]

    def _add(self, message, reference, side):
        if reference in self.orders:
            raise Defect(f"order {reference} is added twice")
        locate = message.stock_locate
        if locate not in self.symbols:
            raise Defect(f"order {reference} is on locate {locate}, which has no directory entry")
        if message.shares == 0:
            raise Defect(f"order {reference} is added with nothing")
        symbol = self.symbols[locate]
        self.added[symbol] = self.added.get(symbol, 0) + 1
        self.orders[reference] = [locate, side, message.price, message.shares]
        level = self.levels.setdefault((locate, side), {})
        level[message.price] = level.get(message.price, 0) + message.shares

    def _reduce(self, reference, quantity):
        order = self._find(reference)
        locate, side, price, open_quantity = order
        quantity = open_quantity if quantity is None else quantity
        if not 0 < quantity <= open_quantity:
            raise Defect(f"order {reference} of {open_quantity} lots loses {quantity}")
        order[3] -= quantity
        if order[3] == 0:
            del self.orders[reference]
        level = self.levels[locate, side]
        level[price] -= quantity
        if level[price] == 0:
            del level[price]

    def best(self):
        """{symbol: (bid price, bid quantity, offer price, offer quantity)}, None where empty."""
        found = {}
        for locate, symbol in self.symbols.items():
            bids = self.levels.get((locate, "B"), {})
            offers = self.levels.get((locate, "S"), {})
            bid, offer = max(bids, default=None), min(offers, default=None)
            found[symbol] = (bid, bids.get(bid), offer, offers.get(offer))
        return found


def check(capture, expected):
    """Summary of a good capture; raises Defect for any other."""
    wanted = {}
    for quote in expected:
        best = tuple(quote[key] for key in ("bid_price", "bid_qty", "ask_price", "ask_qty"))
        wanted.setdefault(quote["feed_seq"], {})[quote["symbol"]] = best
    third_party, books = itch_parser.MessageParser(), Books()
    count, compared, two_sided = 0, 0, set()
    for position, raw in messages(capture):
        try:
            message = third_party.get_message_type(raw)
        except Exception as error:  # whatever a parser raises is a refusal
            raise Defect(f"feed position {position}: {raw[:1]!r}: {error}") from error
        if len(raw) != message.message_size:
            raise Defect(f"feed position {position}: {len(raw)} bytes, not {message.message_size}")
        try:
            books.apply(message)
        except Defect as defect:
            raise Defect(f"feed position {position}: {defect}") from None
        count += 1
        if position in wanted:
            best = books.best()
            for symbol, quote in wanted[position].items():
                if best.get(symbol) != quote:
                    raise Defect(
                        f"feed position {position}: best prices of {symbol} are "
                        f"{best.get(symbol)}, not {quote}"
                    )
                if None not in quote:
                    two_sided.add(symbol)
            compared += 1
    if compared < POSITIONS_MIN:
        raise Defect(f"compared at {compared} positions, {POSITIONS_MIN} required")
    silent = set(books.symbols.values()) - two_sided
    if silent or not books.symbols:
        raise Defect(f"no two-sided book was compared for {sorted(silent) or 'any instrument'}")
    orders = ", ".join(f"{symbol} {added}" for symbol, added in sorted(books.added.items()))
    return f"{count} messages parsed, best prices equal at {compared} positions; orders: {orders}"


def check_files(path):
    with open(path, "rb") as capture, open(path + ".bbo.json", encoding="utf-8") as expected:
        return check(capture.read(), json.load(expected))


def made_up():
    """A small capture and its best prices, from hand-packed messages."""
    ns = bytes(6)
    directory = [
        struct.pack(">cHH6s8sccIcc2scccccIc", b"R", locate, 0, ns, name, b"Q", b"N", 1, b"N",
                    b"C", b"Z ", b"P", b"N", b" ", b" ", b" ", 0, b"N")
        for locate, name in ((1, b"AAA     "), (2, b"BBB     "))
    ]
    feed, quotes, reference = list(directory), [], 0

    def quote(symbol, bid, offer):
        quotes.append({"feed_seq": len(feed), "symbol": symbol, "bid_price": bid, "bid_qty": 5,
                       "ask_price": offer, "ask_qty": 5})

    for step in range(30):
        for locate, name in ((1, b"AAA     "), (2, b"BBB     ")):
            for side, price in ((b"B", 10_000 + step), (b"S", 20_000 - step)):
                reference += 1
                feed.append(struct.pack(">cHH6sQcI8sI", b"A", locate, 0, ns, reference, side,
                                        5, name, price))
        quote("AAA", 10_000 + step, 20_000 - step)
        quote("BBB", 10_000 + step, 20_000 - step)
    feed.append(struct.pack(">cHH6sQ", b"D", 1, 0, ns, 117))  # the best bid of AAA
    quote("AAA", 10_028, 19_971)
    return feed, quotes


def pack(feed, first=1):
    """A capture with two messages a packet."""
    out = io.BytesIO()
    writer = dpkt.pcap.Writer(out, nano=True)
    for at in range(0, len(feed), 2):
        body = b"".join(struct.pack(">H", len(m)) + m for m in feed[at : at + 2])
        count = len(feed[at : at + 2])
        packet = struct.pack(">10sQH", b"SELFTEST  ", first + at, count) + body
        udp = dpkt.udp.UDP(sport=1, dport=1, data=packet, ulen=8 + len(packet))
        ip = dpkt.ip.IP(src=bytes(4), dst=bytes(4), p=dpkt.ip.IP_PROTO_UDP, data=udp)
        ip.len = 20 + udp.ulen
        writer.writepkt(bytes(dpkt.ethernet.Ethernet(data=ip)), ts=first + at)
    return out.getvalue()


def spoilt_checksum(capture):
    """The first frame's IP checksum with a bit flipped."""
    return capture[:64] + bytes([capture[64] ^ 1]) + capture[65:]


def self_test():
    feed, expected = made_up()
    print("self-test:", check(pack(feed), expected))

    def flipped(position, byte):
        message = bytearray(feed[position - 1])
        message[byte] ^= 1
        return pack(feed[: position - 1] + [bytes(message)] + feed[position:])

    def joined(*parts):
        """Captures behind one another, times counted from each record's place."""
        frames = [frame for part in parts for _, frame in dpkt.pcap.Reader(io.BytesIO(part))]
        out = io.BytesIO()
        writer = dpkt.pcap.Writer(out, nano=True)
        for time, frame in enumerate(frames):
            writer.writepkt(frame, ts=time)
        return out.getvalue()

    repaired = joined(pack(feed[:10]), pack(feed[12:], 13), pack(feed[10:12], 11), pack(feed[:2]))
    check(repaired, expected)
    wrong = {
        "a flipped price byte": flipped(119, 35),
        "a flipped quantity byte": flipped(119, 23),
        "an unknown type": flipped(40, 0),
        "a flipped reference": flipped(123, 18),
        "a missing packet": joined(pack(feed[:10]), pack(feed[12:], 13)),
        "another message at a position": joined(pack(feed), pack(feed[2:4])),
        "a short message": pack(feed[:5] + [feed[5][:-1]] + feed[6:]),
        "a cut file": pack(feed)[:-1],
        "a wrong checksum": spoilt_checksum(pack(feed)),
        "no pcap": b"".join(struct.pack(">H", len(m)) + m for m in feed),
        "too few positions": pack(feed[:40]),
    }
    for defect, capture in wrong.items():
        try:
            check(capture, expected)
        except Defect:
            continue
        raise SystemExit(f"self-test: {defect} was not noticed")
    print(f"self-test: all of {len(wrong)} spoilt captures were refused")


def main(args):
    if args == ["--self-test"]:
        return self_test()
    if len(args) != 1:
        raise SystemExit(__doc__)
    try:
        print("interop:", check_files(args[0]))
    except Defect as defect:
        raise SystemExit(f"interop: {defect}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
