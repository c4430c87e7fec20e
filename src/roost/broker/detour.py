"""Which links events take while a link is moved (see `rewiring`): other ones than the tables say.

Tables follow later than events, and events must not wait for them. So what the tables say of the old link
holds until the new one is known everywhere, and here is what that means in each of the three brokers:

    mover    what is for either link takes the one that is in use: the old one, then the new one
    middle   what is for the mover takes the link to the anchor, once that passes everything on. If the mover
             has lost its memory it knows the old link only: what comes from there goes to the anchor
    anchor   *repeats*: what is for the middle or comes from it goes to the mover as well, and the other way
             round, whoever wants it. So the middle and the mover are as good as neighbours
"""

from __future__ import annotations

from typing import Protocol

from roost.broker.hops import Hop, Link


class Detour(Protocol):
    """The links that an event takes."""

    def links(self, source: Hop, links: list[Link]) -> list[Link]:
        """In place of those that the tables say; never the one that it came by."""


class MoverDetour:
    """Of the broker whose link is moved."""

    def __init__(self, old: Link, new: Link, *, switched: bool) -> None:
        self._pair = (old, new)
        self._used = new if switched else old

    def links(self, source: Hop, links: list[Link]) -> list[Link]:
        others = [link for link in links if link not in self._pair]
        if source not in self._pair and len(others) < len(links):
            others.append(self._used)
        return others


class MiddleDetour:
    """Of the broker that loses the link.

    `forgotten`: by the mover. What the anchor wants of it, it may have withdrawn here by now.
    """

    def __init__(self, mover: Link, anchor: Link, *, forgotten: bool) -> None:
        self._mover, self._anchor = mover, anchor
        self._forgotten = forgotten

    def links(self, source: Hop, links: list[Link]) -> list[Link]:
        if source is self._mover and self._forgotten:
            return [*(link for link in links if link is not self._anchor), self._anchor]
        if self._mover not in links:
            return links
        others = [link for link in links if link is not self._mover and link is not self._anchor]
        return others if source is self._anchor else [*others, self._anchor]


class AnchorDetour:
    """Of the broker that gets the link.

    `passes`: whether what comes from the middle is for the mover; until the middle has said so, it has sent
    it there itself.
    """

    def __init__(self, middle: Link, mover: Link, *, repeats: bool, passes: bool) -> None:
        self._middle, self._mover = middle, mover
        self._repeats, self._passes = repeats, passes

    def links(self, source: Hop, links: list[Link]) -> list[Link]:
        pair = (self._middle, self._mover)
        others = [link for link in links if link not in pair]
        if source is self._mover:
            return [*others, self._middle]
        if source is self._middle:
            return [*others, self._mover] if self._passes else others
        if len(others) == len(links):
            return others
        return [*others, *pair] if self._repeats else [*others, self._middle]
