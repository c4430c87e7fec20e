"""The clock, the network, the overlay, latencies and delays of the laboratory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker.events import ConnectionAccepted, ConnectionClosed, LinkOpened, LinkRefused
from roost.broker.messages import CONTROL, DATA, Frame, MarkerEcho, Parcel, Priority, SessionEnded
from roost.errors import UserError
from roost.simulation.clock import Clock
from roost.simulation.delays import Delays
from roost.simulation.fabric import Fabric
from roost.simulation.latencies import Latencies, read_matrix
from roost.simulation.network import NOTICE_S, Connection, Network
from tests.simulation.lab import judged, world_of

# --- the clock --------------------------------------------------------------------------------------


def test_clock_keeps_the_order_of_time_and_of_planning() -> None:
    clock, done = Clock(), list[str]()
    clock.at(2.0, done.append, "late")
    clock.at(1.0, done.append, "first")
    clock.at(1.0, done.append, "second")
    clock.run(1.5)
    assert (done, clock.now) == (["first", "second"], 1.5)
    clock.after(0.5, done.append, "later still")
    clock.run(2.0)
    assert done == ["first", "second", "late", "later still"]


def test_clock_takes_the_past_for_now() -> None:
    clock, done = Clock(), list[float]()
    clock.run(3.0)
    clock.at(1.0, lambda: done.append(clock.now))
    clock.run(3.0)
    assert done == [3.0]


def test_clock_does_what_is_planned_meanwhile() -> None:
    clock, done = Clock(), list[float]()

    def again() -> None:
        done.append(clock.now)
        clock.after(1.0, again)

    clock.at(0.0, again)
    clock.run(3.5)
    assert done == [0.0, 1.0, 2.0, 3.0]
    assert list(clock.planned(again)) == [()]


# --- the network ------------------------------------------------------------------------------------


class Phone:
    """An actor that writes down what it hears."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self.heard: list[tuple[float, int]] = []
        self.noticed: list[object] = []

    def receive(self, connection: Connection, parcel: Parcel) -> None:
        assert connection.open
        assert isinstance(parcel, Frame)
        self.heard.append((round(self.clock.now, 6), parcel.sequence))

    def deliver(self, connection: int, frame: Frame, time: float) -> None:
        assert connection
        self.heard.append((time, frame.sequence))

    def notice(self, event: object) -> None:
        self.noticed.append(event)


class Call:
    """Two actors and the connection between them."""

    def __init__(self, latency_s: float = 0.1) -> None:
        self.clock = Clock()
        self.network = Network(self.clock)
        self.a, self.b = Phone("a", self.clock), Phone("b", self.clock)
        self.network.dial(self.a, lambda: self.b, "b", latency_s)
        self.clock.run(1.0)
        (self.connection,) = self.network.of("a", "b")

    def say(self, at: float, number: int, priority: Priority = DATA) -> None:
        message = SessionEnded("") if priority == DATA else MarkerEcho("", "")
        frame = Frame(priority, number, message)
        id_ = self.connection.id
        self.clock.at(at, lambda: self.network.send(self.a, id_, frame, self.clock.now))

    def balance(self) -> int:
        network = self.network
        return network.sent - network.arrived - network.lost - network.planned()


def test_both_ends_hear_of_a_connection() -> None:
    call = Call()
    assert call.a.noticed == [LinkOpened("b", call.connection.id)]
    assert call.b.noticed == [ConnectionAccepted(call.connection.id)]


def test_nobody_answers() -> None:
    clock = Clock()
    caller = Phone("a", clock)
    Network(clock).dial(caller, lambda: None, "b", 0.1)
    clock.run(1.0)
    assert caller.noticed == [LinkRefused("b", "nobody answers")]


def test_a_parcel_takes_the_latency() -> None:
    call = Call()
    call.say(2.0, 1)
    call.clock.run(2.05)
    assert (call.network.planned(), call.balance()) == (1, 0)
    call.clock.run(3.0)
    assert call.b.heard == [(2.1, 1)]
    assert (call.network.planned(), call.balance()) == (0, 0)


@pytest.mark.parametrize("priority", [CONTROL, DATA])
def test_order_is_kept_when_a_spike_of_delay_ends(priority: Priority) -> None:
    call = Call()
    call.connection.extra_s = 1.0
    call.say(2.0, 1, priority)
    call.clock.at(2.1, lambda: setattr(call.connection, "extra_s", 0.0))
    call.say(2.2, 2, priority)
    call.clock.run(5.0)
    assert call.b.heard == [(3.1, 1), (3.1, 2)]


