"""The overlay benchmark: how long a round of training and reconfiguration takes, and how that grows.

In a round every broker counts, all pairs of its neighbours are compared, and what is worth it is rewired
(`overlay.rewiring.rounds`), from a scale-free tree with the workload of Di Nitto et al. by content. The first
round has every broker compare; later ones only those whose links have moved. The baseline is the obvious
way to know what a rewiring saves: carry it out, count the traffic of the whole tree, and take it back.
"""

from __future__ import annotations

from itertools import permutations
from random import Random

from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.timing import Say, elapsed_s, percentile, silent
from roost.experiments.overlay.organising import Terms, rule_of
from roost.experiments.overlay.workload import Load, load_of, tree_of
from roost.overlay.rewiring.flows import Flows, flows_of
from roost.overlay.rewiring.rounds import Organisation

SIZES = (100, 500, 1_000)
VARIANTS = ("paper", "ocbr", "roost")
ROUNDS = 10
# Recounting is tried with so many rewirings, of brokers with the most neighbours.
RECOUNTED = 20


def sizes_up_to(brokers: int) -> tuple[int, ...]:
    """The usual sizes that are smaller, and this one."""
    return (*(n for n in SIZES if n < brokers), brokers)


def run(sizes: tuple[int, ...], seed: int, say: Say = silent, rounds: int = ROUNDS) -> Result:
    """Measure overlays of these sizes."""
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    _measure(load_at(sizes[0], seed), sizes[0], seed, 1)  # which compiles
    for n in sizes:
        say(f"{n:,} brokers")
        load = load_at(n, seed)
        figures |= {f"{name}_at_{n}": x for name, x in _measure(load, n, seed, rounds).items()}
        ratios[f"recounting_over_savings_at_{n}"] = (
            figures[f"recounted_us_at_{n}"] / figures[f"compared_us_at_{n}"]
        )
    first, last = sizes[0], sizes[-1]
    for variant in VARIANTS:
        ratios[f"{variant}_round_a_broker_{last}_over_{first}"] = (
            figures[f"{variant}_first_s_at_{last}"] / last
        ) / (figures[f"{variant}_first_s_at_{first}"] / first)
    return {
        "bench": "overlay",
        "config": {
            "brokers": list(sizes),
            "rounds": rounds,
            "matching": "content",
            "start": "scale-free",
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": figures,
        "ratios": ratios,
    }


def load_at(brokers: int, seed: int) -> Load:
    """Table 1 of Di Nitto et al., by content."""
    return load_of(
        seed,
        matching="content",
        brokers=brokers,
        subscribers=1.0,
        publishers=0.2,
        publications=150,
    )


def _measure(load: Load, brokers: int, seed: int, rounds: int) -> dict[str, float]:
    topology, demand = tree_of("scale-free", brokers, seed), load.demand
    figures = {"counted_s": elapsed_s(lambda: flows_of(topology, demand))}
    for variant in VARIANTS:
        flows = flows_of(topology, demand)
        own = Organisation(flows, rule_of(variant, load, Terms()), Random(seed))
        took = [elapsed_s(own.round) for _ in range(rounds)]
        figures[f"{variant}_first_s"] = took[0]
        figures[f"{variant}_median_s"] = percentile(took, 50)
        figures[f"{variant}_longest_s"] = max(took)
    flows = flows_of(topology, demand)
    pairs = sum(len(near) * (len(near) - 1) for near in flows.near)
    compared = elapsed_s(lambda: [flows.sides(i).savings() for i in range(brokers)])
    figures["compared_us"] = compared / pairs * 1e6
    figures["recounted_us"] = _recounted_us(flows)
    return figures


def _recounted_us(flows: Flows) -> float:
    """A rewiring, the traffic of all links, and back."""
    middle = max(range(len(flows.near)), key=lambda i: len(flows.near[i]))
    pairs = list(permutations(flows.near[middle], 2))[:RECOUNTED]

    def recount() -> None:
        for mover, anchor in pairs:
            flows.rewire(middle, mover, anchor)
            flows.traffic()
            flows.rewire(anchor, mover, middle)

    return elapsed_s(recount) / len(pairs) * 1e6


def table(result: Result) -> Table:
    """The figures for people."""
    figures, ratios = result["results"], result["ratios"]
    sizes = result["config"]["brokers"]
    names = {"paper": "Di Nitto et al.", "ocbr": "OCBR", "roost": "Roost's own"}

    def row(label: str, name: str, form: str) -> list[str]:
        return [label, *(format(figures[f"{name}_at_{n}"], form) for n in sizes)]

    last = sizes[-1]
    return Table(
        key="overlay",
        title="Overlay: a round of training and reconfiguration",
        columns=["brokers", *(f"{n:,}" for n in sizes)],
        rows=[
            row("traffic of all links counted, s", "counted_s", ",.3f"),
            *(
                line
                for variant, who in names.items()
                for line in (
                    row(f"{who}: the first round, s", f"{variant}_first_s", ",.3f"),
                    row(
                        f"... the longest of {result['config']['rounds']}",
                        f"{variant}_longest_s",
                        ",.3f",
                    ),
                )
            ),
            row("a pair compared, us", "compared_us", ",.2f"),
            row("a pair by recounting all links, us", "recounted_us", ",.1f"),
        ],
        notes=[
            "By content, with the subscriptions and publications of Di Nitto et al.'s table 1, from a"
            " scale-free tree; all brokers on one core.",
            f"To recount takes {ratios[f'recounting_over_savings_at_{last}']:,.0f} times as long a pair at"
            f" {last:,} brokers.",
        ],
    )
