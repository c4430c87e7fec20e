"""`overlay-reference`: the reference experiments of 002 (figure 4), its algorithm, OCBR and Roost's own.

500 brokers with a component each, all of them subscribers, a fifth publishers of 150 messages (table 1); by
topic with T = 0, by content with T = -10; from a scale-free tree and from a spiral. OCBR has both readings
of its drop rule. Roost's own runs without a limit to the degree, and with one of half and of a quarter of
the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_most
from roost.experiments.overlay.common import (
    CONTENT,
    MESSAGES,
    NAMES,
    PRICE,
    REWIRINGS,
    ROUNDS,
    SCALE_FREE,
    SCALES,
    SPIRAL,
    TASK,
    THRESHOLDS,
    TOPIC,
    curve,
    grid,
    limits_of,
    ratio,
    spread,
)
from roost.experiments.overlay.film import films
from roost.pictures.charts import Chart

LARGE = 5_000
# By topic, at the round where 002 stops: its rewirings by OCBR's, and its traffic at as many rewirings.
REWIRINGS_MOST = {SCALE_FREE: 0.5, SPIRAL: 0.65}
TRAFFIC_AT_EQUAL_MOST = {SCALE_FREE: 0.92, SPIRAL: 0.87}
STARTS = (SCALE_FREE, SPIRAL)
ABOVE_MOST = 2.0  # %, at 500 brokers


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    cells: list[Grid] = []
    for matching, threshold in THRESHOLDS.items():
        usual = {"matching": [matching], "start": STARTS}
        ends = [0 if matching == TOPIC else ROUNDS]
        cells += [
            grid(scale, variant=["paper"], threshold=[threshold], rounds=ends, **usual),
            grid(scale, variant=["ocbr"], threshold=[threshold], rounds=[ROUNDS], **usual),
            grid(scale, variant=["gated"], threshold=[threshold], **usual),
            grid(
                scale,
                variant=["roost"],
                price=[PRICE],
                degree_max=(0, *limits_of(scale)),
                **usual,
            ),
        ]
    return [*cells, {"variant": ["optimum"]}, {"variant": ["large"], "brokers": [LARGE]}]


class _Part:
    """The results of one matching and start."""

    def __init__(self, results: Results, matching: str, start: str) -> None:
        own = results.where(matching=matching, start=start)
        self.paper, self.ocbr, self.gated = (
            own.where(variant=variant) for variant in ("paper", "ocbr", "gated")
        )
        roost = own.where(variant="roost")
        degrees = [int(degree) for degree in roost.parameter("degree_max")]
        self.roost = {degree: roost.where(degree_max=degree) for degree in degrees}

    @property
    def limited(self) -> Results:
        """Roost's own with the wider of both limits."""
        return self.roost[max(self.roost)] if self.roost else Results(())


def claims(results: Results) -> list[Claim]:
    """What 002 says, and what Roost's own is to reach."""
    return [
        *_by_topic(results),
        *_by_content(results),
        *_of_roost(results),
        *_of_seeds(results),
        at_most(
            "Roost",
            "seven brokers: traffic above the best of all 16,807 trees, with noise",
            results.where(variant="optimum").mean("noisy_above_least"),
            3,
        ),
        at_most(
            "Roost",
            f"a training and reconfiguration round of {LARGE:,} brokers",
            results.where(variant="large").mean("round_s"),
            10,
            "s",
        ),
    ]


def _by_topic(results: Results) -> Iterator[Claim]:
    for start in STARTS:
        ocbr = _Part(results, TOPIC, start).ocbr
        yield at_most(
            "002 fig 4a",
            f"traffic of 002 by OCBR's when 002 stops, {start}",
            ocbr.mean("paper_traffic_at_stop"),
            1,
            "",
        )
        yield at_most(
            "002 fig 4a",
            f"rewirings of 002 by OCBR's when 002 stops, {start}",
            ocbr.mean("paper_rewirings_at_stop"),
            REWIRINGS_MOST[start],
            "",
        )
        yield at_most(
            "002 fig 4a",
            f"traffic of 002 by OCBR's after as many rewirings, {start}",
            ocbr.mean("paper_traffic_at_equal"),
            TRAFFIC_AT_EQUAL_MOST[start],
            "",
        )


