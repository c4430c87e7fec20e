"""The task of the experiments of 002: one overlay that organises itself, and the figures of its graphs.

    roost sweep roost.experiments.overlay.cell:CELL --set variant=paper,ocbr --set start=scale-free,spiral

Nothing is simulated message by message: traffic is that of `overlay.rewiring.flows`, which is the
simulator's. OCBR, not gated, has no end to compare at, so its cells run the paper's algorithm on the same
overlay as well, and say what OCBR had come to at the round where the paper's stopped, and at as many
rewirings.

Two variants measure something else: `optimum` holds small overlays against all trees that there are
(`optimum`), and `large` measures how long a round takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Literal

from roost.experiments.overlay.churn import Churn, Join
from roost.experiments.overlay.optimum import against_all_trees
from roost.experiments.overlay.organising import ROUNDS_MAX, Terms, Track, organised
from roost.experiments.overlay.workload import Load, Matching, Start, load_of, tree_of
from roost.optimising.goal import Goal
from roost.overlay.trees import Topology
from roost.pipeline.sweeps.tasks import Parameters, Row, Task
from roost.simulation.generators.parameters import parameters_of, read_values
from roost.simulation.generators.parts import Count, Positive, Share

# Where the graphs have points: every so many rewirings.
STEP = 50
# The paper's algorithm has come to its end by then, or never does (T < 0).
PAPER_ROUNDS = 200
PERCENT = 100.0
SHOWN = ("above_bound", "rewirings", "rounds_done", "degree", "hops")


def organises(
    seed: int,
    *,
    variant: Literal["paper", "ocbr", "gated", "roost", "optimum", "large"] = "paper",
    matching: Matching = "topic",
    start: Start = "scale-free",
    threshold: float = 0.0,
    load_weight: float = 100.0,
    degree_max: Count = 0,
    price: float = 0.0,
    noise: float = 0.0,
    rounds: Count = 0,
    churn: Churn = "none",
    churn_share: Share = 0.01,
    join: Join = "drawn",
    brokers: Positive = 500,
    subscribers: Share = 1.0,
    publishers: Share = 0.2,
    publications: Positive = 150,
) -> Row:
    """An overlay of 002's experiments that organises itself; a limit of 0 is none."""
    if variant == "optimum":
        return against_all_trees(seed)
    load = load_of(
        seed,
        matching=matching,
        brokers=brokers,
        subscribers=subscribers,
        publishers=publishers,
        publications=publications,
    )
    topology = tree_of(start, brokers, seed)
    if variant == "large":
        return _timed(topology, load, seed)
    terms = Terms(threshold, Goal("load", load_weight), price, degree_max or None, noise)
    many = rounds or ROUNDS_MAX
    track = organised(
        topology,
        load,
        variant,
        seed,
        terms,
        rounds=many,
        churn=churn,
        churn_share=churn_share,
        join=join,
    )
    found = dict(figures(track))
    if variant == "ocbr" and churn == "none":
        paper = organised(topology, load, "paper", seed, terms, rounds=min(many, PAPER_ROUNDS))
        found |= beside_the_paper(track, paper)
    return found


def figures(track: Track) -> Row:
    """What came of it."""
    first, end = track.states[0], track.end
    points = {
        f"traffic_after_{count}": track.at_rewirings(count).traffic
        for count in range(0, end.rewirings + 1, STEP)
    }
    return {
        "traffic_start": first.traffic,
        "traffic": end.traffic,
        "bound": end.bound,
        "above_bound_start": PERCENT * (first.traffic / first.bound - 1),
        "above_bound": PERCENT * (end.traffic / end.bound - 1),
        "rewirings": end.rewirings,
        "rounds_done": len(track.states) - 1,
        "rested": int(track.rested),
        "degree": end.degree,
        "hops_start": first.hops,
        "hops": end.hops,
        **points,
    }


def beside_the_paper(track: Track, paper: Track) -> Row:
    """What the paper's algorithm came to, by what this one had: after as many rounds, and rewirings."""
    stopped = track.at_round(len(paper.states) - 1)
    equal = track.at_rewirings(paper.end.rewirings)
    return {
        "paper_traffic_at_stop": paper.end.traffic / stopped.traffic,
        "paper_rewirings_at_stop": paper.end.rewirings / max(stopped.rewirings, 1),
        "paper_traffic_at_equal": paper.end.traffic / equal.traffic,
    }


def _timed(topology: Topology, load: Load, seed: int) -> Row:
    """How long one round takes: the counters of all brokers, all decisions, all rewirings."""
    organised(topology, load, "roost", seed, rounds=1)  # the first one may have to compile
    began = perf_counter()
    track = organised(topology, load, "roost", seed, rounds=1)
    return {"round_s": perf_counter() - began, "rewirings": track.end.rewirings}


# --- as a task of a sweep ---------------------------------------------------------------------------

PARAMETERS = parameters_of(organises)


def read(texts: Mapping[str, str]) -> Parameters:
    """Parameters from texts."""
    return dict(read_values("overlay", PARAMETERS, texts))


def cost(parameters: Parameters) -> float:
    """Runs that end in a star take longest: everybody is a neighbour of the middle."""
    slow = {"gated": 6.0, "roost": 4.0}
    return slow.get(str(parameters.get("variant")), 1.0) * float(parameters.get("brokers", 500))


def run(parameters: Parameters, seed: int) -> Row:
    """An overlay of 002's experiments that organises itself: traffic, rewirings, degree."""
    return organises(seed, **parameters)  # type: ignore[arg-type]


CELL = Task(run, read=read, cost=cost, show=SHOWN)
