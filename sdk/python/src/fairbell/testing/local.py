"""Starts and stops ``fairbell up`` for tests."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..client import Client
from ..errors import FairbellError
from ..sync import Client as SyncClient

__all__ = ["BinaryNotFound", "ExchangeFailed", "InstrumentSpec", "Key", "LocalExchange"]

_ADDRESS = re.compile(r"REST and WebSocket: http://([0-9.]+):([0-9]+)/v1")
# Reads what the program that started an exchange says, and sees it go: the other end of its standard input is
# the program's alone. $1 is the process of the exchange, $2 its folder. A signal at the parent's death would
# come at the end of the thread that started it, and not everywhere.
_WATCH = """
exchange=$1
while read -r said; do
    case $said in
        ended) exchange= ;;
        done) exit ;;
    esac
done
if [ -n "$exchange" ] && kill -TERM "$exchange"; then
    waited=0
    while kill -0 "$exchange"; do
        if [ "$waited" -eq 100 ]; then
            kill -KILL "$exchange"
            break
        fi
        waited=$((waited + 1))
        sleep 0.1
    done
fi
rm -rf -- "$2"
"""


class BinaryNotFound(FairbellError):
    """There is no ``fairbell`` to start."""


class ExchangeFailed(FairbellError):
    """The exchange did not start, or its own checks at the end failed; the message has its last lines."""


@dataclass(frozen=True, slots=True)
class InstrumentSpec:
    """An instrument to trade; values as in fairbell.toml."""

    symbol: str
    tick: str = "0.01"
    lot_decimals: int = 0


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the web door."""

    name: str
    secret: str
    username: str
    """The account's login at the exchange."""


INSTRUMENTS = (
    InstrumentSpec("BTCUSD", tick="1", lot_decimals=8),
    InstrumentSpec("GENA", tick="0.01", lot_decimals=0),
)


def find_binary(binary: str | os.PathLike[str] | None = None) -> Path:
    """The program to start: as given, or FAIRBELL_BIN, or ``fairbell`` of the PATH or of this environment."""
    named = os.fspath(binary) if binary is not None else os.environ.get("FAIRBELL_BIN")
    if named:
        path = Path(named).absolute()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise BinaryNotFound(f"{named} is no program (given, or in FAIRBELL_BIN)")
        return path
    found = shutil.which("fairbell") or shutil.which("fairbell", path=sysconfig.get_path("scripts"))
    if found is None:
        raise BinaryNotFound("no program fairbell: install it, or name it in FAIRBELL_BIN")
    return Path(found).absolute()


