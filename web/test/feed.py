"""A door that makes its market up from a seed: for what a real exchange does not do on demand.

It serves the page with the headers of web/README.md, and a book whose updates come as fast as asked, with wrong
checksums, gaps, lost connections and a slow reader's resync where asked. Orders need the real door.
"""

import asyncio
import json
import random
import zlib
from pathlib import Path

from aiohttp import WSMsgType, web

WEB = Path(__file__).resolve().parent.parent
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_file(path):
    """The page's file of a path of a request, as (bytes, type); None: there is none."""
    name = path.lstrip("/") or "index.html"
    file = (WEB / name).resolve()
    served = name in ("index.html", "style.css", "icon.svg") or name.startswith("src/")
    if not served or WEB not in file.parents or file.suffix not in TYPES or not file.is_file():
        return None
    return file.read_bytes(), TYPES[file.suffix]


def decimal(cents):
    return f"{cents // 100}.{cents % 100:02}"


class Market:
    """Books around a price that walks."""

    def __init__(self, seed, symbols):
        self.random = random.Random(seed)
        self.seq = 1
        self.symbols = symbols
        self.books = {}
        # The feed's message that each book stands after.
        self.stands = dict.fromkeys(symbols, 1)
        self.trades = {symbol: [] for symbol in symbols}
        self.volume = dict.fromkeys(symbols, 0)
        for place, symbol in enumerate(symbols):
            middle = 10_000 + 1_500 * place
            bids = {middle - 1 - n: self.random.randint(1, 900) for n in range(40)}
            asks = {middle + 1 + n: self.random.randint(1, 900) for n in range(40)}
            self.books[symbol] = (bids, asks)

    def best(self, symbol):
        bids, asks = self.books[symbol]
        return max(bids, default=None), min(asks, default=None)

    def levels(self, symbol):
        bids, asks = self.books[symbol]
        told = lambda side, reverse: [[decimal(p), str(side[p])] for p in sorted(side, reverse=reverse)]
        return told(bids, True), told(asks, False)

    def checksum(self, symbol):
        bids, asks = self.levels(symbol)
        text = "".join(of.replace(".", "").lstrip("0") for level in asks[:10] + bids[:10] for of in level)
        return zlib.crc32(text.encode())

    def book(self, symbol):
        bids, asks = self.levels(symbol)
        return {"channel": "book", "type": "snapshot", "symbol": symbol, "seq": self.stands[symbol], "bids": bids, "asks": asks,
                "checksum": self.checksum(symbol)}

    def ticker(self, symbol):
        bids, asks = self.levels(symbol)
        last = self.trades[symbol][0]["price"] if self.trades[symbol] else None
        return {"symbol": symbol, "bid": bids[0] if bids else None, "ask": asks[0] if asks else None, "last": last,
                "volume": str(self.volume[symbol]), "trades": len(self.trades[symbol])}

    def snapshot(self, channel, symbol):
        rest = {"channel": channel, "type": "snapshot", "symbol": symbol}
        return {
            "book": lambda: self.book(symbol),
            "trades": lambda: {**rest, "trades": self.trades[symbol][:500]},
            "ticker": lambda: {**rest, "ticker": self.ticker(symbol)},
            "status": lambda: {**rest, "status": "trading"},
        }[channel]()

    def trade(self, symbol, at_ns):
        """One order takes the best level, or some of it: messages of it."""
        side = self.random.choice(["buy", "sell"])
        best = self.best(symbol)[1 if side == "buy" else 0]
        qty = self.random.randint(1, 60)
        self.volume[symbol] += qty
        self.seq += 1
        trade = {"trade_id": str(self.seq), "price": decimal(best), "qty": str(qty), "aggressor": side,
                 "time_ns": str(at_ns), "broken": False}
        self.trades[symbol].insert(0, trade)
        del self.trades[symbol][1_000:]
        return [{"channel": "trades", "symbol": symbol, "seq": self.seq, "trade": trade},
                {"channel": "ticker", "seq": self.seq, "ticker": self.ticker(symbol)}]

    def update(self, symbol):
        """Some levels change."""
        bids, asks = self.books[symbol]
        low, high = self.best(symbol)
        changed = ([], [])
        for _ in range(self.random.randint(1, 3)):
            side = self.random.randrange(2)
            levels, best, away = ((bids, high - 1, -1), (asks, low + 1, 1))[side]
            price = best + away * int(self.random.expovariate(0.2))
            if price in levels and len(levels) > 20 and self.random.random() < 0.45:
                del levels[price]
            else:
                levels[price] = self.random.randint(1, 900)
            while len(levels) > 120:
                del levels[min(levels) if side == 0 else max(levels)]
            changed[side].append([decimal(price), str(levels.get(price, 0))])
            low, high = self.best(symbol)
        self.seq += 1
        prev, self.stands[symbol] = self.stands[symbol], self.seq
        return {"channel": "book", "type": "update", "symbol": symbol, "prev_seq": prev, "seq": self.seq,
                "bids": changed[0], "asks": changed[1], "checksum": self.checksum(symbol)}


