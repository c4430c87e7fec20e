"""A simulated broker takes the time that its processor, network card and disk take (001 section 5.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.broker.commands import PauseReading, ResumeReading
from roost.broker.events import TimerFired
from roost.broker.messages import DATA, Frame, Publication
from roost.language import Event
from roost.simulation.host import QUEUED_BYTES, SUBSCRIPTION_BYTES, Host, Life
from roost.simulation.world import World
from roost.traces import TraceWriter, read_table
from tests.simulation.lab import PAIR, arrivals, judged, world_of

FAST = 1_000_000  # MHz, or Mbit/s: it takes no time to speak of


def one_broker(
    *, mhz: float = FAST, mbps: float = FAST, idle: int = 0, subscribers: int = 1, rest: str = ""
) -> World:
    """P and some subscribers to a > 1 at B, and so many other subscriptions that match nothing."""
    lines = [
        f"0.0 broker add B {mhz} 16 {mbps}",
        "1.0 publisher add P - 0 B a > 1",
        *(f"1.0 subscriber add S{i} B a > 1" for i in range(subscribers)),
        *(f"1.0 subscriber subscribe S0 x{i} b = {i}" for i in range(idle)),
    ]
    return world_of("\n".join([*lines, rest]))


def life_of(world: World, broker: str = "B") -> Life:
    life = world.hosts[broker].life
    assert life is not None
    return life


def host_of(world: World, broker: str = "B") -> Host:
    return world.hosts[broker]


# --- the processor ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscriptions", "mhz", "slow", "expected_s"),
    [
        (120, 100, 1, 0.02),  # 001 section 5.2.1.3
        (240, 100, 1, 0.04),  # linear in the subscriptions
        (120, 200, 1, 0.01),  # inverse to the speed
        (120, 100, 3, 0.06),
    ],
)
def test_matching_delay(subscriptions: int, mhz: float, slow: float, expected_s: float) -> None:
    text = f"3.0 broker slow B {slow}\n4.0 publisher publish P [a,7]\n"
    world = one_broker(mhz=mhz, idle=subscriptions - 1, rest=text)
    world.run(5.0)
    assert world.delays.count == 1
    assert world.delays.maximum == pytest.approx(expected_s, rel=1e-3)


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("subscribing", "4.0 subscriber subscribe S0 more a > 5"),
        ("unsubscribing", "4.0 subscriber unsubscribe S0 x0"),
        ("advertising", "4.0 publisher advertise P more b > 5"),
        ("unadvertising", "4.0 publisher unadvertise P more"),
    ],
)
def test_what_changes_a_table_may_cost_time(setting: str, line: str) -> None:
    """100 s x MHz at 100 MHz: the event behind it waits for a second. Without the setting it does not."""
    more = "3.0 publisher advertise P more b > 5\n" if "unadvertise" in line else ""
    text = f"{more}{line}\n4.5 publisher publish P [a,7]\n"
    free = one_broker(mhz=100, idle=1, rest=text)
    setting = f"0.0 federation set {setting}_s_mhz 100"
    costly = one_broker(mhz=100, idle=1, rest=f"{setting}\n{text}")
    assert judged(free).clean
    assert judged(costly).clean
    assert free.delays.maximum == pytest.approx(0.0, abs=0.01)
    assert costly.delays.maximum == pytest.approx(0.5, abs=0.01)


def test_slow_is_over_again() -> None:
    text = "3.0 broker slow B 3\n4.0 broker slow B 1\n5.0 publisher publish P [a,7]\n"
    world = one_broker(mhz=100, idle=119, rest=text)
    world.run(6.0)
    assert world.delays.maximum == pytest.approx(0.02, rel=1e-3)


def overloaded() -> World:
    """100 publications a second where 50 can be matched, from second 2 on; a sample each second."""
    lines = [f"{2 + i / 100:.3f} publisher publish P [a,7]" for i in range(1, 300)]
    text = "0.0 federation set load_period_s 1\n" + "\n".join(lines)
    return one_broker(mhz=100, idle=119, rest=text)


def test_an_overloaded_input_grows_its_queue() -> None:
    world = overloaded()
    queues = []
    for second in (3.001, 4.001, 5.001):
        world.run(second)
        load = host_of(world).last_load
        assert load is not None
        queues.append(load.input_queue)
        assert load.input_utilisation == pytest.approx(2.0, rel=0.02)
        assert load.cpu_utilisation == pytest.approx(1.0, abs=0.02)
    assert queues == [pytest.approx(n, abs=2) for n in (50, 100, 150)]
    assert judged(world).clean  # late, and all of them


def test_queueing_delay_emerges() -> None:
    """The n-th waits for those before it: 0.01 s more each time, with 0.02 s of matching every 0.01 s."""
    world = overloaded()
    heard = arrivals(world)
    world.run(20.0)
    delays = [time - (2 + n / 100) for n, (_, _, time) in enumerate(heard, 1)]
    assert len(delays) == 299
    for n in (1, 2, 50, 299):
        assert delays[n - 1] == pytest.approx(0.02 + 0.01 * (n - 1), abs=1e-3)


# --- the network card -------------------------------------------------------------------------------


def test_output_is_serialised_by_bandwidth() -> None:
    world = one_broker(mbps=0.008, subscribers=5, rest="9.0 publisher publish P [a,7]\n")  # 1 kB/s
    heard = arrivals(world)
    world.run(20.0)
    times = [time - 9.0 for _, _, time in heard]
    takes = times[0]
    assert 0.02 < takes < 0.2  # a frame of some dozens of bytes
    assert times == [pytest.approx(takes * n, rel=0.05) for n in range(1, 6)]


def test_a_slow_broker_is_slow_to_send() -> None:
    maxima = []
    for slow in (1, 4):
        text = f"8.0 broker slow B {slow}\n9.0 publisher publish P [a,7]\n"
        world = one_broker(mbps=0.008, rest=text)
        world.run(20.0)
        maxima.append(world.delays.maximum)
    assert maxima[1] == pytest.approx(4 * maxima[0], rel=1e-3)


def test_control_leaves_ahead_of_data() -> None:
    text = PAIR.replace("B1 1000 16 10", "B1 1000 16 0.008")
    text += "9.0 publisher publish P [a,7]\n" * 20 + "9.1 publisher advertise P more b > 1\n"
    world = world_of(text)
    world.run(9.2)
    assert "P/2" in life_of(world, "B2").broker.router.advertisements
    assert 0 < world.oracle.delivered < 10
    assert judged(world).clean


def test_control_is_handled_ahead_of_data() -> None:
    """For the publication in hand it waits, not for those in the queue."""
    text = "4.0 publisher publish P [a,7]\n" * 10 + "4.0 subscriber subscribe S0 more b > 1000\n"
    world = one_broker(mhz=1, idle=59, rest=text)  # a second each
    world.run(5.5)
    assert world.oracle.delivered == 1
    assert len(life_of(world).broker.router.subscriptions) == 61


# --- load indices -----------------------------------------------------------------------------------


def test_load_indices() -> None:
    """001 eq. 3.1 (input: i_r / m_r), 3.2 (m_r = 1 / d_m) and 3.3 (output: used / total)."""
    # 40 publications in the 10 s before 20.0; 60 subscriptions at 100 MHz match in 0.01 s.
    lines = [f"{10.1 + i * 0.2:.1f} publisher publish P [a,7]" for i in range(40)]
    text = "0.0 federation set load_period_s 10\n" + "\n".join(lines)
    world = one_broker(mhz=100, mbps=1, idle=59, rest=text)
    world.run(20.001)
    load = host_of(world).last_load
    assert load is not None
    assert load.subscriptions == 60
    assert load.input_rate == pytest.approx(4.0)
    assert load.matching_delay_s == pytest.approx(0.01)
    assert load.input_utilisation == pytest.approx(4.0 / (1 / 0.01))
    assert load.cpu_utilisation == pytest.approx(0.04)
    assert load.input_queue == 0
    assert load.input_queueing_delay_s == pytest.approx(0.0, abs=1e-9)
    # A delivery for each, and acknowledgements for the publisher, of 1 Mbit/s.
    assert load.output_rate == pytest.approx(4.0, abs=1.1)
    assert load.output_utilisation == pytest.approx(load.output_bytes_per_s / 125_000)
    assert load.memory_bytes == 60 * SUBSCRIPTION_BYTES
    assert load.memory_total_bytes == 16e6


def test_what_waits_for_each_neighbour_and_for_clients_is_told_apart(tmp_path: Path) -> None:
    """000 section 4.1, field 7 of a TIA. One network card sends one message after the other."""
    text = """
