"""What the tests of the page stand on: a browser, an exchange, a made-up feed.

FAIRBELL_BINARY, FAIRBELL_CHROMIUM, FAIRBELL_AXE and FAIRBELL_PICTURES name the program, the browser, axe-core's axe.min.js
and the folder of the screenshots; scripts/web-test.sh sets them. Nothing is passed over when one is missing.
"""

import asyncio
import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from feed import HEADERS, FeedDoor, page_file

HERE = Path(__file__).parent
SECRETS = {"one": "secret of page one, 1", "two": "secret of page two, 2", "operator": "secret of the operator"}
# Machines that test may be slow.
PATIENCE_MS = int(os.environ.get("PATIENCE_MS", 60_000))


def until(page, read, due=True):
    """Waits until what is read is as due; `read` is called, or a script that the page evaluates."""
    deadline = time.monotonic() + PATIENCE_MS / 1_000
    while (found := page.evaluate(read) if isinstance(read, str) else read()) != due:
        assert time.monotonic() < deadline, f"{found!r} instead of {due!r}"
        page.wait_for_timeout(100)


def named(variable):
    value = os.environ.get(variable)
    assert value, f"{variable} is not set: run scripts/web-test.sh"
    return value


@pytest.fixture(scope="session")
def pictures():
    folder = Path(named("FAIRBELL_PICTURES"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root; what it opens here is our own.
        # A page that is given its files has no address: it could not connect to one of this machine.
        options = ["--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,BlockInsecurePrivateNetworkRequests"]
        options += ["--no-sandbox"] if os.geteuid() == 0 else []
        made = playwright.chromium.launch(executable_path=named("FAIRBELL_CHROMIUM"), args=options)
        yield made
        made.close()


class Exchange:
    """A `fairbell up --web` of its own, on free ports."""

    def __init__(self, folder, *options, config=HERE / "exchange.toml"):
        keys = folder / "keys.toml"
        entry = '[[key]]\nname = "{0}"\nsecret = "{1}"\nusername = "{2}"\npassword = "welcome"\n'
        keys.write_text("".join(entry.format(name, SECRETS[name], user) for name, user in [("one", "PAGEA"), ("two", "PAGEB")])
                        + '[[key]]\nname = "reader"\nsecret = "{}"\nusername = "PAGEA"\npassword = "welcome"\nscopes = ["read"]\n'.format(SECRETS["one"])
                        + '[[key]]\nname = "operator"\nsecret = "{}"\nscopes = ["operate"]\n'.format(SECRETS["operator"]))
        self.log = folder / "exchange.txt"
        self.audit = folder / "out" / "admin-audit.jsonl"
        # Its sample's and report's folders are relative to where it runs.
        command = [str(Path(named("FAIRBELL_BINARY")).resolve()), "up", "--config", str(config), "--port-base", "0", "--web", str(keys),
                   "--out", str(folder / "out"), *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 120
        while not (found := re.search(r"http://(127\.0\.0\.1:\d+)/", self.log.read_text())):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        self.base = f"http://{found[1]}"
        # It prints its address when it begins; the feed and the accounts follow.
        while True:
            try:
                if json.load(urllib.request.urlopen(self.base + "/v1/status/GENA", timeout=5))["status"] == "trading":
                    break
            except OSError:
                pass
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def ask(self, key, method, path, value=None):
        """A signed request beside the pages."""
        body = b"" if value is None else json.dumps(value).encode()
        at = str(time.time_ns() // 10**6)
        nonce = os.urandom(8).hex()
        sign = hmac.new(SECRETS[key].encode(), at.encode() + nonce.encode() + method.encode() + path.encode() + body, hashlib.sha256).hexdigest()
        headers = {"FB-KEY": key, "FB-TIMESTAMP": at, "FB-NONCE": nonce, "FB-SIGN": sign}
        request = urllib.request.Request(self.base + path, body or None, headers, method=method)
        return json.load(urllib.request.urlopen(request, timeout=10))

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="session")
def exchange(tmp_path_factory):
    made = Exchange(tmp_path_factory.mktemp("exchange"))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def start_exchange():
    return Exchange


class Pages:
    """Pages of a door. A door that does not serve the page itself gets its files from web/, with the same headers."""

    def __init__(self, browser):
        self.browser = browser
        self.contexts = []
        self.trouble = []

    def open(self, base, width=1600, height=1000, scheme="dark"):
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE_MS)
        self.contexts.append(context)
        try:
            with urllib.request.urlopen(base + "/", timeout=10) as told:
                served = told.headers.get_content_type() == "text/html"
        except OSError:
            served = False
        if not served:
            context.route(lambda url: url.startswith(base) and not urlsplit(url).path.startswith("/v1/"), give_file)
        page = context.new_page()
        page.outside = []
        page.on("request", lambda request: request.url.startswith(base) or page.outside.append(request.url))
        page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        page.on("console", lambda message: self.trouble.append(message.text) if "Content Security" in message.text else None)
        page.goto(base + "/")
        page.locator("#link[data-state=live]").wait_for()
        return page

    def close(self):
        for context in self.contexts:
            context.close()


def give_file(route):
    found = page_file(urlsplit(route.request.url).path)
    if found is None:
        route.fulfill(status=404, body="")
    else:
        route.fulfill(status=200, body=found[0], headers={**HEADERS, "Content-Type": f"{found[1]}; charset=utf-8"})


@pytest.fixture
def pages(browser):
    made = Pages(browser)
    yield made
    outside = [url for context in made.contexts for page in context.pages for url in page.outside]
    made.close()
    assert not made.trouble, made.trouble
    assert not outside, f"requests to elsewhere: {outside}"


class Running:
    """A FeedDoor on a thread of its own."""

    def __init__(self, **options):
        self.door = FeedDoor(**options)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.call(self.door.start())
        self.base = f"http://127.0.0.1:{self.door.port}"

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def stop(self):
        self.call(self.door.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)


@pytest.fixture
def feed():
    running = []

    def start(**options):
        running.append(Running(**options))
        return running[-1]

    yield start
    for one in running:
        one.stop()


class Cable:
    """Connections to an address by another one, which can be cut."""

    def __init__(self, base):
        self.to = urlsplit(base)
        self.open, self.whole = set(), True
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.server = self.call(asyncio.start_server(self.connect, "127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def connect(self, reader, writer):
        if not self.whole:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(self.to.hostname, self.to.port)
        ends = {writer, far_writer}
        self.open |= ends
        await asyncio.gather(self.pass_on(reader, far_writer), self.pass_on(far_reader, writer))
        self.open -= ends

    async def pass_on(self, reader, writer):
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    def cut(self):
        async def close():
            self.whole = False
            for writer in self.open:
                writer.transport.abort()

        self.call(close())

    def mend(self):
        self.whole = True

    def stop(self):
        self.cut()
        self.loop.call_soon_threadsafe(self.loop.stop)


@pytest.fixture
def cable():
    laid = []

    def lay(base):
        laid.append(Cable(base))
        return laid[-1]

    yield lay
    for one in laid:
        one.stop()


@pytest.fixture(scope="session")
def axe():
    return Path(named("FAIRBELL_AXE")).read_text()
