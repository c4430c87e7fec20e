"""Hosts for a partitioned service, as its dispatchers wish for them (004 section IV.E).

The driver of `partition.provisioning` in the laboratory: a host more takes `boots_s` to be there, and is
linked with all others; one that has left is taken away.
"""

from __future__ import annotations

from msgspec import Struct

from roost.partition.dispatcher import Dispatcher
from roost.partition.provisioning import Provisioner, Step
from roost.simulation import statements as st
from roost.simulation.world import World

LOOK_S = 1.0


class HostPlan(Struct, frozen=True, kw_only=True):
    """What a matcher more is like."""

    machine: str
    boots_s: float = 1.0
    cpu_mhz: float = 1000.0
    memory_mb: float = 64.0
    bandwidth_mbps: float = 1000.0
    latency_ms: float | None = None


class HostProvisioner:
    """Of one service in a world. `steps` are those that were taken, with when."""

    def __init__(self, world: World, provisioner: Provisioner, plan: HostPlan) -> None:
        self._world = world
        self._provisioner = provisioner
        self._plan = plan
        self.steps: list[tuple[float, Step]] = []
        world.clock.after(LOOK_S, self._look)

    def _look(self) -> None:
        world = self._world
        now = world.clock.now
        lives = {name: host.life for name, host in world.hosts.items() if host.life is not None}
        machines = {name: life.machine for name, life in lives.items()}
        figures = {n: m.figures() for n, m in machines.items() if isinstance(m, Dispatcher)}
        step = self._provisioner.look(figures, now)
        if step is not None:
            self.steps.append((now, step))
            self._take(step, now)
        if not world.workload_is_over:
            world.clock.after(LOOK_S, self._look)

    def _take(self, step: Step, now: float) -> None:
        world, name = self._world, step.matcher
        if step.what == "start":
            world.clock.after(self._plan.boots_s, self._start, name)
        elif step.what == "leave":
            world.plan(st.AskBroker(at=now, broker=name, request="leave"))
        else:
            world.plan(st.RemoveBroker(at=now, broker=name))

    def _start(self, name: str) -> None:
        world, plan = self._world, self._plan
        now, others = world.clock.now, list(world.hosts)
        world.plan(
            st.AddBroker(
                at=now,
                broker=name,
                cpu_mhz=plan.cpu_mhz,
                memory_mb=plan.memory_mb,
                bandwidth_mbps=plan.bandwidth_mbps,
                machine=plan.machine,
            )
        )
        for other in others:
            world.plan(st.AddLink(at=now, a=other, b=name, latency_ms=plan.latency_ms))