0.0 federation set load_period_s 10
0.0 broker add B0 1000 16 0.1
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 link add B0 B1 1
0.0 link add B0 B2 1
1.0 publisher add P - 0 B0 a > 0
2.0 subscriber add S1 B1 a > 0
3.0 subscriber add S2 B2 a > 0
4.0 subscriber add S0 B0 a > 0
12.0 publisher publish P [a,1]
15.0 publisher publish P [a,2]
"""
    with TraceWriter(tmp_path, "r") as trace:
        world = world_of(text, trace)
        world.run(20.001)
    load = host_of(world, "B0").last_load
    assert load is not None
    waits = load.link_queueing_delay_s
    first_s, second_s = sorted(waits.values())
    assert first_s == pytest.approx(0.0)
    assert second_s > 0.002  # what a message of a few bytes takes
    assert load.client_queueing_delay_s == pytest.approx(2 * second_s)
    rows = read_table(trace.paths["links"]).to_pylist()
    last = [r for r in rows if (r["time"], r["broker"], r["class"]) == (20.0, "B0", "data")]
    assert {r["neighbour"]: r["queueing_s"] for r in last} == waits


def test_memory_counts_the_queue() -> None:
    world = one_broker(mhz=1, idle=59, rest="4.0 publisher publish P [a,7]\n" * 4)
    world.run(4.5)  # one is in hand, three wait
    life_of(world).sample()
    load = host_of(world).last_load
    assert load is not None
    assert load.input_queue == 3
    assert load.memory_bytes == pytest.approx(60 * SUBSCRIPTION_BYTES + 3 * QUEUED_BYTES, abs=1)


# --- the disk, and crashes --------------------------------------------------------------------------

DURABLE = "0.0 federation set durability on\n0.0 federation set commit_ms 50\n"


def test_persistence_takes_its_time() -> None:
    world = one_broker(rest=DURABLE + "4.0 publisher publish P [a,7]\n")
    world.run(5.0)
    assert world.delays.maximum == pytest.approx(0.05, rel=0.02)
    assert judged(world).clean


@pytest.mark.parametrize(("crash_at", "kept"), [(4.04, False), (4.06, True)])
def test_a_crash_drops_what_is_not_committed(crash_at: float, kept: bool) -> None:
    text = f"4.0 subscriber subscribe S0 more a > 3\n{crash_at} broker crash B keep\n"
    world = one_broker(rest=DURABLE + text + "6.0 broker restart B\n")
    world.run(6.01)
    restored = life_of(world).broker.router.subscriptions
    assert ("S0/2" in restored) is kept
    world.run(10.0)
    assert len(life_of(world).broker.router.subscriptions) == 2  # it is said again
    assert judged(world).clean


def test_a_crash_without_its_store_begins_with_nothing() -> None:
    world = one_broker(rest=DURABLE + "4.0 broker crash B lose\n6.0 broker restart B\n")
    world.run(6.001)
    assert host_of(world).lives == 2
    assert not life_of(world).broker.router.subscriptions
    assert judged(world).clean


def test_a_broker_that_is_down_hears_nothing() -> None:
    world = one_broker(rest="4.0 broker crash B lose\n")
    world.run(5.0)
    assert host_of(world).life is None
    host_of(world).notice(TimerFired("nobody hears it"))


def test_what_comes_as_reading_goes_on_stays_behind_what_was_held() -> None:
    """At one moment a broker resumes a publisher, and more of it arrives: it would be out of order."""
    world = one_broker(rest="3.0 publisher publish P [a,2]\n3.1 publisher publish P [a,3]")
    world.run(2.0)
    life = life_of(world)
    (connection,) = world.network.of("P")
    life.execute([PauseReading(connection.id)])
    world.run(3.5)
    assert not world.delays.count
    life.execute([ResumeReading(connection.id)])
    life.receive(connection, Frame(DATA, 3, Publication("P", 3, Event({"a": 4}))))
    world.run(5.0)
    assert [world.delays.count] == [3]
