"""Bugs that somebody could have made: the fuzzer has to find each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from roost.broker.config import BrokerConfig
from roost.broker.hops import Link
from roost.broker.module import Module
from roost.partition import notes
from roost.partition.dimensions import Dimension
from roost.partition.dispatcher import Dispatcher
from roost.partition.matcher import Matcher
from roost.partition.seat import Seat
from roost.partition.segments import SegmentTable, overlaps_region
from roost.partition.settings import DispatcherSettings, MatcherSettings
from roost.partition.wards import Wards


class ForgetsEarly(Matcher):
    """Forget before the switch: what is handed over is dropped when the hand-over begins."""

    def _adopt(self, seat: Seat, table: SegmentTable) -> None:
        super()._adopt(seat, table)
        handed = [
            (table.bound(dimension, place),)
            for dimension, row in enumerate(table.segments)
            for place, segment in enumerate(row)
            if segment.owner == self.identity.name and segment.heir
        ]
        for ward in seat.wards.wards.values():
            for kept in list(ward.kept.values()):
                if any(overlaps_region(kept.footprint, region) for region in handed):
                    seat.wards._drop(ward, kept.id)


class StaleTable(Dispatcher):
    """A stale table: who has new segments is promised them, and filled by the table from before."""

    def _adopted(self, table: SegmentTable) -> None:
        for share in self.shares.shares.values():
            share.told.update(dict.fromkeys(self.shares._texts))
        super()._adopted(table)


class ConfirmsEarly(Dispatcher):
    """An early confirmation: a subscription is said to be in place before all dispatchers have heard."""

    def __init__(
        self, config: BrokerConfig, modules: Sequence[Module], settings: DispatcherSettings
    ) -> None:
        super().__init__(config, modules, settings)
        self.needs.has = lambda other, mark: True  # type: ignore[method-assign]  # noqa: ARG005


class TakesAnyAnswer(Matcher):
    """It answers whatever it is asked, with what it happens to know."""

    def _asks(self, link: Link, asks: notes.Asks) -> None:
        super()._asks(link, structs.replace(asks, needs={}))


class LetsGoAtOnce(Dispatcher):
    """Events are let go as answers come, not in the publisher's order."""

    def _release(self, publisher: str) -> None:
        queue = self.holding._publishers.get(publisher)
        if queue is not None:
            ready = sorted(queue, key=lambda held: held.found is None)
            queue.clear()
            queue.extend(ready)
        super()._release(publisher)


class RepeatsItself(Dispatcher):
    """The same request names in every life: an answer to the last one is taken for one to this."""

    def _later(self) -> None:
        self.holding.life = ""
        super()._later()


class OldFootprints(Dispatcher):
    """Dimensions change, and what subscriptions take of them stays what it was."""

    def __init__(
        self, config: BrokerConfig, modules: Sequence[Module], settings: DispatcherSettings
    ) -> None:
        super().__init__(config, modules, settings)
        shares, adopt = self.shares, self.shares.adopt

        def adopted(dimensions: Sequence[Dimension]) -> None:
            before = dict(shares._footprints)
            adopt(dimensions)
            for id_, footprint in before.items():
                shares._footprints[id_] = tuple(
                    (*one, *one)[: len(dimensions)] for one in footprint
                )

        shares.adopt = adopted  # type: ignore[method-assign]


class MixesSpaces(Matcher):
    """It keeps what it is told of all spaces together, and delivers to whoever it is for."""

    def __init__(
        self, config: BrokerConfig, modules: Sequence[Module], settings: MatcherSettings
    ) -> None:
        super().__init__(config, modules, settings)
        wards = Wards()
        for seat in self.seats.values():
            seat.wards = wards


class AsksAgain(Dispatcher):
    """Of one that delivers directly, and is out of sight: another is asked, though it may have delivered."""

    def lost(self, link: Link) -> None:
        self.asking.add(self.holding.given_up(link.name))
