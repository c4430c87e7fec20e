"""Chunks of brokers with stores: what is said when, what spills, and what is there after a crash.

The two stores do not hold the same: one has a record for each message, the other one for each run. What
counts is that the brokers are the same, before and after.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from roost.broker.events import Congested, ConnectionClosed, Identified, Relieved
from roost.broker.messages import DATA, Ack, Advertise, Subscribe, Unsubscribe
from roost.broker.permissions import Permission
from roost.broker.runs import Run
from roost.language import parse_advertisement, parse_subscription
from roost.wire import encode, pack_record, unpack_record
from tests.chunks.test_twins import interest, publication
from tests.chunks.twin import Twins

PUBLISHER, LOG, NEIGHBOUR = 1, 2, 3
SUBSCRIBERS = {10: "s10", 11: "s11", 12: "durable12", 13: "durable13"}
LOG_NAME = "log~orders"


class Play:
    """Clients and a neighbour of two brokers with stores; all of them come back after a crash."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        config: dict[str, Any] = {
            "durable": True,
            "ack_delay_s": self.r.choice((0.0, 1.0)),
            "ack_every": self.r.choice((1, 7, 64)),
            "session_memory_max": self.r.choice((5, 40, 10_000)),
        }
        if seed % 5 == 4:
            config |= {
                "session_outbox_max": 60,
                "session_outbox_policy": "drop",
                "link_outbox_max": 60,
            }
        self.twins = Twins(**config)
        self.next_connection = 100
        self.numbers = dict.fromkeys(("p", LOG_NAME, "n1", "n2"), 0)
        self.on: dict[int, int] = {}  # who -> on which connection
        self.processes = 0
        self.ids = 0
        self.crashes = 0
        self.withheld = 0
        self.runs = 0  # that were in a store when it was read
        for who in (NEIGHBOUR, PUBLISHER, LOG, *SUBSCRIBERS):
            self.come(who)
        for who in SUBSCRIBERS:
            for _ in range(self.r.randrange(1, 4)):
                self.subscribe(who)

    # --- who is there ---------------------------------------------------------------------------------

    def come(self, who: int) -> None:
        """Whoever that is connects, and goes on where it was, if it can."""
        self.next_connection += 1
        self.on[who] = connection = self.next_connection
        twins = self.twins
        if who == NEIGHBOUR:
            self.link(connection)
            return
        name = SUBSCRIBERS.get(who) or {PUBLISHER: "p", LOG: "log"}[who]
        session = twins.slow.sessions.get(name)
        durable = who == LOG or name.startswith("durable")
        resume = session is not None and not (durable and self.r.random() < 0.5)
        if session is None or not resume:
            self.processes += 1
        rest: dict[str, Any] = {"resume": resume}
        if durable:
            rest |= {"durable": True, "process": f"process {self.processes}"}
        if who == LOG:
            rest |= {"publisher": LOG_NAME}
        sent = [0, 0]
        if session is not None and resume:
            control, data = session.channel.lanes
            rest |= {
                "control_received": control.sent,
                "data_received": self.r.randint(data.acked, data.sent - data.spilled),
                **({"process": session.process} if durable else {}),
            }
            sent = [control.received, data.received]
        twins.attach(connection, name, **rest)
        if connection in twins.sent:
            twins.sent[connection] = sent
        if who == LOG:
            self.numbers[LOG_NAME] = twins.slow.sessions["log"].published or 0
        if who in (PUBLISHER, LOG) and not resume:
            advertisement = parse_advertisement("class = 'STOCK' and symbol present and low > -100")
            twins.tell(connection, Advertise(f"a/{name}/{self.processes}", advertisement, ""))

    def link(self, connection: int) -> None:
        twins = self.twins
        link = twins.slow.links.get("N")
        if link is not None and link.peer_incarnation and self.r.random() < 0.6:
            control, data = link.channel.lanes
            twins.link(
                connection,
                "N",
                known_incarnation=twins.slow.identity.incarnation,
                control_received=control.sent,
                data_received=self.r.randint(data.acked, data.sent - data.spilled),
            )
            twins.sent[connection] = [control.received, data.received]
            if link.greeted:
                return
        twins.link(connection, "N")
        advertisement = parse_advertisement("class present")
        twins.tell(connection, Advertise("an", advertisement, "", 1))
        for text in ("class = 'STOCK'", "low > 40"):
            twins.tell(connection, Subscribe(f"n/{text}", parse_subscription(text), ""))

    def is_on(self, who: int) -> bool:
        return self.twins.slow.node.peers.on.get(self.on[who]) is not None

    # --- what they do ---------------------------------------------------------------------------------

    def subscribe(self, who: int) -> None:
        self.ids += 1
        text = interest(self.r, strange=self.r.random() < 0.1)
        id_ = f"{SUBSCRIBERS[who]}/{self.ids}"
        self.twins.tell(self.on[who], Subscribe(id_, parse_subscription(text), ""))

    def publish(self, who: int, publishers: tuple[str, ...]) -> None:
        r, frames = self.r, []
        for _ in range(r.choice((1, 5, 60, 200))):
            publisher = r.choice(publishers)
            # One is missing, or comes again.
            self.numbers[publisher] += 1 if r.random() < 0.995 else r.choice((0, 2))
            event = publication(r, publisher, self.numbers[publisher])
            frames += self.twins.frames(self.on[who], event)
        data, at = b"".join(frames), 0
        while at < len(data) and self.is_on(who):
            size = r.choice((7, 1000, 1 << 16, 1 << 18))
            self.twins.reads(self.on[who], data[at : at + size])
            at += size

    def ack(self, who: int) -> None:
        peer = self.twins.slow.node.peers.on[self.on[who]]
        assert peer is not None
        control, data = peer.channel.lanes
        # What has not been said, it can't have heard.
        number = self.r.randint(data.acked, max(data.acked, min(peer.released, data.sent)))
        if peer.open:
            number = self.r.randint(data.acked, data.sent)
        self.twins.reads(self.on[who], encode(Ack(control.sent, number)))

    def step(self) -> None:
        r, twins = self.r, self.twins
        while twins.unsafe and r.random() < 0.7:
            twins.commit()
        while twins.unread and r.random() < 0.7:
            twins.read()
        if self.is_on(NEIGHBOUR) and r.random() < 0.9:
            twins.answer(self.on[NEIGHBOUR])
        for who in (NEIGHBOUR, PUBLISHER, LOG, *SUBSCRIBERS):
            if not self.is_on(who) and r.random() < 0.3:
                self.come(who)
        what, who = r.random(), r.choice(list(SUBSCRIBERS))
        if what < 0.5:
            who, publishers = r.choice(
                [(PUBLISHER, ("p",)), (LOG, (LOG_NAME,)), (NEIGHBOUR, ("n1", "n2"))]
            )
            if self.is_on(who):
                self.publish(who, publishers)
        elif what < 0.75:
            who = r.choice((who, who, NEIGHBOUR))
            if self.is_on(who):
                self.ack(who)
        elif what < 0.8 and self.is_on(who):
            self.subscribe(who)
        elif what < 0.83 and self.is_on(who):
            ids = list(twins.slow.sessions[SUBSCRIBERS[who]].subscriptions)
            if ids:
                twins.tell(self.on[who], Unsubscribe(r.choice(ids), ""))
        elif what < 0.87 and self.is_on(who):
            twins.happens(r.choice((Congested, Relieved))(self.on[who]))
        elif what < 0.92:
            who = r.choice((who, who, NEIGHBOUR, PUBLISHER, LOG))
            if self.is_on(who):
                twins.happens(ConnectionClosed(self.on[who], "away"))
        elif what < 0.95:
            self.crash()
        elif what < 0.975 and self.is_on(who):
            # What waits for it, and it may not have any more, is taken back: some of a run.
            may = parse_subscription(r.choice(("class = 'STOCK'", "class = 'STOCK' and low > 30")))
            permission = Permission(SUBSCRIBERS[who], subscribe=may)
            self.withheld += 1
            twins.happens(Identified(self.on[who], permission))
        else:
            twins.now += 1.0
        twins.same_outboxes()

    def crash(self) -> None:
        """Both brokers; of what was not safe by then, nobody has heard."""
        store = self.twins.stores[1]
        self.crashes += 1
        self.runs += sum(key[0] == "run" for key in store)
        # As a store on a disk has them.
        for key, value in store.items():
            store[key] = unpack_record(pack_record(value))
        self.twins.begin()


