"""`roost plan`: what had better be elsewhere, from recorded traffic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import print_json, warn
from roost.cli.figures import Column, Row, fitted, wide
from roost.cli.lake import DEFAULT, LakeOption
from roost.cli.spark import ConfOption, MasterOption, session_of
from roost.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from roost.pipeline.lake import Lake
    from roost.pipeline.plans.effect import Effect, Weights
    from roost.pipeline.plans.plan import Limits, Plan
    from roost.pipeline.plans.proposing import Rules
    from roost.pipeline.plans.recorded import Recorded
    from roost.pipeline.plans.scene import Scene

EXAMPLES = """\b
A plan says which clients and links had better be elsewhere, why, and what would come of it. It is made from
the last part of a recorded run (`roost trace on`, `roost sim run --trace`), by the functions by which brokers
decide on-line. Nothing is changed; `roost apply` carries a plan out.

\b
Goals are weights of what is to be small: `load`, messages between brokers; `delay`, of deliveries; `balance`,
the utilisation of the busiest broker.

\b
Optimisers: publishers (GRAPE), subscribers (GRAPE for groups), links (self-organising overlays), load (load
balancing). All of them together, unless it is said which.

\b
Examples:
  roost plan --from monday --lake traces --out monday.plan
  roost plan --from monday --goals load=70,delay=30 --moves 10 --json
  roost plan --from monday --exclude B3 --pin B0-B1 --keep billing
  roost plan --from monday --optimisers publishers,links --window 3600
  roost plan --from monday --what-if --suppose 'lose B5' --suppose 'double the rate of P7'
"""
WINDOW_S = 600.0
DEGREE_MAX = 16
GOALS = ("load", "delay", "balance")
DECISIONS = (
    Column("#"),
    Column("by", left=True, expendable=1),
    Column("what", left=True, wraps_at=24),
    Column("messages/s"),
    Column("delay", expendable=2),
    Column("why", left=True, wraps_at=24, expendable=3),
)
ALONE = (
    Column("who", left=True),
    Column("messages/s"),
    Column("delay"),
    Column("busiest"),
    Column("sum"),
    Column("moves"),
)
REPLAYS = (
    Column("what if", left=True, wraps_at=20),
    Column("messages/s"),
    Column("delay"),
    Column("busiest"),
    Column("delivered"),
    Column("broken"),
    Column("predicted", left=True, expendable=1),
)
CONFLICTS_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("plan", epilog=EXAMPLES)(plan)


def plan(
    run: Annotated[str, typer.Option("--from", metavar="RUN", help="Of which run of the lake.")],
    goals: Annotated[
        str, typer.Option(metavar="GOAL=WEIGHT,...", help="What is to be small.")
    ] = "load=100",
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BROKER", help="Nothing moves there, and its links stay. May be repeated."
        ),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(metavar="A-B", help="A link that stays. May be repeated."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="CLIENT", help="A client that stays. May be repeated."),
    ] = None,
    moves: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Of clients and links, at most.")
    ] = None,
    optimisers: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only these; else all.")
    ] = None,
    degree_max: Annotated[
        int, typer.Option(min=2, metavar="N", help="Neighbours of a broker, at most.")
    ] = DEGREE_MAX,
    window: Annotated[
        float, typer.Option(metavar="SECONDS", help="How much of the end of the run counts.")
    ] = WINDOW_S,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Where to write the plan."),
    ] = None,
    what_if: Annotated[
        bool,
        typer.Option("--what-if", help="Replay the run before and after, in the simulator."),
    ] = False,
    suppose: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS",
            help="Replay it with something different; `roost sim from-run --help` has what. May be repeated.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="J", help="Replays at a time.")] = 1,
    lake: LakeOption = DEFAULT,
    master: MasterOption = None,
    conf: ConfOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Say what had better be elsewhere, why, and what would come of it."""
    import msgspec

    from roost.cli.sinks import whole_file
    from roost.pipeline.lake import Lake
    from roost.pipeline.plans.plan import Limits, plan_bytes
    from roost.pipeline.plans.planning import plan_of
    from roost.pipeline.plans.reading import read_run

    weights = weights_of(goals)
    limits = Limits(tuple(exclude or ()), pairs_of(pin or ()), tuple(keep or ()), moves, degree_max)
    rules = rules_of(weights, limits)
    names = optimisers_of(optimisers)
    there = Lake(lake)
    # What is wrong with it is better known before Spark begins.
    scene = scene_for(there, run, suppose or ()) if what_if or suppose else None
    for table in ("deliveries", "loads", "links", "interests"):
        there.files(table, run)
    with session_of(master, conf) as spark:
        recorded = read_run(spark, there, run, window)
    check_limits(recorded, limits)
    made = plan_of(recorded, weights, rules, limits, names)
    if out is not None:
        with whole_file(out) as file:
            file.write(plan_bytes(made))
    replays = replays_of(scene, made if what_if else None, suppose or (), jobs)
    if json_:
        print_json({**msgspec.to_builtins(made), **({"replays": replays} if replays else {})})
        return
    console = wide()
    show(console, made, out)
    if replays:
        console.print("\nReplayed in the simulator:")
        console.print(fitted(REPLAYS, list(replay_rows(made, replays)), console.width))


