"""Small clusters that balance in a hurry, and what a test asks them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from roost.balancing import Balancing, BalancingConfig
from roost.balancing.edge import Edge
from roost.balancing.head import Head
from roost.balancing.peer import Peer
from roost.simulation.run import Checks, check, rest
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from roost.testing import NotedDecision
from roost.testing.laboratory import NotingWorld

# As in table 5.2, but for the times: a tenth.
HURRIED = BalancingConfig(
    profile="thesis",
    local_pie_period_s=3.0,
    global_pie_period_s=6.0,
    press_samples=20,
    press_timeout_s=3.0,
    stabilise_s=3.0,
    stable_window_s=6.0,
    local_detection_min_s=2.0,
    local_detection_max_s=4.0,
    global_detection_min_s=5.0,
    global_detection_max_s=7.0,
    migration_timeout_s=1.0,
)
# One head, three edge-brokers of 1, 2 and 4 times the capacity; 60 subscribers at the weakest.
SPEEDS = {"B1": (20, 0.1), "B2": (40, 0.2), "B3": (80, 0.4)}
SUBSCRIBERS = 60
RATE_PER_MIN = 120
SYMBOLS = ("AAA", "BBB", "CCC", "DDD", "EEE", "FFF")


def cluster(
    speeds: Mapping[str, tuple[float, float]] = SPEEDS,
    subscribers: int = SUBSCRIBERS,
    at: str = "B1",
    head: str = "B0",
) -> list[str]:
    """A head with publishers, edge-brokers, and subscribers at one of them."""
    lines = [f"0.0 broker add {head} 2000 32 10"]
    for name, (mhz, mbps) in speeds.items():
        lines += [f"0.0 broker add {name} {mhz} 16 {mbps}", f"0.1 link add {head} {name} 2"]
    for symbol in SYMBOLS:
        lines.append(f"1.0 publisher add P{symbol} {symbol} {RATE_PER_MIN} {head}")
    for n in range(subscribers):
        symbol = SYMBOLS[n % len(SYMBOLS)]
        bound = f" and volume > {n * 1000}" if n % 3 == 1 else ""
        lines.append(
            f"{2 + n * 0.05:.2f} subscriber add S{n} {at} class = 'STOCK' and symbol = '{symbol}'{bound}"
        )
    return lines


class Clusters(NotingWorld):
    """A world with the module in every broker."""

    @classmethod
    def of(
        cls,
        lines: Sequence[str],
        config: BalancingConfig = HURRIED,
        *,
        load_period_s: float = 1.0,
        **settings: object,
    ) -> Clusters:
        workload = parse_workload("\n".join(lines), "workload", None)
        chosen = replace(workload.settings, load_period_s=load_period_s, **settings)
        world = cls(chosen, workload.statements, modules=lambda _: (Balancing(config),))
        world.watch()
        return world

    def module(self, broker: str) -> Balancing:
        life = self.hosts[broker].life
        assert life is not None
        found = life.broker.modules._hosts["balancing"].module
        assert isinstance(found, Balancing)
        return found

    def edge(self, broker: str) -> Edge:
        return self.module(broker)._edge

    def head(self, broker: str) -> Head:
        return self.module(broker)._head

    def peer(self, broker: str) -> Peer:
        return self.module(broker)._peer

    def placed(self) -> Counter[str]:
        """How many clients each broker has."""
        return Counter(client.broker for client in self.clients.values())

    def of_kind(self, *kinds: str) -> list[NotedDecision]:
        return [noted for noted in self.decisions if noted.decision.kind in kinds]


def judged(world: World) -> Checks:
    """Nothing begins any more: let it come to rest, and hear all checkers."""
    world.workload_is_over = True
    return check(world, rested=rest(world), must_rest=True)