# A connection is one stream, as TCP is, so data can't overtake control that left before it. Protocol and
# checkers rely on that: an unadvertisement is data, and the advertisement that it means is control.


def test_data_does_not_overtake_control_that_left_before() -> None:
    call = Call()
    call.connection.extra_s = 1.0
    call.say(2.0, 1, CONTROL)
    call.clock.at(2.1, lambda: setattr(call.connection, "extra_s", 0.0))
    call.say(2.2, 2, DATA)
    call.clock.run(5.0)
    assert [number for _, number in call.b.heard] == [1, 2]


def test_an_unadvertisement_does_not_overtake_its_advertisement() -> None:
    world = world_of("""
        0.0 broker add B1 1000 16 10
        0.0 broker add B2 1000 16 10
        0.0 link add B1 B2 5
        1.0 publisher add P - 0 B1 a > 1
        2.0 link delay B1 B2 1000 0.1
        2.05 publisher advertise P more b > 1
        2.2 publisher unadvertise P more
    """)
    assert judged(world).violations == ()


def test_a_cut_loses_what_is_on_the_way_and_both_ends_notice() -> None:
    call = Call()
    call.say(2.0, 1)
    call.say(2.5, 2)
    call.clock.at(2.55, call.network.cut, call.connection, "an axe")
    call.say(2.58, 3)  # nobody has noticed yet
    call.clock.run(2.55 + NOTICE_S - 0.01)
    assert (len(call.a.noticed), len(call.b.noticed)) == (1, 1)
    call.clock.run(5.0)
    assert call.b.heard == [(2.1, 1)]
    closed = ConnectionClosed(call.connection.id, "an axe")
    assert (call.a.noticed[-1], call.b.noticed[-1]) == (closed, closed)
    network = call.network
    assert (network.sent, network.arrived, network.lost, call.balance()) == (2, 1, 1, 0)


def test_a_close_comes_behind_what_was_sent() -> None:
    call = Call()
    call.connection.extra_s = 1.0
    call.say(2.0, 1)
    call.clock.at(2.01, lambda: call.network.close(call.a, call.connection.id, "bye", 2.01))
    call.clock.run(5.0)
    assert call.b.heard == [(3.1, 1)]
    assert call.b.noticed[-1] == ConnectionClosed(call.connection.id, "bye")
    assert call.network.of("a") == []


# --- delays -----------------------------------------------------------------------------------------


def delays_of(values: list[float]) -> Delays:
    delays = Delays()
    for value in values:
        delays.fresh.append(value)
    return delays


@given(
    st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=300),
    st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.99, 1.0]),
)
def test_quantile(values: list[float], share: float) -> None:
    """Within 2 % of numpy's, of those definitions that name a value that occurred."""
    # At a whole rank the rounding of share * count decides between neighbours: either will do.
    edges = [
        np.quantile(values, s, method="inverted_cdf") for s in (share - 1e-9, min(1, share + 1e-9))
    ]
    found = delays_of(values).quantile(share)
    assert min(edges) * 0.999 <= found <= max(edges) * 1.021


def test_quantiles_of_many() -> None:
    values = np.random.default_rng(1).lognormal(-4, 1, 20_000)
    delays = delays_of(values.tolist())
    assert delays.count == 20_000
    assert delays.mean == pytest.approx(values.mean())
    assert delays.maximum == values.max()
    for share in (0.01, 0.5, 0.95, 0.999):
        assert delays.quantile(share) == pytest.approx(np.quantile(values, share), rel=0.02)


def test_no_delays() -> None:
    delays = Delays()
    assert (delays.count, delays.mean, delays.maximum, delays.quantile(0.5)) == (0, 0.0, 0.0, 0.0)
    delays.fresh.append(0.0)
    assert (delays.count, delays.quantile(1.0)) == (1, 0.0)


# --- latencies --------------------------------------------------------------------------------------

MATRIX = [[np.nan, 10.0, 20.0], [12.0, 0.0, 30.0], [22.0, np.nan, 5.0]]


def test_latency_without_a_matrix() -> None:
    latencies = Latencies(0.003)
    assert latencies.between("A", "B", None) == 0.003
    assert latencies.between("A", "B", 0.5) == 0.5


