"""`roost sim`: federations in the laboratory."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from roost.cli.broker import ModuleOption, modules_of
from roost.cli.console import people, print_json, say_many_seeds
from roost.cli.lake import DEFAULT, LakeOption
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.simulation.campaign import Outcome
    from roost.simulation.statements import Statement

EXIT_VIOLATIONS = 1
FUZZ_SEEDS = 300

EXAMPLES = """\b
Examples:
  roost sim generate local --seed 1 --out local.workload
  roost sim run local.workload
  roost sim fuzz --seeds 300
"""
RUN_EXAMPLES = """\b
A workload is lines of `time noun verb arguments`; `roost sim generate` writes one.
The same file and seed give the same run, and the same bytes in the trace.
Exit codes: 0 every promise was kept, 1 some were not, 2 bad input.

\b
Examples:
  roost sim run local.workload
  roost sim run local.workload --until 600 --trace traces
  roost sim run local.workload --trace traces --content
  roost sim run local.workload --faults network --seed 7 --json
  roost sim run local.workload --until 60 --story P1:17 --story S3
  roost sim run local.workload --animate local.html
"""
GENERATE_EXAMPLES = """\b
Without NAME it lists what there is, with its parameters.

\b
Examples:
  roost sim generate
  roost sim generate local --seed 1 --out local.workload
  roost sim generate tree --set brokers=15 --set subscribers=500 > tree.workload
"""
FROM_RUN_EXAMPLES = """\b
The run has to have its events (`roost trace on --content`, `roost sim run --trace DIR --content`). The file
has its machines, its links, its clients where they were at the end, and its events at their times. Run
without faults it delivers all that was delivered, in the order of each publisher.

