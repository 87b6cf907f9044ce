"""A first order over OUCH 5.0: log in, enter a limit order, print what becomes of it, cancel the rest.

Needs nothing but Python 3. Start an exchange with `fairbell up`; then, with one of the addresses that
it prints after "OUCH 5.0 over SoupBinTCP":

    python3 order.py 127.0.0.1:26401
    python3 order.py 127.0.0.1:26401 --side sell --lots 50 --price 90.50 --stay 10

Ends with 1 when the login or the order is refused. Where every byte lies is in docs/ouch.md.
"""

import argparse
import socket
import struct
import time

arguments = argparse.ArgumentParser(description="Enters one limit order over OUCH 5.0.")
arguments.add_argument("address", nargs="?", default="127.0.0.1:26401", help="a gateway, HOST:PORT")
arguments.add_argument("--user", default="GUEST", help="user name of the account")
arguments.add_argument("--password", default="welcome")
arguments.add_argument("--symbol", default="GENA")
arguments.add_argument("--side", choices=["buy", "sell"], default="buy")
arguments.add_argument("--lots", type=int, default=100)
arguments.add_argument("--price", default="90.00")
arguments.add_argument("--stay", type=float, default=0.5, help="seconds to wait for executions")
arguments.add_argument("--keep", action="store_true", help="leave the rest in the book")
options = arguments.parse_args()

host, port = options.address.rsplit(":", 1)
soup = socket.create_connection((host, int(port)), timeout=5)
received = b""


def send(kind, body=b""):
    """One SoupBinTCP packet: length, type, content."""
    soup.sendall(struct.pack(">H", 1 + len(body)) + kind + body)


def packet():
    """The next SoupBinTCP packet; it waits as long as the socket does, and loses nothing then."""
    global received
    while len(received) < 2 or len(received) < 2 + int.from_bytes(received[:2], "big"):
        more = soup.recv(4096)
        if not more:
            raise SystemExit("the gateway closed the connection")
        received += more
    end = 2 + int.from_bytes(received[:2], "big")
    one, received = received[2:end], received[end:]
    return one[:1], one[1:]


def answer():
    """The next OUCH message, heartbeats left out."""
    while True:
        kind, body = packet()
        if kind in (b"S", b"U"):
            return body
        if kind != b"H":
            raise SystemExit(f"{kind} {body}")


# User name, password, session (blank: the current one), first message wanted (0: from now on).
send(
    b"L",
    options.user.ljust(6).encode()
    + options.password.ljust(10).encode()
    + b" " * 10
    + b"0".rjust(20),
)
kind, body = packet()
if kind != b"A":
    why = {b"A": "wrong user name or password", b"S": "session not available"}
    raise SystemExit(f"login refused: {why.get(body, body)}")
print("session", body[:10].decode(), "next message", int(body[10:]))

# Enter Order: a day order, visible. The UserRefNum must rise from run to run, because the same
# number twice gets no second answer: this one counts tenths of a second since 2025.
number = int((time.time() - 1_735_689_600) * 10)
side = {"buy": b"B", "sell": b"S"}[options.side]
order = struct.pack(
    ">cIcI8sQccccc14s",
    b"O",
    number,
    side,
    options.lots,
    options.symbol.ljust(8).encode(),
    round(float(options.price) * 10_000),
    b"0",  # time in force: day
    b"Y",  # displayed
    b"P",  # capacity, means nothing
    b"N",  # no sweep
    b"N",  # no auction only
    b"my first order",
)
send(b"U", order + struct.pack(">H", 0))  # no optional fields
reply = answer()
if reply[:1] == b"J":
    raise SystemExit(f"rejected, reason 0x{struct.unpack_from('>H', reply, 13)[0]:04X}")
if reply[:1] != b"A":
    raise SystemExit(f"not understood: {reply}")
time_ns, user_ref = struct.unpack_from(">QI", reply, 1)
(order_ref,) = struct.unpack_from(">Q", reply, 36)
print("accepted", user_ref, "as public order", order_ref, "at", time_ns, "ns after midnight")

# Executions that come at once, or while the order rests.
left = options.lots


def executed(message):
    """Prints an Order Executed; how many lots it was."""
    lots, price = struct.unpack_from(">IQ", message, 13)
    (match,) = struct.unpack_from(">Q", message, 26)
    print("executed", lots, "at", f"{price / 10_000:.2f}", "match", match)
    return lots


end = time.monotonic() + options.stay
heartbeat = time.monotonic() + 1
while left > 0 and (now := time.monotonic()) < end:
    if now >= heartbeat:
        send(b"R")  # whoever is silent for 15 seconds is disconnected
        heartbeat = now + 1
    soup.settimeout(max(0.001, min(end, heartbeat) - now))
    try:
        message = answer()
    except TimeoutError:
        continue
    if message[:1] == b"E":
        left -= executed(message)
soup.settimeout(5)

# Cancel Order: 0 lots shall be left. An execution may still come before the answer.
if left > 0 and not options.keep:
    send(b"U", struct.pack(">cII", b"X", number, 0))
    while (message := answer())[:1] == b"E":
        left -= executed(message)
    if message[:1] == b"C":
        print("canceled", *struct.unpack_from(">I", message, 13))
    else:
        print({b"I": "too late to cancel"}.get(message[:1], message))

send(b"O")  # log out
