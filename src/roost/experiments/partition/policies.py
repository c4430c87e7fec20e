"""`partition-policies`: how much of the best division each forwarding policy reaches (004 figures 7, 8).

The machines in the simulator, two dispatchers, at shares of what the best division would bear: a policy
bears a share if the events that are held do not keep growing. And the paper's way to deliver, by matchers
directly, beside ours, which holds events until those before them have been answered for: what order costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most
from roost.experiments.partition.borne import borne
from roost.experiments.partition.scale import TASK
from roost.partition.direct import DIRECT, ORDERED
from roost.pictures.charts import Chart, Series

SHARES: Mapping[str, tuple[float, ...]] = {
    "drift": (0.7, 0.8, 0.9, 0.95),
    "counting": (0.5, 0.6, 0.7, 0.8),
    "adaptive": (0.3, 0.4, 0.5, 0.6, 0.8),
    "response": (0.3, 0.4, 0.5, 0.6, 0.8),
    "amount": (0.5, 0.6, 0.7, 0.8),
    "random": (0.15, 0.2, 0.25, 0.3, 0.35),
}
DIRECT_SHARES = (0.7, 0.9)
SCALES = {
    "small": Scale(
        "small",
        1,
        {"matchers": 5, "subscriptions": 400, "best_per_s": 150, "lasts_s": 15},
        "5 matchers, 400 subscriptions, 15 s a run",
    ),
    "paper": Scale(
        "paper",
        3,
        {"matchers": 20, "subscriptions": 2_000, "best_per_s": 300, "lasts_s": 30},
        "the paper's 20 matchers, 2,000 subscriptions, 30 s a run",
    ),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    usual: dict[str, list[bool | int | float | str]] = {
        "what": ["simulated"],
        **{name: [value] for name, value in scale.settings.items()},
    }
    cells: list[Grid] = [
        {**usual, "delivery": [ORDERED], "policy": [policy], "share": shares}
        for policy, shares in SHARES.items()
    ]
    return [
        *cells,
        {**usual, "delivery": [DIRECT], "policy": ["drift"], "share": list(DIRECT_SHARES)},
    ]


def reached(results: Results, policy: str) -> float:
    """The share of the best division that a policy bears."""
    return borne(results.where(policy=policy, delivery=ORDERED), SHARES[policy])


def delay_ms(results: Results, delivery: str, share: float) -> float:
    """From publisher to subscribers."""
    return results.where(policy="drift", delivery=delivery, share=share).mean("delay_ms")


def claims(results: Results) -> list[Claim]:
    """What the paper says of its adaptive policy, of ours."""
    drift = reached(results, "drift")
    others = {policy: reached(results, policy) for policy in SHARES}
    at_most_loaded = results.where(policy="drift", delivery=ORDERED, share=0.9)
    return [
        at_least("004 fig 7", "drift, of the best that any policy could", 100 * drift, 90),
        at_least("004 fig 7", "over response time", drift / others["response"], 1.1, "times", 1.1),
        at_least("004 fig 7", "over amount", drift / others["amount"], 1.2, "times", 1.2),
        at_least("004 fig 7", "over random", drift / others["random"], 3.5, "times", 3.5),
        at_most(
            "004 fig 8",
            "normalised deviation of load at 90 % of the best",
            at_most_loaded.mean("load_deviation"),
            0.14,
            "",
            0.14,
        ),
        *(
            at_most(
                "004 section II.B",
                f"response time if matchers deliver directly, of that in order, at {share:g} of the best",
                delay_ms(results, DIRECT, share) / delay_ms(results, ORDERED, share),
                1.0,
                "times",
            )
            for share in DIRECT_SHARES
        ),
    ]


def findings(results: Results) -> list[str]:
    """What each bears."""
    words = ", ".join(f"{policy} {reached(results, policy):.2f}" for policy in SHARES)
    return [
        f"Of what the best division would bear: {words}. The paper's formula (adaptive) has the"
        " arrivals of the past, and oscillates between reports; drift counts what it has sent itself.",
        "From publisher to subscribers, in order and directly: "
        + ", ".join(
            f"{delay_ms(results, ORDERED, share):.0f} and {delay_ms(results, DIRECT, share):.0f} ms"
            f" at {share:g} of the best"
            for share in DIRECT_SHARES
        )
        + f"; directly {results.where(delivery=DIRECT).mean('overtaken_share'):.0%} of the deliveries"
        " were behind a later event of their publisher.",
    ]


def charts(results: Results) -> list[Chart]:
    """Events held, by share."""
    lines = []
    for policy, shares in SHARES.items():
        own = results.where(policy=policy, delivery=ORDERED)
        means = [(share, own.where(share=share).mean("held")) for share in shares]
        lines.append(Series(policy, tuple((x, y) for x, y in means if not isnan(y))))
    return [
        Chart(
            id="004 fig 7",
            title="events held at the end, by the share of the best division",
            x="share of the best",
            y="events",
            series=tuple(lines),
        )
    ]


POLICIES = Experiment(
    name="partition-policies",
    what="how much of the best division each forwarding policy reaches (004 figures 7 and 8)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