def scene_for(lake: Lake, run: str, supposed: Sequence[str]) -> Scene:
    """The run as the simulator replays it; what-ifs that don't fit it are refused."""
    from roost.pipeline.plans.replaying import read_scene
    from roost.pipeline.plans.what_if import what_if

    scene = read_scene(lake, run)
    for words in supposed:
        what_if(scene, words)
    return scene


def replays_of(
    scene: Scene | None, made: Plan | None, supposed: Sequence[str], jobs: int
) -> dict[str, dict[str, Any]]:
    """What was measured in each replay, by its name."""
    from tempfile import TemporaryDirectory

    from roost.pipeline.plans.replaying import replayed, variants

    if scene is None:
        return {}
    with TemporaryDirectory(prefix="roost-what-if-") as folder:
        found = replayed(variants(scene, made, supposed), Path(folder), jobs)
    return {name: dict(row) for name, row in found.items()}


# --- options ------------------------------------------------------------------------------------------


def weights_of(text: str) -> Weights:
    """Weights that add up to 1, from `load=70,delay=30`."""
    from roost.pipeline.plans.effect import Weights

    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = -1.0
        if name not in GOALS or not equals or not 0 <= weight < float("inf") or name in found:
            raise UserError(
                f"--goals {text}: {part.strip()!r} is no goal; expected GOAL=WEIGHT with each of"
                f" {', '.join(GOALS)} once at most, such as load=70,delay=30"
            )
        found[name] = weight
    if not (total := sum(found.values())):
        raise UserError(f"--goals {text}: all weights are 0; expected one above it")
    return Weights(*(found.get(name, 0.0) / total for name in GOALS))


