"""What operators can say of self-organising links: `[overlay]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import inf
from typing import Annotated, Literal

from msgspec import Meta, Struct

from roost.errors import UserError
from roost.optimising.goal import Goal
from roost.optimising.worth import Metric
from roost.overlay.rewiring.annealing import AnnealingTerms
from roost.overlay.rewiring.limits import Limits, Pair, pair
from roost.overlay.rewiring.repaying import RewiringTerms
from roost.overlay.rewiring.theorem import Weight
from roost.settings import Count, Positive, Seconds, SomeSeconds, why

Percent = Annotated[float, Meta(ge=0, le=100)]
Factor = Annotated[float, Meta(ge=0, le=1e9)]
Threshold = Annotated[float, Meta(ge=-1e9, le=1e9)]
Names = tuple[str, ...]
Variant = Literal["roost", "paper", "ocbr", "ocbr-gated"]

# What the three brokers of a rewiring say to each other, and modules to anchors; and that what has to be said
# of subscriptions is counted in messages (`deciding`).
MESSAGES, MESSAGES_PER_ENTRY = 50.0, 1.0

# `B1 - B2`, as decisions call a link, or without blanks `B1--B2`.
_between = re.compile(r"\s+-\s+|\s*--\s*")
_is_number = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII).fullmatch


class OverlaySettings(Struct, frozen=True, kw_only=True):
    """Links follow the traffic: brokers rewire their tree, so that events travel fewer of them. The same in
    the whole federation."""

    variant: Annotated[
        Variant,
        why(
            "Roost's own counts what each rewiring would save, to the message. The paper's (Di Nitto et al.)"
            " estimates it by subscription, and OCBR links those who talk most, or gated if that makes ways"
            " shorter."
        ),
    ] = "roost"
    training_messages: Annotated[
        Count,
        why(
            "Messages that a broker counts before it decides; Roost's own begins with so many, and takes more"
            " when it finds nothing. 0: any number, by time only."
        ),
    ] = 200
    training_messages_max: Annotated[Positive, why("... and so many at most.")] = 20_000
    training_s: Annotated[
        Seconds, why("For how long it counts, if that takes longer. 0: however long it takes.")
    ] = 30.0
    threshold: Annotated[
        Threshold,
        why(
            "The paper's: what a rewiring has to save, in messages of the training; it has to be more. Below"
            " 0 it is noise, which leads out of local optima."
        ),
    ] = 0.0
    priority: Annotated[
        Metric, why("Roost's own: what is to be made small first, messages or ways, and ...")
    ] = "load"
    weight: Annotated[
        Percent, why("... by how much of the sum, in %; the rest is left to the other.")
    ] = 100.0
    horizon_s: Annotated[
        SomeSeconds,
        why("Roost's own: a rewiring has to pay within this time, as if traffic stayed as it is."),
    ] = 600.0
    margin: Annotated[
        Factor, why("... how many times what it costs to move the tables it has to save by then.")
    ] = 2.0
    noise: Annotated[
        Factor,
        why(
            "Roost's own: chance in its choice at first, as a share of what a link carries; it cools. That"
            " finds better trees, and takes more rewirings."
        ),
    ] = 0.0
    degree_max: Annotated[
        Count,
        why(
            "Neighbours of a broker at most. 0: any number; the tree may then become a star, whose middle"
            " has all the work."
        ),
    ] = 16
    pinned: Annotated[Names, why('Links that stay: [ "B1 - B2" ].')] = ()
    forbidden: Annotated[
        Names, why("Brokers that are never to be linked, said in the same way.")
    ] = ()
    prices: Annotated[
        Names,
        why(
            'What a message over a link costs, where it is not 1: [ "B1 - B2 = 5" ], also of links that there'
            " might be. Not of OCBR."
        ),
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
        self.annealing_terms()
        self.price_of()

    def goal(self) -> Goal:
        """What Roost's own makes small."""
        return Goal(self.priority, self.weight)

    @property
    def counts_deliveries(self) -> bool:
        """Whether it matters how many clients get a message: else the messages of a link do for ways, too."""
        return self.variant == "roost" and self.goal() != Goal("load", 100.0)

    def annealing_terms(self) -> AnnealingTerms:
        """How Roost's own adapts."""
        least, most = max(self.training_messages, 1), self.training_messages_max
        return AnnealingTerms(training_min=least, training_max=most, noise=self.noise)

    def rewiring_terms(self) -> RewiringTerms:
        """What a rewiring of Roost's own has to meet."""
        return RewiringTerms(self.horizon_s, MESSAGES, MESSAGES_PER_ENTRY, self.margin)

    def price_of(self) -> Weight | None:
        """What a message over the link between two brokers costs (002 section 5.2); None: all the same."""
        if not self.prices:
            return None
        prices = dict(_prices(self.prices))
        return lambda a, b: prices.get(pair(a, b), 1.0)

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
        yield _pair(setting, text, text, "two brokers, as in 'B1 - B2'")


def _prices(texts: Iterable[str]) -> Iterator[tuple[Pair, float]]:
    expected = "two brokers and a number above 0, as in 'B1 - B2 = 5'"
    for text in texts:
        link, _, price = text.rpartition("=")
        if not _is_number(price.strip()) or not 0 < float(price) < inf:
            raise UserError(f"prices has {text!r}; expected {expected}")
        yield _pair("prices", text, link, expected), float(price)


def _pair(setting: str, text: str, link: str, expected: str) -> Pair:
    names = _between.split(link.strip())
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UserError(f"{setting} has {text!r}; expected {expected}")
    return pair(*names)
