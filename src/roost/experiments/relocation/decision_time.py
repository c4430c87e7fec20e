"""How long GRAPE's choice takes, on the workload of 000 section 5.1: a publisher with subscribers everywhere.

The statistics are those of a trace session of 100 publications, of a publisher whose subscribers are on all
brokers of the tree, as in the paper's worst case. What is timed is all that the publisher's broker has to do
with them: from the answers to the choice with its evidence.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

from roost.language import Subscription
from roost.overlay.topologies import balanced_tree
from roost.overlay.trees import neighbours
from roost.pipeline.sweeps.tasks import Row
from roost.relocation import Answer, BitVector, Goal, Neighbour, Trace, choose_broker
from roost.simulation import statements as st
from roost.simulation.generators import relocation
from roost.simulation.market import Market, SyntheticMarket

DECISION = "decision"
PUBLICATIONS = 100
ROUNDS = 15
# The paper's worst case: round trips to all candidates count, and the message rate of all of them.
GOAL = Goal("delay", 1)


def decision_time(seed: int, brokers: int) -> Row:
    """The median of some choices among so many brokers, in ms."""
    answers, present = answers_of(seed, brokers)
    trips = {answer.broker: 0.05 for answer in answers}
    trace = Trace(PUBLICATIONS, rate_per_s=1.0)
    times = []
    for _ in range(ROUNDS):
        began = perf_counter()
        choose_broker(answers, present, trace, GOAL, trips)
        times.append(perf_counter() - began)
    return {"decision_ms": 1e3 * median(times)}


def answers_of(seed: int, brokers: int) -> tuple[list[Answer], str]:
    """What brokers would answer about a publisher, and where it is."""
    market = SyntheticMarket(seed, 1)
    workload = relocation(
        seed,
        distribution="clustered",
        spread=brokers,
        brokers=brokers,
        publishers=1,
        subscribers_per_publisher=2 * brokers,
    )
    bits: dict[Subscription, BitVector] = {}
    seen: dict[str, BitVector] = {}
    deliveries: dict[str, int] = {}
    present = ""
    for statement in workload:
        if isinstance(statement, st.AddPublisher):
            present = statement.broker
        elif isinstance(statement, st.AddSubscriber):
            wanted = statement.subscription
            if wanted not in bits:
                bits[wanted] = _matched(wanted, market)
            here = seen.setdefault(statement.broker, BitVector())
            seen[statement.broker] = here | bits[wanted]
            count = bits[wanted].count()
            deliveries[statement.broker] = deliveries.get(statement.broker, 0) + count
    answers = [
        Answer(
            broker=broker,
            neighbours=tuple(Neighbour(other, 0.001, 0.01) for other in near),
            bits=seen[broker].to_bytes() if broker in seen else b"",
            deliveries=deliveries.get(broker, 0),
            matching_s=0.001,
        )
        for broker, near in neighbours(balanced_tree(brokers)).items()
    ]
    return answers, present


def _matched(subscription: Subscription, market: Market) -> BitVector:
    """Which of the publications a subscriber gets."""
    quotes = (market.quote(market.symbols[0], n) for n in range(PUBLICATIONS))
    return BitVector(n for n, quote in enumerate(quotes) if subscription.matches(quote))
