"""`topologies`: graphs 1 to 5 of 003, simulated with the costs of live brokers.

The paper shows curves without figures, but for three: publications grow by 70 % a broker, an answer takes 9
to 17 ms, and subscriptions do not double from one broker to two. All else that it says is which curve is
above which. It compares a tree with clusters that have a level more for each broker (`ladder`); where
`cluster` stands here, both have the same links, so that nothing but the routing differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isnan, nan
from statistics import fmean

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most, most
from roost.experiments.topologies.load import MACHINES
from roost.experiments.topologies.shapes import SHAPES, ShapeName
from roost.pictures.charts import Chart, Series
from roost.pipeline.workload.topics import PUBLICATIONS_PER_MACHINE, SUBSCRIPTIONS_PER_MACHINE

TASK = "roost.experiments.topologies.cell:CELL"
BROKERS = (1, 2, 3, 4, 5)
# Graphs 2 to 5 of the paper end here.
PAPER_BROKERS = BROKERS[:3]
# Of the topics, that are wanted at every broker; which of them comes nearest to the paper is what comes out.
SHARED = (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
PUBLICATION_TOPICS = 100
# Clients of a broker that want a topic: one for each machine; and as many as there are subscriptions to a
# topic if 80,000 of a broker are to 1,000 topics, where delivering is nearly all that a broker does.
FEW, MANY = MACHINES, 80
MANY_SHARED = SHARED[:3]
# Many are delivered to: fewer publications will do.
FEWER = 5
# How many subscriptions of a broker there are to a topic.
REPEATED = (80.0, 8.0, 0.8)
PAPER_GROWTH = 70.0
CLUSTERS: tuple[ShapeName, ...] = ("cluster", "ladder")
SCALES = {
    "small": Scale(
        "small",
        2,
        {"subscriptions": 250, "publications": 100},
        "1 to 5 brokers, 8 x 250 subscriptions and 8 x 100 publications a broker",
    ),
    "paper": Scale(
        "paper",
        1,
        {"subscriptions": SUBSCRIPTIONS_PER_MACHINE, "publications": PUBLICATIONS_PER_MACHINE},
        "1 to 5 brokers, 8 x 10,000 subscriptions and 8 x 2,000 publications a broker, as in the paper",
    ),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """Both kinds of load."""
    each = int(scale.settings["subscriptions"])
    publications = int(scale.settings["publications"])
    usual = {"topology": SHAPES, "brokers": BROKERS}
    return [
        {
            **usual,
            "what": ["publications"],
            "topics": [PUBLICATION_TOPICS],
            "shared": SHARED,
            "listeners": [FEW],
            "each": [publications],
        },
        {
            **usual,
            "brokers": PAPER_BROKERS,
            "what": ["publications"],
            "topics": [PUBLICATION_TOPICS],
            "shared": MANY_SHARED,
            "listeners": [MANY],
            "each": [publications // FEWER],
        },
        *(
            {
                **usual,
                "what": ["subscriptions"],
                "topics": [round(MACHINES * each / repeated)],
                "shared": [0.0],
                "listeners": [FEW],
                "each": [each],
            }
            for repeated in REPEATED
        ),
    ]


# --- figures of the cells -------------------------------------------------------------------------------


def published(results: Results, shared: float, listeners: int = FEW) -> Results:
    """Those with that spread of topics."""
    return results.where(what="publications", shared=shared, listeners=listeners)


def asked(results: Results, repeated: float) -> Results:
    """Those in which a broker has so many subscriptions to a topic."""
    cells = results.where(what="subscriptions")
    return Results(
        r
        for r in cells.done
        if r.parameters["topics"] == round(MACHINES * int(r.parameters["each"]) / repeated)
    )


def curve(cells: Results, topology: str, figure: str) -> dict[int, float]:
    """A figure by the number of brokers."""
    return {n: cells.where(topology=topology, brokers=n).mean(figure) for n in BROKERS}


def growth(values: Mapping[int, float], brokers: Sequence[int] = BROKERS) -> float:
    """What a broker that is added brings, in % of what there was: the mean over those that are added."""
    return fmean(100 * (values[more] / values[n] - 1) for n, more in pairwise(brokers))


def least_growth(values: Mapping[int, float]) -> float:
    """The least that any of them brings."""
    return -most(-100 * (values[more] / values[n] - 1) for n, more in pairwise(BROKERS))


def least_ratio(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    """How far the one curve is above the other where it is least so, of several brokers."""
    return -most(-one[n] / other[n] for n in BROKERS[1:])


def spread_of(values: Sequence[float]) -> float:
    """How far the largest is above the least, in %."""
    return 100 * (most(values) / -most(-value for value in values) - 1)


def nearest_spread(results: Results) -> float:
    """The share of topics that gives the tree the growth that is nearest to the paper's."""

    def distance(shared: float) -> float:
        found = _grown(results, "tree", shared)
        return abs(found - PAPER_GROWTH) if not isnan(found) else float("inf")

    return min(MANY_SHARED, key=distance)


