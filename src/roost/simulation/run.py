"""A run from beginning to end: the world, the time that it gets, and the verdict of all checkers."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from roost.simulation.checkers import check_accounts, check_queues, check_routing, in_transit
from roost.simulation.world import World

# How often progress is reported, as a share of the run.
STEPS = 200
# What a run may take, after its end, to come to rest.
REST_S = 300.0
REST_STEP_S = 1.0
# Beyond this many (subscription, broker) pairs the tables are not computed from scratch.
ROUTING_CHECK_MAX = 5_000_000


class Checks(Struct, frozen=True, kw_only=True):
    """The verdict. Programs read these names."""

    delivered: int
    lost: int
    doubled: int
    reordered: int
    unwanted: int
    routing_errors: int
    account_errors: int
    queue_errors: int
    in_transit: int  # events that had not arrived everywhere when the run ended
    rested: bool  # nothing was left to do, so that tables and queues could be judged
    violations: tuple[str, ...]

    @property
    def clean(self) -> bool:
        wrong = (
            self.lost
            + self.doubled
            + self.reordered
            + self.unwanted
            + self.routing_errors
            + self.account_errors
            + self.queue_errors
        )
        return wrong == 0


def run(world: World, until: float, progress: Callable[[float], None] = lambda _: None) -> None:
    """Let time pass, saying now and then how much."""
    for step in range(1, STEPS + 1):
        world.run(until * step / STEPS)
        progress(until * step / STEPS)


def rest(world: World) -> bool:
    """Publish no more, and let everything arrive. Whether it did."""
    for client in world.clients.values():
        client.stop()
    deadline = world.clock.now + REST_S
    while world.clock.now < deadline:
        if not check_queues(world) and world.control_is_quiet():
            return True
        world.run(world.clock.now + REST_STEP_S)
    return False


def check(world: World, *, rested: bool, must_rest: bool = False) -> Checks:
    """What all checkers say now. With `must_rest`, that it did not come to rest is wrong too."""
    oracle = world.oracle
    on_the_way = in_transit(world)
    accepted = {name: client.machine.accepted for name, client in world.clients.items()}
    for publisher, sequence in list(oracle.pending):
        if sequence > accepted[publisher]:
            oracle.not_accepted(publisher, sequence)
    for client in world.clients.values():
        if client.away:
            oracle.forgive(client.party.wishes.values())
    oracle.finish(lambda publisher, sequence: (publisher, sequence) in on_the_way)
    accounts = check_accounts(world)
    routing: list[str] = []
    queues: list[str] = []
    if rested:
        pairs = sum(len(p.wishes) for p in world.parties()) * len(world.hosts)
        routing = check_routing(world) if pairs <= ROUTING_CHECK_MAX else []
    elif must_rest:
        queues = check_queues(world) or ["control messages are left"]
    return Checks(
        delivered=oracle.delivered,
        lost=oracle.lost,
        doubled=oracle.doubled,
        reordered=oracle.reordered,
        unwanted=oracle.unwanted,
        routing_errors=len(routing),
        account_errors=len(accounts),
        queue_errors=len(queues),
        in_transit=len(on_the_way),
        rested=rested,
        violations=tuple(oracle.violations + accounts + routing + queues),
    )
