"""Sessions of two brokers: who agrees, gives up, or crashes in which step (001 sections 3.4.1 and 3.4.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.balancing import Action, BrokerAction, Status
from roost.balancing.control import (
    BalanceReply,
    BalanceRequest,
    Control,
    Done,
    Migrating,
    Withdrawn,
    read_control,
)
from roost.broker.errors import RemoteProtocolError
from roost.broker.messages import Publication
from roost.language import Event
from roost.simulation import statements as st
from roost.simulation.addresses import address_of
from tests.balancing.clusters import HURRIED, SUBSCRIBERS, SYMBOLS, Clusters, cluster, judged

STEP_S = 0.002
LATEST_S = 60.0


def run_until(world: Clusters, is_so: Callable[[Clusters], bool]) -> float:
    """Let time pass until something is so; when that is."""
    time = world.clock.now
    while not is_so(world):
        time += STEP_S
        assert time < LATEST_S, "it never was so"
        world.run(time)
    return time


def offload_stage(stage: str) -> Callable[[Clusters], bool]:
    def is_so(world: Clusters) -> bool:
        session = world.edge("B1").mediator.offloading if "B1" in world.hosts else None
        return session is not None and session.stage == stage

    return is_so


def receiving(world: Clusters) -> bool:
    brokers = [world.edge(name) for name in ("B2", "B3") if name in world.hosts]
    sessions = [edge.mediator.accepting for edge in brokers]
    return any(session is not None and session.stage == "receiving" for session in sessions)


def stabilising(world: Clusters) -> bool:
    return "B1" in world.hosts and world.edge("B1").status(0.0) is Status.STABILIZING


STEPS: dict[str, Callable[[Clusters], bool]] = {
    "asking": offload_stage("asking"),
    "sampling": offload_stage("sampling"),
    "migrating": offload_stage("migrating"),
    "receiving": receiving,
    "stabilising": stabilising,
}


@pytest.mark.parametrize("who", ["offloading", "accepting", "head"])
@pytest.mark.parametrize(
    ("step", "durability"), [*((step, True) for step in STEPS), ("migrating", False)]
)
def test_a_crash_in_any_step_leaves_everybody_attached_exactly_once(
    step: str, who: str, durability: bool
) -> None:
    world = Clusters.of(cluster(), durability=durability, asking=True)
    world.run(1)
    time = run_until(world, STEPS[step])
    session = world.edge("B1").mediator.offloading
    partner = session.partner if session is not None else "B3"
    broker = {"offloading": "B1", "accepting": partner, "head": "B0"}[who]
    world._crash(st.CrashBroker(at=time, broker=broker, keep_store=durability))
    world.run(time + 3.0)
    world._restart(st.RestartBroker(at=time + 3.0, broker=broker))
    # As long as all of them may take to move, one after the other, and a reply.
    world.run(time + 3.0 + SUBSCRIBERS * HURRIED.migration_timeout_s + HURRIED.reply_timeout_s)
    assert world.placed().total() == SUBSCRIBERS + len(SYMBOLS)
    # Whatever broke off, balancing goes on.
    assert world.placed()["B1"] < SUBSCRIBERS / 2
    for name in ("B1", "B2", "B3"):
        mediator = world.edge(name).mediator
        sessions = [each for each in (mediator.offloading, mediator.accepting) if each is not None]
        assert all(each.since > time + 3.0 for each in sessions), "one of before never ended"
    checks = judged(world)
    assert checks.clean, checks.violations
    # All moves are over by now.
    lives = [host.life for host in world.hosts.values() if host.life is not None]
    attached = [session.client for life in lives for session in life.broker.sessions.values()]
    assert sorted(attached) == sorted(world.clients)


# --- who says what ----------------------------------------------------------------------------------


class Wire:
    """What passes on LB_CONTROL, and what is to be lost of it."""

    def __init__(self, world: Clusters, *brokers: str) -> None:
        self.said: list[tuple[str, str, Control]] = []
        self.lost: type[Control] | None = None
        for name in brokers:
            mediator = world.edge(name).mediator
            mediator._post = self._posting(name, mediator._post)

    def _posting(
        self, who: str, post: Callable[[str, Control], None]
    ) -> Callable[[str, Control], None]:
        def posting(to: str, message: Control) -> None:
            self.said.append((who, to, message))
            if self.lost is None or not isinstance(message, self.lost):
                post(to, message)

        return posting

    def kinds(self) -> list[str]:
        return [f"{who} {type(message).__name__} {to}" for who, to, message in self.said]


@pytest.fixture
def world() -> Clusters:
    """Three edge-brokers that would ask nobody by themselves."""
    found = Clusters.of(cluster(subscribers=30))
    found.run(1)
    for name in ("B1", "B2", "B3"):
        found.edge(name).detect = lambda now: None  # type: ignore[method-assign]  # noqa: ARG005
    found.run(8)
    return found


def ask(world: Clusters, *brokers: str, urgency: str = "evening out") -> None:
    """Have B1 try these, in this order."""
    now = world.clock.now
    actions = [BrokerAction(name, Action.OUTPUT, 0.5) for name in brokers]
    life = world.hosts["B1"].life
    assert life is not None
    life.broker._work.begin(now)
    world.edge("B1").mediator.ask(actions, urgency, now)
    life.execute(life.broker._work.commit())


def test_a_session_from_request_to_done(world: Clusters) -> None:
    wire = Wire(world, "B1", "B2")
    ask(world, "B2")
    world.run(20)
    assert wire.kinds() == [
        "B1 BalanceRequest B2",
        "B2 BalanceReply B1",
        "B1 Migrating B2",
        "B2 Done B1",
    ]
    _, _, reply = wire.said[1]
    assert isinstance(reply, BalanceReply)
    assert (reply.status, reply.address) == (Status.OK, address_of("B2"))
    assert reply.report is not None
    _, _, migrating = wire.said[2]
    _, _, done = wire.said[3]
    assert isinstance(migrating, Migrating)
    assert isinstance(done, Done)
    assert done.arrived == len(migrating.clients) == world.placed()["B2"]
    assert reply.session == migrating.session == done.session


def test_both_are_busy_and_then_stabilise(world: Clusters) -> None:
    ask(world, "B2")
    assert world.edge("B1").status(0.0) is Status.OK  # it only asks
    run_until(world, lambda w: w.edge("B1").mediator.in_session)
    assert {world.edge(name).status(0.0) for name in ("B1", "B2")} == {Status.BUSY}
    run_until(world, lambda w: w.edge("B1").mediator.is_free)
    assert {world.edge(name).status(0.0) for name in ("B1", "B2")} == {Status.STABILIZING}


@pytest.mark.parametrize("status", [Status.NOT_AVAILABLE, Status.BUSY, Status.STABILIZING])
def test_whoever_is_not_ok_refuses_and_the_next_is_asked(world: Clusters, status: Status) -> None:
    world.edge("B2")._status = status
    wire = Wire(world, "B1", "B2", "B3")
    ask(world, "B2", "B3")
    world.run(20)
    assert wire.kinds()[:4] == [
        "B1 BalanceRequest B2",
        "B2 BalanceReply B1",
        "B1 BalanceRequest B3",
        "B3 BalanceReply B1",
    ]
    _, _, reply = wire.said[1]
    assert isinstance(reply, BalanceReply)
    assert (reply.status, reply.report) == (status, None)
    assert world.placed()["B3"] > 0


def test_two_that_ask_each_other_at_once_refuse_both(world: Clusters) -> None:
    """Who waits for an answer is not free, or one would be in two sessions."""
    wire = Wire(world, "B1", "B2")
    ask(world, "B2")
    now = world.clock.now
    life = world.hosts["B2"].life
    assert life is not None
    life.broker._work.begin(now)
    world.edge("B2").mediator.ask([BrokerAction("B1", Action.OUTPUT, 0.5)], "evening out", now)
    life.execute(life.broker._work.commit())
    world.run(20)
    replies = [m for _, _, m in wire.said if isinstance(m, BalanceReply)]
    assert [reply.status for reply in replies] == [Status.BUSY, Status.BUSY]
    assert world.edge("B1").mediator.is_free
    assert world.edge("B2").mediator.is_free


@pytest.mark.parametrize("lost", [BalanceRequest, BalanceReply, Migrating, Done])
def test_whatever_is_lost_the_session_ends_and_nobody_is_left_busy(
    world: Clusters, lost: type[Control]
) -> None:
    wire = Wire(world, "B1", "B2")
    wire.lost = lost
    ask(world, "B2")
    world.run(100)
    assert world.edge("B1").mediator.is_free
    assert world.edge("B2").mediator.is_free
    assert world.placed().total() == 30 + len(SYMBOLS)
    assert judged(world).clean


def test_a_reply_that_comes_too_late_frees_whoever_has_promised(world: Clusters) -> None:
    wire = Wire(world, "B1", "B2")
    ask(world, "B2")
    session = world.edge("B1").mediator.offloading
    assert session is not None
    session.id = "another one by now"
    world.run(12)
    assert wire.kinds()[1:3] == ["B2 BalanceReply B1", "B1 Migrating B2"]
    assert world.edge("B2").mediator.accepting is None


def test_clients_that_leave_on_the_way_are_not_waited_for(world: Clusters) -> None:
    wire = Wire(world, "B1", "B2")
    ask(world, "B2")
    run_until(world, offload_stage("migrating"))
    session = world.edge("B1").mediator.offloading
    assert session is not None
    world.edge("B1").mediator.left(next(iter(session.waiting)), moved=False)
    assert wire.kinds()[-1] == "B1 Withdrawn B2"


def test_stale_words_are_nobodys_fault(world: Clusters) -> None:
    mediator = world.edge("B1").mediator
    mediator.done(Done("never", "B2", 3), 9.0)
    mediator.migrating(Migrating("never", "B2", ("S1",)), 9.0)
    mediator.withdrawn(Withdrawn("never", "B2", ("S1",)), 9.0)
    assert mediator.is_free
    assert world.edge("B1").status(9.0) is Status.OK


def test_what_is_no_message_is_the_senders_fault() -> None:
    with pytest.raises(RemoteProtocolError, match="LB_CONTROL"):
        read_control(Publication("B1/balancing", 1, Event({}), payload=b"\xc1"))
