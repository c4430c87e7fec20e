"""What operators can say of self-organising links: `[overlay]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from roost.errors import UserError
from roost.overlay.rewiring.limits import Limits, Pair, pair
from roost.settings import Count, Seconds, SomeSeconds, why

Share = Annotated[float, Meta(ge=0, le=1)]
Factor = Annotated[float, Meta(ge=0, le=1e9)]
Threshold = Annotated[float, Meta(ge=-1e9, le=1e9)]
Names = tuple[str, ...]
Variant = Literal["roost", "paper", "ocbr", "ocbr-gated"]

# `B1 - B2`, as decisions call a link, or without blanks `B1--B2`.
_between = re.compile(r"\s+-\s+|\s*--\s*")


class OverlaySettings(Struct, frozen=True, kw_only=True):
    """Links follow the traffic: brokers rewire their tree, so that events travel fewer of them. The same in
    the whole federation."""

    variant: Annotated[
        Variant,
        why(
            "Roost's own counts what each rewiring would save, to the message. The paper's (002) estimates it"
            " by subscription, and OCBR links those who talk most, or gated if that makes ways shorter."
        ),
    ] = "roost"
    training_messages: Annotated[
        Count, why("Messages that a broker counts before it decides. 0: any number, by time only.")
    ] = 1_000
    training_s: Annotated[
        Seconds, why("... or for how long, if so many take longer. 0: however long they take.")
    ] = 30.0
    threshold: Annotated[
        Threshold,
        why(
            "What a rewiring has to save, in messages of the training; it has to be more. Of the paper's,"
            " below 0 is noise that leads out of local optima. Roost's own sets its own."
        ),
    ] = 0.0
    delay_weight: Annotated[
        Share,
        why(
            "Roost's own: what shorter ways of deliveries count for, 0 to 1; the rest is for fewer messages."
        ),
    ] = 0.0
    horizon_s: Annotated[
        SomeSeconds,
        why("Roost's own: a rewiring has to pay within this time, as if traffic stayed as it is."),
    ] = 600.0
    margin: Annotated[
        Factor, why("... how many times what it costs to move the tables it has to save by then.")
    ] = 2.0
    degree_max: Annotated[
        Count,
        why(
            "Neighbours of a broker at most. 0: any number; the tree may then become a star, whose middle"
            " has all the work."
        ),
    ] = 8
    pinned: Annotated[Names, why('Links that stay: [ "B1 - B2" ].')] = ()
    forbidden: Annotated[
        Names, why("Brokers that are never to be linked, said in the same way.")
    ] = ()
    edges: Annotated[
        Names, why("Brokers whose links stay, because they are edges of a hierarchy: their names.")
    ] = ()
    seed: Annotated[Count, why("Of what is left to chance: which of equal rewirings it is.")] = 0

    def __post_init__(self) -> None:
        if not self.training_messages and not self.training_s:
            raise UserError("training_messages and training_s are both 0; expected one of them")
        if self.degree_max == 1:
            raise UserError("degree_max is 1; expected 2 or more, or 0 for any number")
        self.limits()

    def limits(self) -> Limits:
        """What no rewiring may do."""
        return Limits(
            self.degree_max or None,
            frozenset(_pairs("pinned", self.pinned)),
            frozenset(_pairs("forbidden", self.forbidden)),
            frozenset(self.edges),
        )


def _pairs(setting: str, texts: Iterable[str]) -> Iterator[Pair]:
    for text in texts:
        names = _between.split(text.strip())
        if len(names) != 2 or not all(names) or names[0] == names[1]:
            raise UserError(f"{setting} has {text!r}; expected two brokers, as in 'B1 - B2'")
        yield pair(*names)
