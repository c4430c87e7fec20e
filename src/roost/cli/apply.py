"""`roost apply` and `roost undo`: a plan is carried out on the brokers that run, or taken back."""

from __future__ import annotations

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
    json_: JsonOption = False,
) -> None:
    """Carry out a plan, step by step, or go on with it."""
    from roost.pipeline.plans import applying
    from roost.pipeline.plans.journal import journal_path, opened
    from roost.pipeline.plans.plan import read_plan

    plan, brokers = read_plan(file), brokers_of(fleet)
    with opened(journal_path(file), plan) as journal:
        applying.check(plan, journal, brokers)
        before = brokers.message_rate(measure) if measure else None
        result = applying.apply(
            plan,
            journal,
            brokers,
            say=lambda text: typer.echo(text, err=True),
            tell=lambda step, undo: recorded(brokers, plan, step, undone=undo),
            timing=applying.Timing(within),
        )
        after = brokers.message_rate(measure) if measure else None
    if before is not None and after is not None and not result.failed:
        brokers.tell_outcome(plan, before, after)
    told = {"before_per_s": before, "after_per_s": after, "predicted_per_s": plan.after.load_per_s}
    if not json_ and after is not None:
        typer.echo(
            f"messages between brokers: {before:,.1f}/s before, {after:,.1f}/s now, predicted"
            f" {plan.after.load_per_s:,.1f}/s"
        )
    ended(plan, result, told, json_=json_)


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
