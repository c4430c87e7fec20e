"""The part of `roost demo` on the laboratory: a federation in virtual time that things happen to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from roost.simulation.statements import Statement

# Random scenarios in which all that happens may happen without loss: what they show, profile and seed.
SCENARIOS = (
    ("And when things break: a random scenario of the simulator", "all", 125),
    ("When links move, amid faults and clients that move, too", "rewirings", 212),
    (
        "When each broker has a standby, and nodes are killed, stopped and lose their disks",
        "standbys",
        6,
    ),
    ("When a hierarchy changes between tree and cluster", "clusters", 10),
    ("When matchers of a partitioned service crash, come and go", "partition", 6),
)


def show(console: Console) -> None:
    """Random scenarios, and what all checkers say of them."""
    for title, profile, seed in SCENARIOS:
        show_one(console, f"{title} ({profile} {seed})", seed, profile)


def show_one(console: Console, title: str, seed: int, profile: str = "all") -> None:
    from roost.cli.sim.report import counts, show_violations
    from roost.simulation.fuzz import fuzz

    with console.status("running a scenario with faults"):
        scenario, world, checks = fuzz(seed, profile)
    console.print(title, style="bold")
    published = world.oracle.published_count
    console.print(f"  federation      {', '.join(inventory(scenario.statements))}")
    moved = [f"{world.rewirings} moved links"] if world.rewirings else []
    console.print(f"  what happened   {', '.join([*happenings(scenario.statements), *moved])}")
    console.print(f"  events          {published:,} published, {checks.delivered:,} delivered")
    found = ", ".join(f"{what} {number:,}" for what, number in counts(checks))
    console.print(f"  checked         {found}", style="green" if checks.clean else "red")
    show_violations(console, checks)
    console.print()


def inventory(statements: Sequence[Statement]) -> list[str]:
    """Who ever was in a federation, counted."""
    from roost.simulation import statements as st

    return counted(
        statements,
        {
            "server": (st.AddBroker,),
            "client": (st.AddPublisher, st.AddSubscriber, st.AddDurableSubscriber),
        },
    )


def happenings(statements: Sequence[Statement]) -> list[str]:
    """What happened to it, counted."""
    from roost.simulation import statements as st

    # To be slow no longer is a statement, too.
    begun = [s for s in statements if not isinstance(s, st.SlowBroker) or s.factor > 1]
    return counted(
        begun,
        {
            "crash": (st.CrashBroker,),
            "cut link": (st.CutLink,),
            "partition": (st.Partition,),
            "late link": (st.DelayLink,),
            "slow broker": (st.SlowBroker,),
            "full store": (st.FillStore,),
            "lost connection": (st.VanishClient,),
            "killed client": (st.RestartSubscriber,),
            "changed permission": (st.PermitClient,),
            "failed node": (st.FailNode,),
            "change of way": (st.SwitchBroker,),
            "moved client": (st.RedirectClient,),
            "removed link": (st.RemoveLink,),
        },
    )


def counted(
    statements: Sequence[Statement], kinds: Mapping[str, tuple[type[Statement], ...]]
) -> list[str]:
    """How many there are of each kind that there are any of, in words."""
    numbers = {what: sum(isinstance(s, types) for s in statements) for what, types in kinds.items()}
    return [f"{n} {plural(what) if n > 1 else what}" for what, n in numbers.items() if n]


def plural(what: str) -> str:
    """As English has it."""
    first, *rest = what.split(" of ")
    return " of ".join([f"{first}es" if first.endswith("sh") else f"{first}s", *rest])
