"""Whether a rewiring pays for itself: what it saves within a horizon, against moving the tables.

The mover and the anchor tell each other what they want and advertise, the middle withdraws what it had from
the mover, and the three agree on it: some messages for the agreement, and some for each entry of a table
that moves. What was saved over a training is expected to be saved again, as long as traffic stays as it is;
beyond the horizon nobody knows.

A rewiring that saves nothing by itself (`gathering`) is one of several that turn the middle into a leaf.
What they save together is at most what the middle relays: messages that pass it, and that no client here
publishes or gets. Its *promise* is that, shared among the links that would have to move.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from roost.errors import UserError
from roost.optimising.worth import UNITS, Verdict
from roost.overlay.rewiring.counters import LOCAL, Kind


class RewiringTerms(Struct, frozen=True):
    """What a rewiring costs, and has to meet."""

    horizon_s: float = 600.0
    # As measured in the simulator, all of control between brokers: what the three say to each other, whatever
    # moves; and what is told over the new link, withdrawn over the old one, and told anew behind the anchor.
    messages: float = 40.0
    messages_per_entry: float = 3.0
    margin: float = 2.0  # the saving over the cost, at least

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not value >= 0:
                raise UserError(f"{name} {value:g}; expected 0 or more")


def cost_of(entries: int, terms: RewiringTerms) -> float:
    """In messages, if so many entries of tables move."""
    return terms.messages + terms.messages_per_entry * entries


def price(entries: int, training_s: float, terms: RewiringTerms) -> float:
    """What has to be saved over a training, so that the rewiring repays: the threshold of a cold broker."""
    if training_s <= 0:
        raise ValueError(f"a training of {training_s:g} s")
    return terms.margin * cost_of(entries, terms) * training_s / terms.horizon_s


def repays(
    utility: float, promise: float, training_s: float, entries: int, terms: RewiringTerms
) -> Verdict:
    """The verdict on a rewiring that saves so much over a training, or promises it if it saves nothing."""
    times = terms.horizon_s / training_s
    saving, cost = max(utility, promise if utility == 0 else 0.0) * times, cost_of(entries, terms)
    pays = saving > terms.margin * cost
    found = f"saves {saving:.4g} messages in {terms.horizon_s:g} s and costs {cost:.4g}"
    if utility == 0:
        found = f"is one of some that together {found.replace('saves', 'save', 1)} each"
    reason = found if pays else f"{found}, which is not {terms.margin:g} times less"
    return Verdict(pays, saving, cost, UNITS["load"], reason)


def promise_of(kinds: Mapping[Kind, int], neighbours: int) -> float:
    """What each of the rewirings that make this broker a leaf saves in the end, on average."""
    relayed = sum(
        count
        for (source, destinations), count in kinds.items()
        if source != LOCAL and LOCAL not in destinations and destinations
    )
    return relayed / (neighbours - 1) if neighbours > 1 else 0.0
