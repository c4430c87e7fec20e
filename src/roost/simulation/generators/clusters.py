"""The workload of 001's global load balancing: clusters of brokers, all subscribers at an edge-broker of one.

Cluster-heads are B10, B20, ...; the edge-brokers of B10 are B11 and B12. Heads are linked as a chain from B10
on, or all to B10. `machines` says what edge-brokers run on:

    macro    001 table 5.4, of section 5.2.2; four clusters at most
    micro    001 table 5.5, of section 5.3.2; four clusters at most
    equal    those of section 5.3.2, where the number of clusters varies

Times are those of the thesis: its subscribers join from 10 to 1,010 s (section 5.3.2 says so, 5.2.2 only
"at 10 s"; its figures show 1,000 s in which they come).
"""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Literal

from msgspec import Meta

from roost.errors import UserError
from roost.overlay.topologies import Link, Topology
from roost.simulation.generators.parts import (
    Count,
    Machine,
    Positive,
    Seconds,
    Share,
    draws,
    finished,
    joining_times,
    market_of,
    overlay,
)
from roost.simulation.generators.thesis import (
    EQUAL_EDGE,
    LOCAL_PUBLISHERS_FROM_S,
    LOCAL_PUBLISHERS_GAP_S,
    LOCAL_SUBSCRIBERS_BY_S,
    LOCAL_SUBSCRIBERS_FROM_S,
    ThesisSubscriptions,
    doubled,
    thesis_publishers,
    thesis_subscribers,
)
from roost.simulation.statements import Set, Statement

Clusters = Annotated[int, Meta(ge=1, le=99)]

HEAD, EQUAL_HEAD = Machine(3000.0, 128.0, 10.0), Machine(2000.0, 32.0, 10.0)
EDGES = {
    "macro": (
        (Machine(300.0, 128.0, 1.0), Machine(200.0, 128.0, 0.5)),
        (Machine(350.0, 64.0, 1.0), Machine(400.0, 64.0, 1.5)),
        (Machine(266.0, 64.0, 1.0), Machine(700.0, 64.0, 2.0)),
        (Machine(166.0, 64.0, 0.5), Machine(233.0, 128.0, 0.5)),
    ),
    "micro": (
        (Machine(266.0, 64.0, 1.0), Machine(700.0, 64.0, 2.0)),
        (Machine(300.0, 128.0, 1.0), Machine(200.0, 128.0, 0.5)),
        (Machine(350.0, 64.0, 1.0), Machine(400.0, 64.0, 1.5)),
        (Machine(166.0, 64.0, 0.5), Machine(233.0, 128.0, 0.5)),
    ),
}
# With this a quote has about 300 bytes when it is delivered, which gives output ratios like the thesis'.
PAYLOAD_BYTES = 64


def clusters_of(
    count: int, shape: Literal["chain", "star"], machines: str
) -> tuple[Topology, list[Machine]]:
    """The brokers, head by head, each followed by its two edge-brokers, and what they run on."""
    known = EDGES.get(machines)
    if known is not None and count > len(known):
        raise UserError(
            f"global: {count} clusters of {machines} machines; there are {len(known)}, or any number"
            " with machines=equal"
        )
    edges = known[:count] if known is not None else ((EQUAL_EDGE, EQUAL_EDGE),) * count
    head = EQUAL_HEAD if known is None else HEAD
    heads = [f"B{10 * (k + 1)}" for k in range(count)]
    names = [(h, f"{h[:-1]}1", f"{h[:-1]}2") for h in heads]
    between = [
        Link(heads[0] if shape == "star" else heads[k - 1], heads[k]) for k in range(1, count)
    ]
    within = [Link(h, edge) for h, *own in names for edge in own]
    topology = Topology(tuple(chain.from_iterable(names)), (*between, *within))
    return topology, [machine for own in edges for machine in (head, *own)]


def global_(
    seed: int,
    *,
    clusters: Clusters = 4,
    shape: Literal["chain", "star"] = "chain",
    machines: Literal["macro", "micro", "equal"] = "macro",
    publishers: Positive = 40,
    subscribers: Count = 2_000,
    joined_s: Seconds = LOCAL_SUBSCRIBERS_BY_S,
    zero_traffic: Share = 0.2,
    changed: Share = 0.5,
    change_at_s: Seconds = 8_000.0,
    until_s: Seconds = 12_000.0,
    payload_bytes: Count = PAYLOAD_BYTES,
    bars: str = "",
) -> list[Statement]:
    """Global load balancing (001 section 5.2.2): clusters of three brokers, all subscribers at B11.

    The share `changed` of the publishers doubles its rate at `change_at_s`. Subscribers come from 10 s on,
    until `joined_s`.
    """
    market = market_of(seed, publishers, bars)
    symbols = market.symbols[:publishers]
    rng = draws(seed, "global publishers")
    quoting = thesis_publishers(
        rng, symbols, ["B10"], LOCAL_PUBLISHERS_FROM_S, LOCAL_PUBLISHERS_GAP_S
    )
    joining = draws(seed, "global subscribers")
    times = joining_times(joining, subscribers, LOCAL_SUBSCRIBERS_FROM_S, joined_s)
    subscriptions = ThesisSubscriptions(market, symbols)
    return finished(
        [
            Set(at=0.0, key="payload_bytes", value=str(payload_bytes)),
            *overlay(*clusters_of(clusters, shape, machines)),
            *quoting,
            *thesis_subscribers(joining, subscriptions, times, ["B11"], zero_traffic),
            *doubled(rng, quoting, changed, change_at_s),
        ],
        until_s,
        seed,
        bars,
    )