def spread_giving(results: Results, topology: str, wanted: float) -> float:
    """The share of topics at which a broker brings so much, between those that were run; NaN outside."""
    points = [(s, _grown(results, topology, s)) for s in SHARED]
    for (low, above), (high, below) in pairwise(points):
        if above >= wanted > below:
            return low + (high - low) * (above - wanted) / (above - below)
    return nan


# --- what is said of them -------------------------------------------------------------------------------


def claims(results: Results) -> list[Claim]:
    """What the paper says of its graphs."""
    return [*_subscriptions(results), *_publications(results), *_times(results)]


def _subscriptions(results: Results) -> list[Claim]:
    found = []
    usual = asked(results, REPEATED[0])
    for topology in ("tree", *CLUSTERS):
        borne = curve(usual, topology, "bears_per_s")
        found += [
            at_least(
                "003 graph 1",
                f"subscriptions borne, {topology}: the least that a broker brings",
                least_growth(borne),
                0,
            ),
            at_most(
                "003 graph 1",
                f"subscriptions borne, {topology}: two brokers over one, not doubled",
                borne[2] / borne[1],
                2,
                "times",
            ),
        ]
    for repeated in REPEATED:
        cells = asked(results, repeated)
        tree = curve(cells, "tree", "bears_per_s")
        found += [
            at_least(
                "003 graph 1",
                f"subscriptions borne, {topology} over tree, {repeated:g} a topic and broker",
                least_ratio(curve(cells, topology, "bears_per_s"), tree),
                1,
                "times",
            )
            for topology in CLUSTERS
        ]
    return found


def _publications(results: Results) -> list[Claim]:
    shared = nearest_spread(results)
    cells = published(results, shared)
    where = f"{100 * shared:g} % of the topics shared"
    tree = curve(cells, "tree", "bears_per_s")
    found = []
    for topology in ("tree", *CLUSTERS):
        borne = curve(cells, topology, "bears_per_s")
        found += [
            *(
                at_least(
                    "003 graph 2",
                    f"publications borne, {topology}, {where}, {listeners} listeners: what a broker brings",
                    _grown(results, topology, shared, listeners),
                    # Three machines bear at most thrice what one does: 75 % a broker.
                    60,
                    paper=PAPER_GROWTH,
                )
                for listeners in (FEW, MANY)
            ),
            at_least(
                "003 graph 2",
                f"publications borne, {topology}, {where}: the least that one of five brings",
                least_growth(borne),
                0,
            ),
        ]
        if topology != "tree":
            found.append(
                at_least(
                    "003 graph 2",
                    f"publications borne, tree over {topology}, {where}",
                    least_ratio(tree, borne),
                    1,
                    "times",
                )
            )
    return found


def _times(results: Results) -> list[Claim]:
    subscribed = asked(results, REPEATED[0])
    answers = [
        value for topology in SHAPES for value in curve(subscribed, topology, "answer_ms").values()
    ]
    effect = {topology: curve(subscribed, topology, "effect_ms") for topology in SHAPES}
    cells = published(results, nearest_spread(results))
    took = {topology: curve(cells, topology, "delivered_ms") for topology in SHAPES}
    three = PAPER_BROKERS[-1]
    return [
        at_most(
            "003 graph 3",
            "an answer, the longest over the shortest of all topologies and numbers of brokers",
            spread_of(answers),
            10,
            paper=89,
        ),
        at_least(
            "003 graph 4",
            "until a subscription is in effect, tree: three brokers over two",
            effect["tree"][three] / effect["tree"][2],
            1,
            "times",
        ),
        at_least(
            "003 graph 4",
            "until a subscription is in effect, three brokers: ladder (three levels) over tree (two)",
            effect["ladder"][three] / effect["tree"][three],
            1,
            "times",
        ),
        at_most(
            "003 graph 4",
            "until a subscription is in effect, three brokers: cluster over tree, the same links",
            effect["cluster"][three] / effect["tree"][three],
            1,
            "times",
        ),
        *(
            at_least(
                "003 graph 5",
                f"until a publication is delivered, {topology}: three brokers over one",
                took[topology][three] / took[topology][1],
                1,
                "times",
            )
            for topology in SHAPES
        ),
        *(
            at_most(
                "003 graph 5",
                f"until a publication is delivered, three brokers: {topology} over tree",
                took[topology][three] / took["tree"][three],
                1,
                "times",
            )
            for topology in CLUSTERS
        ),
    ]


