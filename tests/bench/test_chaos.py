"""Chaos: the plan, the wires and the oracle; tests/cli/test_chaos.py is a short real run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.bench.chaos.interests import KINDS, Interest
from roost.bench.chaos.oracle import MARK_EVERY, Oracle, paths_of
from roost.bench.chaos.plan import FAULTS, USUAL, counts_of, rounds_of
from roost.bench.chaos.ranges import overlap, without
from roost.bench.chaos.subscriber import Handled
from roost.bench.chaos.tally import Tally
from roost.bench.chaos.wires import HOST, Wire
from roost.errors import UserError
from roost.runtime.federation import free_ports

BROKERS = ["B0", "B1", "B2", "B3", "B4"]
LINKS = [("B0", "B1"), ("B0", "B2"), ("B1", "B3"), ("B1", "B4")]

# --- the plan ---------------------------------------------------------------------------------------


@given(st.integers(0, 1_000))
def test_a_seed_is_a_plan(seed: int) -> None:
    links, doors = [f"{a}-{b}" for a, b in LINKS], [f"clients of {name}" for name in BROKERS]
    rounds = rounds_of(seed, BROKERS, links, doors, USUAL, dead_after_s=9.0)
    assert rounds == rounds_of(seed, BROKERS, links, doors, USUAL, dead_after_s=9.0)
    for fault in FAULTS:
        assert sum(each.fault == fault for each in rounds) == USUAL[fault]
    killed = [each.place for each in rounds if each.fault == "kill"]
    assert {killed.count(name) for name in BROKERS} == {10}  # every broker has its share
    assert max(each.lasts_s for each in rounds if each.fault == "stop") == 30.0
    holes = [each.lasts_s for each in rounds if each.fault == "hole"]
    assert all(0.3 * 9.0 <= lasts_s <= 3.0 * 9.0 for lasts_s in holes)


@pytest.mark.parametrize("text", ["flood", "kill=x", "kill=-1", "kill,,cut", "kill="])
def test_faults_that_there_are_not(text: str) -> None:
    with pytest.raises(UserError, match="expected some of kill, stop"):
        counts_of(text)


# --- numbers ----------------------------------------------------------------------------------------

ranges = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=4)


def numbers_in(parts: list[tuple[int, int]]) -> set[int]:
    return {number for first, end in parts for number in range(first, end)}


@given(ranges, ranges)
def test_ranges_are_sets_of_numbers(
    some: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    other = [(first, max(first, end)) for first, end in other]
    assert numbers_in(without(some, other)) == numbers_in(some) - numbers_in(other)
    assert numbers_in(overlap(some, 5, 9)) == numbers_in(some) & {5, 6, 7, 8}


@given(st.integers(1, KINDS), st.integers(0, 50), st.integers(0, 50))
def test_an_interest_counts_what_it_wants(kinds: int, first: int, end: int) -> None:
    interest = Interest("A", kinds)
    assert interest.count(first, end) == sum(map(interest.wants, range(first, end)))


@given(st.lists(st.integers(1, 8), max_size=20), st.integers(9, 12))
def test_a_tally_counts_what_is_missing_doubled_and_late(came: list[int], end: int) -> None:
    tally = Tally(Interest())
    late = 0
    for place, number in enumerate(came):
        tally.came(number)
        late += number not in came[:place] and any(other > number for other in came[:place])
    assert tally.received == len(set(came))
    assert tally.doubled == len(came) - len(set(came))
    assert tally.reordered == late
    assert numbers_in(tally.missing(end)) == set(range(1, end)) - set(came)


@given(st.integers(0, 10), st.integers(0, 10), st.integers(1, 10))
def test_the_next_process_gets_again_what_is_not_confirmed(
    had: int, confirmed: int, from_: int
) -> None:
    tally = Tally(Interest())
    for number in range(1, had + 1):
        tally.came(number)
    confirmed = min(confirmed, had)
    tally.begin_life(confirmed)
    for number in range(from_, had + 3):
        tally.came(number)
    again = range(from_, had + 1)
    assert tally.doubled == sum(number <= confirmed for number in again)
    assert tally.again == sum(number > confirmed for number in again)
    assert numbers_in(tally.missing(had + 3)) == set(range(had + 1, min(from_, had + 3)))


# --- the oracle -------------------------------------------------------------------------------------

LAST = 10 * MARK_EVERY


def played(came: list[int], *, acked: int = LAST, ready_at: float = 0.0) -> Oracle:
    """P at B3 publishes some numbers, MARK_EVERY a second; S at B4 gets these."""
    oracle = Oracle(paths_of(BROKERS, LINKS))
    oracle.publisher("P", "B3", "A")
    oracle.subscriber("S", "B4", Interest("A"))
    oracle.hear("life", "S")
    oracle.hear("ready", "S", ready_at)
    for second in range(10):
        oracle.hear("published", "P", 1 + second * MARK_EVERY, float(second))
    oracle.hear("acked", "P", acked)
    oracle.hear("came", "S", {"P": came})
    return oracle


def checks(oracle: Oracle) -> tuple[int, int, int]:
    counts = oracle.counts()
    assert counts.clean == (not (counts.lost or counts.doubled or counts.reordered))
    return counts.lost, counts.doubled, counts.reordered


ALL = list(range(1, LAST + 1))


def test_all_is_well() -> None:
    oracle = played(ALL)
    assert checks(oracle) == (0, 0, 0)
    assert oracle.outstanding() == 0
    assert oracle.counts().expected == oracle.counts().delivered == LAST


@given(st.integers(1, LAST))
def test_it_notices_one_event_that_is_lost(number: int) -> None:
    oracle = played([each for each in ALL if each != number])
    assert checks(oracle) == (1, 0, 0)
    assert oracle.outstanding() == 1
    (example,) = oracle.counts().examples
    assert example.startswith(f"S misses {number} of P; at B4, in place at ")


@given(st.integers(1, LAST), st.integers(1, LAST))
def test_it_notices_one_event_that_comes_twice(number: int, later: int) -> None:
    place = max(number, later)
    assert checks(played([*ALL[:place], number, *ALL[place:]])) == (0, 1, 0)


@given(st.integers(1, LAST - 1))
def test_it_notices_two_events_in_the_wrong_order(number: int) -> None:
    swapped = [*ALL[: number - 1], number + 1, number, *ALL[number + 1 :]]
    assert checks(played(swapped)) == (0, 0, 1)


def test_it_expects_what_was_published_since_the_subscription_was_in_place() -> None:
    first = 1 + 5 * MARK_EVERY
    assert checks(played(ALL[first - 1 :], ready_at=4.5)) == (0, 0, 0)
    assert checks(played(ALL[first:], ready_at=4.5)) == (1, 0, 0)
    assert checks(played([], ready_at=9.5)) == (0, 0, 0)


def test_what_was_not_acknowledged_may_come_or_not() -> None:
    assert checks(played(ALL[:100], acked=90)) == (0, 0, 0)
    assert checks(played(ALL[:90], acked=90)) == (0, 0, 0)
    assert checks(played(ALL[:89], acked=90)) == (1, 0, 0)
    # One that came was accepted, and so were those before it.
    assert checks(played([*ALL[:90], 93], acked=90)) == (2, 0, 0)


def test_a_subscription_that_ended_has_no_holes() -> None:
    oracle = played(ALL[:50])
    oracle.hear("ended", "S")
    assert checks(oracle) == (0, 0, 0)
    oracle = played([*ALL[:20], *ALL[21:50]])
    oracle.hear("ended", "S")
    assert checks(oracle) == (1, 0, 0)


def test_what_was_confirmed_does_not_come_again() -> None:
    oracle = played(ALL[:50])
    oracle.hear("came", "S", {"P": ALL[50:60]})
    oracle.hear("confirmed", "S", 9.8, {"P": 50}, 9.9)  # which was asked before the others came
    oracle.hear("life", "S")
    oracle.hear("came", "S", {"P": ALL[50:]})
    assert checks(oracle) == (0, 0, 0)
    assert oracle.counts().again == 10
    oracle.hear("life", "S")
    oracle.hear("came", "S", {"P": ALL[49:]})
    assert checks(oracle) == (0, 1, 0)


def test_a_process_confirms_what_it_has_got_itself() -> None:
    """Not what the one before it had got, which may come once more."""
    oracle = played(ALL[:50])
    for last in (20, 40):
        oracle.hear("life", "S")
        oracle.hear("came", "S", {"P": ALL[last - 20 : last]})
        oracle.hear("confirmed", "S", 9.8, {"P": last}, 9.9)
    oracle.hear("life", "S")
    oracle.hear("came", "S", {"P": ALL[40:]})
    assert checks(oracle) == (0, 0, 0)


def restored(broker: str, came_then: list[int], came_later: list[int], until: float) -> Oracle:
    """A backup of a broker was made, and it began anew with it at some time."""
    oracle = played(came_then)
    backup = oracle.backup(broker)
    oracle.about_to_restore(backup, until)
    oracle.restored(backup, until)
    oracle.hear("came", "S", {"P": came_later})
    return oracle


@pytest.mark.parametrize("broker", BROKERS)
def test_a_restored_broker_is_forgiven_what_passed_through_it(broker: str) -> None:
    """49 and 50 were lost, between 48, which had come, and what was published after 5 s."""
    oracle = restored(broker, ALL[:48], ALL[50:], until=4.5)
    if broker in ("B1", "B3", "B4"):  # on the way from B3 to B4
        assert checks(oracle) == (0, 0, 0)
        assert oracle.counts().forgiven == 2
    else:
        assert checks(oracle) == (2, 0, 0)


def test_and_nothing_else() -> None:
    first = 1 + 5 * MARK_EVERY  # published when it was there again
    oracle = restored("B1", ALL[:48], [*ALL[48 : first - 1], *ALL[first:]], until=4.5)
    assert checks(oracle) == (1, 0, 0)
    oracle = restored(
        "B1", [*ALL[:20], *ALL[21:48]], ALL[48:], until=4.5
    )  # it had been lost before
    assert checks(oracle) == (1, 0, 0)


def test_subscribers_of_a_restored_broker_get_again_what_they_have_acknowledged_since() -> None:
    def acknowledged(broker: str) -> Oracle:
        oracle = played(ALL[:50])
        backup = oracle.backup(broker)
        oracle.hear("confirmed", "S", 4.8, {"P": 50}, 4.9)
        oracle.about_to_restore(backup, 5.0)
        oracle.restored(backup, 6.0)
        oracle.hear("life", "S")
        oracle.hear("came", "S", {"P": ALL[40:]})
        return oracle

    assert checks(acknowledged("B4")) == (0, 0, 0)
    assert checks(acknowledged("B1")) == (0, 10, 0)


@pytest.mark.parametrize(("asked_at", "again"), [(4.8, 20), (5.2, 10)])
def test_a_restored_broker_knows_what_it_is_told_from_then_on(asked_at: float, again: int) -> None:
    """What was asked before, and is heard of after, says nothing of the broker that is there now."""
    oracle = played(ALL[:50])
    backup = oracle.backup("B4")
    oracle.about_to_restore(backup, 5.0)
    oracle.restored(backup, 5.1)
    oracle.hear("confirmed", "S", asked_at, {"P": 40}, 5.3)
    oracle.hear("life", "S")
    oracle.hear("came", "S", {"P": ALL[30:]})
    assert checks(oracle) == (0, 20 - again, 0)
    assert oracle.counts().again == again


def test_a_backup_may_serve_twice() -> None:
    """What is confirmed between is not part of it."""
    oracle = played(ALL[:50])
    backup = oracle.backup("B4")
    for at in (5.0, 6.0):
        oracle.about_to_restore(backup, at)
        oracle.restored(backup, at + 0.1)
        oracle.hear("life", "S")
        oracle.hear("came", "S", {"P": ALL[40:50]})
        oracle.hear("confirmed", "S", at + 0.2, {"P": 50}, at + 0.3)
    assert checks(oracle)[1] == 0


def test_a_process_takes_for_confirmed_what_it_acknowledged_in_the_session_as_it_is() -> None:
    handled = Handled()
    handled.add(0, "P", 1)
    assert handled.take(0) == {"P": 1}
    handled.add(0, "P", 2)
    assert handled.take(1) == {}  # the session has begun anew since
    handled.add(0, "P", 3)  # it had come before
    handled.add(1, "P", 4)
    assert handled.take(1) == {"P": 4}
    assert handled.take(1) == {}


def test_they_are_forgiven_until_they_are_in_place_again() -> None:
    """A session that the backup did not know begins anew when its client is back, at 7.5 s."""
    first = 1 + 8 * MARK_EVERY
    oracle = restored("B4", ALL[:48], ALL[first:], until=4.5)
    oracle.hear("confirmed", "S", 7.4, {"P": LAST}, 7.5)
    assert checks(oracle) == (1, 0, 0)
    assert oracle.counts().forgiven == first - 49


def test_events_flow_when_everybody_has_something_new() -> None:
    oracle = played(ALL[:100])
    number = oracle.publishers["P"].first_since(6.0)
    assert number == 1 + 6 * MARK_EVERY
    assert oracle.flows(6.0, ["P"], ["S"])
    assert not oracle.flows(7.0, ["P"], ["S"])
    assert not oracle.flows(70.0, ["P"], ["S"])


def test_the_next_process_of_an_outbox_begins_where_the_last_one_was() -> None:
    """What the one before may have published already was not published since."""
    oracle = played(ALL)
    publisher = oracle.publishers["P"]
    last = publisher.numbers[-1]
    oracle.hear("published", "P", last - 3, 20.0)
    oracle.hear("published", "P", last - 3 + MARK_EVERY, 21.0)
    oracle.hear("published", "P", last - 3 + 2 * MARK_EVERY, 22.0)
    assert publisher.first_since(20.0) == last - 3 + 2 * MARK_EVERY


# --- wires ------------------------------------------------------------------------------------------


def with_a_wire(
    play: Callable[[Wire, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> None:
    """Through it, somebody is connected to who says everything twice."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(2 * data)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(echo, HOST, 0)
        wire = Wire("wire", free_ports(1)[0], server.sockets[0].getsockname()[1])
        await wire.open()
        try:
            async with asyncio.timeout(10):
                reader, writer = await asyncio.open_connection(HOST, wire.port)
                writer.write(b"a")
                assert await reader.readexactly(2) == b"aa"
                await play(wire, reader, writer)
                writer.close()
        finally:
            await wire.close()
            server.close()

    asyncio.run(main())


