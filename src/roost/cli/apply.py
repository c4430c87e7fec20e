"""`roost apply` and `roost undo`: a plan is carried out on the brokers that run, or taken back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.console import print_json, warn
from roost.cli.fleet import Fleet, about_fleet
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.pipeline.plans.applying import Result
    from roost.pipeline.plans.brokers import Brokers
    from roost.pipeline.plans.plan import Plan, Step

APPLY_EXAMPLES = """\b
The steps of a plan are carried out one after the other, under traffic: nothing is lost, doubled or reordered.
What became of each is in FILE.journal: whoever has the two files goes on where it was stopped, with the same
command, or takes it back with `roost undo`. A federation that has changed since the plan was made is refused,
with what has changed. `roost decisions` shows the steps, and what was measured beside what was predicted.

\b
Exit codes: 0 all steps are done, 1 some failed, 2 refused.

\b
Examples:
  roost apply monday.plan
  roost apply monday.plan --measure 30 --state ./somewhere
  roost apply monday.plan --lake traces
  roost apply monday.plan --admin http://10.0.0.1:7412 --admin http://10.0.0.2:7412
"""
UNDO_EXAMPLES = """\b
What `roost apply` did, as its journal has it, is taken back in the opposite order.

\b
Examples:
  roost undo monday.plan
  roost undo monday.plan --within 120 --json
"""
EXIT_FAILED = 1

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", dir_okay=False, help="The plan, of `roost plan --out`.")
]
WithinOption = Annotated[
    float, typer.Option(min=0.0, metavar="S", help="How long a step may take, in seconds.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("apply", epilog=APPLY_EXAMPLES)(apply)
    app.command("undo", epilog=UNDO_EXAMPLES)(undo)


@about_fleet
def apply(
    fleet: Fleet,
    file: FileArgument,
    within: WithinOption = 60.0,
    measure: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="S", help="Count messages for so long, before and after; 0: don't."
        ),
    ] = 10.0,
    lake: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the brokers still record the run of the plan: measure its delay, too.",
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Carry out a plan, step by step, or go on with it."""
    from roost.pipeline.plans import applying
    from roost.pipeline.plans.journal import journal_path, opened
    from roost.pipeline.plans.plan import read_plan

    plan, brokers = read_plan(file), brokers_of(fleet)
    with opened(journal_path(file), plan) as journal:
        applying.check(plan, journal, brokers)
        before = measured(brokers, plan, measure, lake)
        result = applying.apply(
            plan,
            journal,
            brokers,
            say=lambda text: typer.echo(text, err=True),
            tell=lambda step, undo: recorded(brokers, plan, step, undone=undo),
            timing=applying.Timing(within),
        )
        after = measured(brokers, plan, measure, lake, is_done=True)
    if after and not result.failed:
        brokers.tell_outcome(plan, before, after)
    told = {
        "before_per_s": before.get("load_per_s"),
        "after_per_s": after.get("load_per_s"),
        "predicted_per_s": plan.after.load_per_s,
        "before_delay_s": before.get("delay_s"),
        "after_delay_s": after.get("delay_s"),
        "predicted_delay_s": plan.after.delay_s,
    }
    if not json_ and after:
        typer.echo(
            f"messages between brokers: {before['load_per_s']:,.1f}/s before, {after['load_per_s']:,.1f}/s"
            f" now, predicted {plan.after.load_per_s:,.1f}/s"
        )
        if "delay_s" in before and "delay_s" in after:
            typer.echo(
                f"delay: {1e3 * before['delay_s']:,.2f} ms before, {1e3 * after['delay_s']:,.2f} ms now,"
                f" predicted {1e3 * plan.after.delay_s:,.2f} ms"
            )
    ended(plan, result, told, json_=json_)


def measured(
    brokers: Brokers, plan: Plan, seconds: float, lake: Path | None, *, is_done: bool = False
) -> dict[str, float]:
    """Messages a second between brokers, counted for so long, and the delay if it is recorded.

    Steps that are done stay so, whatever can't be measured: that is told then, and no error.
    """
    from roost.pipeline.lake import Lake
    from roost.pipeline.plans.delay import mean_delay_s, wait_until_shown

    if not seconds:
        return {}
    since = time.time()
    found = {"load_per_s": brokers.message_rate(seconds)}
    if lake is None:
        return found
    there, until = Lake(lake), time.time()
    try:
        wait_until_shown(there, plan.run, until)
        delay_s = mean_delay_s(there, plan.run, since, until)
    except UserError as late:
        if not is_done:
            raise
        warn(f"the delay is not known: {late}")
        return found
    return found if delay_s is None else {**found, "delay_s": delay_s}


@about_fleet
def undo(
    fleet: Fleet, file: FileArgument, within: WithinOption = 60.0, json_: JsonOption = False
) -> None:
    """Take back what was carried out of a plan."""
    from roost.pipeline.plans import applying
    from roost.pipeline.plans.journal import journal_path, opened
    from roost.pipeline.plans.plan import read_plan

    plan, path = read_plan(file), journal_path(file)
    if not path.exists():
        raise UserError(f"{path}: there is no journal: plan {plan.id} was never applied from here")
    brokers = brokers_of(fleet)
    with opened(path, plan) as journal:
        result = applying.undo(
            plan,
            journal,
            brokers,
            say=lambda text: typer.echo(text, err=True),
            tell=lambda step, undo: recorded(brokers, plan, step, undone=undo),
            timing=applying.Timing(within),
        )
    ended(plan, result, {}, json_=json_)


def brokers_of(fleet: Fleet) -> Brokers:
    """The brokers that the options say."""
    from roost.pipeline.plans.brokers import Brokers

    return Brokers([target.url for target in fleet.targets], fleet.access)


def recorded(brokers: Brokers, plan: Plan, step: Step, *, undone: bool) -> None:
    """A record that can't be left is no reason to stop."""
    from roost.runtime.admin_client import AdminError

    try:
        brokers.tell(plan, step, undone=undone)
    except AdminError as refused:
        warn(f"step {step.number} is not among the decisions: {refused}")


def ended(plan: Plan, result: Result, told: dict[str, float | None], *, json_: bool) -> None:
    """What came of it; exit code 1 if not all of it did."""
    if json_:
        figures = {name: getattr(result, name) for name in ("done", "failed", "undone", "left")}
        print_json({"plan": plan.id, **figures, **told, "notes": list(result.notes)})
    else:
        words = (
            f"{getattr(result, name)} {name}"
            for name in ("done", "undone", "failed", "left")
            if getattr(result, name)
        )
        typer.echo(f"plan {plan.id}: {', '.join(words) or 'nothing to do'}")
        for note in result.notes:
            warn(note)
    if result.failed or result.left:
        raise typer.Exit(EXIT_FAILED)
