"""`balancing-micro`: one thing at a time is varied (001 section 5.3, figures 5.23 to 5.57).

Six studies of one cluster and three of several. The thesis does not give the values that it varies over:
those here are around the ones that its text names. Where the number of subscribers varies they come at four
a second, as section 5.3.1.1 says (in all other runs it is two).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isnan, nan
from typing import NamedTuple

from roost.experiments.balancing.common import TASK, cluster_line
from roost.experiments.frame import (
    Claim,
    Experiment,
    Grid,
    Results,
    Scale,
    at_least,
    at_most,
    most,
)
from roost.pictures.charts import Chart, Series
from roost.pipeline.sweeps.tasks import Value

JOINING_PER_S = 4.0
HOPS_SERVED = 3
# A mean over seeds is a mean over chance: of two that should not differ the first may be this share higher.
CHANCE = 0.05


class Study(NamedTuple):
    """What is varied, and what is drawn of it."""

    axis: str  # in words
    cells: Mapping[float, Mapping[str, Value]]  # by the value on the axis: what is different there
    charts: Mapping[str, tuple[str, str]]  # figure of a run -> figure of the thesis, title


def _settings(*names: str) -> Mapping[str, str]:
    """A text for the module's settings in which X stands for the value."""
    return {"settings": ",".join(f"{name}=X" for name in names)}


def _varied(values: Sequence[float], said: Mapping[str, str]) -> dict[float, dict[str, Value]]:
    return {
        value: {key: text.replace("X", f"{value:g}") for key, text in said.items()}
        for value in values
    }


