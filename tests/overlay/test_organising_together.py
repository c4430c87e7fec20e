"""Links and publishers that both follow the traffic: rewiring and GRAPE act together, under the arbiter.

Each is run alone, and both together, over the same traffic: of random publishers, each with some subscribers
of its own topic anywhere in a tree. Together they make no more messages than the better one of them alone.

Load balancing (001) gives brokers roles: subscribers move to edge-brokers, whose links stay, so there is less
that can be moved. With it, too, all together make no more messages than the best one: load balancing alone,
or with either of the others. Everybody is where its role wants it, in each of these runs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from roost.balancing import Balancing
from roost.broker.arbiter import Arbiter, Proposal
from roost.broker.commands import Record
from roost.broker.module import Module
from roost.overlay.organising import OverlaySettings, SelfOrganising
from roost.overlay.topologies import balanced_tree
from roost.relocation import Goal, Grape, GrapeConfig, Terms
from roost.simulation.host import Host
from roost.simulation.run import check, rest, run
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from tests.overlay.organised import check_tree, publisher, publishing, subscriber

BROKERS, PUBLISHERS, SUBSCRIBERS = 15, 8, 3
TREE = balanced_tree(BROKERS)
GAP_S, UNTIL_S, LAST_S = 0.025, 90.0, 10.0
REST_S = 2.0
SEEDS = 10


def workload(seed: int) -> str:
    draws, tree = random.Random(seed), TREE
    said = [f"0.0 federation set rest_s {REST_S}"]
    said += [f"0.0 broker add {name} 1000 16 100" for name in tree.brokers]
    said += [f"0.0 link add {link.a} {link.b} 1" for link in tree.links]
    for n in range(PUBLISHERS):
        said.append(publisher(f"P{n}", draws.choice(tree.brokers), f"t{n}"))
        homes = draws.sample(tree.brokers, draws.randint(1, SUBSCRIBERS))
        said += [subscriber(f"S{n}-{home}", home, f"t{n}") for home in homes]
    said += publishing([(f"P{n}", f"t{n}") for n in range(PUBLISHERS)], 2.0, UNTIL_S, GAP_S)
    return "\n".join([*said, f"{UNTIL_S + 1} end"])


@pytest.fixture(autouse=True)
def one_lease_a_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is granted that somebody has, whoever proposes it."""
    grant = Arbiter.grant

    def granted(self: Arbiter, proposal: Proposal, cause: str, now: float) -> None:
        for subject in proposal.subjects:
            assert subject not in self.leases, (proposal, self.leases[subject])
        grant(self, proposal, cause, now)

    monkeypatch.setattr(Arbiter, "grant", granted)


class Together(World):
    """What has been decided and carried out."""

    def __init__(self, seed: int, modules: Sequence[str]) -> None:
        parsed = parse_workload(workload(seed), "together", None)
        self.done: Counter[str] = Counter()  # by module

        def make(_: str) -> list[Module]:
            overlay = SelfOrganising(OverlaySettings(training_messages=50, training_s=5.0))
            goal, terms = Goal("load", 100.0), Terms(rest_s=0.0)
            grape = Grape(GrapeConfig(goal=goal, session=20, terms=terms))
            return [m for m in (overlay, grape, Balancing()) if m.name in modules]

        super().__init__(parsed.settings, parsed.statements, seed=seed, modules=make)

    def decided(self, host: Host, record: Record) -> None:
        super().decided(host, record)
        if record.decision.kind == "carried out":
            self.done[record.decision.module] += 1

    def rewired(self, middle: str, mover: str, anchor: str) -> None:
        super().rewired(middle, mover, anchor)
        check_tree(self)

    def traffic(self) -> int:
        """Messages between brokers of the last seconds, when all has been done that there is to do."""
        run(self, UNTIL_S - LAST_S)
        before = self.publications_sent
        run(self, UNTIL_S)
        sent = self.publications_sent - before
        assert check(self, rested=rest(self), must_rest=True).clean
        return sent


def compared(seed: int) -> tuple[dict[str, int], Together]:
    """Messages that there are with each alone, with both, and the world with both."""
    both = Together(seed, ["overlay", "grape"])
    found = {name: Together(seed, [name]).traffic() for name in ("overlay", "grape")}
    return {"none": Together(seed, []).traffic(), **found, "both": both.traffic()}, both


def test_they_do_not_get_into_each_others_way() -> None:
    messages, world = compared(0)
    assert messages["both"] <= min(messages["overlay"], messages["grape"]), messages
    assert world.done["overlay"] > 0
    assert world.done["grape"] > 0


@pytest.mark.long
def test_ten_seeds() -> None:
    for seed in range(SEEDS):
        messages, world = compared(seed)
        print(seed, messages, world.done)
        assert messages["both"] <= min(messages["overlay"], messages["grape"]), messages


# --- with roles -----------------------------------------------------------------------------------------


def with_roles(seed: int) -> tuple[dict[str, int], Together]:
    """Messages that there are with load balancing, alone and with each; and the world with all three."""
    worlds = {
        "balancing": Together(seed, ["balancing"]),
        "overlay": Together(seed, ["overlay", "balancing"]),
        "grape": Together(seed, ["grape", "balancing"]),
        "all": Together(seed, ["overlay", "grape", "balancing"]),
    }
    found = {name: world.traffic() for name, world in worlds.items()}
    for world in worlds.values():
        check_edges(world)
        check_roles(world)
    return found, worlds["all"]


def check_edges(world: World) -> None:
    """The brokers that were leaves have the one link that they had."""
    degrees = Counter(name for link in TREE.links for name in (link.a, link.b))
    for link in TREE.links:
        for edge, head in ((link.a, link.b), (link.b, link.a)):
            if degrees[edge] == 1:
                assert world.overlay.neighbours(edge) == [head]


def check_roles(world: World) -> None:
    """No publisher is at an edge-broker, and no subscriber at a head that has one."""
    degrees = {name: len(world.overlay.neighbours(name)) for name in world.overlay.brokers()}
    for name, client in world.clients.items():
        near = world.overlay.neighbours(client.broker)
        if name.startswith("P"):
            assert len(near) > 1, (name, client.broker)
        elif len(near) > 1:
            assert all(degrees[other] > 1 for other in near), (name, client.broker)


def test_where_brokers_have_roles_edges_keep_their_links() -> None:
    messages, world = with_roles(0)
    assert messages["all"] == min(messages.values()), messages
    assert min(world.done[name] for name in ("overlay", "grape", "balancing")) > 0


@pytest.mark.long
def test_ten_seeds_with_roles() -> None:
    sums: Counter[str] = Counter()
    for seed in range(SEEDS):
        messages, world = with_roles(seed)
        print(seed, messages, dict(world.done))
        assert messages["all"] == min(messages.values()), messages
        sums.update(messages)
    print(dict(sums))
