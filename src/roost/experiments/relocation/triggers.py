"""`relocation-triggers`: how many publications are traced before a decision (000 section 5.2, figures 6d-6h).

G_threshold of GRAPE and P_threshold of POP, with subscribers on 16 brokers. POP traces up to half of its
threshold in a window of a minute, so that a higher one makes it trace more.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most
from roost.experiments.relocation.common import SCALES, TASK, grid, name_of
from roost.experiments.relocation.setup import BASELINE, POP
from roost.pictures.charts import Chart, Series

THRESHOLDS = (10, 25, 50, 100, 200)
SPREAD = 16
EVERY_S = 30.0
GRAPE = ("delay100", "load100")


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    spread = min(SPREAD, int(scale.settings["brokers"]))
    usual = grid(scale, spread=[spread], every_s=[EVERY_S])
    return [
        {**usual, "variant": [BASELINE]},
        {**usual, "variant": [*GRAPE, POP], "threshold": THRESHOLDS},
    ]


def response_s(own: Results, base: Results, figure: str) -> float:
    """When a figure had first come half of the way from the baseline's to its own at the end."""
    start, end = base.mean(figure), own.mean(figure)
    for x, y in own.line("", f"{figure}_at_").points:
        if y <= (start + end) / 2 and x > EVERY_S:
            return x
    return nan


def claims(results: Results) -> list[Claim]:
    """What the paper says of the thresholds."""
    base = results.where(variant=BASELINE)
    first, last = THRESHOLDS[0], THRESHOLDS[-1]
    found = []
    for variant in (*GRAPE, POP):
        own = results.where(variant=variant)
        low, high = own.where(threshold=first), own.where(threshold=last)
        sign = "P" if variant == POP else "G"
        found.append(
            at_least(
                "000 fig 6e",
                f"{name_of(variant)} responds so much later at {sign}_threshold {last} than at {first}",
                response_s(high, base, "hops") - response_s(low, base, "hops"),
                EVERY_S,
                "s",
            )
        )
        overheads = [own.where(threshold=t).mean("overhead") for t in THRESHOLDS]
        if variant == POP:
            found += [
                at_least(
                    "000 fig 6h",
                    f"overhead of POP at P_threshold {last} over that at {first}",
                    overheads[-1] / overheads[0],
                    1,
                    "times",
                ),
                at_most(
                    "000 section 3",
                    "overhead of POP, the most of all",
                    max(overheads),
                    57,
                    paper=57,
                ),
            ]
        else:
            found += [
                at_least(
                    "000 fig 6g",
                    f"overhead of {name_of(variant)} at G_threshold {first} over that at {last}",
                    overheads[0] / overheads[-1],
                    1,
                    "times",
                ),
                at_most(
                    "000 section 4",
                    f"overhead of {name_of(variant)}, the most of all",
                    max(overheads),
                    46,
                    paper=46,
                ),
            ]
    return found


def findings(results: Results) -> list[str]:
    """What the paper finds at the extreme setting of 10."""
    base = results.where(variant=BASELINE).mean("message_rate")
    found = []
    for variant in GRAPE:
        own = results.where(variant=variant)
        hops = {t: own.where(threshold=t).mean("hops") for t in THRESHOLDS}
        rate = own.where(threshold=THRESHOLDS[0]).mean("message_rate")
        found.append(
            f"At the extreme setting of {THRESHOLDS[0]} the paper finds the message rate above the"
            f" baseline's and the most hops at the end. {name_of(variant)} here: {rate:.3g}"
            f" messages/s and broker against {base:.3g}; hops "
            + ", ".join(f"{value:.2f} at {t}" for t, value in hops.items())
            + "."
        )
    return found


def charts(results: Results) -> list[Chart]:
    """Figures 6d to 6h."""
    base = results.where(variant=BASELINE)
    found = []
    graphs = (
        ("6d", "delivery delay", "ms", "delay_ms"),
        ("6e", "hop count", "hops", "hops"),
        ("6f", "broker message rate", "messages/s and broker", "message_rate"),
        ("6g", "message overhead", "% of messages", "overhead"),
    )
    for variant in (*GRAPE, POP):
        own = results.where(variant=variant)
        for figure, what, unit, name in graphs if variant != POP else graphs[3:]:
            lines = [
                base.line("baseline", f"{name}_at_"),
                *(own.where(threshold=t).line(f"threshold {t}", f"{name}_at_") for t in THRESHOLDS),
            ]
            found.append(
                Chart(
                    id=f"000 fig {'6h' if variant == POP else figure}",
                    title=f"{name_of(variant)}: {what}",
                    x="time, s",
                    y=unit,
                    series=tuple(lines),
                    note=f"X = {SPREAD}, in periods of {EVERY_S:g} s.",
                )
            )
    return [*found, _by_threshold(results)]


def _by_threshold(results: Results) -> Chart:
    """Overhead of the whole run."""
    lines = []
    for variant in (*GRAPE, POP):
        own = results.where(variant=variant)
        points = ((float(t), own.where(threshold=t).mean("overhead")) for t in THRESHOLDS)
        lines.append(Series(name_of(variant), tuple(points)))
    return Chart(
        id="000 fig 6g, 6h",
        title="Message overhead of the whole run",
        x="threshold, publications",
        y="% of messages",
        series=tuple(lines),
        doubling=True,
    )


TRIGGERED = Experiment(
    name="relocation-triggers",
    what="POP and GRAPE by the number of publications traced before a decision (000 fig 6d-6h)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