def played(seed: int) -> Play:
    play = Play(seed)
    for _ in range(80):
        play.step()
    while play.twins.unsafe:
        play.twins.commit()
    play.crash()
    return play


@pytest.mark.parametrize("batch", range(6))
def test_chunks_end_where_handling_does(batch: int) -> None:
    plays = [played(seed) for seed in range(8 * batch, 8 * batch + 8)]
    assert sum(play.twins.taken for play in plays) > 1_000, "hardly anything was taken"
    assert sum(play.runs for play in plays) > 20, "hardly anything was in the stores"
    assert sum(play.crashes for play in plays) > 10
    assert any(play.withheld for play in plays)


def test_a_run_is_stored_as_it_went_out() -> None:
    twins = Twins(durable=True)
    twins.attach(1, "p")
    twins.tell(1, Advertise("a", parse_advertisement("class = 'STOCK'"), ""))
    twins.attach(2, "s")
    twins.tell(2, Subscribe("s/1", parse_subscription("class = 'STOCK'"), ""))
    r = random.Random(1)
    frames = twins.frames(1, *(publication(r, "p", n) for n in range(1, 51)))
    while twins.unsafe:
        twins.commit()
    twins.out.clear()
    twins.reads(1, b"".join(frames))
    assert 2 not in twins.out, "it was said before it was safe"
    while twins.unsafe:
        twins.commit()
    (key,) = [key for key in twins.stores[1] if key[0] == "run"][:1]
    run = twins.stores[1][key]
    assert isinstance(run, Run)
    assert twins.out[2].startswith(run.data)
    again = unpack_record(pack_record(run))
    assert isinstance(again, Run)
    assert (again.first, again.last, again.data) == (run.first, run.last, run.data)
    assert list(again.frames()) == list(run.frames())
    lane = twins.fast.sessions["s"].channel.data
    middle = (run.first + run.last) // 2
    twins.reads(2, encode(Ack(0, middle)))
    twins.commit()
    assert key in twins.stores[1]
    twins.begin()
    lane = twins.fast.sessions["s"].channel.data
    assert lane.acked == middle
    assert lane.priority == DATA