def findings(results: Results) -> list[str]:
    """Which spread of topics gives the paper's growth, and what becomes of it otherwise."""
    found = []
    for topology in SHAPES:
        by_spread = ", ".join(
            f"{_grown(results, topology, s):.0f} % at {100 * s:g} %" for s in SHARED
        )
        share = spread_giving(results, topology, PAPER_GROWTH)
        words = f"at {100 * share:.1f} %" if not isnan(share) else "at none of these"
        found.append(
            f"What a broker brings of publications, up to three, {topology}, by the share of topics that are"
            f" wanted at every broker: {by_spread}. The paper's {PAPER_GROWTH:g} % are reached {words};"
            " brokers that had nothing to do with each other would have 75 %. With"
            f" {MANY} listeners a topic and broker in place of {FEW}, at"
            f" {100 * MANY_SHARED[1]:g} %: {_grown(results, topology, MANY_SHARED[1], MANY):.0f} %."
        )
    everywhere = curve(published(results, 1.0), "tree", "bears_per_s")
    found.append(
        f"Where everybody wants everything, five brokers bear {everywhere[5] / everywhere[1]:.2f} times the"
        " publications of one: each has to handle them all. They deliver each five times as often."
    )
    return found


def charts(results: Results) -> list[Chart]:
    """The five graphs, and the first two by what the paper does not say."""
    cells = published(results, nearest_spread(results))
    subscribed = asked(results, REPEATED[0])
    return [
        _chart(
            "003 graph 1", "subscriptions that are borne", "a second", subscribed, "bears_per_s"
        ),
        *(
            _chart(
                "003 graph 1",
                f"subscriptions that are borne, {repeated:g} a topic and broker",
                "a second",
                asked(results, repeated),
                "bears_per_s",
            )
            for repeated in REPEATED[1:]
        ),
        *(
            _chart(
                "003 graph 2",
                f"publications that are borne, {100 * shared:g} % of the topics shared",
                "a second",
                published(results, shared),
                "bears_per_s",
            )
            for shared in SHARED
        ),
        Chart(
            id="003 graph 2",
            title="what a broker brings, by the share of topics that are wanted everywhere",
            x="topics that are shared, %",
            y="% a broker, up to three",
            series=tuple(_growths(results, topology) for topology in SHAPES),
            note="The paper: 70.",
        ),
        _chart("003 graph 3", "answer to a subscriber", "ms", subscribed, "answer_ms"),
        _chart("003 graph 4", "until a subscription is in effect", "ms", subscribed, "effect_ms"),
        _chart("003 graph 5", "until a publication is delivered", "ms", cells, "delivered_ms"),
    ]


def _grown(results: Results, topology: str, shared: float, listeners: int = FEW) -> float:
    """What a broker brings of publications, of three."""
    cells = published(results, shared, listeners)
    return growth(curve(cells, topology, "bears_per_s"), PAPER_BROKERS)


def _growths(results: Results, topology: str) -> Series:
    points = ((100 * shared, _grown(results, topology, shared)) for shared in SHARED)
    return Series(topology, tuple((x, y) for x, y in points if not isnan(y)))


def _chart(id_: str, title: str, y: str, cells: Results, figure: str) -> Chart:
    lines = []
    for topology in SHAPES:
        points = curve(cells, topology, figure).items()
        lines.append(Series(topology, tuple((float(n), v) for n, v in points if not isnan(v))))
    return Chart(id=id_, title=title, x="brokers", y=y, series=tuple(lines))


TOPOLOGIES = Experiment(
    name="topologies",
    what="tree and cluster from one broker to five: what they bear, and how long it takes (003 graphs 1-5)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
