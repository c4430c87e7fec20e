"""The oracle: what must arrive, what may, and what must not, by what clients do and get alone."""

from __future__ import annotations

import pytest

from roost.broker.messages import Publication
from roost.broker.router import Strategy
from roost.language import parse_advertisement, parse_event, parse_subscription
from roost.simulation.oracle import VIOLATIONS_KEPT, Oracle, Party


class Play:
    """A publisher P of a > 1 and a subscriber S to a > 5, both settled, and the oracle that watches."""

    def __init__(self, *, flooding: bool = False, settled: bool = True) -> None:
        self.oracle = Oracle(Strategy(advertises=not flooding))
        self.p, self.s = Party("P"), Party("S")
        self.sequence = 0
        self.events: dict[int, Publication] = {}
        self.oracle.advertised(self.p, "main", parse_advertisement("a > 1"))
        self.oracle.subscribed(self.s, "main", parse_subscription("a > 5"))
        if settled:
            self.settle()

    def settle(self) -> None:
        self.oracle.settle(lambda _: True)

    def publish(self, event: str) -> int:
        self.sequence += 1
        parsed = parse_event(event)
        self.events[self.sequence] = Publication("P", self.sequence, parsed)
        self.oracle.published(self.p, self.sequence, parsed, float(self.sequence))
        return self.sequence

    def arrive(self, sequence: int, *names: str) -> None:
        self.oracle.arrived(self.s, self.events[sequence], names or ("main",), 9.0)

    def verdict(self) -> tuple[int, int, int, int]:
        """(lost, doubled, reordered, unwanted)"""
        oracle = self.oracle
        oracle.finish(lambda *_: False)
        return oracle.lost, oracle.doubled, oracle.reordered, oracle.unwanted


CLEAN = (0, 0, 0, 0)


def test_what_arrives_is_forgotten() -> None:
    play = Play()
    play.arrive(play.publish("[a,7]"))
    assert not play.oracle.pending
    assert (play.oracle.expected, play.oracle.delivered) == (1, 1)
    assert play.verdict() == CLEAN


def test_lost() -> None:
    play = Play()
    play.publish("[a,7]")
    assert play.verdict() == (1, 0, 0, 0)
    assert play.oracle.violations == ["P:1, published at 1.000 s, never reached S (main)"]


def test_what_is_on_the_way_is_not_lost() -> None:
    play = Play()
    play.publish("[a,7]")
    play.oracle.finish(lambda publisher, sequence: (publisher, sequence) == ("P", 1))
    assert play.oracle.lost == 0


def test_what_matches_nothing_is_not_expected() -> None:
    play = Play()
    play.publish("[a,3]")
    assert play.oracle.expected == 0
    assert play.verdict() == CLEAN


def test_doubled() -> None:
    play = Play()
    first = play.publish("[a,7]")
    play.arrive(first)
    play.arrive(first)
    assert play.verdict() == (0, 1, 0, 0)
    assert "twice" in play.oracle.violations[0]


def test_reordered() -> None:
    play = Play()
    first, second = play.publish("[a,7]"), play.publish("[a,8]")
    play.arrive(second)
    play.arrive(first)
    # What came late had not come before, so it is missing as well.
    assert play.verdict() == (1, 0, 1, 0)
    assert "late" in play.oracle.violations[0]


@pytest.mark.parametrize("name", ["main", "nobody's"])
def test_unwanted(name: str) -> None:
    play = Play()
    play.arrive(play.publish("[a,3]"), name)
    assert play.verdict() == (0, 0, 0, 1)


def test_one_of_two_subscriptions_missed() -> None:
    play = Play()
    play.oracle.subscribed(play.s, "more", parse_subscription("a > 6"))
    play.settle()
    play.arrive(play.publish("[a,7]"), "main")
    assert play.verdict() == (1, 0, 0, 0)


# --- the grey zone ----------------------------------------------------------------------------------


@pytest.mark.parametrize("arrives", [True, False])
def test_not_settled(arrives: bool) -> None:
    """A subscription or advertisement that not everybody knows of: the event may arrive, or not."""
    play = Play(settled=False)
    sequence = play.publish("[a,7]")
    if arrives:
        play.arrive(sequence)
    assert play.verdict() == CLEAN


def test_settled_later_counts_only_from_then_on() -> None:
    play = Play(settled=False)
    play.publish("[a,7]")
    play.settle()
    play.publish("[a,8]")
    assert play.verdict() == (1, 0, 0, 0)


def test_settles_only_what_has_reached_a_broker() -> None:
    play = Play(settled=False)
    play.oracle.settle(lambda name: name == "P")
    assert play.oracle.unsettled == 1
    play.publish("[a,7]")
    assert play.verdict() == CLEAN


def test_flooding_needs_no_advertisement() -> None:
    play = Play(flooding=True, settled=False)
    play.oracle.settle(lambda name: name == "S")
    play.publish("[a,7]")
    assert play.verdict() == (1, 0, 0, 0)


def test_an_event_that_nothing_advertises_is_not_promised() -> None:
    play = Play()
    play.oracle.unadvertised(play.p, "main")
    play.publish("[a,7]")
    assert play.verdict() == CLEAN


def test_unsubscribed_while_on_the_way() -> None:
    play = Play()
    play.publish("[a,7]")
    play.oracle.unsubscribed(play.s, "main")
    assert play.oracle.expected == 0
    assert play.verdict() == CLEAN


def test_not_connected() -> None:
    play = Play()
    play.oracle.connected = lambda a, b: (a, b) != ("P", "S")
    play.publish("[a,7]")
    assert play.verdict() == CLEAN
    play.oracle.connected = None
    play.publish("[a,8]")
    assert play.verdict()[0] == 1


def test_forgiven() -> None:
    play = Play()
    play.publish("[a,7]")
    play.oracle.forgive(play.s.wishes.values())
    assert play.verdict() == CLEAN


def test_everything_is_forgiven_and_begins_anew() -> None:
    play = Play()
    play.publish("[a,7]")
    play.oracle.forgive_everything()
    play.oracle.unsettle([play.p, play.s])
    play.publish("[a,8]")
    assert play.oracle.expected == 0
    play.settle()
    play.publish("[a,9]")
    assert play.verdict() == (1, 0, 0, 0)


def test_amnesia_does_not_excuse_a_double() -> None:
    play = Play()
    first = play.publish("[a,7]")
    play.arrive(first)
    play.oracle.forgive_everything()
    play.arrive(first)
    assert play.verdict() == (0, 1, 0, 0)


def test_refused() -> None:
    play = Play()
    first, second = play.publish("[a,7]"), play.publish("[a,8]")
    play.oracle.not_accepted("P", first)
    assert play.verdict() == (1, 0, 0, 0)
    assert f"P:{second}" in play.oracle.violations[0]


def test_not_accepted_after() -> None:
    play = Play()
    for value in (7, 8, 9):
        play.publish(f"[a,{value}]")
    play.oracle.not_accepted_after("P", 1)
    assert list(play.oracle.pending) == [("P", 1)]


def test_violations_are_counted_beyond_those_kept() -> None:
    play = Play()
    for _ in range(VIOLATIONS_KEPT + 5):
        play.publish("[a,7]")
    assert play.verdict()[0] == VIOLATIONS_KEPT + 5
    assert len(play.oracle.violations) == VIOLATIONS_KEPT