EVERY_S = 250.0
CHAIN: Mapping[str, Value] = {"shape": "chain", "machines": "equal", "every_s": EVERY_S}
# So that there is time for three times as many.
LONGER: Mapping[str, Value] = {"change_at_s": 6_000.0, "until_s": 6_500.0}
STUDIES = {
    "subscribers": Study(  # section 5.3.1.1
        "times 2,000 subscribers",
        {
            float(times): {"times": times, "joining_per_s": JOINING_PER_S, **LONGER}
            for times in (1, 2, 3)
        },
        {
            "converged_s": ("001 fig 5.23", "Convergence (s)"),
            "matching_delay_s_deviation": ("001 fig 5.24", "Deviation of the matching delay (s)"),
            "input_utilisation_deviation": ("001 fig 5.25", "Deviation of the input ratio"),
            "output_utilisation_deviation": ("001 fig 5.25", "Deviation of the output ratio"),
            "input_error": ("001 fig 5.26", "Error of input estimates (%)"),
            "output_error": ("001 fig 5.27", "Error of output estimates (%)"),
        },
    ),
    "zero_traffic": Study(  # section 5.3.1.2
        "share without traffic",
        {share: {"zero_traffic": share} for share in (0.0, 0.2, 0.4, 0.6, 0.8)},
        {
            "input_utilisation_deviation": ("001 fig 5.28", "Deviation of the input ratio"),
            "output_utilisation_deviation": ("001 fig 5.28", "Deviation of the output ratio"),
            "matching_delay_s_deviation": ("001 fig 5.29", "Deviation of the matching delay (s)"),
            "converged_s": ("001 fig 5.30", "Convergence (s)"),
        },
    ),
    "edges": Study(  # section 5.3.1.3
        "edge-brokers",
        {float(n): {"edges": n} for n in (2, 3, 4, 5, 6)},
        {
            "delivery_delay_s": ("001 fig 5.31", "Delivery delay (s)"),
            "input_utilisation_deviation": ("001 fig 5.32", "Deviation of the input ratio"),
            "output_utilisation_deviation": ("001 fig 5.32", "Deviation of the output ratio"),
            "matching_delay_s_deviation": ("001 fig 5.33", "Deviation of the matching delay (s)"),
            "converged_s": ("001 fig 5.34", "Convergence (s)"),
        },
    ),
    "samples": Study(  # section 5.3.1.4
        "samples in PRESS",
        _varied((1, 5, 10, 20, 50, 100, 200), _settings("press_samples")),
        {
            "input_error_size": ("001 fig 5.35", "Size of the error of input estimates (%)"),
            "output_error_size": ("001 fig 5.36", "Size of the error of output estimates (%)"),
            "converged_s": ("001 fig 5.37", "Convergence (s)"),
            "peak_input": ("001 fig 5.38", "B1's highest input ratio"),
            "relieved_s": ("001 fig 5.39", "B1 is not overloaded any more (s)"),
        },
    ),
    "threshold": Study(  # section 5.3.1.5
        "local detection threshold",
        _varied(
            (0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.7),
            # Those of clusters may not be below it, and there is one cluster.
            {
                "settings": "local_ratio_threshold=X,local_delay_threshold=X,"
                "global_ratio_threshold=1,global_delay_threshold=1"
            },
        ),
        {
            "input_utilisation_deviation": ("001 fig 5.40", "Deviation of the input ratio"),
            "output_utilisation_deviation": ("001 fig 5.40", "Deviation of the output ratio"),
            "matching_delay_s_deviation": ("001 fig 5.41", "Deviation of the matching delay (s)"),
            "sessions": ("001 fig 5.42", "Sessions"),
            "overhead": ("001 fig 5.43", "Overhead (%)"),
        },
    ),
    "local_period": Study(  # section 5.3.1.6
        "local PIE period (s)",
        _varied((20, 30, 60, 120, 180, 240), _settings("local_pie_period_s")),
        {
            "converged_s": ("001 fig 5.44", "Convergence (s)"),
            "peak_input": ("001 fig 5.45", "B1's highest input ratio"),
            "overhead": ("001 fig 5.46", "Overhead (%)"),
        },
    ),
    "clusters": Study(  # section 5.3.2.1
        "clusters in a chain",
        {float(n): {"clusters": n, **CHAIN} for n in (2, 3, 4, 6, 8)},
        {
            "delivery_delay_s": ("001 fig 5.47", "Delivery delay (s)"),
            "clusters_converged_s": ("001 fig 5.48", "Convergence (s)"),
        },
    ),
    "global_threshold": Study(  # section 5.3.2.2
        "global detection threshold",
        _varied(
            (0.1, 0.15, 0.2, 0.3, 0.5),
            _settings("global_ratio_threshold", "global_delay_threshold"),
        ),
        {
            "clusters_input_utilisation_deviation": (
                "001 fig 5.53",
                "Deviation of clusters' input ratios",
            ),
            "clusters_output_utilisation_deviation": (
                "001 fig 5.53",
                "Deviation of clusters' output ratios",
            ),
            "clusters_matching_delay_s_deviation": (
                "001 fig 5.54",
                "Deviation of clusters' matching delays (s)",
            ),
            "sessions": ("001 fig 5.55", "Sessions"),
        },
    ),
    "global_period": Study(  # section 5.3.2.3
        "global PIE period (s)",
        _varied((30, 60, 120, 240), _settings("global_pie_period_s")),
        {
            "overhead": ("001 fig 5.56", "Overhead (%)"),
            "clusters_converged_s": ("001 fig 5.57", "Convergence (s)"),
        },
    ),
}
OF_CLUSTERS = ("clusters", "global_threshold", "global_period")
# What a scale may say, and is the same in all cells of a study then.
OF_SCALE = ("subscribers", "change_at_s", "until_s")
# Whatever is not varied.
USUAL: Mapping[str, Value] = {
    "profile": "thesis",
    "workload": "local",
    "subscribers": 2_000,
    "zero_traffic": 0.25,
    "times": 1,
    "joining_per_s": 2.0,
    "edges": 0,
    "settings": "",
    "change_at_s": 3_000.0,
    "until_s": 5_000.0,
}
OF_GLOBAL: Mapping[str, Value] = {
    "workload": "global",
    "zero_traffic": 0.2,
    "clusters": 4,
    "shape": "star",
    "machines": "micro",
    # Nothing changes: what is looked at is how they converge, and that they rest then.
    "change_at_s": 6_000.0,
    "until_s": 6_000.0,
}
# Of the longest chain, over time.
OVER_TIME = {
    "input_utilisation": ("001 fig 5.49", "Input ratio of each cluster", "ratio"),
    "output_utilisation": ("001 fig 5.50", "Output ratio of each cluster", "ratio"),
    "matching_delay_s": ("001 fig 5.51", "Matching delay of each cluster", "s"),
    "subscriptions": ("001 fig 5.52", "Subscriptions of an edge-broker", "subscriptions"),
}


def cell(study: str, value: float) -> dict[str, Value]:
    """The parameters of the cells of a value. All are said, so that they can be asked for."""
    usual = {**USUAL, **OF_GLOBAL} if study in OF_CLUSTERS else USUAL
    return {**usual, **STUDIES[study].cells[value]}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    return [
        {name: [found] for name, found in {**cell(study, value), **scale.settings}.items()}
        for study, varied in STUDIES.items()
        for value in varied.cells
    ]


def _of(results: Results, study: str, value: float) -> Results:
    wanted = {name: v for name, v in cell(study, value).items() if name not in OF_SCALE}
    return results.where(**wanted)


def means(results: Results, study: str, figure: str) -> dict[float, float]:
    """Of a figure, by the value on the axis."""
    return {value: _of(results, study, value).mean(figure) for value in STUDIES[study].cells}


# --- what is claimed --------------------------------------------------------------------------------


def claims(results: Results) -> list[Claim]:
    """What the thesis says of its figures."""
    return [
        *_of_subscribers(results),
        *_of_balance(results),
        *_of_samples(results),
        *_of_thresholds(results),
        *_of_periods(results),
        *_of_clusters(results),
    ]


def _of_subscribers(results: Results) -> Iterator[Claim]:
    took = means(results, "subscribers", "converged_s")
    counts = sorted(took)
    for fewer, more in pairwise(counts):
        yield at_most(
            "001 fig 5.23",
            f"later with {more * 2_000:,.0f} subscribers than with {fewer * 2_000:,.0f}",
            took[more] - took[fewer],
            1_000,
            "s",
            1_000,
        )