\b
With --what-if something is different: `double the rate of P7`, `multiply the rate of everybody by 3`,
`lose B5`, `add B9 to B2` (it takes half of B2's subscribers), `move S1 to B2`,
`link B2 to B0 instead of B1`, `slow B3 by 4`; several are joined by `and`.

\b
Examples:
  roost sim from-run monday --out recorded.workload
  roost sim from-run monday --lake traces --what-if 'lose B5 and double the rate of P7' --out lost.workload
"""
FUZZ_EXAMPLES = """\b
Each seed is a small federation that lives through churn and faults, while every delivery
is checked. Exit codes: 0 every promise was kept, 1 some were not, 2 bad input.

\b
Examples:
  roost sim fuzz
  roost sim fuzz --first 300 --seeds 1000 --jobs 4 --save failed
  roost sim fuzz --first 134 --seeds 1 --story S3
  roost sim fuzz --profile moves --moves 10000 --jobs 2
  roost sim fuzz --seeds 300 --chunks
"""

ProfileName = Literal["none", "network", "crash", "all", "standbys", "edges", "rewirings"]
FuzzProfileName = Literal[
    "none",
    "network",
    "crash",
    "all",
    "edges",
    "moves",
    "rewirings",
    "overlay",
    "balancing",
    "clusters",
    "standbys",
    "partition",
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Chunks = Annotated[
    bool, typer.Option("--chunks", help="Brokers take publications as bytes, as live ones do.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of all that the workload leaves open.")]
Stories = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID", help="Tell the story of a publication (P1:17) or a client; repeatable."
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    sim = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Federations in the laboratory, in virtual time.",
        epilog=EXAMPLES,
    )
    sim.command("run", epilog=RUN_EXAMPLES)(run)
    sim.command("generate", epilog=GENERATE_EXAMPLES)(generate)
    sim.command("from-run", epilog=FROM_RUN_EXAMPLES)(from_run)
    sim.command("fuzz", epilog=FUZZ_EXAMPLES)(fuzz)
    app.add_typer(sim, name="sim")


# --- run --------------------------------------------------------------------------------------------


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The workload.")],
    seed: Seed = 0,
    until: Annotated[
        float | None,
        typer.Option(metavar="S", help="End then; else where the file says, or 60 s after it."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Write the tables of the trace there."),
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="Trace the events themselves, too.")
    ] = False,
    faults: Annotated[
        ProfileName, typer.Option(help="Add faults: of the network, crashes, or all kinds.")
    ] = "none",
    animate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False, help="Write a page that plays the run again, as HTML."
        ),
    ] = None,
    module: ModuleOption = None,
    story: Stories = None,
    no_rest: Annotated[
        bool, typer.Option("--no-rest", help="Stop dead, rather than let all arrive.")
    ] = False,
    chunks: Chunks = False,
    json_: Json = False,
) -> None:
    """Run a workload, and check every delivery and table."""
    from roost.broker.registry import parse_order
    from roost.cli.sim import report
    from roost.cli.sim.run import Plan, animated, carry_out

    orders = tuple(
        parse_order(name, order.split()) for name, order in modules_of(module or []).items()
    )
    if content and trace is None:
        raise UserError("--content is for a trace; expected --trace DIR with it")
    plan = Plan(
        file,
        seed,
        until,
        trace,
        faults,
        rest=not no_rest,
        stories=bool(story),
        modules=orders,
        chunks=chunks,
        content=content,
    )
    result = carry_out(plan) if animate is None else animated(plan, animate)
    if json_:
        print_json(result.as_dict())
    else:
        console = people()
        report.show_run(console, result)
        if result.storybook is not None:
            for id_ in story or ():
                report.show_story(console, id_, result.storybook)
    if not result.checks.clean:
        raise typer.Exit(EXIT_VIOLATIONS)


# --- generate ---------------------------------------------------------------------------------------


def generate(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Of the generator.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Where to write; else standard output."),
    ] = None,
) -> None:
    """Write a workload file from a seed."""
    if name is None:
        if set_ or out is not None:
            raise UserError("which generator? expected a NAME; `roost sim generate` lists them")
        list_generators()
        return
    from roost.cli.sinks import whole_file
    from roost.simulation import generators
    from roost.simulation.workload_file import write_workload

    statements = generators.generate(name, seed, assignments(set_ or []))
    if out is not None:
        statements = [beside(statement, out) for statement in statements]
    said = " ".join(
        ["roost sim generate", name, f"--seed {seed}", *(f"--set {s}" for s in set_ or [])]
    )
    text = write_workload(statements, [said])
    if out is None:
        typer.echo(text, nl=False)
        return
    with whole_file(out) as file:
        file.write(text.encode())
    typer.echo(f"wrote {out}: {len(statements):,} statements, until {statements[-1].at:g} s")


def assignments(texts: list[str]) -> dict[str, str]:
    """Values by parameter, from KEY=VALUE."""
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"--set {text}: expected KEY=VALUE")
        values[key] = value
    return values


def beside(statement: Statement, out: Path) -> Statement:
    """Paths in a workload file start where the file is, those of a command where it is called."""
    from msgspec.structs import replace

    from roost.simulation.statements import UseBars

    if isinstance(statement, UseBars) and not os.path.isabs(statement.path):
        return replace(statement, path=os.path.relpath(statement.path, out.parent))
    return statement


def list_generators() -> None:
    """What there is, and what of it can be set."""
    from rich.padding import Padding

    from roost.papers import cited
    from roost.simulation.generators import GENERATORS

    console = people()
    for number, generator in enumerate(GENERATORS.values()):
        if number:
            console.print()
        console.print(generator.name, style="bold")
        console.print(Padding(cited(generator.description), (0, 0, 0, 2), expand=False))
        parameters = "  ".join(map(str, generator.parameters.values()))
        console.print(Padding(parameters, (0, 0, 0, 2), style="dim", expand=False))


# --- from-run ---------------------------------------------------------------------------------------


def from_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Of the lake, with its events.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Where to write; else standard output."),
    ] = None,
    suppose: Annotated[
        str | None, typer.Option("--what-if", metavar="WORDS", help="What is different.")
    ] = None,
    lake: LakeOption = DEFAULT,
) -> None:
    """Write a recorded run as a workload file."""
    from roost.cli.sinks import whole_file
    from roost.pipeline.lake import Lake
    from roost.pipeline.plans.replaying import read_scene, workload_text
    from roost.pipeline.plans.what_if import what_if

    scene = read_scene(Lake(lake), run)
    remarks: tuple[str, ...] = ()
    if suppose is not None:
        scene, remarks = what_if(scene, suppose), (f"what if: {suppose}",)
    text = workload_text(scene, *remarks)
    if out is None:
        typer.echo(text, nl=False)
        return
    with whole_file(out) as file:
        file.write(text.encode())
    typer.echo(
        f"wrote {out}: {len(scene.brokers):,} brokers, {len(scene.clients):,} clients,"
        f" {len(scene.events):,} events"
    )


# --- fuzz -------------------------------------------------------------------------------------------


def fuzz(
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many scenarios; else 300.")
    ] = None,
    first: Annotated[int, typer.Option(min=0, metavar="K", help="The first seed.")] = 0,
    profile: Annotated[
        FuzzProfileName,
        typer.Option(
            help="Which kinds of faults; edges: while clients begin and end; moves: while they move."
        ),
    ] = "all",
    moves: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="M", help="As many scenarios as it takes for M moves to finish."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="J", help="How many processes.")] = 1,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Write the workloads that fail there."),
    ] = None,
    story: Stories = None,
    chunks: Chunks = False,
    json_: Json = False,
) -> None:
    """Run random scenarios with faults, and check every delivery and table."""
    from msgspec import to_builtins

    from roost.cli.sim import report
    from roost.simulation.campaign import Campaign, campaign

    if moves is not None and seeds is not None:
        raise UserError("--seeds and --moves both say how many scenarios; expected one of them")
    if story and seeds != 1:
        raise UserError("--story is for one seed; expected --seeds 1")
    if seeds is not None:
        say_many_seeds(seeds, first, f"--first {seeds} --seeds 1")
    if save is not None:
        make_folder(save)
    ran = Campaign()
    if moves is None:
        some = range(first, first + (seeds or FUZZ_SEEDS))
        with report.progress("scenarios", len(some)) as say:
            for outcome in campaign(some, profile, jobs, chunks=chunks):
                ran.add(outcome)
                say(ran.seeds)
    else:
        with report.progress("moves", moves) as say:
            for outcome in campaign(count(first), profile, jobs, chunks=chunks):
                ran.add(outcome)
                say(ran.moves.finished)
                if ran.moves.finished >= moves:
                    break
    words = [f"--profile {profile}"] * (profile != "all") + ["--chunks"] * chunks
    saved = {o.seed: save_scenario(o.seed, profile, save) for o in ran.wrong if save is not None}
    if json_:
        print_json(
            {
                "profile": profile,
                "first": first,
                "seeds": ran.seeds,
                "delivered": ran.delivered,
                "moves": to_builtins(ran.moves),
                "failures": [failure_json(o, words, saved.get(o.seed)) for o in ran.wrong],
            }
        )
    else:
        console = people()
        for outcome in ran.wrong:
            report.show_failure(console, outcome, replay(outcome, words), saved.get(outcome.seed))
        report.show_campaign(console, ran)
        if seeds == 1:
            about = story or [o.subject for o in ran.wrong if o.subject]
            tell_stories(first, profile, about, chunks=chunks)
    if ran.wrong:
        raise typer.Exit(EXIT_VIOLATIONS)


def replay(outcome: Outcome, options: list[str]) -> str:
    """The command that runs a seed again, and tells the story of what went wrong first."""
    words = ["roost sim fuzz", f"--first {outcome.seed}", "--seeds 1", *options]
    if outcome.subject is not None:
        words.append(f"--story {outcome.subject}")
    return " ".join(words)


def failure_json(outcome: Outcome, options: list[str], saved: Path | None) -> dict[str, Any]:
    """A seed that failed, for programs."""
    from msgspec import to_builtins

    return {
        "seed": outcome.seed,
        "checks": to_builtins(outcome.checks),
        "replay": replay(outcome, options),
        "saved": None if saved is None else str(saved),
    }


def make_folder(folder: Path) -> None:
    """Refuses before the work, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as bad:
        raise UserError(f"{folder}: {bad.strerror or bad}") from None


def save_scenario(seed: int, profile: str, folder: Path) -> Path:
    """Writes the workload of a seed, for `roost sim run`."""
    from roost.cli.sinks import whole_file
    from roost.simulation.fuzz import scenario_of

    path = folder / f"fuzz-{profile}-{seed}.workload"
    with whole_file(path) as file:
        file.write(scenario_of(seed, profile).text().encode())
    return path


def tell_stories(seed: int, profile: str, ids: list[str], *, chunks: bool) -> None:
    """Runs a seed again, this time with somebody who listens."""
    if not ids:
        return
    from roost.broker.story import Storybook
    from roost.cli.sim import report
    from roost.simulation.fuzz import fuzz as run_seed

    storybook = Storybook()
    run_seed(seed, profile, storybook, chunks=chunks)
    for id_ in ids:
        report.show_story(people(), id_, storybook)