@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_latency_of_a_matrix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rtt.{suffix}"
    if suffix == "npz":
        np.savez(path, rtt_ms=np.array(MATRIX), other=np.zeros(1))
    else:
        np.savetxt(path, np.array(MATRIX), delimiter=",")
    latencies = Latencies(0.003)
    latencies.read(str(path))
    assert latencies.between("A", "B", None) == pytest.approx(0.005)  # half of the round trip
    assert latencies.between("B", "A", None) == pytest.approx(0.006)
    assert latencies.between("A", "C", None) == pytest.approx(0.010)
    # Missing: the median of 10, 20, 12, 30, 22.
    assert latencies.between("C", "B", None) == pytest.approx(0.010)
    # A fourth broker begins again at the first row.
    assert latencies.between("D", "B", None) == pytest.approx(0.005)
    assert latencies.between("A", "B", 0.5) == 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [("1,2\n3,4\n5,6\n", "square"), ("0,-1\n1,0\n", "negative"), ("0,x\n1,0\n", "no matrix")],
)
def test_bad_matrix(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "rtt.csv"
    path.write_text(content, "utf-8")
    with pytest.raises(UserError, match=message):
        read_matrix(path)


def test_no_matrix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_matrix(tmp_path / "nothing.npz")


# --- the overlay ------------------------------------------------------------------------------------


def brute_parts(brokers: list[int], links: set[tuple[int, int]]) -> list[frozenset[int]]:
    """Merge what a link joins, until nothing changes."""
    parts = {frozenset([broker]) for broker in brokers}
    for a, b in links:
        joined = {part for part in parts if a in part or b in part}
        parts = (parts - joined) | {frozenset().union(*joined)}
    return sorted(parts, key=sorted)


@given(st.data())
def test_parts(data: st.DataObject) -> None:
    """Brokers and links come and go; the parts are those that brute force finds."""
    overlay = Fabric()
    brokers: list[int] = []
    links: set[tuple[int, int]] = set()
    for new in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["broker", "link", "link", "link", "unlink", "remove"]))
        parts = brute_parts(brokers, links)
        if action == "link" and len(parts) > 1:
            one, other = data.draw(st.permutations(parts))[:2]
            a, b = (
                data.draw(st.sampled_from(sorted(one))),
                data.draw(st.sampled_from(sorted(other))),
            )
            overlay.add_link(str(a), str(b), 0.0)
            links.add((a, b))
        elif action == "unlink" and links:
            a, b = data.draw(st.sampled_from(sorted(links)))
            overlay.remove_link(str(a), str(b))
            links.remove((a, b))
        elif action == "remove" and (
            alone := [b for b in brokers if not any(b in link for link in links)]
        ):
            gone = data.draw(st.sampled_from(alone))
            overlay.remove_broker(str(gone))
            brokers.remove(gone)
        else:
            overlay.add_broker(str(new))
            brokers.append(new)
    parts = brute_parts(brokers, links)
    assert overlay.parts == len(parts)
    for a in brokers:
        for b in brokers:
            together = any({a, b} <= part for part in parts)
            assert (overlay.part(str(a)) == overlay.part(str(b))) is together
    assert {frozenset(link) for link in overlay.links()} == {
        frozenset(map(str, link)) for link in links
    }


@given(st.data())
def test_machines_that_are_no_brokers_are_linked_as_they_like(data: st.DataObject) -> None:
    """In circles too; whoever asks for the overlay sees none of them."""
    overlay = Fabric()
    for number in range(6):
        overlay.add_broker(str(number), in_overlay=False)
    for name in "AB":
        overlay.add_broker(name)
    overlay.add_link("A", "B", 0.0)
    pairs = [(a, b) for b in range(6) for a in range(b)]
    links = data.draw(st.lists(st.sampled_from(pairs), unique=True))
    gone = data.draw(st.lists(st.sampled_from(links), unique=True)) if links else []
    for a, b in links:
        overlay.add_link(str(a), str(b), 0.0)
    for a, b in gone:
        overlay.remove_link(str(a), str(b))
    parts = brute_parts(list(range(6)), set(links) - set(gone))
    assert overlay.parts == len(parts) + 1
    for part in parts:
        assert len({overlay.part(str(number)) for number in part}) == 1
    assert overlay.brokers() == ["A", "B"]


def test_links_that_are_cut() -> None:
    overlay = Fabric()
    for name in "AB":
        overlay.add_broker(name)
    overlay.add_link("A", "B", 0.01)
    assert overlay.passable("A", "B")
    assert overlay.dials("B", "A")
    assert not overlay.dials("A", "B")
    overlay.cut("B", "A")
    assert not overlay.passable("A", "B")
    assert overlay.parts == 1  # a cut is a fault, not another overlay
    overlay.heal("A", "B")
    assert overlay.passable("B", "A")
    assert not overlay.passable("A", "nobody")
