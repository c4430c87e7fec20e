"""What the steps take that an event passes in a partitioned service, each by itself and in one process.

For `roost bench serve`: where the time goes. A matcher has what a real one of the service has: the
subscriptions of its segments of an even table. Events come by the hundred, and are for one of its sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from roost.bench.timing import BUDGET_S, rate
from roost.broker.config import BrokerConfig
from roost.broker.hops import Entry, Session
from roost.broker.messages import Publication
from roost.broker.work import Work
from roost.experiments.partition.setup import MESSAGES, dimensions_of, points, subscription_texts
from roost.language import Event, Value, parse_subscription
from roost.partition import notes
from roost.partition.batch import Batch
from roost.partition.bundles import Bundles, Parting
from roost.partition.candidates import Candidates
from roost.partition.dimensions import footprint_of
from roost.partition.handover import first_table
from roost.partition.notes import Asks, Fill, Found
from roost.partition.roster import Answer, Roster
from roost.partition.segments import Region, overlaps_region, regions_of
from roost.partition.sights import Sights
from roost.partition.wards import Wards

ME = "D0"
SUBSCRIBERS = 10
# So many events come at once.
BULK = 100
SOMETHING = Publication("p", 1, Event({f"d{d}": 0.5 for d in range(4)}))
US = 1e6


class Steps:
    """A dispatcher and a matcher, taken apart."""

    def __init__(self, matchers: int, subscriptions: int, seed: int) -> None:
        self.dimensions = dimensions_of(4)
        table = first_table(self.dimensions, [f"M{n}" for n in range(matchers)])
        self.candidates = Candidates("drift", Sights(1), lambda _: True, Random(seed).random)
        self.candidates.adopt(table)
        self.wards = Wards()
        self.entries: dict[str, Entry] = {}
        self.roster, self.work = Roster(self.entries), Work(durable=False)
        self.sessions = [Session(f"s{n}", f"s{n}", None) for n in range(SUBSCRIBERS)]
        config = BrokerConfig(broker=ME, incarnation="")
        self.bundles = Bundles(self.roster, self.work, config, lambda *_: None)
        self._fill(regions_of(table, "M0"), subscriptions, seed)
        found = points(seed, MESSAGES).tolist()
        events: list[dict[str, Value]] = [
            {f"d{d}": value for d, value in enumerate(point)} for point in found
        ]
        self.key = (0,)
        all_ = Batch.of(events)
        where = self.wards.wards[ME].covers(self.key, all_).tolist()
        here = [event for event, is_here in zip(events, where, strict=True) if is_here]
        self.parts = [here[n : n + BULK] for n in range(0, len(here) - BULK + 1, BULK)]
        self.batches = [Batch.of(part) for part in self.parts]
        self.asks = [
            Asks("1", 1, self.key, {ME: ("", 0)}, batch.written()) for batch in self.batches
        ]
        self.found = [self.matched(batch) for batch in self.batches]

    def _fill(self, regions: tuple[Region, ...], subscriptions: int, seed: int) -> None:
        for number, session in enumerate(self.sessions):
            session.connection, session.open = number, True
        added = []
        for number, text in enumerate(subscription_texts(seed, subscriptions)):
            session = self.sessions[number % SUBSCRIBERS]
            interest, id_ = parse_subscription(text), f"{session.name}/{number:05}"
            entry = self.entries[id_] = Entry(id_, number, interest, session)
            slot = self.roster.add(entry, number + 1)
            footprint = footprint_of(interest, self.dimensions)
            if any(overlaps_region(footprint, region) for region in regions):
                added.append((id_, text, slot))
        self.wards.fill(ME, Fill("", "", subscriptions, tuple(added)))
        self.wards.fill(
            ME,
            Fill("", "", subscriptions, promised=regions, dimensions=tuple(self.dimensions)),
        )
        self.number = subscriptions

    def matched(self, batch: Batch) -> Found:
        return Found("1", 1, None, *self.wards.match(ME, self.key, batch))

    def divide(self, part: Sequence[dict[str, Value]]) -> object:
        events = Batch.of(part)
        return self.candidates.divide(events.points(self.dimensions), [()] * len(part), 0.0)

    def may_answer(self, asks: Asks) -> object:
        events = Batch.read(asks.events)
        return self.wards.objection_to(asks) or self.wards.covered(asks, events)

    def sort(self, found: Found) -> object:
        answer = Answer(found, self.number)
        return self.roster.groups([(answer, place) for place in range(BULK)])

    def deliver(self, found: Found) -> object:
        """To clients that acknowledge all at once."""
        answer = Answer(found, self.number)
        self.work.begin(0.0)
        self.bundles.let_go([Parting(SOMETHING, answer, place) for place in range(BULK)])
        for session in self.sessions:
            lane = session.channel.data
            lane.acknowledged(lane.sent)
        return self.work.commit()


def steps_us(
    matchers: int, subscriptions: int, seed: int, budget_s: float = BUDGET_S
) -> dict[str, float]:
    """Microseconds an event, by step."""
    s = Steps(matchers, subscriptions, seed)
    index = s.wards.sets[s.key]
    steps: dict[str, tuple[Callable[[Any], object], Sequence[Any]]] = {
        "dispatcher: columns, points and candidates": (s.divide, s.parts),
        "dispatcher: writing questions": (notes.encode, s.asks),
        "matcher: reading questions": (notes.decode, [notes.encode(a) for a in s.asks]),
        "matcher: may it answer": (s.may_answer, s.asks),
        "matcher: searching the set": (lambda batch: batch.match(index), s.batches),
        "matcher: searching, and numbers for all that match": (s.matched, s.batches),
        "matcher: writing answers": (notes.encode, s.found),
        "dispatcher: reading answers": (notes.decode, [notes.encode(f) for f in s.found]),
        "dispatcher: sorting by client": (s.sort, s.found),
        "dispatcher: sorting, and writing deliveries": (s.deliver, s.found),
    }
    return {
        f"step_us/{name}": US / (rate(step, items, budget_s=budget_s) * BULK)
        for name, (step, items) in steps.items()
    }
