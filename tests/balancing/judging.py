"""Random scenarios of load balancing, judged by more than deliveries: nobody is left in the middle of
something.

The checkers of the simulator see what clients get. A session that never ends harms no client, and nobody
balances any more; so this looks at every broker all the time.
"""

from __future__ import annotations

from collections.abc import Iterator

from roost.balancing import Balancing, BalancingConfig
from roost.balancing.head import Head
from roost.simulation.fuzz import Scenario
from roost.simulation.optimisers import modules_of
from roost.simulation.run import check, rest
from roost.simulation.world import World

STEP_S = 1.0
# With the settings of the scenarios: a list of brokers that do not answer, samples, and N clients of 0.5 s
# each.
SESSION_S = 4 * BalancingConfig().reply_timeout_s + 20.0
# Three global periods, and what a fault may hold up.
ENGAGED_S = 12.0
QUIET_S = 30.0
PROFILE = "balancing"


def problems_of(seed: int) -> list[str]:
    """What is wrong with the scenario of a seed; nothing, if all is well."""
    scenario = Scenario(seed, PROFILE)
    world = World(
        scenario.settings, scenario.statements, seed=seed, modules=modules_of(scenario.settings)
    )
    watcher = Watcher(world)
    time = 0.0
    while time < scenario.until + QUIET_S:
        time += STEP_S
        world.run(time)
        found = list(watcher.look(time))
        if found:
            return found
    checks = check(world, rested=rest(world), must_rest=True)
    return list(checks.violations)


class Watcher:
    """Looks at the modules of all brokers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._alone: dict[
            tuple[str, str], float
        ] = {}  # engaged, without a session of the head: since when

    def look(self, now: float) -> Iterator[str]:
        modules = list(self._modules())
        heads = {name: module._head for name, module, _ in modules}
        for name, module, watches in modules:
            mediator = module._edge.mediator
            sessions = [s for s in (mediator.offloading, mediator.accepting) if s is not None]
            if len(sessions) > 1:
                yield f"{name} is in two sessions at once: {sessions}"
            for session in sessions:
                if now - session.since > SESSION_S:
                    yield f"{name} is in {session.id} since {session.since:.1f} s, and it is {now:.1f} s"
            samples = mediator.offloading is not None and mediator.offloading.press is not None
            if watches and not samples:
                yield f"{name} samples for nobody: {watches} subscriptions are left"
            yield from self._engaged(name, module, heads, now)

    def _engaged(
        self, name: str, module: Balancing, heads: dict[str, Head], now: float
    ) -> Iterator[str]:
        edge = module._edge
        for cluster in edge._engaged:
            head = heads.get(edge.cluster)
            session = head.session if head is not None else None
            if session is not None and session.cluster == cluster:
                self._alone.pop((name, cluster), None)
                continue
            since = self._alone.setdefault((name, cluster), now)
            if now - since > ENGAGED_S:
                yield f"{name} listens to {cluster} since {since:.1f} s, and its head has no session"
        for key in [key for key in self._alone if key[0] == name and key[1] not in edge._engaged]:
            del self._alone[key]

    def _modules(self) -> Iterator[tuple[str, Balancing, int]]:
        for name, host in self._world.hosts.items():
            if host.life is not None:
                modules = host.life.broker.modules
                module = modules._hosts["balancing"].module
                assert isinstance(module, Balancing)
                yield name, module, len(modules._at.watches)