class LocalExchange:
    """A running exchange of one's own on loopback addresses, with free ports: any number at once.

    Nothing is played in it: the books are empty until its clients enter orders. It is ready when the door
    answers and all instruments trade. At its end the exchange compares its books with those that its
    listeners made of the feed, and :meth:`stop` raises if they differ. Whatever ends the program that started
    it ends it, too, and takes its folder away.

    :param instruments: what is traded.
    :param accounts: accounts, each with a key: ``keys[0]``, ...
    :param binary: the program; else FAIRBELL_BIN, else ``fairbell`` of the PATH or of this environment.
    :param credits_per_s: requests a key may make in a second.
    :param settings: more lines for the configuration, whole sections of TOML that are not among its own:
        ``[overlay]``, ``[flow]``, ``[day]``, ``[ports]``, ``[doors]``.
    :param scenario: a file of `fairbell up --scenario`, or its text: orders, generated flow and faults at
        given times after the start, the same each time.
    :param durable: its state is kept on disk while it runs, so that :meth:`stop` can save it.
    :param state: a folder that :meth:`stop` has saved: it begins with the orders, trades and positions of
        then. Instruments and accounts have to be the same.
    :param participants: accounts of its own, which play the scenario: ``FLOW01``, ...
    :param timeout: longest start, seconds.
    """

    def __init__(
        self,
        *,
        instruments: Sequence[InstrumentSpec] = INSTRUMENTS,
        accounts: int = 4,
        binary: str | os.PathLike[str] | None = None,
        credits_per_s: int = 100_000,
        settings: str = "",
        scenario: str | os.PathLike[str] | None = None,
        durable: bool = False,
        state: str | os.PathLike[str] | None = None,
        participants: int = 1,
        timeout: float = 30.0,
    ) -> None:
        if not instruments:
            raise ValueError("instruments: one at least")
        if not 1 <= accounts <= 99:
            raise ValueError("accounts: 1 to 99")
        if not 1 <= participants <= 64:
            raise ValueError("participants: 1 to 64")
        self._binary = find_binary(binary)
        self._participants = participants
        self._scenario = scenario
        self._durable = durable or state is not None
        self._state = None if state is None else Path(state).absolute()
        self._instruments = tuple(instruments)
        self._credits = credits_per_s
        self._settings = settings
        self._timeout = timeout
        self.keys = [
            Key(f"client{number}", secrets.token_hex(16), f"CLI{number:02}")
            for number in range(1, accounts + 1)
        ]
        """A key for each account."""
        self.folder: Path | None = None
        """Configuration, log and report, while it runs."""
        self.url = ""
        """Address of the web door, without ``/v1``."""
        self.started_in = 0.0
        """Seconds from the start of the process until it was ready."""
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LocalExchange:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(check=kind is None)

    def __repr__(self) -> str:
        return f"<LocalExchange {self.url or 'not running'}>"

    def client(self, account: int = 0, *, patience: float = 10.0) -> Client:
        """A client of an account's key; the caller closes it."""
        return Client(*self._of(account), patience=patience)

    def sync_client(self, account: int = 0, *, patience: float = 10.0) -> SyncClient:
        """The same without asyncio."""
        return SyncClient(*self._of(account), patience=patience)

    def _of(self, account: int) -> tuple[str, str, str]:
        key = self.keys[account]
        return self.url, key.name, key.secret

    def log(self) -> str:
        """What the exchange has said."""
        if self.folder is None:
            return ""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def running(self) -> bool:
        """Its process is alive."""
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        self._say("ended")
        return False

    def start(self) -> LocalExchange:
        """Starts it and waits until it is ready.

        :raises ExchangeFailed: it does not start; what it said is in the message.
        """
        if self._process is not None:
            raise ExchangeFailed("it runs already")
        self.folder = folder = Path(tempfile.mkdtemp(prefix="fairbell-"))
        (folder / "exchange.toml").write_text(self._config())
        keys = folder / "keys.toml"
        keys.touch(mode=0o600)
        keys.write_text(self._key_file())
        command = [os.fspath(self._binary), "up", "--config", "exchange.toml"]
        command += ["--web", "keys.toml", "--out", "out"]
        if self._scenario is not None:
            command += ["--scenario", os.fspath(self._scenario_file(folder))]
        if self._state is not None:
            command += ["--from", os.fspath(self._state)]
        since = time.monotonic()
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is the tests' affair: they stop it.
                start_new_session=True,
            )
        atexit.register(self._kill)
        try:
            self._watch(self._process.pid, folder)
            self._wait_until_ready(since + self._timeout)
        except BaseException:
            self.stop(check=False)
            raise
        self.started_in = time.monotonic() - since
        return self

    def _watch(self, process: int, folder: Path) -> None:
        """Starts what ends the exchange when this program is gone without having stopped it."""
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "fairbell-watch", str(process), os.fspath(folder)],
            cwd="/",
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _say(self, what: str) -> None:
        """Tells the watcher; ``ended``: the number of the process may be another one's from now on."""
        if self._watcher is not None and self._watcher.stdin is not None:
            try:
                self._watcher.stdin.write(f"{what}\n".encode())
            except OSError:
                pass  # Somebody has ended it.

    def _end_watch(self) -> None:
        self._say("done")
        watcher, self._watcher = self._watcher, None
        if watcher is not None and watcher.stdin is not None:
            watcher.stdin.close()
            watcher.wait()

    def _scenario_file(self, folder: Path) -> Path:
        """The scenario's file; a text becomes one."""
        if not isinstance(self._scenario, str) or "\n" not in self._scenario:
            return Path(os.fspath(self._scenario or "")).absolute()
        file = folder / "scenario.toml"
        file.write_text(self._scenario)
        return file

    def stop(
        self, *, check: bool = True, timeout: float = 60.0, save: str | os.PathLike[str] | None = None
    ) -> None:
        """Stops it, waits for its end, and takes its folder away; nothing if it does not run.

        :param check: raise unless the exchange ended well.
        :param save: a folder for its state, which is made; for ``LocalExchange(state=...)``.
        :raises ValueError: there is something of that name; the exchange goes on.
        :raises ExchangeFailed: its own checks failed, or it had to be killed, or its state could not be
            saved: the message says where it is.
        """
        if save is not None and not self._durable:
            raise ValueError("save: its state is not on disk: LocalExchange(durable=True)")
        if self._process is None:
            return
        if save is not None and os.path.lexists(save):
            raise ValueError(f"save: {os.fspath(save)} exists already")
        process, self._process = self._process, None
        atexit.unregister(self._kill)
        killed = False
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            code, killed = process.wait(), True
        self._say("ended")
        said = self._last_lines()
        folder, self.folder, self.url = self.folder, None, ""
        try:
            if folder is not None and save is not None:
                self._save(folder / "journal", save)
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            self._end_watch()
        if check and killed:
            raise ExchangeFailed(f"it did not end within {timeout} s:\n{said}")
        if check and code != 0:
            raise ExchangeFailed(f"it ended with {code}:\n{said}")

    def _save(self, state: Path, to: str | os.PathLike[str]) -> None:
        try:
            shutil.copytree(state, to)
        except OSError as error:
            why = f"its state could not be saved in {os.fspath(to)}: {error}; it is still in {state}"
            raise ExchangeFailed(why) from error

    def _kill(self) -> None:
        """For a program that ends without stopping it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._say("ended")
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._end_watch()

    def _last_lines(self) -> str:
        try:
            return "\n".join(self.log().splitlines()[-30:])
        except OSError:
            return ""

    def _wait_until_ready(self, end: float) -> None:
        wanted = [of.symbol for of in self._instruments]
        while True:
            if self._process is None or self._process.poll() is not None:
                raise ExchangeFailed(f"it ended while it started:\n{self._last_lines()}")
            if time.monotonic() > end:
                why = "" if self.url else "; does this binary know `up --web`?"
                raise ExchangeFailed(f"not ready within {self._timeout} s{why}\n{self._last_lines()}")
            found = _ADDRESS.search(self.log())
            if found is not None:
                self.url = f"http://{found[1]}:{found[2]}"
                wanted = [of for of in wanted if not _trades(found[1], int(found[2]), of)]
                if not wanted:
                    return
            time.sleep(0.01)

    def _config(self) -> str:
        parts = [
            "[overlay]\ndepth = 1\nreceivers = 1\nhedge = 0\nchange_tree_at_percent = 0\n",
            # Nothing is generated with a rate of 0, and there is no sample.
            f'[flow]\nrate = 1\ngenerated_rate = 0\nparticipants = {self._participants}\nsample = "none"\n',
            "[day]\nauctions = false\nhalt_instrument = 0\n",
            "[ports]\nbase = 0\n",
            "[doors]\nplain = true\n",
            self._settings.rstrip() + "\n",
        ]
        if self._durable:
            parts.append('[journal]\ndurability = "local"\ndir = "journal"\nsegment_mib = 2\n')
        for of in self._instruments:
            parts.append(
                f"[[instrument]]\nsymbol = {_toml(of.symbol)}\ntick = {_toml(of.tick)}\n"
                f'price_max = "429496.7295"\nqty_max = 4294967295\n'
                f"lot_decimals = {of.lot_decimals}\n"
            )
        accounts = [
            (f"built-in participant {number}", f"FLOW{number:02}", "flow")
            for number in range(1, self._participants + 1)
        ]
        accounts += [(key.name, key.username, "local") for key in self.keys]
        for name, username, password in accounts:
            parts.append(
                f"[[account]]\nname = {_toml(name)}\nusername = {_toml(username)}\n"
                f"password = {_toml(password)}\n"
            )
        return "\n".join(parts)

    def _key_file(self) -> str:
        parts = ['listen = "127.0.0.1:0"\n']
        for key in self.keys:
            parts.append(
                f"[[key]]\nname = {_toml(key.name)}\nsecret = {_toml(key.secret)}\n"
                f'username = {_toml(key.username)}\npassword = "local"\n'
                f"credits_per_s = {self._credits}\n"
            )
        return "\n".join(parts)


def _toml(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, too."""
    return json.dumps(text)


def _trades(host: str, port: int, symbol: str) -> bool:
    """Whether the door says that an instrument is traded."""
    connection = http.client.HTTPConnection(host, port, timeout=2.0)
    try:
        connection.request("GET", f"/v1/status/{symbol}")
        told = json.loads(connection.getresponse().read())
        return isinstance(told, dict) and told.get("status") == "trading"
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()
