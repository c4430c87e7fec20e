"""What cases are made of: brokers as processes, and events whose numbers are counted at the other end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import roost
from roost.client import Client, NotInTime, Subscription
from roost.runtime.toml_file import toml_value

HOST = "127.0.0.1"
# For what has to happen, however busy the machine is.
WITHIN_S = 60.0
# Silence after which nothing is taken to come any more, when the way is proved to be open.
QUIET_S = 10.0
STOCK = "class = 'STOCK'"
# The health of a broker that knows of no trouble, as it was said once.
HEALTHY = r'\{"status": *"ok"\}'

Tables: TypeAlias = Mapping[str, Mapping[str, object]]


class BrokenPromise(Exception):  # noqa: N818 (it says what is so)
    """How the promise was broken, in a few words."""


# --- cases ------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A story, and the words in which it ended badly once; none, if it did not."""

    name: str
    play: Callable[[Stage], Awaitable[str]]
    once: str

    @property
    def promise(self) -> str:
        return " ".join((self.play.__doc__ or "").split())


CASES: dict[str, Case] = {}


def case(once: str) -> Callable[[Callable[[Stage], Awaitable[str]]], Case]:
    """A coroutine on a `Stage` that gives what it has seen, or raises `BrokenPromise`."""

    def add(play: Callable[[Stage], Awaitable[str]]) -> Case:
        name = play.__name__.replace("_", "-")
        CASES[name] = Case(name, play, once)
        return CASES[name]

    return add


# --- brokers ----------------------------------------------------------------------------------------


class Listens(Protocol):
    """A broker, or a wire to one."""

    port: int


