"""Numbers of entries, and who follows whose they are."""

from __future__ import annotations

from roost.broker.handles import Handles
from roost.broker.hops import Entry, Inside
from roost.language import parse_subscription

ALL = parse_subscription("a present")
HERE, THERE = Inside("here"), Inside("there")


class Notes:
    """A follower that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []

    def entered(self, entry: Entry) -> None:
        self.heard.append(("entered", entry.id, str(entry.hop.key)))

    def left(self, entry: Entry) -> None:
        self.heard.append(("left", entry.id, str(entry.hop.key)))


def test_who_follows_late_hears_of_all_that_is_there() -> None:
    handles, notes = Handles(), Notes()
    first, second = (handles.new(id_, ALL, HERE) for id_ in ("a", "b"))
    handles.free(first)
    handles.follow(notes)
    here, there = str(HERE.key), str(THERE.key)
    assert notes.heard == [("entered", "b", here)]
    handles.move(second, THERE)
    handles.new("c", ALL, HERE)
    assert notes.heard[1:] == [
        ("left", "b", here),
        ("entered", "b", there),
        ("entered", "c", here),
    ]