def _by_content(results: Results) -> Iterator[Claim]:
    ocbr = _Part(results, CONTENT, SCALE_FREE).ocbr
    yield at_most(
        "002 fig 4b",
        f"traffic of 002 by OCBR's, T = -10, {ROUNDS} rounds",
        ocbr.mean("paper_traffic_at_stop"),
        1.01,
        "",
    )
    yield at_most(
        "002 fig 4b",
        f"rewirings of 002 by OCBR's, T = -10, {ROUNDS} rounds",
        ocbr.mean("paper_rewirings_at_stop"),
        0.7,
        "",
    )
    ends = [_Part(results, CONTENT, start).paper.mean("traffic") for start in STARTS]
    yield at_most(
        "002 fig 6c",
        "the ends from both starts apart, by content",
        100 * abs(ratio(ends[1], ends[0]) - 1),
        10,
    )


def _of_roost(results: Results) -> Iterator[Claim]:
    for matching in (TOPIC, CONTENT):
        for start in STARTS:
            part = _Part(results, matching, start)
            where = f"{matching}, {start}"
            for degree, own in part.roost.items():
                if degree in (0, max(part.roost)):
                    limit = f"at most {degree} neighbours" if degree else "no limit"
                    yield at_most(
                        "Roost",
                        f"traffic above the lower bound, {where}, {limit}",
                        own.mean("above_bound"),
                        _above_most(own),
                    )
            yield at_most(
                "Roost",
                f"rewirings by those of gated OCBR, {where}, no limit",
                ratio(
                    part.roost.get(0, Results(())).mean("rewirings"),
                    part.gated.mean("rewirings"),
                ),
                1,
                "",
            )


def _above_most(own: Results) -> float:
    """2 % at 500 brokers. A relay costs a message, whose share is less the more brokers want it."""
    return ABOVE_MOST * 500 / max(own.parameter("brokers"), default=500)


def _of_seeds(results: Results) -> Iterator[Claim]:
    for matching in (TOPIC, CONTENT):
        yield at_most(
            "002 section 6.2",
            f"least and greatest traffic of 002 over the seeds, from their middle, {matching}",
            spread(_Part(results, matching, SCALE_FREE).paper, "traffic"),
            10,
            paper=10,
        )


def findings(results: Results) -> list[str]:
    """Where each algorithm ends."""
    found = []
    for matching in (TOPIC, CONTENT):
        for start in STARTS:
            part = _Part(results, matching, start)
            rows = {
                NAMES["paper"]: part.paper,
                NAMES["ocbr"]: part.ocbr,
                NAMES["gated"]: part.gated,
            }
            rows |= {_called(degree): own for degree, own in part.roost.items()}
            found += [_end(f"{matching}, {start}, {name}", own) for name, own in rows.items()]
    small = results.where(variant="optimum")
    found.append(
        "Seven brokers, all 16,807 trees: above the best "
        + ", ".join(
            f"{name} {small.mean(f'{key}_above_least'):.2f} % (at it {small.mean(f'{key}_at_least'):.0f} %)"
            for key, name in (
                ("start", "a random tree"),
                *NAMES.items(),
                ("noisy", "Roost with noise"),
            )
        )
        + "."
    )
    return found


def _called(degree: int) -> str:
    return f"Roost, at most {degree} neighbours" if degree else "Roost, no limit"


def _end(what: str, own: Results) -> str:
    return (
        f"{what}: {own.mean('above_bound_start'):.1f} % above the bound at the start,"
        f" {own.mean('above_bound'):.2f} % after {own.mean('rewirings'):,.0f} rewirings in"
        f" {own.mean('rounds_done'):,.0f} rounds (traffic over the seeds"
        f" ±{spread(own, 'traffic'):.1f} %), greatest degree {own.mean('degree'):,.0f},"
        f" {own.mean('hops'):.2f} links a delivery."
    )


def charts(results: Results) -> list[Chart]:
    """Figure 4, from both starts."""
    found = []
    for letter, matching in (("a", TOPIC), ("b", CONTENT)):
        for start in STARTS:
            part = _Part(results, matching, start)
            lines = {
                NAMES["paper"]: part.paper,
                NAMES["ocbr"]: part.ocbr,
                NAMES["gated"]: part.gated,
            }
            lines |= {_called(degree): own for degree, own in part.roost.items()}
            found.append(
                Chart(
                    id=f"002 fig 4{letter}",
                    title=f"by {matching}, from a {start} start",
                    x=REWIRINGS,
                    y=MESSAGES,
                    series=tuple(curve(name, own) for name, own in lines.items()),
                )
            )
    return found


REFERENCE = Experiment(
    name="overlay-reference",
    what="002's algorithm, OCBR and Roost's own on the reference overlays of 002 (fig 4)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
    pages=films,
)
