"""A dispatcher without clients that asks matchers all the time: for `roost bench serve`.

It has the subscriptions of 004 section IV.B itself, and holds as many events as its window says; whenever one
is answered, the next is asked about. So what matchers can match is measured as it is live, by processes over
sockets, and nothing is spent on publishers, subscribers and deliveries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from roost.broker.commands import StoreKey
from roost.broker.config import BrokerConfig
from roost.broker.messages import Publication
from roost.broker.module import Module
from roost.experiments.partition.setup import MESSAGES, points, subscription_texts
from roost.language import Event, parse_subscription
from roost.partition.dispatcher import Dispatcher
from roost.partition.settings import DispatcherSettings

ASKER = "roost.bench.asker:Asker"
BEGIN = "begin"
# When subscriptions are on their way to matchers.
BEGIN_S = 1.0


class AskerSettings(DispatcherSettings, frozen=True, kw_only=True):
    """What it is told besides what a dispatcher is."""

    subscriptions: int
    seed: int
    window: int = 4_000  # events that are held at a time


class Asker(Dispatcher):
    """The only dispatcher of its service."""

    Config = AskerSettings  # type: ignore[assignment]
    settings: AskerSettings

    def __init__(
        self, config: BrokerConfig, modules: Sequence[Module], settings: AskerSettings
    ) -> None:
        super().__init__(config, modules, settings)
        found = points(settings.seed, MESSAGES).tolist()
        events = [Event({f"d{d}": value for d, value in enumerate(point)}) for point in found]
        self._events = cycle(events)
        self._asked = 0

    def restored(self, records: Mapping[StoreKey, Any]) -> None:
        super().restored(records)
        for number, text in enumerate(
            subscription_texts(self.settings.seed, self.settings.subscriptions)
        ):
            self.shares.add(f"s{number}", parse_subscription(text), number)
        self.set_timer(BEGIN, BEGIN_S)

    def timer(self, name: str) -> None:
        if name == BEGIN:
            self._top_up()
        else:
            super().timer(name)

    def _release(self, publisher: str) -> None:
        super()._release(publisher)
        self._top_up()

    def _top_up(self) -> None:
        for _ in range(self.settings.window - len(self.holding)):
            self._asked += 1
            publication = Publication("asker", self._asked, next(self._events))
            self.asking.add((self.holding.hold(publication, None, self.now),))