class FeedDoor:
    """`rate` book updates a second of the first symbol; `faults`: "checksum", "gap", "drop", "slow" by turns."""

    def __init__(self, seed=1, symbols=("AAA", "BBB", "CCC", "DDD"), rate=50, faults=()):
        self.market = Market(seed, list(symbols))
        self.rate = rate
        self.faults = list(faults)
        self.told = {"updates": 0, "checksum": 0, "gap": 0, "drop": 0, "slow": 0, "snapshots": 0}
        self.sockets = {}
        self.paused = False
        self.clock = 9 * 3_600 * 10**9

    async def start(self):
        app = web.Application()
        app.router.add_get("/v1/time", self.time)
        app.router.add_get("/v1/instruments", self.instruments)
        app.router.add_get("/v1/ws", self.socket)
        app.router.add_get("/{path:.*}", self.file)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.port = self.runner.addresses[0][1]
        self.beat = asyncio.create_task(self.run())

    async def stop(self):
        self.beat.cancel()
        for socket in list(self.sockets):
            await socket.close()
        await self.runner.cleanup()

    async def file(self, request):
        found = page_file(request.path)
        if found is None:
            return web.json_response({"error": {"code": "not_found", "message": "no such path"}}, status=404)
        return web.Response(body=found[0], content_type=found[1], charset="utf-8", headers=HEADERS)

    async def time(self, _):
        import time
        return web.json_response({"time_ms": time.time_ns() // 10**6})

    async def instruments(self, _):
        one = lambda symbol: {"symbol": symbol, "tick": "0.01", "price_max": "200000", "lot": "1", "qty_max": "1000000"}
        return web.json_response({"instruments": [one(symbol) for symbol in self.market.symbols]})

    async def socket(self, request):
        socket = web.WebSocketResponse(max_msg_size=64 * 1_024)
        await socket.prepare(request)
        topics = self.sockets[socket] = set()
        try:
            async for message in socket:
                if message.type != WSMsgType.TEXT:
                    break
                asked = json.loads(message.data)
                if asked["op"] in ("subscribe", "unsubscribe"):
                    for topic in [(c, s) for c in asked["channels"] for s in asked["symbols"]]:
                        if asked["op"] == "subscribe":
                            topics.add(topic)
                            self.told["snapshots"] += topic[0] == "book"
                            await socket.send_json(self.market.snapshot(*topic))
                        else:
                            topics.discard(topic)
                await socket.send_json({"channel": "pong" if asked["op"] == "ping" else "ok"})
        finally:
            self.sockets.pop(socket, None)
        return socket

    async def tell(self, message):
        symbol = message.get("symbol") or message["ticker"]["symbol"]
        text = json.dumps(message)
        for socket, topics in list(self.sockets.items()):
            if (message["channel"], symbol) in topics and not socket.closed:
                try:
                    await socket.send_str(text)
                except ConnectionError:
                    pass

    async def step(self, n):
        symbol = self.market.symbols[0]
        self.clock += 10**9 // max(1, self.rate)
        update = self.market.update(symbol)
        self.told["updates"] += 1
        fault = None
        if self.faults and n % 97 == 96:
            fault = self.faults[(n // 97) % len(self.faults)]
            self.told[fault] += 1
        if fault == "checksum":
            update["checksum"] ^= 1
        if fault != "gap":
            await self.tell(update)
        if fault == "drop":
            for socket in list(self.sockets):
                await socket.close()
        if fault == "slow":
            for socket, topics in list(self.sockets.items()):
                await socket.send_json({"channel": "resync_required", "reason": "too slow"})
                for topic in list(topics):
                    await socket.send_json(self.market.snapshot(*topic))
        if n % 7 == 0:
            for message in self.market.trade(symbol, self.clock):
                await self.tell(message)
        if n % 29 == 0:
            other = self.market.random.choice(self.market.symbols[1:] or [symbol])
            for message in self.market.trade(other, self.clock)[1:]:
                await self.tell(message)

    async def run(self):
        """Updates in time: after a delay as many as are due."""
        loop = asyncio.get_running_loop()
        begun, done, beats = loop.time(), 0, 0
        while True:
            await asyncio.sleep(0.005)
            if self.paused or not self.sockets:
                begun, done = loop.time(), 0
                continue
            due = int((loop.time() - begun) * self.rate)
            for _ in range(min(due - done, self.rate)):
                await self.step(self.told["updates"])
            done = due
            beats += 1
            if beats % 1_000 == 0:
                for socket in list(self.sockets):
                    await socket.send_json({"channel": "heartbeat", "counter": beats // 1_000})
