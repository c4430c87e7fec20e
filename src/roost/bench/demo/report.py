"""What came of the demo: its traces, read by Spark, as a table, as claims, and as facts for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from roost.bench.demo.plan import Plan
from roost.bench.demo.run import RUN, Played, Scene
from roost.pictures.before_after import Half
from roost.pipeline.comparison import Window, compare, link_rates, publisher_places
from roost.pipeline.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE, AFTER = "before", "after"
# By how much at least, in %.
RATE_DOWN, DELAY_DOWN = 50.0, 30.0
MS = 1e3


class Line(Struct, frozen=True):
    """A line of the table."""

    what: str
    unit: str
    before: float
    after: float
    digits: int = 1

    @property
    def change(self) -> float | None:
        """In %; None where there was nothing to speak of, or it is a share, which is in % itself."""
        if self.unit == "%" or not round(self.before, self.digits):
            return None
        return 100 * (self.after - self.before) / self.before

    @property
    def words(self) -> tuple[str, str, str]:
        """Before, after, and the change."""
        change = "" if self.change is None else f"{self.change:+.0f} %"
        return f"{self.before:,.{self.digits}f}", f"{self.after:,.{self.digits}f}", change


class Claim(Struct, frozen=True):
    """What the demo is to show."""

    what: str
    expected: float
    ours: float
    unit: str
    holds: bool


class Report(Struct, frozen=True):
    """What the traces say, in two parts of the run."""

    figures: Mapping[str, Mapping[str, Any]]  # as `compare` has them, by window
    halves: Mapping[str, Half]

    @property
    def lines(self) -> list[Line]:
        """The table."""
        rows = self.figures[BEFORE], self.figures[AFTER]

        def line(what: str, unit: str, key: str, factor: float = 1.0, digits: int = 1) -> Line:
            # A mean of nothing is null.
            before, after = (factor * float(row[key] or 0.0) for row in rows)
            return Line(what, unit, before, after, digits)

        return [
            line("messages between brokers", "/s", "between_per_s"),
            line("... of which are control", "/s", "other_per_s"),
            line("... and the share of those", "%", "overhead", 100),
            line("messages that a broker receives", "/s", "received_per_s"),
            line("publications at the busiest broker", "/s", "busiest_per_s"),
            line("delivery delay, mean", "ms", "delay_mean_s", MS, 2),
            line("delivery delay, median", "ms", "delay_median_s", MS, 2),
            line("links from publisher to subscriber", "", "hops", 1, 2),
            line("deliveries", "/s", "delivered_per_s"),
        ]

    @property
    def claims(self) -> list[Claim]:
        """Of delays it is the median: in a few seconds one pause of the machine is half of a mean."""
        by_what = {line.what: line for line in self.lines}
        return [
            _down(by_what["messages between brokers"], RATE_DOWN),
            _down(by_what["messages that a broker receives"], RATE_DOWN),
            _down(by_what["delivery delay, median"], DELAY_DOWN),
        ]


def _down(line: Line, least: float) -> Claim:
    ours = -(line.change or 0.0)
    return Claim(f"{line.what}: down", least, round(ours, 1), "%", ours >= least)


def report_of(spark: SparkSession, plan: Plan, played: Played) -> Report:
    """Spark reads what the brokers recorded, and compares before and after."""
    lake = Lake(played.lake)
    deliveries, links, loads = (
        lake.read(spark, table, RUN) for table in ("deliveries", "links", "loads")
    )
    windows = [
        Window(phase.name, phase.began, phase.ended)
        for phase in (played.scene.span(BEFORE), played.scene.span(AFTER))
    ]
    figures = {
        row["window"]: row.asDict() for row in compare(deliveries, links, loads, windows).collect()
    }
    subscribers: dict[str, int] = {}
    for each in plan.subscribers:
        subscribers[each.broker] = subscribers.get(each.broker, 0) + 1
    halves = {window.name: Half({}, {}, subscribers) for window in windows}
    for window, broker, neighbour, per_s in link_rates(links, loads, windows).collect():
        way = frozenset((broker, neighbour))
        rates = halves[window].link_per_s
        rates[way] = rates.get(way, 0.0) + per_s
    for window, publisher, broker in publisher_places(deliveries, windows).collect():
        halves[window].places[short(publisher)] = broker
    return Report(figures, halves)


def short(client: str) -> str:
    """The name that a client has given itself, without what makes it unique."""
    return client.partition("~")[0]


def facts(report: Report, played: Played, plan: Plan, seconds: float) -> dict[str, Any]:
    """For programs."""
    scene, judged = played.scene, played.judged
    return {
        "demo": "relocation",
        "config": {
            "brokers": len(plan.topology.brokers),
            "publishers": len(plan.publishers),
            "subscribers": len(plan.subscribers),
            "phases_s": {phase.name: phase.ended - phase.began for phase in scene.phases},
        },
        "results": {name: dict(row) for name, row in report.figures.items()},
        "claims": [msgspec.to_builtins(claim) for claim in report.claims],
        "checks": {
            **msgspec.to_builtins(judged.verdict),
            "delay_max_ms": judged.delay_max_ms,
        },
        "moves": moves_dict(scene),
        "seconds": seconds,
    }


def moves_dict(scene: Scene) -> Sequence[Mapping[str, Any]]:
    """The moves that were made."""
    return [
        {
            "at_s": move.at - scene.began,
            "publisher": short(move.publisher),
            "from": move.source,
            "to": move.target,
            "reason": move.reason,
        }
        for move in scene.moves
        if move.acted
    ]
