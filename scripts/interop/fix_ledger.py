"""Compares what FIX participants were told with what the engine's log says.

Arguments: the participants' ledger, the trade file and the statement of the exchange's log. Fills
are compared one by one (ExecID is the match number and the side), orders by what is open at the
end. With --self-test the comparison itself is tried on spoilt ledgers, which it has to refuse.
"""

import csv
import json
import sys

ACCOUNTS = {"GUEST": 2, "OTHER": 3}
COPY = "COPY"  # hears of all of them
DATA = "DATA"  # hears of the public trades
SIDES = {"B": ("buyer", "1"), "S": ("seller", "2")}
DONE = {"2", "4", "8", "C"}


def number(account):
    """The number of an account as the trade file writes it."""
    return int("".join(c for c in account if c.isdigit()))


def engine_fills(trades, account):
    """Fills of an account by ExecID: price and lots."""
    fills = {}
    for trade in trades:
        for suffix, (party, _) in SIDES.items():
            if number(trade[party]) == account:
                exec_id = f"T{number(trade['match_number'])}{suffix}"
                fills[exec_id] = (float(trade["price"]), int(trade["lots"]))
    return fills


def compare_copies(ledger, trades):
    """What does not agree of the drop copy: it has the fills of every account."""
    told = {row[2]: (float(row[3]), int(row[4]))
            for row in ledger if row[0] == "fill" and row[1] == COPY}
    fills = {}
    for account in ACCOUNTS.values():
        fills.update(engine_fills(trades, account))
    return [f"{COPY}: {exec_id} is {fills.get(exec_id)} in the log, {told.get(exec_id)} here"
            for exec_id in sorted(told.keys() | fills.keys())
            if told.get(exec_id) != fills.get(exec_id)]


def compare_prints(ledger, trades):
    """What does not agree of the trades as market data told them."""
    known = {number(trade["match_number"]): (float(trade["price"]), int(trade["lots"]))
             for trade in trades}
    told = {int(row[2]): (float(row[3]), int(row[4])) for row in ledger if row[0] == "print"}
    return [f"{DATA}: trade {match} is {known.get(match)} in the log, {told.get(match)} here"
            for match in sorted(told)
            if told[match] != known.get(match)]


def compare(ledger, trades, statement):
    """What does not agree, in words."""
    wrong = []
    for comp_id, account in ACCOUNTS.items():
        told = {}
        for row in (row for row in ledger if row[0] == "fill" and row[1] == comp_id):
            told[row[2]] = (float(row[3]), int(row[4]))
            if row[5] != SIDES[row[2][-1]][1]:
                wrong.append(f"{comp_id}: {row[2]} is on side {row[5]}")
        fills = engine_fills(trades, account)
        for exec_id in sorted(told.keys() | fills.keys()):
            if told.get(exec_id) != fills.get(exec_id):
                ours, theirs = fills.get(exec_id), told.get(exec_id)
                wrong.append(f"{comp_id}: {exec_id} is {ours} in the log, {theirs} here")
        orders = [row for row in ledger if row[0] == "order" and row[1] == comp_id]
        lines = [line for line in statement["statements"] if line["account"] == account]
        figures = {
            "orders": len(orders),
            "open_orders": sum(row[3] not in DONE for row in orders),
            "open_lots": sum(int(row[5]) for row in orders if row[3] not in DONE),
        }
        for name, figure in figures.items():
            ours = sum(line[name] for line in lines)
            if ours != figure:
                wrong.append(f"{comp_id}: {name} are {ours} in the log, {figure} here")
        cum = sum(int(row[4]) for row in orders)
        traded = sum(line["bought_lots"] + line["sold_lots"] for line in lines)
        if cum != traded:
            wrong.append(f"{comp_id}: {traded} lots traded in the log, CumQty {cum} here")
    wrong += compare_copies(ledger, trades) + compare_prints(ledger, trades)
    if not statement["reconciled"]:
        wrong.append("log, statements and feed do not agree among themselves")
    return wrong


def self_test():
    """Right ledgers pass, spoilt ones do not."""
    trade = {"match_number": "7", "price": "150", "lots": "3", "buyer": "2", "seller": "3"}
    line = {"orders": 1, "open_orders": 1, "open_lots": 2, "bought_lots": 3, "sold_lots": 0}
    other = {"orders": 1, "open_orders": 0, "open_lots": 0, "bought_lots": 0, "sold_lots": 3}
    statement = {
        "statements": [{"account": 2, **line}, {"account": 3, **other}],
        "reconciled": True,
    }
    right = [
        ["order", "GUEST", "a", "1", "3", "2"],
        ["order", "OTHER", "b", "2", "3", "0"],
        ["fill", "GUEST", "T7B", "150", "3", "1"],
        ["fill", "OTHER", "T7S", "150.0", "3", "2"],
        ["fill", "COPY", "T7B", "150", "3", "1"],
        ["fill", "COPY", "T7S", "150", "3", "2"],
        ["print", "DATA", "7", "150", "3"],
    ]
    assert compare(right, [trade], statement) == []
    spoilt = [right[:2] + right[3:], right + [["fill", "GUEST", "T8B", "150", "1", "1"]]]
    for row, column, value in [(2, 3, "151"), (2, 4, "2"), (2, 5, "2"), (0, 5, "3"), (0, 4, "2"),
                               (0, 3, "4"), (4, 4, "2"), (5, 2, "T8S"), (6, 4, "2"), (6, 2, "8")]:
        rows = [list(row) for row in right]
        rows[row][column] = value
        spoilt.append(rows)
    for rows in spoilt:
        assert compare(rows, [trade], statement), f"not noticed: {rows}"
    print(f"ok: the comparison refuses {len(spoilt)} spoilt ledgers")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    with open(sys.argv[1], newline="", encoding="utf-8") as file:
        ledger = list(csv.reader(file))
    with open(sys.argv[2], newline="", encoding="utf-8") as file:
        trades = list(csv.DictReader(file))
    with open(sys.argv[3], encoding="utf-8") as file:
        statement = json.load(file)
    wrong = compare(ledger, trades, statement)
    for line in wrong[:20]:
        print("differs:", line)
    fills = sum(row[0] == "fill" for row in ledger)
    orders = sum(row[0] == "order" for row in ledger)
    if wrong or fills < 230:
        sys.exit(f"FAIL: {len(wrong)} differences in {fills} fills and {orders} orders")
    # The same ledger with one fill less must not pass.
    last = max(at for at, row in enumerate(ledger) if row[0] == "fill")
    if not compare(ledger[:last] + ledger[last + 1:], trades, statement):
        sys.exit("FAIL: a fill that is left out is not noticed")
    print(f"ok: {fills} fills and {orders} orders are the engine's; one fill less is refused")


main()