def _of_balance(results: Results) -> Iterator[Claim]:
    for figure in ("input_utilisation", "output_utilisation"):
        found = means(results, "zero_traffic", f"{figure}_deviation")
        yield at_most(
            "001 fig 5.28",
            f"deviation of {figure.replace('_', ' ')}s, at any share without traffic",
            most(found.values()),
            0.1,
            "",
        )
    delays = means(results, "edges", "delivery_delay_s")
    counts = sorted(delays)
    for fewer, more in pairwise(counts):
        yield at_most(
            "001 fig 5.31",
            f"delay with {more:.0f} edge-brokers over that with {fewer:.0f}",
            delays[more] / delays[fewer] if delays[fewer] else nan,
            1.0,
            "",
        )


def _of_samples(results: Results) -> Iterator[Claim]:
    for id_, figure in (("001 fig 5.35", "input"), ("001 fig 5.36", "output")):
        errors = means(results, "samples", f"{figure}_error_size")
        best = [error for samples, error in errors.items() if 10 <= samples <= 50]
        others = [error for samples, error in errors.items() if not 10 <= samples <= 50]
        ok = not any(map(isnan, (*best, *others)))
        yield at_most(
            id_,
            f"error of {figure} estimates, the best of 10 to 50 samples over the best of others",
            min(best) / min(others) if ok and best and others and min(others) else nan,
            1.0,
            "",
        )


def _of_thresholds(results: Results) -> Iterator[Claim]:
    sessions = means(results, "threshold", "sessions")
    yield at_most(
        "001 fig 5.42",
        "sessions at thresholds of 0.08 and more",
        most(count for threshold, count in sessions.items() if threshold >= 0.08),
        40,
        "",
        40,
    )
    late = _of(results, "threshold", 0.04).mean("sessions_late")
    yield at_least("001 fig 5.42", "at 0.04 it never rests: sessions at the end", late, 6, "")


def _of_periods(results: Results) -> Iterator[Claim]:
    overhead = means(results, "local_period", "overhead")
    for period, bound in ((20.0, 0.6), (120.0, 0.1)):
        what = f"overhead at a local PIE period of {period:.0f} s"
        yield at_most("001 fig 5.46", what, overhead[period], bound, paper=bound)
    of_global = means(results, "global_period", "overhead")
    yield at_most(
        "001 fig 5.56",
        "overhead at a global PIE period of 30 s over that at 240 s",
        of_global[30.0] / of_global[240.0] if of_global[240.0] else nan,
        1.0 + CHANCE,
        "",
        1.0,
    )


def _of_clusters(results: Results) -> Iterator[Claim]:
    most_ = max(STUDIES["clusters"].cells)
    own = _of(results, "clusters", most_)
    beyond = [f"B{10 * (n + 1)}" for n in range(HOPS_SERVED + 1, int(most_))]
    served = [own.mean(f"subscribers_{head[:-1]}{n}") for head in beyond for n in (1, 2)]
    yield at_most(
        "001 fig 5.52",
        "subscribers at a broker of clusters beyond three hops, at most",
        most(served),
        0,
        "",
        0,
    )


# --- what is drawn ----------------------------------------------------------------------------------


def charts(results: Results) -> list[Chart]:
    """Each figure of each study, over what is varied."""
    return [
        Chart(
            id=id_,
            title=f"{title.partition(' (')[0]} over {study.axis.partition(' (')[0]}",
            x=study.axis,
            y=title,
            series=(
                Series(
                    "thesis",
                    tuple((x, y) for x, y in means(results, name, figure).items() if not isnan(y)),
                ),
            ),
        )
        for name, study in STUDIES.items()
        for figure, (id_, title) in study.charts.items()
    ] + _over_time(results)


def _over_time(results: Results) -> list[Chart]:
    """The clusters of the longest chain."""
    most_ = max(STUDIES["clusters"].cells)
    own = _of(results, "clusters", most_)
    heads = [f"B{10 * (n + 1)}" for n in range(int(most_))]
    return [
        Chart(
            id=id_,
            title=title,
            x="time (s)",
            y=unit,
            series=tuple(cluster_line(own, name, head) for head in heads),
        )
        for name, (id_, title, unit) in OVER_TIME.items()
    ]


MICRO = Experiment(
    name="balancing-micro",
    what="Load balancing of 001, one thing varied at a time: nine studies",
    task=TASK,
    scales={
        "small": Scale(
            "small",
            1,
            {
                "publishers": 10,
                "subscribers": 200,
                "change_at_s": 1_300.0,
                "until_s": 2_200.0,
            },
            "10 publishers, 200 subscribers, 2,200 s: to see that it runs",
        ),
        "paper": Scale("paper", 3, {}, "40 publishers, 2,000 subscribers, 5,000 s and more"),
    },
    grids=grids,
    claims=claims,
    charts=charts,
)
