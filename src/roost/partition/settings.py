"""The settings of dispatchers and matchers: one place, units in the names, a line of why for each."""

from __future__ import annotations

from msgspec import Struct

from roost.errors import UserError
from roost.partition.dimensions import Dimension
from roost.partition.direct import ORDERED
from roost.partition.pulse import Patience
from roost.partition.reshaping import EVERYWHERE


class PartitionSettings(Struct, frozen=True, kw_only=True):
    """What both need to know."""

    # All of them, separated by commas: a matcher answers when it has heard of each. Those of a space as
    # SPACE/NAME: for a dispatcher all of its own, for a matcher those of all spaces that it serves.
    dispatchers: str
    gossip_s: float = (
        1.0  # matchers gossip, and tell dispatchers how busy they are, so often (004 IV.C)
    )

    @property
    def spaces(self) -> dict[str, list[str]]:
        """The names of dispatchers, by space."""
        found: dict[str, list[str]] = {}
        for word in sorted(word for word in self.dispatchers.split(",") if word):
            space, _, name = word.rpartition("/")
            found.setdefault(space, []).append(name)
        return found

    @property
    def dispatcher_names(self) -> list[str]:
        return sorted(name for names in self.spaces.values() for name in names)


class DispatcherSettings(PartitionSettings, frozen=True, kw_only=True):
    """What a dispatcher is told."""

    # As name:low:high, separated by commas. None: everything is everywhere until some are chosen.
    dimensions: str = ""
    # The attributes that are worth a dimension are looked for so often; 0: never. See `curator`.
    choose_s: float = 0.0
    dimensions_max: int = 4  # that are chosen
    matchers: str  # that the service begins with, separated by commas; others join
    policy: str = "drift"  # see `forwarding`
    delivery: str = ORDERED  # or "direct", without order, as in the paper; see `direct`
    join: str = "each"  # IV.E, or "one": III.C; see `handover`
    stride: int = 0  # of owners, from dimension to dimension; see `segments.owners`
    pull_s: float = 10.0  # a table is pulled from some matcher so often (004 IV.C)
    retry_s: float = 0.2  # an event that nobody could answer for is asked about again
    # Events that are held before publishers are read no further. What one read has brought by then is held
    # all the same.
    held_max: int = 10_000
    even_s: float = 10.0  # segments that are uneven are evened out so often; 0: never
    # When it wishes for a matcher more, or one less; see `elasticity`.
    watch_s: int = 6  # response times of so many seconds are judged
    bearable_s: float = (
        2.0  # a response time that stays above this is too long, though it does not grow
    )
    idle_s: int = 60  # one could have been spared all that time: not for an ebb of a minute
    busy_max: float = 0.6  # of its time a matcher may be busy, when one has gone

    @property
    def matcher_names(self) -> list[str]:
        return [name for name in self.matchers.split(",") if name]

    @property
    def patience(self) -> Patience:
        return Patience(
            watch_s=self.watch_s,
            bearable_s=self.bearable_s,
            idle_s=self.idle_s,
            busy_max=self.busy_max,
        )


class MatcherSettings(PartitionSettings, frozen=True, kw_only=True):
    """What a matcher is told."""

    # What matching takes in the laboratory: for a message, and for each subscription of the set that is
    # searched. Live both are 0: it takes what it takes.
    message_s: float = 0.0
    entry_s: float = 0.0
    window_s: float = 5.0  # w of 004 section III.B
    model: str = "normal"  # of the intervals between heartbeats; see `accrual`


def parse_dimensions(texts: str) -> list[Dimension]:
    """From name:low:high, separated by commas; UserError says what is wrong. None: `EVERYWHERE`."""
    if not texts:
        return [EVERYWHERE]
    found = []
    for text in texts.split(","):
        name, *bounds = text.split(":")
        try:
            low, high = (float(bound) for bound in bounds)
        except ValueError:
            raise UserError(f"dimension {text!r}; expected NAME:LOW:HIGH") from None
        if not (name and low < high):
            raise UserError(f"dimension {text!r}; expected a name, and LOW below HIGH")
        found.append(Dimension(name, low, high))
    return found
