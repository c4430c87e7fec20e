"""The clients of a chaos run: those that stand all through it, and those that come and go.

standing   two outboxes that make most of the load, and three durable subscribers, each in a process of
           its own that is killed and started again
gauges     in the crowd: a plain publisher at each broker, slow and steady; and another one, of events
           that none of the standing subscribers wants, but only those that pass
passing    in the crowd: publishers that begin, publish some and end; subscribers, durable or not, that
           begin amid whatever goes on, and end, or are killed with the crowd
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from roost.bench.chaos.brokers import Tree
from roost.bench.chaos.interests import Interest
from roost.bench.chaos.oracle import Oracle
from roost.bench.chaos.plan import CLASSES, Act
from roost.bench.chaos.player import Order
from roost.bench.chaos.troupe import Host
from roost.errors import UserError

LOAD, GAUGE = "LOAD", "GAUGE"
GAUGE_RATE = 20.0
# Subscribers in the crowd at a time; one more ends another.
SUBSCRIBERS_MAX = 8
PUBLISHERS_MAX = 6
# A store goes on for long within the files that it has. So somebody hoards, and somebody publishes, in a
# class that no plain subscriber wants: its session would end if that much waited for it.
PRESS = "PRESS"
PRESS_EVENTS, PRESS_RATE, PRESS_BYTES = 10_000, 100.0, 50_000
HOARDER_S = 30.0
LOOK_S = 0.05


class Crowd:
    """All of them."""

    def __init__(self, tree: Tree, oracle: Oracle, rate: float, keepalive_s: float) -> None:
        self._tree = tree
        self._oracle = oracle
        self._keepalive_s = keepalive_s
        self._rate = rate
        self._names = 0
        self.hosts: list[Host] = []
        self._passing = self._host("crowd")
        self.load: list[str] = []
        self.standing: list[str] = []
        self._kills: set[asyncio.Task[None]] = set()

    def _host(self, name: str) -> Host:
        host = Host(name, self._oracle, self._keepalive_s)
        self.hosts.append(host)
        return host

    @property
    def gauges(self) -> list[str]:
        """As they are called now."""
        return [name for name in self._passing.orders if name.startswith("gauge")]

    @property
    def kills(self) -> int:
        return sum(host.kills for host in self.hosts)

    async def start(self) -> None:
        """Subscribers first; the load is there when all of them are ready."""
        brokers = list(self._tree.brokers.values())
        for number, (broker, interest) in enumerate(
            (
                (brokers[-1], Interest(LOAD)),
                (brokers[len(brokers) // 2], Interest(LOAD, 2)),
                (brokers[0], Interest(GAUGE)),
            )
        ):
            host = self._host(f"standing-{number}")
            await host.start()
            order = Order("subscribe", f"standing-{number}", broker.url, interest=interest)
            host.order(order, broker.name)
            self.standing.append(order.name)
        for number, broker in enumerate((brokers[-2], brokers[len(brokers) // 2])):
            host = self._host(f"load-{number}")
            await host.start()
            order = Order(
                "publish", f"load-{number}", broker.url, LOAD, rate=self._rate / 2, how="outbox"
            )
            host.order(order, broker.name)
            self.load.append(order.name)
        await self._passing.start()
        for number, broker in enumerate(brokers):
            class_ = CLASSES[number % len(CLASSES)]
            for name, what in (("gauge", GAUGE), ("steady", class_)):
                order = Order("publish", f"{name}-{broker.name}", broker.url, what, rate=GAUGE_RATE)
                self._passing.order(order, broker.name)

    @property
    def are_ready(self) -> bool:
        return all(self._oracle.subscribers[name].readies for name in self.standing)

    def check(self) -> None:
        for host in self.hosts:
            if host.has_died:
                raise UserError(f"the process {host.name} has died of its own accord")

    # --- coming and going ---------------------------------------------------------------------------

    async def come_and_go(self, acts: Iterator[Act], enough: asyncio.Event) -> None:
        """Until it is enough. It must not be cancelled: nobody would bring back who is just being killed."""
        for act in acts:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(enough.wait(), act.after_s)
                return
            if act.deed == "kill":
                host = self.hosts[act.whom % len(self.hosts)]
                if host.runs:
                    await host.kill()
                    # Others go on meanwhile.
                    task = asyncio.create_task(_start_again(host, act.away_s))
                    self._kills.add(task)
                    task.add_done_callback(self._kills.discard)
            elif self._passing.runs:
                self._pass(act)

    def _pass(self, act: Act) -> None:
        broker = self._tree.brokers[act.broker]
        passing = self._passing
        subscribers = [n for n, (order, _) in passing.orders.items() if order.do == "subscribe"]
        publishers = [n for n, (order, _) in passing.orders.items() if order.events]
        self._names += 1
        if act.deed == "publish" and len(publishers) < PUBLISHERS_MAX:
            order = Order(
                "publish",
                f"publisher-{self._names}",
                broker.url,
                act.class_,
                rate=act.rate,
                events=act.events,
                how="advertised" if act.advertises else "plain",
            )
            passing.order(order, broker.name)
        elif act.deed == "subscribe" and len(subscribers) < SUBSCRIBERS_MAX:
            order = Order(
                "subscribe",
                f"subscriber-{self._names}",
                broker.url,
                interest=act.interest,
                is_durable=act.is_durable,
            )
            passing.order(order, broker.name)
        elif act.deed != "publish" and subscribers:
            passing.end(subscribers[act.whom % len(subscribers)])

    # --- who fills a store --------------------------------------------------------------------------

    async def hoard(self, broker: str) -> str | None:
        """Somebody subscribes there to everything, and goes away; None if there is nobody just now."""
        if not self._passing.runs:
            return None
        self._names += 1
        name = f"hoarder-{self._names}"
        self._passing.order(Order("hoard", name, self._tree.brokers[broker].url), broker)
        deadline = time.monotonic() + HOARDER_S
        while not self._oracle.subscribers[name].readies and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_S)
        return name

    def press(self, broker: str) -> str | None:
        """Somebody publishes large events there."""
        if not self._passing.runs:
            return None
        self._names += 1
        name = f"presser-{self._names}"
        order = Order(
            "publish",
            name,
            self._tree.brokers[broker].url,
            PRESS,
            rate=PRESS_RATE,
            events=PRESS_EVENTS,
            payload_bytes=PRESS_BYTES,
        )
        self._passing.order(order, broker)
        return name

    def relax(self, presser: str | None) -> None:
        if presser in self._passing.orders and self._passing.runs:
            self._passing.end(presser)

    def release(self, hoarder: str | None) -> None:
        """It comes back for what has waited."""
        if hoarder in self._passing.orders:
            self._passing.release(hoarder)

    # --- the end ------------------------------------------------------------------------------------

    async def all_there(self) -> None:
        """Those who were killed are back."""
        await asyncio.gather(*self._kills)

    def end_publishers(self) -> None:
        for host in self.hosts:
            for name, (order, _) in list(host.orders.items()):
                if order.do == "publish":
                    host.end(name)

    @property
    def publishers_left(self) -> list[str]:
        orders = [item for host in self.hosts for item in host.orders.items()]
        return [name for name, (order, _) in orders if order.do == "publish"]

    async def close(self) -> None:
        for task in list(self._kills):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for host in self.hosts:
            await host.close()


async def _start_again(host: Host, away_s: float) -> None:
    await asyncio.sleep(away_s)
    await host.start_again()
