"""What the steps take that an event passes in a partitioned service, each by itself and in one process.

For `roost bench serve`: where the time goes. A matcher has what a real one of the service has: the
subscriptions of its segments of an even table. Events come by the score, and are for one of its sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from roost.bench.timing import BUDGET_S, rate
from roost.experiments.partition.setup import MESSAGES, dimensions_of, points, subscription_texts
from roost.language import Event, parse_subscription
from roost.partition import notes
from roost.partition.dimensions import Point, footprint_of, point_of
from roost.partition.handover import first_table
from roost.partition.notes import Answers, Ask, Asks, Fill, Found
from roost.partition.segments import (
    Finder,
    Option,
    SegmentTable,
    options,
    overlaps_region,
    regions_of,
)
from roost.partition.wards import Wards

ME = "D0"
# So many events come at once.
BULK = 20
US = 1e6


def steps_us(
    matchers: int, subscriptions: int, seed: int, budget_s: float = BUDGET_S
) -> dict[str, float]:
    """Microseconds an event, by step."""
    dimensions = dimensions_of(4)
    table = first_table(dimensions, [f"M{n}" for n in range(matchers)])
    regions = regions_of(table, "M0")
    wards = Wards()
    texts = enumerate(subscription_texts(seed, subscriptions))
    added = tuple((f"s{n % 10}/{n:05}", text) for n, text in texts)
    here = tuple(
        (id_, text)
        for id_, text in added
        if any(
            overlaps_region(footprint_of(parse_subscription(text), dimensions), region)
            for region in regions
        )
    )
    wards.fill(ME, Fill("", "", len(here), here))
    wards.fill(ME, Fill("", "", len(here), promised=regions, dimensions=tuple(dimensions)))
    found = points(seed, MESSAGES).tolist()
    events = [Event({f"d{d}": value for d, value in enumerate(point)}) for point in found]
    where = [point_of(event, dimensions) for event in events]
    asked = [(e, p, o) for e, p in zip(events, where, strict=True) if (o := _here(table, p))]
    asks = [Ask("1@D0.1", o.key, p, dict(e.attributes), {ME: ("", 0)}) for e, p, o in asked]
    key = max((ask.key for ask in asks), key=lambda key: sum(a.key == key for a in asks))
    some = _parts([(e, a) for (e, _, _), a in zip(asked, asks, strict=True) if a.key == key])
    questions = [[ask for _, ask in part] for part in some]
    searched = [[event for event, _ in part] for part in some]
    answers = [
        [
            Found(ask.request, found)
            for ask, found in zip(part, wards.match(key, events), strict=True)
        ]
        for part, events in zip(questions, searched, strict=True)
    ]
    said = [_written(Asks, part) for part in questions]
    answered = [_written(Answers, part) for part in answers]
    finder = Finder(table)
    steps: dict[str, tuple[Callable[[Any], object], Sequence[Any]]] = {
        "dispatcher: points and candidates": (
            lambda part: [finder.options(point_of(event, dimensions)) for event in part],
            searched,
        ),
        "dispatcher: writing questions": (partial(_written, Asks), questions),
        "matcher: reading questions": (notes.decode, said),
        "matcher: may it answer": (
            lambda part: [wards.objection_to(ask) for ask in part],
            questions,
        ),
        "matcher: searching the set": (wards.sets[key].match_batch, searched),
        "matcher: searching, and naming all that match": (partial(wards.match, key), searched),
        "matcher: writing answers": (partial(_written, Answers), answers),
        "dispatcher: reading answers": (notes.decode, answered),
    }
    return {
        f"step_us/{name}": US / (rate(step, items, budget_s=budget_s) * BULK)
        for name, (step, items) in steps.items()
    }


def _parts(items: list[Any]) -> list[list[Any]]:
    """Whole ones."""
    return [items[n : n + BULK] for n in range(0, len(items) - BULK + 1, BULK)]


def _written(kind: type[Asks] | type[Answers], items: Sequence[Any]) -> bytes:
    """As one note, which they fit."""
    (part,) = notes.in_bulk(items)
    return notes.encode(kind(part))


def _here(table: SegmentTable, point: Point) -> Option | None:
    return next((option for option in options(table, point) if option.matcher == "M0"), None)
