"""The way from two tables to their matches: check, measure, choose, prepare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roost.errors import UserError
from roost.pipeline.arguments import arguments_checked
from roost.pipeline.matching.broadcast import hold, match_held
from roost.pipeline.matching.choosing import Choice, choose
from roost.pipeline.matching.inputs import Inputs, checked_inputs
from roost.pipeline.matching.join import join_matches
from roost.pipeline.matching.names import named
from roost.pipeline.matching.partitioned import divide, match_divided
from roost.pipeline.matching.statistics import Sampled, default_memory_limit, gathered
from roost.pipeline.parsing import plain_refusals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Prepared:
    """Matches that Spark has yet to compute, and by which plan it will."""

    choice: Choice
    frame: DataFrame


@arguments_checked
def match(
    publications: DataFrame,
    subscriptions: DataFrame,
    *,
    plan: str = "auto",
    form: str = "pairs",
    keep: Sequence[str] = (),
    memory_limit_bytes: int | None = None,
    event_column: str | None = None,
) -> DataFrame:
    """The matches: a row (publication, subscription) each, or with the form `lists` a row a publication
    that matches anything, with all of its `subscriptions`.

    `subscriptions` is a table of that name or `parsed`. Both go by whole numbers or by texts. Columns of
    types that no attribute has (timestamps, decimals, lists) may be among the publications' if no filter
    speaks of them. `keep` are further columns of the publications for the result. With `event_column`,
    events are texts (JSON or the papers' syntax) in that column, instead of a column an attribute; then
    their attributes may be of any type, each for itself. `memory_limit_bytes` is what the subscriptions may
    take in a task; the default is a share of what there is. What is wrong with the input is a `UserError`
    now. The result is lazy; an event that is none fails the job that uses it (see
    `parsing.plain_refusals`).
    """
    return prepare_match(
        publications,
        subscriptions,
        plan=plan,
        form=form,
        keep=keep,
        memory_limit_bytes=memory_limit_bytes,
        event_column=event_column,
    ).frame


def prepare_match(
    publications: DataFrame,
    subscriptions: DataFrame,
    *,
    plan: str = "auto",
    form: str = "pairs",
    keep: Sequence[str] = (),
    memory_limit_bytes: int | None = None,
    event_column: str | None = None,
) -> Prepared:
    """What `match` returns, and the choice of its plan."""
    with plain_refusals():
        inputs = checked_inputs(
            publications, subscriptions, plan=plan, form=form, keep=keep, event_column=event_column
        )
        prepared = _prepared(inputs, _limit(inputs, memory_limit_bytes), plan)
    if inputs.names is None:
        return prepared
    return Prepared(prepared.choice, named(prepared.frame, inputs.names, form))


def _prepared(inputs: Inputs, limit: int, plan: str) -> Prepared:
    known = gathered(inputs, limit, plan)
    choice = choose(known.statistics, limit, plan=plan)
    if choice.plan == "broadcast":
        return Prepared(choice, match_held(inputs, hold(inputs)))
    if choice.plan == "join":
        return Prepared(choice, join_matches(inputs))
    return _divided(inputs, known, choice, limit)


def _divided(inputs: Inputs, known: Sampled, choice: Choice, limit: int) -> Prepared:
    assert known.sample is not None
    division = divide(inputs, known.statistics, known.sample, limit)
    told = replace(
        choice,
        reason=f"{choice.reason}; {division.reason}",
        figures={
            **choice.figures,
            "parts": division.layout.cells,
            "largest_part_bytes": int(division.heaviest),
        },
    )
    return Prepared(told, match_divided(inputs, division))


@arguments_checked
def explain_match(
    publications: DataFrame,
    subscriptions: DataFrame,
    *,
    plan: str = "auto",
    memory_limit_bytes: int | None = None,
    **options: Any,
) -> Choice:
    """Which plan `match` would take with the same arguments, and why. It builds no index of everything."""
    with plain_refusals():
        inputs = checked_inputs(publications, subscriptions, plan=plan, **options)
        limit = _limit(inputs, memory_limit_bytes)
        return choose(gathered(inputs, limit, plan).statistics, limit, plan=plan)


def _limit(inputs: Inputs, given: int | None) -> int:
    if given is None:
        return default_memory_limit(inputs.session)
    if given <= 0:
        raise UserError(f"the memory limit is {given} bytes; expected more than 0")
    return given
