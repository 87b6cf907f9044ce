"""A strategy for `fairbell-lab backtest --strategy-cmd`: buys once the market traded at the offer.

Each line of standard input is a JSON document; each but the last is answered by one line, a JSON
array of actions. Words for the user go to standard error: standard output is the exchange's.

    fairbell-lab backtest out/exchange.log --strategy-cmd 'python3 examples/backtest_strategy.py'
"""

import json
import sys

LOTS_MAX = 5


def actions(news, state):
    """What to do about one piece of news; `state` is the strategy's own."""
    if news["type"] == "trade" and news["aggressor"] == "buy":
        state["wanted"] = news["symbol"]
    if news["type"] != "book" or state.get("wanted") != news["symbol"]:
        return []
    if news["orders"] or news["lots"] >= LOTS_MAX or not news["asks"]:
        return []
    state["wanted"] = None
    price = news["asks"][0][0]
    order = {"do": "order", "symbol": news["symbol"], "side": "buy", "qty": 1, "price": price}
    return [order | {"life": "ioc"}]


def main():
    state = {}
    for line in sys.stdin:
        news = json.loads(line)
        if news["type"] == "end":
            break
        print(json.dumps(actions(news, state)), flush=True)


if __name__ == "__main__":
    main()
