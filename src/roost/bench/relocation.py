"""The relocation benchmark: how long a decision takes, and how that grows with the number of brokers.

A decision is GRAPE's for one publisher, from the answers of all brokers to the choice with its evidence.
The baseline is the paper's algorithms, one candidate after the other, where they end in reasonable time.
All brokers of a balanced binary tree have answered, two in five have subscribers, who get a tenth, half or
all of a hundred publications (000 section 5.1). A chain of the largest size shows that the depth of a tree
costs nothing.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import count

import numpy as np

from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.timing import BUDGET_S, Say, durations_us, percentile, silent, steady_memory
from roost.optimising.bitvector import counts, words_of
from roost.overlay.topologies import Topology, balanced_tree, chain
from roost.overlay.trees import neighbours
from roost.relocation import (
    Answer,
    BitVector,
    Goal,
    GrapeConfig,
    Neighbour,
    Source,
    Trace,
    choose_broker,
    choose_broker_for_group,
    literal,
)
from roost.relocation.grape import messages, total_delays
from roost.relocation.history import Histories, Past, choose_remembering
from roost.relocation.tree import tree_of

SIZES = (15, 63, 255, 1_023)
LITERAL_MAX = 1_023
PUBLICATIONS = 100
SOURCES = 10  # publishers of the group of subscribers
ROUNDS_MIN, ROUNDS_MAX = 3, 1_000
GOAL = Goal("delay", 50)  # for which both metrics of all candidates are needed
TRACE = Trace(PUBLICATIONS, rate_per_s=10.0)


def answers_of(topology: Topology, rng: np.random.Generator) -> list[Answer]:
    """What the brokers of a tree would answer after a trace session."""
    return [
        Answer(
            broker=broker,
            neighbours=tuple(
                Neighbour(other, rng.uniform(0, 0.005), rng.uniform(0.001, 0.05)) for other in near
            ),
            bits=bits,
            deliveries=BitVector.from_bytes(bits).count() * int(rng.integers(1, 5)),
            input_queueing_s=rng.uniform(0, 0.01),
            matching_s=rng.uniform(0.0001, 0.001),
            output_queueing_s=rng.uniform(0, 0.005),
        )
        for broker, near in neighbours(topology).items()
        for bits in [audience(rng) if rng.random() < 0.4 else b""]
    ]


def audience(rng: np.random.Generator) -> bytes:
    """Low-, medium- or high-rated."""
    share = rng.choice([0.1, 0.5, 1.0], p=[0.7, 0.25, 0.05])
    return BitVector(np.flatnonzero(rng.random(PUBLICATIONS) < share).tolist()).to_bytes()


def sizes_up_to(brokers: int) -> tuple[int, ...]:
    """The usual sizes that are smaller, and this one."""
    return (*(n for n in SIZES if n < brokers), brokers)


def run(sizes: tuple[int, ...], seed: int, say: Say = silent, budget_s: float = BUDGET_S) -> Result:
    """Measure trees of these sizes."""
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for n in sizes:
        say(f"{n:,} brokers")
        found = _measure(answers_of(balanced_tree(n), np.random.default_rng(seed)), budget_s)
        figures |= {f"{name}_at_{n}": x for name, x in found.items()}
        if n <= LITERAL_MAX:
            ratios[f"literal_over_rerooting_at_{n}"] = found["literal_ms"] / found["decision_ms"]
    first, last = sizes[0], sizes[-1]
    say(f"a chain of {last:,} brokers")
    answers = answers_of(chain(last), np.random.default_rng(seed))
    figures[f"chain_ms_at_{last}"] = _median_ms(lambda: _decide(answers), budget_s)
    ratios[f"time_a_broker_{last}_over_{first}"] = (
        figures[f"decision_ms_at_{last}"] / figures[f"decision_ms_at_{first}"] * first / last
    )
    ratios["chain_over_balanced"] = (
        figures[f"chain_ms_at_{last}"] / figures[f"decision_ms_at_{last}"]
    )
    return {
        "bench": "relocation",
        "config": {
            "brokers": list(sizes),
            "publications": PUBLICATIONS,
            "goal": f"{GOAL.priority}{GOAL.weight:g}",
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": figures,
        "ratios": ratios,
    }


def _decide(answers: list[Answer]) -> None:
    choose_broker(answers, answers[-1].broker, TRACE, GOAL)


def _remembering(answers: list[Answer]) -> Callable[[], object]:
    """What a broker does at the end of a session: with those before it, the decision."""
    memory = GrapeConfig().memory
    histories, present = Histories(PUBLICATIONS, memory), answers[-1].broker
    first = count(1, PUBLICATIONS)

    def decide() -> object:
        history = histories.add("P", Past(next(first), tuple(answers)))
        return choose_remembering(history, present, TRACE, GOAL)

    for _ in range(memory):
        decide()
    return decide


def _measure(answers: list[Answer], budget_s: float) -> dict[str, float]:
    present = answers[-1].broker
    figures = {"decision_ms": _median_ms(lambda: _decide(answers), budget_s)}
    tree = tree_of(answers, present)
    by_name = {answer.broker: answer for answer in answers}
    words = words_of([by_name[name].bits for name in tree.names], PUBLICATIONS)
    deliveries = np.array([by_name[name].deliveries for name in tree.names])

    def predict() -> None:
        total_delays(tree, deliveries)
        messages(tree, counts(tree.inside(words)), counts(tree.outside(words)))

    figures["predictions_ms"] = _median_ms(predict, budget_s)
    figures["remembering_ms"] = _median_ms(_remembering(answers), budget_s)
    sources = [
        Source(
            broker=answers[i * len(answers) // SOURCES].broker,
            trace=TRACE,
            others={answer.broker: answer.bits for answer in answers},
            wanted=answers[0].bits,
            deliveries=50,
        )
        for i in range(SOURCES)
    ]
    figures["subscribers_ms"] = _median_ms(
        lambda: choose_broker_for_group(answers, present, sources, GOAL), budget_s
    )
    if len(answers) <= LITERAL_MAX:
        figures["literal_ms"] = _median_ms(lambda: literal.predictions(answers, {}), budget_s)
    figures["peak_kb"] = _peak_bytes(lambda: _decide(answers)) / 1024
    return figures


def _median_ms(work: Callable[[], object], budget_s: float) -> float:
    """The median over as many times as fit the budget, after one that warms up."""
    (once,) = durations_us(lambda _: work(), [None])
    rounds = int(min(max(budget_s * 1e6 / once, ROUNDS_MIN), ROUNDS_MAX))
    with steady_memory():
        return percentile(durations_us(lambda _: work(), [None] * rounds), 50) / 1000


def _peak_bytes(work: Callable[[], object]) -> int:
    """The most that it holds at a time beyond its arguments."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def table(result: Result) -> Table:
    """The figures for people."""
    figures, ratios = result["results"], result["ratios"]
    sizes = result["config"]["brokers"]

    def row(label: str, name: str, form: str) -> list[str]:
        values = (figures.get(f"{name}_at_{n}") for n in sizes)
        return [label, *("" if value is None else format(value, form) for value in values)]

    last = sizes[-1]
    return Table(
        key="relocation",
        title="Relocation: GRAPE's decision for one publisher",
        columns=["brokers", *(f"{n:,}" for n in sizes)],
        rows=[
            row("decision, ms", "decision_ms", ",.3f"),
            row("of that predictions, ms", "predictions_ms", ",.3f"),
            row(f"from the last {GrapeConfig().memory} sessions, ms", "remembering_ms", ",.3f"),
            row("the paper's algorithms, ms", "literal_ms", ",.2f"),
            row(f"subscribers of {SOURCES} publishers, ms", "subscribers_ms", ",.2f"),
            row("memory at most, KB", "peak_kb", ",.0f"),
        ],
        notes=[
            "Medians, on one core. A decision is from the answers of all brokers to the choice and its"
            " evidence; the paper's algorithms only predict.",
            f"A chain of {last:,} brokers takes {ratios['chain_over_balanced']:.2f} times as long as the"
            " balanced tree.",
            *(
                f"The paper's algorithms take {ratios[f'literal_over_rerooting_at_{n}']:,.1f} times as"
                f" long at {n:,} brokers."
                for n in sizes
                if n == max((m for m in sizes if m <= LITERAL_MAX), default=0)
            ),
        ],
    )
