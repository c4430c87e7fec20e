"""What waits in the store only is asked for, and the answer takes its time: meanwhile anything may happen.

A question is under way from `Fetch` to `Fetched`. The peer may be gone by then, or be back and have asked
again, so that one question has two answers, or an answer comes when another question is under way.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from roost.broker import events as ev
from roost.broker.hops import Session
from tests.broker.kit import Federation

MEMORY = 4


def behind(count: int, *, memory: int = MEMORY) -> tuple[Federation, list[str]]:
    """A durable subscriber at B2 that has as many events as fit in memory; the others are in the store."""
    federation = Federation(("B1", "B2"), durable=True, session_memory_max=memory)
    federation.client("pub", "B1")
    federation.advertise("pub", "a present")
    federation.client(
        "sub",
        "B2",
        session="durable/orders",
        durable=True,
        process="process",
        waits_for_application=True,
    )
    federation.subscribe("sub", "a present")
    federation.settle()
    federation.hold_fetches.add("B2")
    ids = [federation.publish("pub", a=n) for n in range(count)]
    federation.settle()
    assert federation.got("sub") == ids[:memory]
    return federation, ids


def session_of(federation: Federation) -> Session:
    (session,) = federation.brokers["B2"].sessions.values()
    return session


def handles(federation: Federation, number: int) -> None:
    federation.handle("sub", ev.Handled(number))
    federation.settle()


def back(federation: Federation) -> None:
    """The subscriber loses its connection, and has another one."""
    federation.cut("sub", "B2")
    federation.advance(1.0)
    assert session_of(federation).connection is not None


def test_what_was_under_way_when_the_connection_was_cut_is_asked_for_again() -> None:
    """Everything in memory is handled: no acknowledgement will ever come that asks for more."""
    federation, ids = behind(12)
    handles(federation, MEMORY)
    assert len(federation.fetches["B2"]) == 1
    federation.fetches["B2"].clear()  # the store never answers
    back(federation)
    assert len(federation.fetches["B2"]) == 1
    federation.fetch("B2")
    federation.settle()
    assert federation.got("sub") == ids[: 2 * MEMORY]


def test_an_answer_for_one_who_is_away_is_not_for_anybody() -> None:
    """Memory is for those who read; whoever is back asks anew."""
    federation, ids = behind(12)
    handles(federation, MEMORY)
    federation.severed.add(frozenset(("sub", "B2")))
    federation.cut("sub", "B2")
    federation.fetch("B2")
    assert len(session_of(federation).channel.data.outbox) == 0
    federation.severed.clear()
    federation.advance(10.0)
    federation.fetch("B2")
    federation.settle()
    assert federation.got("sub") == ids[: 2 * MEMORY]


def test_an_answer_for_one_who_has_left_for_good() -> None:
    federation, _ = behind(12)
    handles(federation, MEMORY)
    federation.severed.add(frozenset(("sub", "B2")))
    federation.cut("sub", "B2")
    federation.handle("B2", ev.SessionDismissed("durable/orders", "enough"))
    assert not federation.brokers["B2"].sessions
    federation.fetch("B2")  # nobody falls over it


def test_one_question_with_two_answers() -> None:
    federation, ids = behind(12)
    handles(federation, MEMORY)
    back(federation)  # asks again, and then both are answered
    assert [fetch.first for fetch in federation.fetches["B2"]] == [MEMORY + 1, MEMORY + 1]
    federation.fetch("B2")
    federation.settle()
    assert federation.got("sub") == ids[: 2 * MEMORY]
    handles(federation, 2 * MEMORY)
    federation.fetch("B2")
    federation.settle()
    assert federation.got("sub") == ids


def test_an_answer_to_an_earlier_question_is_not_taken_for_that_to_the_last() -> None:
    """Else the last one would be taken for one that nobody has asked, and nobody would ask again."""
    federation, ids = behind(12)
    handles(federation, MEMORY)
    back(federation)
    federation.fetch("B2", 1)
    federation.settle()
    handles(federation, 2 * MEMORY)  # asks for the next, while the second answer is on its way
    assert [fetch.first for fetch in federation.fetches["B2"]] == [MEMORY + 1, 2 * MEMORY + 1]
    federation.fetch("B2", 1)
    federation.settle()
    federation.fetch("B2")
    federation.settle()
    assert federation.got("sub") == ids


def test_what_is_published_while_the_answer_is_on_its_way_stays_behind_it() -> None:
    federation, ids = behind(6)
    handles(federation, MEMORY)
    ids.append(federation.publish("pub", a=6))
    federation.settle()
    federation.fetch("B2")
    federation.settle()
    ids.append(federation.publish("pub", a=7))
    federation.settle()
    handles(federation, 6)
    federation.fetch("B2")  # the seventh, which waited alone
    federation.fetch("B2")
    federation.settle()
    assert federation.got("sub") == ids


def test_a_neighbour_is_back_and_away_and_back_while_its_answers_are_on_their_way() -> None:
    """What waits for a link that is away spills, too."""
    federation = Federation(("B1", "B2"), durable=True, link_outbox_max=MEMORY)
    federation.client("pub", "B1")
    federation.advertise("pub", "a present")
    federation.client("sub", "B2")
    federation.subscribe("sub", "a present")
    federation.settle()
    federation.hold_fetches.add("B1")
    federation.severed.add(frozenset(("B1", "B2")))
    federation.cut("B1", "B2")
    ids = [federation.publish("pub", a=n) for n in range(5 * MEMORY)]
    federation.settle()
    assert federation.brokers["B1"].links["B2"].channel.data.spilled == 4 * MEMORY
    federation.severed.clear()
    federation.advance(60.0)
    federation.cut("B1", "B2")
    federation.advance(60.0)
    for _ in range(20):
        federation.fetch("B1", 1)
        federation.advance(10.0)  # acknowledgements wait for more to acknowledge
    assert federation.got("sub") == ids


STEPS = ("publish", "publish", "handle", "handle", "cut", "away", "answer", "crash", "advance")


@settings(deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=60), memory=st.integers(1, 6))
def test_whatever_happens_meanwhile_each_comes_once_and_in_order(
    steps: list[str], memory: int
) -> None:
    federation, ids = behind(3 * memory, memory=memory)
    handled: list[int] = []
    do: dict[str, Callable[[], object]] = {
        "publish": lambda: ids.append(federation.publish("pub", a=0)),
        "handle": lambda: handle_one(federation, handled),
        "cut": lambda: federation.cut("sub", "B2"),
        "away": lambda: federation.severed.symmetric_difference_update({frozenset(("sub", "B2"))}),
        "answer": lambda: federation.fetch("B2", 1),
        "crash": lambda: federation.restart("B2", keep_store=True),
        "advance": lambda: federation.advance(0.6),
    }
    for step in steps:
        do[step]()
        federation.settle()
    federation.severed.clear()
    federation.advance(40.0)
    for _ in range(3 * len(ids)):
        federation.fetch("B2", 1)
        handle_one(federation, handled)
        federation.advance(0.0)
    assert federation.got("sub") == ids


def handle_one(federation: Federation, handled: list[int]) -> None:
    """The application is done with the next one that it has."""
    waiting = federation.clients["sub"].home.outstanding
    if waiting:
        handled.append(waiting[0])
        federation.handle("sub", ev.Handled(waiting[0]))
        federation.settle()