def pairs_of(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Links, from `A-B`; where names have a `-` themselves, from `A - B`."""
    from roost.pipeline.plans.placement import in_order

    found = []
    for text in texts:
        a, dash, b = text.partition(" - " if " - " in text else "-")
        if not dash or not a.strip() or not b.strip() or a.strip() == b.strip():
            raise UserError(f"--pin {text}: expected two brokers, such as B0-B1 or 'b-0 - b-1'")
        found.append(in_order(a.strip(), b.strip()))
    return tuple(sorted(set(found)))


def optimisers_of(text: str | None) -> tuple[str, ...]:
    """The optimisers that are asked for."""
    from roost.pipeline.plans.proposing import OPTIMISERS

    if text is None:
        return OPTIMISERS
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in OPTIMISERS:
            raise UserError(
                f"--optimisers {text}: there is no {name!r}; expected some of {', '.join(OPTIMISERS)}"
            )
    return names


def rules_of(weights: Weights, limits: Limits) -> Rules:
    """What proposals have to keep to. GRAPE's goal is the heavier of its two metrics."""
    from roost.optimising.goal import Goal
    from roost.overlay.rewiring.limits import Limits as LinkLimits
    from roost.pipeline.plans.proposing import Rules

    both = weights.load + weights.delay
    share = 100 * max(weights.load, weights.delay) / both if both else 100.0
    goal = Goal("delay" if weights.delay > weights.load else "load", share)
    return Rules(
        goal=goal,
        excluded=frozenset(limits.excluded),
        kept=frozenset(limits.kept),
        links=LinkLimits(limits.degree_max, frozenset(limits.pinned)),
    )


def check_limits(recorded: Recorded, limits: Limits) -> None:
    """What is limited has to be there: else it is misspelt, and would not be."""
    there = recorded.placement
    for name in limits.excluded:
        if name not in there.brokers:
            raise UserError(
                f"--exclude {name}: there is no such broker; expected one of {', '.join(there.brokers)}"
            )
    for pair in limits.pinned:
        if pair not in there.links:
            known = ", ".join(f"{a}-{b}" for a, b in there.links)
            raise UserError(
                f"--pin {pair[0]}-{pair[1]}: there is no such link; expected one of {known}"
            )
    for client in limits.kept:
        if client not in there.clients:
            warn(f"--keep {client}: there is no such client at the end of the run")


# --- for people ---------------------------------------------------------------------------------------


def show(console: Console, made: Plan, out: Path | None = None) -> None:
    """A plan as tables."""
    console.print(f"Plan {made.id} for {made.run}", style="bold")
    console.print(
        f"  from {made.seconds:,.0f} s of traffic between {len(made.placement.brokers)} brokers;"
        f" goals: {goals_text(made.goals)}",
        soft_wrap=True,
    )
    for line in effect_lines(made):
        console.print(f"  {line}", soft_wrap=True)
    for note in made.notes:
        console.print(f"  {note}", soft_wrap=True)
    if not made.steps:
        console.print("\nNothing is worth moving.")
    else:
        console.print()
        console.print(fitted(DECISIONS, list(decision_rows(made)), console.width))
    if made.alone:
        console.print(
            "\nEach optimiser alone, as predicted; sum is what was asked for, 1 as it is:"
        )
        console.print(fitted(ALONE, list(alone_rows(made)), console.width))
    if made.conflicts:
        console.print("\nConflicts:")
        for conflict in made.conflicts[:CONFLICTS_SHOWN]:
            console.print(f"  {conflict.by}: {conflict.chosen} (chosen)", soft_wrap=True)
            for other in conflict.others:
                console.print(
                    f"    {other.by}: {other.wish}: {other.why}", style="dim", soft_wrap=True
                )
        if len(made.conflicts) > CONFLICTS_SHOWN:
            console.print(
                f"  and {len(made.conflicts) - CONFLICTS_SHOWN} more (--json)", style="dim"
            )
    if made.refused:
        console.print(f"\n{len(made.refused)} wishes were refused (--json has them).", style="dim")
    if made.steps:
        told = f"; `roost apply {out}` carries them out" if out is not None else " (--out FILE)"
        console.print(f"\n{len(made.steps)} steps{told}", soft_wrap=True)


def goals_text(goals: Weights) -> str:
    said = ((name, getattr(goals, name)) for name in GOALS)
    return ", ".join(f"{name} {100 * weight:g} %" for name, weight in said if weight)


def effect_lines(made: Plan) -> Iterator[str]:
    before, after = made.before, made.after
    yield f"messages between brokers  {change(before.load_per_s, after.load_per_s, '{:,.2f}/s')}"
    yield f"delay                     {change(1e3 * before.delay_s, 1e3 * after.delay_s, '{:,.3g} ms')}"
    yield (
        f"busiest broker            {change(100 * before.busiest, 100 * after.busiest, '{:.3g} %')}"
        f" ({before.busiest_broker}, then {after.busiest_broker})"
    )


def change(before: float, after: float, form: str) -> str:
    """`11.8/s -> 0.61/s (-95 %)`"""
    by = f" ({100 * (after / before - 1):+.0f} %)" if before else ""
    return f"{form.format(before)} -> {form.format(after)}{by}"


def delay_text(effect: Effect) -> str:
    return f"{1e3 * effect.delay_s:.3g} ms"


def decision_rows(made: Plan) -> Iterator[Row]:
    for each in made.decisions:
        yield Row(
            (
                str(each.number),
                each.by,
                each.wish,
                f"{each.before.load_per_s:,.2f} -> {each.after.load_per_s:,.2f}",
                f"{delay_text(each.before)} -> {delay_text(each.after)}",
                each.why,
            )
        )


def alone_rows(made: Plan) -> Iterator[Row]:
    for each in made.alone:
        effect = each.effect
        yield Row(
            (
                each.who,
                f"{effect.load_per_s:,.2f}",
                delay_text(effect),
                f"{100 * effect.busiest:.3g} %",
                f"{each.cost:.3f}",
                f"{each.steps:,}",
            )
        )


def replay_rows(made: Plan, replays: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    from roost.pipeline.plans.replaying import AS_IT_WAS, PLANNED

    predicted = {AS_IT_WAS: made.before, PLANNED: made.after}
    for name, row in replays.items():
        said = predicted.get(name)
        yield Row(
            (
                name,
                f"{row['load_per_s']:,.2f}",
                f"{1e3 * row['delay_s']:.3g} ms",
                f"{100 * row['busiest']:.3g} % ({row['busiest_broker']})",
                f"{row['delivered']:,}",
                f"{row['violations']:,}",
                f"{said.load_per_s:,.2f}/s, {delay_text(said)}" if said is not None else "",
            ),
            None if not row["violations"] else "red",
        )
