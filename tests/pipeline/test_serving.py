"""Spark behind a federation, all of it real processes: killed in the middle of a batch.

Events go in at one broker, deliveries come out at another, and subscriptions come and go meanwhile. What has
to be delivered is known from outside: an event meets some version of the subscriptions between that of when
it was published and that of when it was delivered to a subscriber that gets everything.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roost.client import SyncClient, SyncEvent, SyncSubscription, connect_sync
from roost.errors import UserError
from roost.language import Event, parse_subscription
from roost.pipeline.serving import Serving, forget, interval
from roost.pipeline.source.options import Place
from roost.pipeline.subscription_log import SubscriptionLog
from roost.runtime import federation
from tests.pipeline.brokers import live_broker
from tests.pipeline.hurried import HURRIED_OPTIONS

CHUNKS, CHUNK = 4, 30
KILLED_IN = (1,)
# A JVM takes seconds to start, on a busy machine many.
PATIENCE_S = 240.0
ALL, ECHO = "all", "echo"


class Driver:
    """`roost pipeline serve` as a process, with all that it starts."""

    def __init__(self, url: str, folder: Path) -> None:
        options = ["--trigger", "20ms", "--batch", "12", *HURRIED_OPTIONS]
        words = ["--broker", url, "--subscriptions", "log", "--checkpoint", "checkpoint", "--json"]
        self._said = (folder / "said").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "roost", "pipeline", "serve", *words, *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )

    def _members(self) -> list[int]:
        """The processes of its session: the driver, its JVM and the Python workers."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue
            if entry.name.isdecimal() and int(after_name[3]) == self._process.pid:
                found.append(int(entry.name))
        return found

    def kill(self) -> int:
        """Kill all of them at once; how many."""
        members = self._members()
        for pid in members:
            with suppress(ProcessLookupError):  # a worker that was about to end anyway
                os.kill(pid, signal.SIGKILL)
        self._process.communicate()
        self._said.close()
        return len(members)

    def stop(self) -> tuple[int, str]:
        """As Ctrl-C does; its exit code and what it printed."""
        self._process.send_signal(signal.SIGINT)
        out, _ = self._process.communicate(timeout=PATIENCE_S)
        self._said.close()
        return self._process.returncode, out.decode()


class Published(NamedTuple):
    """An event that went in, and the version that there was of the subscriptions."""

    event: dict[str, Any]
    version: int


class Outside:
    """Publishes and receives, and knows what has to come."""

    def __init__(self, log: SubscriptionLog, deliveries: SyncSubscription) -> None:
        self.log = log
        self._deliveries = deliveries
        self.published: dict[tuple[str, int], Published] = {}
        self.seen_by_all: dict[tuple[str, int], int] = {}  # and the version there was then
        self.received: list[tuple[str, tuple[str, int]]] = []

    def publish(self, client: SyncClient, **event: int) -> None:
        version = self.log.version()
        publisher, _, sequence = client.publish(event).rpartition(":")
        self.published[publisher, int(sequence)] = Published(event, version)

    def receive(self) -> None:
        """One delivery."""
        event: SyncEvent = self._deliveries.get(PATIENCE_S)
        whom = str(event["delivery.subscriber"])
        what = str(event["delivery.publisher"]), int(event["delivery.sequence"])
        self.received.append((whom, what))
        assert json.loads(event.payload) == self.published[what].event
        assert event.content_type == "application/json"
        assert ("delivery.subscription" in event) == (event["delivery.subscriptions"] == 1)
        if whom == ALL:
            self.seen_by_all.setdefault(what, self.log.version())

    def check(self) -> None:
        """Each delivery that has to be there is, once; none that must not be; each publisher in order."""
        counts = Counter(self.received)
        assert max(counts.values()) == 1
        states = [_state(self.log, version) for version in range(self.log.version() + 1)]
        certain = 0
        for what, (event, first) in self.published.items():
            last = self.seen_by_all[what]
            wanted = [_subscribers(states[v], Event(event)) for v in range(first, last + 1)]
            got = {whom for whom, it in counts if it == what}
            assert set.intersection(*wanted) <= got <= set.union(*wanted)
            certain += set.intersection(*wanted) == set.union(*wanted)
        assert certain > len(self.published) / 4  # else it has said little
        last_of: dict[tuple[str, str], int] = {}
        for whom, (publisher, sequence) in self.received:
            assert sequence > last_of.get((whom, publisher), 0)
            last_of[whom, publisher] = sequence


