"""A run from beginning to end: the world, the time that it gets, and the verdict of all checkers."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from roost.broker.events import ModuleSwitched
from roost.broker.module import ModuleState
from roost.errors import UserError
from roost.simulation import statements as st
from roost.simulation.checkers import check_accounts, check_queues, check_routing, in_transit
from roost.simulation.faults import NETWORK, stage_of
from roost.simulation.pages import use_large_pages
from roost.simulation.workload_check import refusal
from roost.simulation.workload_file import Workload
from roost.simulation.world import World

# How often progress is reported, as a share of the run.
STEPS = 200
# In a world of so many clients it pays to have large pages, once most of them are there.
LARGE_WORLD = 500
LARGE_PAGES_AT = (STEPS // 20, STEPS // 4)
# Without an end in the workload it comes so long after the last statement.
AFTERWARDS_S = 60.0
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
    rested: bool  # nothing was left to do, so that queues could be judged, and tables
    routing_judged: bool  # the tables were, which takes too long for large worlds
    violations: tuple[str, ...]

    @property
    def broken(self) -> int:
        """How many promises were not kept."""
        return (
            self.lost
            + self.doubled
            + self.reordered
            + self.unwanted
            + self.routing_errors
            + self.account_errors
            + self.queue_errors
        )

    @property
    def clean(self) -> bool:
        """Whether all promises were kept."""
        return self.broken == 0


def run(world: World, until: float, progress: Callable[[float], None] = lambda _: None) -> None:
    """Let time pass, saying now and then how much."""
    for step in range(1, STEPS + 1):
        world.run(until * step / STEPS)
        progress(until * step / STEPS)
        if step in LARGE_PAGES_AT and len(world.clients) >= LARGE_WORLD:
            use_large_pages()


def end_of(workload: Workload) -> float:
    """When the run of a workload ends, by itself."""
    for statement in workload.statements:
        if isinstance(statement, st.End):
            return statement.at
    return max((s.at for s in workload.statements), default=0.0) + AFTERWARDS_S


def run_workload(
    world: World,
    workload: Workload,
    until: float,
    progress: Callable[[float], None] = lambda _: None,
) -> None:
    """The same as `run`; what goes wrong while a statement is carried out names the file and line."""
    try:
        run(world, until, progress)
    except UserError as error:
        culprit = _culprit(world, workload)
        if culprit is None:
            raise
        raise refusal(workload.name, culprit.line, str(error)) from None


def _culprit(world: World, workload: Workload) -> st.Statement | None:
    """Files are read when their statement's time comes; quotes are asked for when they are published."""
    done = workload.statements[: world.statements_done]
    if done and isinstance(done[-1], st.UseBars | st.UseLatencies):
        return done[-1]
    for statement in done:
        if isinstance(statement, st.AddPublisher) and statement.symbol is not None:
            try:
                world.market.quotes(statement.symbol)
            except UserError:
                return statement
    return None


def unfinished(world: World, workload: Workload) -> list[str]:
    """Why a run did not come to rest, if that is nobody's mistake: in words, one a reason."""
    partitions = stage_of(workload.statements).faults.get(NETWORK, ())
    parted = any(start <= world.clock.now < end for start, end in partitions)
    down = [name for name, host in world.hosts.items() if host.life is None]
    away = [name for name, client in world.clients.items() if client.away and not client.gone]
    cut = [f"{a} - {b}" for a, b in world.overlay.links() if not world.overlay.passable(a, b)]
    busy = [name for name in world.hosts if _is_busy(world, name)]
    reasons = (("is down", down), ("is away", away), ("is cut", cut), ("is overloaded", busy))
    words = ["the network is partitioned"] if parted else []
    return words + [f"{_some(names)} {what}" for what, names in reasons if names]


def _is_busy(world: World, name: str) -> bool:
    """Whether a broker still has publications to match, or to send."""
    host = world.hosts[name]
    load = host.last_load
    return host.life is not None and bool(
        host.life.queued or (load is not None and load.output_queue)
    )


def _some(names: list[str]) -> str:
    return (
        names[0]
        if len(names) == 1
        else f"each of {', '.join(names[:5])}"
        + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    )


def rest(world: World) -> bool:
    """Publish no more, decide no more, and let everything arrive. Whether it did."""
    world.workload_is_over = True
    for client in world.clients.values():
        client.stop()
    for host in world.hosts.values():
        for module in host.modules:
            host.notice(ModuleSwitched(module.name, ModuleState.OFF.value))
    deadline = world.clock.now + REST_S
    while world.clock.now < deadline:
        if not check_queues(world) and world.settling.control_is_quiet():
            return True
        world.run(world.clock.now + REST_STEP_S)
    return False


def verdict(world: World, workload: Workload) -> tuple[Checks, list[str]]:
    """Of a run that is over, once it has come to rest; or why it has not, if that is nobody's mistake."""
    rested = rest(world)
    reasons = [] if rested else unfinished(world, workload)
    return check(world, rested=rested, must_rest=not reasons), reasons


def check(world: World, *, rested: bool, must_rest: bool = False) -> Checks:
    """What all checkers say now. With `must_rest`, that it did not come to rest is wrong too."""
    oracle = world.oracle
    on_the_way = in_transit(world)
    machines = (client.machine for client in world.clients.values())
    accepted = {machine.publisher: machine.accepted for machine in machines}
    for publisher, sequence in list(oracle.pending):
        if sequence > accepted[publisher]:
            oracle.not_accepted(publisher, sequence)
    for host in world.hosts.values():
        for session in host.life.machine.sessions.values() if host.life is not None else ():
            if session.dropped:  # of which its client has not been told yet
                oracle.forgive(world.clients[session.client].party.wishes.values())
    for client in world.clients.values():
        if client.away:
            oracle.forgive(client.party.wishes.values())
    oracle.finish(lambda publisher, sequence: (publisher, sequence) in on_the_way)
    accounts = check_accounts(world)
    pairs = sum(len(p.wishes) for p in world.parties()) * len(world.hosts)
    judge_routing = rested and pairs <= ROUTING_CHECK_MAX
    routing = check_routing(world) if judge_routing else []
    queues: list[str] = []
    if must_rest and not rested:
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
        routing_judged=judge_routing,
        violations=tuple(oracle.violations + accounts + routing + queues),
    )
