"""Bugs to plant in the moving of links; see `planted`."""

from __future__ import annotations

from typing import Any

import pytest

from roost.broker.detour import AnchorDetour, MoverDetour
from roost.broker.hops import Entry, Hop, Link
from roost.broker.links import Links
from roost.broker.rewiring.anchor import Anchor
from roost.broker.rewiring.middle import Middle
from roost.broker.rewiring.mover import Mover
from roost.broker.rewiring.party import Party
from roost.broker.rewiring.rewirings import Rewirings
from roost.broker.router import Flooding
from tests.simulation.planted import bug


@bug
def switches_ahead_of_events(patch: pytest.MonkeyPatch) -> None:
    """What takes the new way does not wait until what took the old one has passed."""
    for role in (Mover, Anchor):
        original = role.set_up

        def set_up(self: Party, original: Any = original) -> None:
            original(self)
            for link in self.ground.links.values():
                if link.withheld:
                    link.withheld = False
                    self.ground.flow.go_on(link)

        patch.setattr(role, "set_up", set_up)


@bug
def switches_before_tables_are_known(patch: pytest.MonkeyPatch) -> None:
    """Nobody repeats: whoever wants an event, the new tables are to say."""

    def links(self: AnchorDetour, source: Hop, links: list[Link]) -> list[Link]:  # noqa: ARG001
        return links

    patch.setattr(AnchorDetour, "links", links)


@bug
def forgets_the_standby(patch: pytest.MonkeyPatch) -> None:
    """A broker that comes back from its store does not know that a link is being moved."""
    patch.setattr(Rewirings, "restore", lambda self, record: None)  # noqa: ARG005


@bug
def locks_twice(patch: pytest.MonkeyPatch) -> None:
    """Who takes part in one rewiring is granted to another."""
    patch.setattr(Rewirings, "_objection", lambda self: "")  # noqa: ARG005


@bug
def forgets_before_it_knows(patch: pytest.MonkeyPatch) -> None:
    """The middle forgets what came from the mover before it comes from the anchor."""
    original = Middle._anchor_repeats

    def repeats(self: Middle, message: Any) -> None:
        original(self, message)
        self.succeed(self.link("mover"), self.link("anchor"))

    patch.setattr(Middle, "_anchor_repeats", repeats)


@bug
def withdraws_what_it_has_from_two_sides(patch: pytest.MonkeyPatch) -> None:
    """Between two sides there is a moment in which nobody wants it."""

    def turned(self: Flooding, entry: Entry, cause: str) -> bool:  # noqa: ARG001
        return False

    patch.setattr(Flooding, "_turned_to_spare", turned)
    patch.setattr(Flooding, "_adopted", turned)


@bug
def cuts_the_drain_short(patch: pytest.MonkeyPatch) -> None:
    """The old link is closed when the middle is done with it, whatever the mover is still to get there."""
    original = Anchor._middle_is_done

    def done(self: Anchor, message: Any) -> None:
        original(self, message)
        self._mover_is_done(message)

    patch.setattr(Anchor, "_middle_is_done", done)


@bug
def sends_both_ways(patch: pytest.MonkeyPatch) -> None:
    """The mover sends to both, as its tables say."""

    def links(self: MoverDetour, source: Hop, links: list[Link]) -> list[Link]:  # noqa: ARG001
        return links

    patch.setattr(MoverDetour, "links", links)


@bug
def loses_its_new_neighbour(patch: pytest.MonkeyPatch) -> None:
    """Links that have moved are not kept: after a restart those of the beginning are back."""
    original = Links.introduce

    def introduce(self: Links, link: Link) -> None:
        original(self, link)
        if link.standby and self._work.journal is not None:
            self._work.journal.delete("link", link.name)

    patch.setattr(Links, "introduce", introduce)


REWIRING_BUGS = (
    "switches_ahead_of_events",
    "switches_before_tables_are_known",
    "forgets_the_standby",
    "locks_twice",
    "forgets_before_it_knows",
    "withdraws_what_it_has_from_two_sides",
    "cuts_the_drain_short",
    "sends_both_ways",
    "loses_its_new_neighbour",
)
