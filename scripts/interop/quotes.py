"""Compares best prices that another parser found with our own listener's.

    quotes.py OURS.bbo.json THEIRS.csv    OURS as check.py has it; THEIRS: position, symbol, bid, bid
                                          quantity, offer, offer quantity, at every change
    quotes.py --self-test                 right ones pass, spoilt ones do not
"""

import csv
import json
import sys

POSITIONS_MIN = 20


def compare(ours, theirs):
    """How many quotes agree; raises ValueError at the first that does not."""
    changes = {}
    for position, symbol, *best in theirs:
        best = tuple(int(figure) if figure else None for figure in best)
        changes.setdefault(symbol, []).append((int(position), best))
    at, compared, two_sided = dict.fromkeys(changes, 0), 0, set()
    for quote in sorted(ours, key=lambda quote: quote["feed_seq"]):
        symbol, position = quote["symbol"], quote["feed_seq"]
        of = changes.get(symbol, [])
        while at.get(symbol, 0) < len(of) and of[at[symbol]][0] <= position:
            at[symbol] += 1
        found = of[at[symbol] - 1][1] if at.get(symbol) else (None,) * 4
        wanted = tuple(quote[key] for key in ("bid_price", "bid_qty", "ask_price", "ask_qty"))
        if found != wanted:
            raise ValueError(f"position {position}: {symbol} is {wanted} here, {found} there")
        compared += 1
        if None not in wanted:
            two_sided.add(symbol)
    if compared < POSITIONS_MIN or two_sided != {quote["symbol"] for quote in ours}:
        raise ValueError(f"{compared} quotes compared, two-sided of {sorted(two_sided)} only")
    return compared


def self_test():
    theirs = [[str(2 * at), "AAA", str(100 + at), "5", str(200 - at), "7"] for at in range(1, 31)]
    ours = [{"feed_seq": 2 * at + 1, "symbol": "AAA", "bid_price": 100 + at, "bid_qty": 5,
             "ask_price": 200 - at, "ask_qty": 7} for at in range(1, 31)]
    assert compare(ours, theirs) == 30
    spoilt = [theirs[:9] + theirs[10:], [["9", "AAA", "", "", "", ""]] + theirs, []]
    for column in (0, 2, 3, 4, 5):
        rows = [list(row) for row in theirs]
        rows[7][column] = str(int(rows[7][column]) + 2)
        spoilt.append(rows)
    for rows in spoilt:
        rows.sort(key=lambda row: int(row[0]))
        try:
            compare(ours, rows)
        except ValueError:
            continue
        raise SystemExit("self-test: spoilt quotes were not noticed")
    print(f"self-test: {len(spoilt)} spoilt lists of quotes were refused")


def main(args):
    if args == ["--self-test"]:
        return self_test()
    with open(args[0], encoding="utf-8") as ours, open(args[1], encoding="utf-8") as theirs:
        try:
            count = compare(json.load(ours), csv.reader(theirs))
        except ValueError as error:
            raise SystemExit(f"interop: {error}") from None
    print(f"interop: best prices of a second parser equal at {count} positions")


main(sys.argv[1:])