class Broker:
    """A process that can be killed, stopped and started again, on the same port and with the same store."""

    def __init__(self, folder: Path, name: str, tables: Tables, files_max: int | None) -> None:
        self.name = name
        self.folder = folder
        self.port = 0
        self._tables = {table: dict(keys) for table, keys in tables.items()}
        self._files_max = files_max
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"roost://{HOST}:{self.port}"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def admin_port(self) -> int:
        return int(str(self._tables["admin"]["port"]))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def said(self) -> str:
        return (self.folder / "said").read_text("utf-8", "replace")

    async def start(self) -> None:
        self._tables["broker"]["port"] = self.port
        config = self.folder / "roost.toml"
        config.write_text(
            "".join(
                f"[{table}]\n"
                + "".join(f"{key} = {toml_value(value)}\n" for key, value in keys.items())
                for table, keys in self._tables.items()
            )
        )
        config.chmod(0o600)
        with (self.folder / "said").open("wb") as said, files_limited(self._files_max):
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "roost", "broker", "--config", config],
                stdout=said,
                stderr=said,
            )
        await until(lambda: self._listens() or process.poll() is not None)
        found = self._listens()
        if not found:
            raise RuntimeError(f"{self.name} does not start; it said:\n{self.said()}")
        self.port = int(found[1])

    def _listens(self) -> re.Match[str] | None:
        return re.search(r" listens on \S+:(\d+)$", self.said(), re.MULTILINE)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)

    async def ended(self) -> None:
        await until(lambda: self._process is None or self._process.poll() is not None)

    async def health(self) -> str:
        """What it says of it to whoever asks."""
        return await asyncio.to_thread(self._health)

    def _health(self) -> str:
        url = f"http://{HOST}:{self.admin_port}/health"
        try:
            with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    def memory_peak(self) -> int:
        """The most that it has had in memory so far, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii", "replace")
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return 1024 * int(found[1])


@contextlib.contextmanager
def files_limited(soft: int | None) -> Iterator[None]:
    """Processes that are started meanwhile may have so many files open, unless they raise it themselves."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft or before[0], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Stage:
    """Where a case plays: a folder, and what is cleared away behind it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.brokers: list[Broker] = []
        self.tokens: dict[str, str] = {}

    async def broker(
        self,
        name: str,
        neighbours: Mapping[str, str] | None = None,
        *,
        stored: bool = True,
        files_max: int | None = None,
        folder: str = "",
        **tables: Mapping[str, object],
    ) -> Broker:
        """One that listens. A neighbour with an address is dialled, one without dials us."""
        home = self.folder / (folder or name)
        home.mkdir()
        settings: dict[str, Mapping[str, object]] = {
            "broker": {
                "name": name,
                "redial_min_s": 0.1,
                "redial_max_s": 0.5,
                **({"data": "data"} if stored else {}),
                **tables.pop("broker", {}),
            },
            "links": {"neighbours": dict(neighbours or {})},
            "admin": {"port": -1},
            **tables,
        }
        if self.tokens:
            settings["security"] = {
                "enabled": True,
                "users": str(self.folder / "users.toml"),
                "refusals": "refusals",
                **({"token": self.tokens[name]} if name in self.tokens else {}),
            }
        broker = Broker(home, name, settings, files_max)
        self.brokers.append(broker)
        await broker.start()
        return broker

    async def pair(self, **settings: Any) -> tuple[Broker, Broker]:
        """B0, and B1 that dials it; they have found each other."""
        b0 = await self.broker("B0", {"B1": ""}, **settings)
        b1 = await self.broker("B1", {"B0": b0.address}, **settings)
        await self.linked(b0, b1)
        return b0, b1

    def add_user(self, name: str, *options: str) -> None:
        """Security is on then in all brokers that are started from now on; `probe` finds out about links."""
        command = [sys.executable, "-m", "roost", "users", "add", name, *options]
        file = str(self.folder / "users.toml")
        done = subprocess.run(
            [*command, "--file", file], capture_output=True, text=True, check=True
        )
        self.tokens[name] = done.stdout.strip()

    async def run(
        self, *words: str, within_s: float = WITHIN_S, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """`python WORDS`, in the folder of the stage; `TimeoutExpired`, if it takes longer."""
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, *words],
            cwd=self.folder,
            env={**os.environ, **variables},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=within_s,
        )

    def connect(self, at: Listens, user: str = "", **options: Any) -> Client:
        if user:
            options |= {"user": user, "token": self.tokens[user]}
        url = f"roost://{HOST}:{at.port}"
        return roost.connect(url, timeout_s=WITHIN_S, settle_s=WITHIN_S, **options)

    async def linked(self, one: Broker, other: Broker) -> None:
        """Until events pass from each to the other."""
        user = "probe" if self.tokens else ""
        async with (
            asyncio.timeout(WITHIN_S),
            self.connect(one, user) as here,
            self.connect(other, user) as there,
        ):
            for publisher, subscriber in ((here, there), (there, here)):
                async with subscriber.subscribe("class = 'PROBE'") as subscription:
                    heard = asyncio.create_task(subscription.get())
                    while not heard.done():
                        await publisher.publish({"class": "PROBE"})
                        await asyncio.wait([heard], timeout=0.1)

    async def clear(self) -> None:
        for broker in self.brokers:
            broker.kill()
            broker.kill(signal.SIGCONT)
            await broker.ended()


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


# --- waiting ----------------------------------------------------------------------------------------


async def until(is_so: Callable[[], object], within_s: float = WITHIN_S) -> bool:
    """Whether it is so in time."""
    end = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.02)
    return True


async def told(what: str, *brokers: Broker) -> str:
    """Which of them says so when it is asked for its health (which is patient with links)."""
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end:
        for broker in brokers:
            if what in await broker.health():
                return f"{broker.name} says so"
        await asyncio.sleep(0.5)
    said = [await broker.health() for broker in brokers]
    raise BrokenPromise(f"UNNOTICED: {' '.join(said)}")


# --- events -----------------------------------------------------------------------------------------


async def publish(client: Client, numbers: Iterable[int], class_: str = "STOCK") -> None:
    """These, and the broker has acknowledged them."""
    for n in numbers:
        await client.publish({"class": class_, "n": n})
    await client.flush(WITHIN_S)


async def take(subscription: Subscription, count: int) -> list[int]:
    """So many, acknowledged if it is durable."""
    numbers = []
    for _ in range(count):
        event = await subscription.get(WITHIN_S)
        numbers.append(int(event["n"]))
        with contextlib.suppress(AttributeError):
            await event.ack()
    return numbers


async def arrived(subscription: Subscription, wanted: Iterable[int], witness: Client) -> list[int]:
    """Which of these come, by the time that what the witness publishes now has come, and it is quiet."""
    missing, came = set(wanted), []
    is_open, heard_at, end = False, time.monotonic(), time.monotonic() + WITHIN_S
    while (
        missing
        and time.monotonic() < end
        and not (is_open and time.monotonic() > heard_at + QUIET_S)
    ):
        if not is_open:
            await witness.publish({"class": "STOCK", "n": -1})
        with contextlib.suppress(NotInTime):
            event = await subscription.get(0.5)
            heard_at = time.monotonic()
            number = int(event["n"])
            is_open |= number == -1
            if number != -1:
                came.append(number)
                missing.discard(number)
    if missing and not is_open:
        raise BrokenPromise(f"NOTHING passes within {WITHIN_S:g} s, not even what is published now")
    return came


def all_of(came: list[int], *publishers: range) -> str:
    """That these have come, once each, and in the order of each publisher."""
    lost = sum(n not in came for numbers in publishers for n in numbers)
    count = sum(map(len, publishers))
    if lost:
        raise BrokenPromise(f"LOST {lost} of {count}")
    for numbers in publishers:
        if (these := [n for n in came if n in numbers]) != list(numbers):
            raise BrokenPromise(f"DOUBLED or out of order: {these}")
    return f"all {count} came"
