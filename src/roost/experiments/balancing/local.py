"""`balancing-local`: one cluster, and all subscribers at its weakest edge-broker (001 section 5.2.1).

Edge-brokers have 1, 2, 4 and 10 times the capacity of the first, to which 2,000 subscribers come within
1,000 s. At 3,000 s half of the publishers double their rates. Next to the claims stand the thesis' course:
19 input sessions by 1,065 s, three of them without B1, and final subscribers of 120, 240, 490 and 1,220,
control subscriptions among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roost.experiments.balancing.common import (
    PROFILES,
    SHARES,
    TASK,
    below,
    compared_charts,
    is_near_zero,
    share,
    within,
)
from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most
from roost.pictures.charts import Chart, Series

EVERY_S = 100.0
# What each edge-broker should have at the end, by its capacity; off by a quarter at most.
FINAL = {"B1": 122.0, "B2": 245.0, "B3": 472.0, "B4": 1162.0}
OFF = 0.25
CONVERGED_S, RECONVERGED_S = 2_000.0, 400.0
DEVIATION_MAX, OVERHEAD_MAX, LATE_MAX = 0.04, 0.5, 6.0
INPUT_ERROR_MAX, OUTPUT_ERROR_MAX = 5.0, 10.0
ALWAYS = 100.0
CHARTED = {
    "input_utilisation": ("001 fig 5.3", "Input utilisation ratio", "ratio"),
    "input_queueing_delay_s": ("001 fig 5.6", "Input queueing delay", "s"),
    "output_utilisation": ("001 fig 5.7", "Output utilisation ratio", "ratio"),
    "output_queueing_delay_s": ("001 fig 5.8", "Output queueing delay", "s"),
    "matching_delay_s": ("001 fig 5.9", "Matching delay", "s"),
    "subscriptions": ("001 fig 5.11", "Subscriptions", "subscriptions"),
}
# One line a profile.
COMPARED = {
    "delivery_delay_s": ("001 fig 5.10", "Delivery delay", "s"),
    "input_utilisation_deviation": ("001 fig 5.12", "Deviation of input ratios", "ratio"),
    "output_utilisation_deviation": ("001 fig 5.12", "Deviation of output ratios", "ratio"),
    "matching_delay_s_deviation": ("001 fig 5.13", "Deviation of matching delays", "s"),
    "input_queueing_delay_s_deviation": (
        "001 fig 5.13",
        "Deviation of input queueing delays",
        "s",
    ),
    "overhead": ("001 fig 5.15", "Overhead", "%"),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    usual: Grid = {name: [value] for name, value in scale.settings.items()}
    return [{**usual, "workload": ["local"], "profile": PROFILES, "every_s": [EVERY_S]}]


def claims(results: Results) -> list[Claim]:
    """What the thesis shows, in so many of the seeds."""
    found = []
    for profile in PROFILES:
        own = results.where(profile=profile)
        found += _of_profile(own, profile, SHARES[profile])
    return found


def _of_profile(own: Results, profile: str, bound: float) -> list[Claim]:
    criteria = [
        ("001 fig 5.3", "within all thresholds by 2,000 s", below("converged_s", CONVERGED_S)),
        ("001 fig 5.3", "again 400 s after the change", below("reconverged_s", RECONVERGED_S)),
        (
            "001 fig 5.12",
            f"input ratios deviate by less than {DEVIATION_MAX:g}",
            below("input_utilisation_deviation", DEVIATION_MAX),
        ),
        (
            "001 fig 5.12",
            f"output ratios deviate by less than {DEVIATION_MAX:g}",
            below("output_utilisation_deviation", DEVIATION_MAX),
        ),
        ("001 fig 5.15", f"overhead under {OVERHEAD_MAX:g} %", below("overhead", OVERHEAD_MAX)),
        (
            "001 fig 5.14a",
            f"input estimates within {INPUT_ERROR_MAX:g} %",
            is_near_zero("input_error", INPUT_ERROR_MAX),
        ),
        (
            "001 fig 5.14b",
            f"output estimates within {OUTPUT_ERROR_MAX:g} %",
            is_near_zero("output_error", OUTPUT_ERROR_MAX),
        ),
        (
            "001 fig 5.15",
            f"at most {LATE_MAX:g} sessions at rest",
            below("sessions_late", LATE_MAX),
        ),
        *(
            ("001 fig 5.11", f"{broker} has {wanted:g} subscribers, within 25 %", is_final)
            for broker, wanted in FINAL.items()
            for is_final in [within(f"subscribers_{broker}", wanted, OFF)]
        ),
    ]
    found = [
        at_least(id_, f"{profile}: {what}, in a share of the seeds", share(own, is_so), bound)
        for id_, what, is_so in criteria
    ]
    found.append(
        at_most(
            "001 fig 5.15",
            f"{profile}: overhead, mean over the seeds",
            own.mean("overhead"),
            OVERHEAD_MAX,
            paper=0.25,
        )
    )
    if profile == "roost":
        found += [
            at_least(
                id_,
                f"{profile}: {what}, in a share of the seeds",
                share(own, below(figure, 0)),
                ALWAYS,
            )
            for id_, what, figure in (
                ("001 sec 3.3.2.1", "nobody goes back and forth at rest", "shuttled_late"),
                ("001 sec 4.2.3", "no session worsens its own index", "worsened"),
            )
        ]
    return found


def charts(results: Results) -> list[Chart]:
    """The indices over time, for each profile."""
    return [
        Chart(
            id=id_,
            title=f"{title}, {profile}",
            x="time (s)",
            y=unit,
            series=tuple(
                results.where(profile=profile).line(broker, f"{name}_{broker}_at_")
                for broker in FINAL
            ),
        )
        for profile in PROFILES
        for name, (id_, title, unit) in CHARTED.items()
    ] + [
        *compared_charts(results, COMPARED),
        _by_broker(results, "001 fig 5.11", "Subscribers at the end", "subscribers", FINAL),
        _by_broker(
            results, "001 fig 5.4", "Input sessions by 1,065 s, by who accepts", "sessions_to"
        ),
    ]


def _by_broker(
    results: Results, id_: str, title: str, figure: str, wanted: Mapping[str, float] | None = None
) -> Chart:
    """A figure of each edge-broker, the means over the seeds, next to what it should be."""

    def line(name: str, values: Iterable[float]) -> Series:
        return Series(name, tuple((float(i + 1), value) for i, value in enumerate(values)))

    of = {p: results.where(profile=p) for p in PROFILES}
    return Chart(
        id=id_,
        title=title,
        x="edge-broker",
        y=figure.partition("_")[0],
        series=(
            *([line("by capacity", wanted.values())] if wanted else []),
            *(
                line(profile, [own.mean(f"{figure}_{b}") for b in FINAL])
                for profile, own in of.items()
                if own.values(f"{figure}_{next(iter(FINAL))}")
            ),
        ),
    )


def findings(results: Results) -> list[str]:
    """How it came to that, next to the thesis' course."""
    found = []
    for profile in PROFILES:
        own = results.where(profile=profile)
        if own.done:
            found.append(
                f"{profile}: converged at {own.mean('converged_s'):.0f} s and again"
                f" {own.mean('reconverged_s'):.0f} s after the change (the thesis at 1,800 and 400 s);"
                f" {own.mean('sessions_input_early'):.1f} input sessions by 1,065 s (19), of which"
                f" {own.mean('sessions_input_others'):.1f} without B1 (3);"
                f" {own.mean('sessions'):.1f} sessions in all; B1's queue is empty at"
                f" {own.mean('queue_empty_s'):.0f} s (1,400). Estimates are off by"
                f" {own.mean('input_error'):.1f} % of the input ratio, with a standard deviation of"
                f" {own.mean('input_error_spread'):.1f} (3.3 and -1.6 %, 5.4 and 5.2), and by"
                f" {own.mean('output_error'):.1f} % of the output ratio,"
                f" {own.mean('output_error_spread'):.1f} (0.1 and 1.5 %, 0.3 and 1.9)."
                " Means over the seeds."
            )
    return found


LOCAL = Experiment(
    name="balancing-local",
    what="Local load balancing of 001: one cluster, all subscribers at its weakest edge-broker",
    task=TASK,
    scales={
        "small": Scale(
            "small",
            1,
            {
                "publishers": 20,
                "subscribers": 600,
                "joining_per_s": 0.6,
                "change_at_s": 1_600.0,
                "until_s": 2_600.0,
            },
            "20 publishers, 600 subscribers, 2,600 s: to see that it runs; shares are the thesis'"
            " at paper scale only",
        ),
        "paper": Scale("paper", 20, {}, "40 publishers, 2,000 subscribers, 5,000 s"),
    },
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
