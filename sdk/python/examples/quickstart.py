"""The ten lines of docs/sdk.md: an order that rests, the best bids, and a cancel."""

import os

from fairbell.sync import Client

with Client(os.environ["FAIRBELL_URL"], os.environ["FAIRBELL_KEY"], os.environ["FAIRBELL_SECRET"]) as client:
    print(client.instruments())
    order = client.new_order("BTCUSD", "buy", "0.5", "1")
    print(order.state, order.client_order_id)
    print(client.book("BTCUSD").bids(5))
    print(client.cancel(order.client_order_id).state)
