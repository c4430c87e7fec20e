"""Hierarchies in the simulator: workloads that say them, and the same deliveries as by any other routing."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from roost.errors import UserError
from roost.overlay.hierarchies import Hierarchy, clusters, parse_hierarchy, random_hierarchy
from roost.simulation import statements as say
from roost.simulation.workload_check import WorkloadError
from roost.simulation.workload_file import parse_workload, write_workload
from tests.simulation.lab import arrivals, judged, world_of

BROKERS = "".join(f"0.0 broker add B{i} 1000 16 10\n" for i in range(5))
CLUSTER = "0.0 federation set routing cluster\n"


def workload_of(hierarchy: Hierarchy, routing: str, seed: int) -> str:
    """The same clients and events, whatever the routing: without ranks the peers are a chain."""
    random = Random(seed)
    peers = hierarchy.peers
    if routing != "cluster":
        tops = list(dict.fromkeys(end for link in peers for end in (link.a, link.b)))
        pairs = list(pairwise(tops))
    else:
        pairs = [(link.a, link.b) for link in peers]
    lines = [f"0.0 federation set routing {routing}"]
    lines += [f"0.0 broker add {name} 1000 16 10" for name in hierarchy.brokers]
    lines += [f"0.0 link add {link.a} {link.b} 3" for link in hierarchy.links]
    word = "peer" if routing == "cluster" else "add"
    lines += [f"0.0 link {word} {a} {b} 3" for a, b in pairs]
    for i in range(6):
        lines.append(f"1.0 publisher add P{i} - 0 {random.choice(hierarchy.brokers)} a >= 0")
    for i in range(12):
        broker = random.choice(hierarchy.brokers)
        lines.append(f"1.0 subscriber add S{i} {broker} a >= {random.randrange(10)}")
    for n in range(60):
        p = random.randrange(6)
        lines.append(f"{5 + n / 10:.1f} publisher publish P{p} [a,{random.randrange(10)}]")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(12))
def test_the_same_deliveries_as_in_the_tree_and_by_advertisements(seed: int) -> None:
    """003 IV: "all subscribers get notified ... regardless of from which node events have been published"."""
    hierarchy = random_hierarchy(3 + seed, seed)
    found = {}
    for routing in ("cluster", "flooding", "advertisement"):
        world = world_of(workload_of(hierarchy, routing, seed))
        heard = arrivals(world)
        checks = judged(world)
        assert checks.clean
        assert checks.rested
        found[routing] = sorted((client, event) for client, event, _ in heard)
    assert found["cluster"]
    assert found["cluster"] == found["flooding"] == found["advertisement"]


def test_peers_are_said_and_written() -> None:
    text = f"{CLUSTER}{BROKERS}0.0 link add B0 B2\n0.0 link peer B0 B1 5\n"
    workload = parse_workload(text, "made", None)
    last = workload.statements[-1]
    assert last == say.AddPeerLink("B0", "B1", 5.0, at=0.0, line=last.line)
    assert write_workload([last]) == "0.0 link peer B0 B1 5\n"


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (
            "0.0 link peer B0 B1",
            "made:6: B0 and B1 are peers; expected `federation set routing cluster`",
        ),
        (
            f"{CLUSTER}0.0 link add B0 B2\n0.0 link peer B1 B2",
            "B2 is a peer, and below B0; expected peers at the top only",
        ),
        (
            f"{CLUSTER}0.0 link peer B0 B1\n0.0 link peer B1 B2",
            "B0 and B2 are peers of B1; expected a link between the two, as well",
        ),
        (
            f"{CLUSTER}0.0 link add B0 B2\n0.0 link add B1 B2",
            "B2 is below B1 and below B0; expected one super at most",
        ),
        (
            f"{CLUSTER}0.0 link add B0 B2\n0.0 link add B2 B3\n0.0 link add B3 B0",
            "the link B3 - B0 would close a cycle",
        ),
        (
            f"{CLUSTER}0.0 link peer B0 B1\n0.0 link peer B1 B0",
            "there is a link B1 - B0 already",
        ),
        (
            f"{CLUSTER}0.0 federation set optimiser pop",
            "made:7: pop knows trees only; expected none of it in a hierarchy",
        ),
        (
            f"{CLUSTER}0.0 federation optimiser grape",
            "made:7: grape knows trees only; expected none of it in a hierarchy",
        ),
    ],
)
def test_links_that_form_no_hierarchy(lines: str, wrong: str) -> None:
    with pytest.raises(WorkloadError) as error:
        parse_workload(f"{BROKERS}{lines}\n", "made", None)
    assert wrong in str(error.value)


def test_a_hierarchy_by_its_ranks() -> None:
    hierarchy = parse_hierarchy("cluster:2x3x2")
    assert len(hierarchy.brokers) == 2 + 6 + 12
    assert [(link.a, link.b) for link in hierarchy.peers] == [("B0", "B1")]
    below = {b: [link.b for link in hierarchy.links if link.a == b] for b in ("B0", "B1", "B4")}
    assert below == {"B0": ["B2", "B3", "B4"], "B1": ["B5", "B6", "B7"], "B4": ["B12", "B13"]}
    assert clusters(1).links == clusters(1).peers == ()


@pytest.mark.parametrize(
    "text", ["cluster:", "cluster:2x", "cluster:0x3", "cluster:2x0", "cluster:2*3"]
)
def test_what_is_no_hierarchy(text: str) -> None:
    with pytest.raises(UserError, match=r"expected|does not read"):
        parse_hierarchy(text)
