"""Handles, and those who follow whose each of them is."""

from __future__ import annotations

from roost.broker.handles import Handles
from roost.broker.hops import Entry, Inside
from roost.language import parse_subscription

ALL = parse_subscription("*")
LEFT, RIGHT = Inside("left"), Inside("right")


class Listed:
    """Whose each handle is."""

    def __init__(self) -> None:
        self.whose: dict[int, str] = {}

    def entered(self, entry: Entry) -> None:
        assert entry.handle not in self.whose
        self.whose[entry.handle] = entry.hop.name

    def left(self, entry: Entry) -> None:
        assert self.whose.pop(entry.handle) == entry.hop.name


def test_whoever_follows_knows_what_there_was_before_and_what_comes_and_goes() -> None:
    handles = Handles()
    first, second, third = (handles.new(id_, ALL, LEFT) for id_ in "abc")
    handles.free(second)
    listed = Listed()
    handles.follow(listed)
    assert listed.whose == {first.handle: "left", third.handle: "left"}
    fourth = handles.new("d", ALL, RIGHT)
    assert fourth.handle == second.handle  # it was free
    handles.move(third, RIGHT)
    assert listed.whose == {first.handle: "left", third.handle: "right", fourth.handle: "right"}
    handles.free(first)
    assert listed.whose == {third.handle: "right", fourth.handle: "right"}
