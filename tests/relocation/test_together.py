"""GRAPE and POP together, under the arbiter: in 100 random scenarios each would undo the other's work."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from roost.broker.commands import Decision, Record
from roost.broker.module import Module
from roost.relocation import Goal, Grape, GrapeConfig, Pop, PopConfig, Terms
from roost.simulation.fuzz import Scenario
from roost.simulation.host import Host
from roost.simulation.run import check, rest, run
from roost.simulation.world import World

SEEDS = 100
AT_ONCE = 25
REST_S = 3.0
ALWAYS = Terms(margin=0.0, share_min=0.0, rest_s=0.0)


class Recorded(World):
    """A world that remembers what was decided, where and when."""

    def __init__(self, seed: int) -> None:
        scenario = Scenario(seed, "network")
        self.found: list[tuple[float, str, Decision]] = []
        settings = msgspec.structs.replace(scenario.settings, optimiser="none", rest_s=REST_S)
        super().__init__(settings, scenario.statements, seed=seed, modules=self._both)
        self.until = scenario.until

    def _both(self, _: str) -> list[Module]:
        goal = Goal("load", 100.0)
        return [
            Grape(GrapeConfig(goal=goal, session=6, terms=ALWAYS)),
            Pop(PopConfig(traces=1, traced_max=2, terms=ALWAYS)),
        ]

    def decided(self, host: Host, record: Record) -> None:
        self.found.append((self.clock.now, host.name, record.decision))
        super().decided(host, record)


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_client_is_under_two_leases_or_sent_back_within_its_rest(first: int) -> None:
    kinds: Counter[str] = Counter()
    movers: Counter[str] = Counter()
    for seed in range(first, first + AT_ONCE):
        world = Recorded(seed)
        run(world, world.until)
        assert check(world, rested=rest(world), must_rest=True).clean, f"seed {seed}"
        leased: dict[tuple[str, str], str] = {}  # (broker, client) -> the decision
        ended: dict[str, float] = {}  # client -> when it was last moved
        for time, broker, decision in world.found:
            kinds[decision.kind] += 1
            key = (broker, decision.subject)
            if decision.kind == "move":
                assert decision.acted
                assert key not in leased, f"seed {seed}: {decision} at {time}"
                since = time - ended.get(decision.subject, -1e9)
                assert since >= REST_S, f"seed {seed}: {decision} {since} s after the last"
                leased[key] = decision.cause
                movers[decision.module] += 1
            elif decision.kind in ("carried out", "abandoned"):
                assert leased.pop(key) == decision.evidence["decision"], f"seed {seed}"
                ended[decision.subject] = time
            elif decision.kind == "refused":
                assert not decision.acted
                assert decision.evidence["by"]
                assert decision.evidence["why"]
    # Both were at it, and in each other's way.
    assert set(movers) == {"grape", "pop"}
    assert kinds["refused"] > 0
    assert kinds["carried out"] > 0