@pytest.mark.parametrize("reset", [True, False])
def test_a_wire_is_cut(reset: bool) -> None:
    async def play(wire: Wire, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        wire.cut(reset=reset)
        if reset:
            with pytest.raises(ConnectionResetError):
                await reader.read(1)
        else:
            assert await reader.read(1) == b""
        again, writer = await asyncio.open_connection(HOST, wire.port)
        writer.write(b"b")
        assert await again.readexactly(2) == b"bb"
        writer.close()

    with_a_wire(play)


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_black_hole_says_nothing_and_loses_nothing(way: str) -> None:
    async def play(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire.swallow("up" if way == "up" else "down")
        writer.write(b"b")
        late, late_writer = await asyncio.open_connection(HOST, wire.port)
        late_writer.write(b"c")
        for waiting in (reader, late):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await waiting.read(1)
        wire.heal()
        assert await reader.readexactly(2) == b"bb"
        assert await late.readexactly(2) == b"cc"
        late_writer.close()

    with_a_wire(play)


def test_of_two_behind_a_wire_whoever_is_there_is_found_by_all_who_come_at_once() -> None:
    """Of a broker and its standby one listens; clients come back together when it has failed."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here")
        writer.close()

    async def come(port: int) -> bytes:
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            return await reader.read()
        finally:
            writer.close()

    async def scenario() -> None:
        dead, port = free_ports(2)
        async with await asyncio.start_server(greet, HOST, 0) as server:
            wire = Wire("wire", port, dead, server.sockets[0].getsockname()[1])
            await wire.open()
            try:
                async with asyncio.timeout(30):
                    assert await asyncio.gather(*(come(port) for _ in range(8))) == [b"here"] * 8
            finally:
                await wire.close()

    asyncio.run(scenario())


def test_who_begins_while_its_broker_is_about_to_be_restored_gets_what_the_backup_has() -> None:
    tally = Tally(Interest())
    for number in (1, 2, 3, 4):
        tally.came(number)
    tally.begin_life(confirmed=3)
    tally.forget_confirmed(1)
    for number in (2, 3, 4, 5):
        tally.came(number)
    assert (tally.again, tally.doubled, tally.received) == (3, 0, 5)
    tally.came(5)
    assert tally.doubled == 1
