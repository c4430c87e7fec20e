"""The part of `roost demo` on the other optimisers: small workloads in virtual time, before and after.

**Load** (001). All subscribers begin at the weakest edge-broker of a cluster, whose link they fill, and are
spread until all brokers are as busy. **Links** (002). Brokers are a chain, and those that talk to each other
stand at its ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from roost.simulation.world import World

# Edge-brokers: MHz and Mbit/s.
EDGES = {"B1": (20, 0.1), "B2": (40, 0.2), "B3": (80, 0.4)}
SUBSCRIBERS = 60
SYMBOLS = ("AAA", "BBB", "CCC", "DDD", "EEE", "FFF")
# A tenth of the thesis' times (table 5.2), so that it is over soon.
HURRIED = (
    "local_pie_period_s=3 global_pie_period_s=6 press_samples=20 press_timeout_s=3 stabilise_s=3"
    " stable_window_s=6 local_detection_min_s=2 local_detection_max_s=4 migration_timeout_s=1"
)
CROWDED_S, SPREAD_S = 5.5, 90.0

BROKERS = 9
TALKERS = (("B0", "B8"), ("B1", "B7"), ("B2", "B6"))
GAP_S = 0.02
# Traffic is counted over so long, at the beginning and at the end.
COUNTED_S, ORGANISED_S = 4.0, 40.0


def show(console: Console) -> None:
    """Both."""
    show_load(console)
    show_links(console)


# --- load -------------------------------------------------------------------------------------------


def crowded() -> list[str]:
    """A cluster-head with publishers, edge-brokers, and all subscribers at one of them."""
    lines = [
        "0.0 federation set load_period_s 1",
        f"0.0 federation optimiser balancing acting {HURRIED}",
        "0.0 broker add B0 2000 32 10",
    ]
    for name, (mhz, mbps) in EDGES.items():
        lines += [f"0.0 broker add {name} {mhz} 16 {mbps}", f"0.1 link add B0 {name} 2"]
    lines += [f"1.0 publisher add P{symbol} {symbol} 120 B0" for symbol in SYMBOLS]
    for n in range(SUBSCRIBERS):
        symbol = SYMBOLS[n % len(SYMBOLS)]
        at = 2 + n * 0.05
        wanted = f"class = 'STOCK' and symbol = '{symbol}'"
        lines.append(f"{at:.2f} subscriber add S{n} B1 {wanted}")
    return lines


def show_load(console: Console) -> None:
    from rich.table import Table

    world = world_of(crowded())
    with console.status("balancing load, in virtual time"):
        world.run(CROWDED_S)
        before = {name: busy(world, name) for name in EDGES}
        placed_before = placed(world)
        world.run(SPREAD_S)
    after, placed_after = {name: busy(world, name) for name in EDGES}, placed(world)
    table = Table(
        title=f"Subscribers that move off a hot broker: {SUBSCRIBERS} of them began at B1 (simulated)",
        title_justify="left",
    )
    table.add_column("edge-broker")
    for heading in ("Mbit/s", "subscribers", "after", "output used", "after"):
        table.add_column(heading, justify="right")
    for name, (_, mbps) in EDGES.items():
        table.add_row(
            name,
            f"{mbps:g}",
            str(placed_before[name]),
            str(placed_after[name]),
            f"{before[name]:.0%}",
            f"{after[name]:.0%}",
        )
    console.print(table)
    show_checks(console, world)


def busy(world: World, broker: str) -> float:
    """How much of its output a broker uses."""
    load = world.hosts[broker].last_load
    return 0.0 if load is None else load.output_utilisation


def placed(world: World) -> Counter[str]:
    """How many clients each broker has."""
    return Counter(client.broker for client in world.clients.values())


# --- links ------------------------------------------------------------------------------------------


def far_apart() -> list[str]:
    """A chain whose ends talk to each other all the time."""
    names = [f"B{n}" for n in range(BROKERS)]
    lines = [
        "0.0 federation set rest_s 1",
        "0.0 federation optimiser overlay acting training_messages=40 training_s=4 margin=1",
        *(f"0.0 broker add {name} 1000 16 100" for name in names),
        *(f"0.0 link add B{n} B{n + 1} 1" for n in range(BROKERS - 1)),
    ]
    pairs = [pair for a, b in TALKERS for pair in ((a, b), (b, a))]
    for a, b in pairs:
        lines.append(f"0.5 publisher add P{a} - 0 {a} class = '{a}'")
        lines.append(f"0.6 subscriber add S{a} {a} class = '{b}'")
    count = int((ORGANISED_S - 2.0) / GAP_S)
    for n in range(count):
        a, _ = pairs[n % len(pairs)]
        lines.append(f"{1.0 + n * GAP_S:.2f} publisher publish P{a} [class,'{a}']")
    return lines


def show_links(console: Console) -> None:
    world = world_of(far_apart())
    with console.status("links follow the traffic, in virtual time"):
        first = traffic(world, 1.0, 1.0 + COUNTED_S)
        last = traffic(world, ORGANISED_S - COUNTED_S - 2.0, ORGANISED_S - 2.0)
        world.run(ORGANISED_S)
    console.print("Links that follow the traffic (simulated)", style="bold")
    pairs = ", ".join(f"{a} and {b}" for a, b in TALKERS)
    console.print(f"  {BROKERS} brokers in a chain; {pairs} talk to each other.")
    console.print(
        f"  {world.rewirings} links moved: {first:.1f} messages between brokers for each event before,"
        f" {last:.1f} after ({last / first - 1:+.0%})."
    )
    show_checks(console, world)


def traffic(world: World, since: float, until: float) -> float:
    """Messages between brokers for each event, in that time."""
    world.run(since)
    sent, published = world.publications_sent, world.oracle.published_count
    world.run(until)
    return (world.publications_sent - sent) / (world.oracle.published_count - published)


# --- both -------------------------------------------------------------------------------------------


def world_of(lines: Sequence[str]) -> World:
    from roost.simulation.workload_file import parse_workload
    from roost.simulation.world import World

    workload = parse_workload("\n".join(lines), "demo", None)
    return World(workload.settings, workload.statements)


def show_checks(console: Console, world: World) -> None:
    """Let it come to rest, and hear all checkers."""
    from roost.cli.sim.report import counts, show_violations
    from roost.simulation.run import check, rest

    world.workload_is_over = True
    checks = check(world, rested=rest(world), must_rest=True)
    found = ", ".join(f"{what} {number:,}" for what, number in counts(checks))
    published = world.oracle.published_count
    console.print(
        f"  {published:,} events, {checks.delivered:,} deliveries: {found}",
        style="green" if checks.clean else "red",
    )
    show_violations(console, checks)
    console.print()