def _state(log: SubscriptionLog, version: int) -> list[tuple[str, str]]:
    from roost.pipeline.parsing import from_arrow

    table = log.at(version)
    ids, whose = (table.column(name).to_pylist() for name in ("subscription", "subscriber"))
    filters = from_arrow(ids, table.column("filters").combine_chunks()) if ids else []
    return [(name or str(id_), str(f)) for id_, f, name in zip(ids, filters, whose, strict=True)]


def _subscribers(state: list[tuple[str, str]], event: Event) -> set[str]:
    return {whom for whom, text in state if parse_subscription(text).matches(event)}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[str]]:
    state = tmp_path / "federation"
    started = federation.start(state, ["B0", "B1"], [("B0", "B1")], durable=True)
    try:
        yield [f"roost://{member.address}" for member in started.members]
    finally:
        federation.end(state)


def test_exactly_once_and_in_order_though_the_driver_is_killed(
    brokers: list[str], tmp_path: Path
) -> None:
    log = SubscriptionLog(tmp_path / "log")
    log.add([(1, "n present")], subscriber=ALL)
    log.add([(2, "delivery.sequence >= 0"), (3, "delivery.subscriber present")], subscriber=ECHO)
    log.add([(4, "k = 1"), (5, "k = 1 or k = 2")], subscriber="twice")
    with connect_sync(brokers[1]) as one, connect_sync(brokers[0]) as two:
        with two.subscribe("*", durable="serve"):
            pass  # from now on events wait for it
        deliveries = one.subscribe("delivery.subscriber present", buffer_max=100_000)
        deliveries.ready()
        outside = Outside(log, deliveries)
        driver = Driver(brokers[0], tmp_path)
        try:
            for chunk in range(CHUNKS):
                if chunk % 2:
                    log.add([(100 + chunk, f"k = {chunk % 4}")])
                elif chunk:
                    log.remove([99 + chunk, 4])
                for n in range(CHUNK):
                    outside.publish((one, two)[n % 2], n=chunk * CHUNK + n, k=n % 4)
                one.flush()
                two.flush()
                if chunk in KILLED_IN:
                    # With the first delivery, its batch is just being published.
                    before = len(outside.received)
                    while len(outside.received) == before:
                        outside.receive()
                    assert driver.kill() > 2
                    driver = Driver(brokers[0], tmp_path)
                while len(outside.published) - len(outside.seen_by_all) > CHUNK // 2:
                    outside.receive()
            while len(outside.seen_by_all) < len(outside.published):
                outside.receive()
            # Behind the delivery of a last event there is none of an earlier one.
            outside.publish(one, n=-1)
            outside.publish(two, n=-1)
            while len(outside.seen_by_all) < len(outside.published):
                outside.receive()
            code, out = driver.stop()
        except BaseException:
            driver.kill()
            print((tmp_path / "said").read_text())
            raise
        assert code == 0, (tmp_path / "said").read_text()
        assert json.loads(out)["events"] > 0
    outside.check()
    assert not {whom for whom, _ in outside.received} & {ECHO}


def test_all_that_a_broker_keeps_is_forgotten(tmp_path: Path) -> None:
    with live_broker(tmp_path) as broker:
        place = Place(url=broker.url)
        serving = Serving(place=place, log=tmp_path / "log", checkpoint=tmp_path / "checkpoint")
        with connect_sync(broker.url) as client:
            with client.subscribe("*", durable="serve"), client.outbox("serve") as outbox:
                outbox.publish(1, {"n": 1})
            broker.wait_until_waiting("serve", 1)
            forget(serving)
            assert broker.waiting("serve") is None
            assert client.outbox("serve").open() == 0


@pytest.mark.parametrize(
    ("text", "interval_"),
    [("200ms", "200 milliseconds"), ("2 s", "2 seconds"), ("1min", "1 minutes")],
)
def test_intervals(text: str, interval_: str) -> None:
    assert interval(text) == interval_


def test_what_is_no_interval_is_refused() -> None:
    with pytest.raises(UserError, match="'soon' is no interval"):
        interval("soon")
