"""The two tables of a match, checked, and cut down to what matters.

Columns get names by their position (`c0`, `c1`, ...): an attribute may be called anything, also something
that Spark would take apart at a dot, or two things that differ only in case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from roost.errors import UserError
from roost.pipeline.matching.names import numbered
from roost.pipeline.matching.tasks import FORMS, LISTS, Reading
from roost.pipeline.schemas import (
    ATTRIBUTE_TYPES,
    PUBLICATION,
    SUBSCRIPTION,
    checked,
    not_an_attribute,
    spark_schema,
    with_long_ids,
)
from roost.pipeline.values import language_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

PLANS = ("auto", "broadcast", "partitioned", "join")


@dataclass(frozen=True)
class Inputs:
    """What is to be matched, and how the answer shall look."""

    publications: DataFrame  # columns c0, c1, ... of which the first is the number
    attributes: dict[str, int]  # the columns that are attributes, by name
    others: dict[str, str]  # the type of those that can't be, by name
    keep: tuple[tuple[int, str], ...]
    event: int | None
    subscriptions: DataFrame  # `subscription` and either `filter` or `filters`
    names: (
        pa.Array | None
    )  # what the subscriptions go by, if it is texts; else they go by their numbers
    form: str
    schema: StructType  # of the answer

    @property
    def session(self) -> SparkSession:
        """Where all of it happens."""
        return self.publications.sparkSession

    @property
    def is_text(self) -> bool:
        """Whether the filters are texts."""
        return "filter" in self.subscriptions.columns

    def check_spoken_of(self, names: Iterable[str]) -> None:
        """Refuses a filter on a column that can't be an attribute."""
        for name in names:
            if name in self.others:
                raise not_an_attribute(name, self.others[name])

    def columns(self, names: Collection[str]) -> tuple[DataFrame, Reading]:
        """The publications with what subscriptions on these attributes need, and how to read them."""
        self.check_spoken_of(names)
        attributes = [(at, name) for name, at in self.attributes.items() if name in names]
        wanted = dict.fromkeys(at for at, _ in (*attributes, *self.keep))
        if self.event is not None:
            wanted[self.event] = None
        places = {at: place for place, at in enumerate(wanted, start=1)}
        frame = self.publications.select("c0", *(f"c{at}" for at in places))
        return frame, Reading(
            tuple((places[at], name) for at, name in attributes),
            tuple((places[at], name) for at, name in self.keep),
            None if self.event is None else places[self.event],
        )


def checked_inputs(
    publications: DataFrame,
    subscriptions: DataFrame,
    *,
    plan: str = "auto",
    form: str = "pairs",
    keep: Sequence[str] = (),
    event_column: str | None = None,
) -> Inputs:
    """The inputs, if they can be matched: what is wrong with them is found before any work is done."""
    if plan not in PLANS:
        raise UserError(f"the plan {plan!r} is unknown; expected one of {', '.join(PLANS)}")
    if form not in FORMS:
        raise UserError(f"the form {form!r} is unknown; expected one of {', '.join(FORMS)}")
    positions = _positions(list(publications.schema))
    publications = with_long_ids(publications, PUBLICATION)
    fields = list(publications.schema)
    _check_keep(keep, positions, form)
    checked(publications, "publications", or_text=PUBLICATION)
    kinds = {f.name: f.dataType.simpleString() for f in fields if f.name != PUBLICATION}
    others: dict[str, str] = {}
    became: dict[str, str] = {}
    if event_column is None:
        # Columns of other types may be there, as long as no filter speaks of them.
        others = {name: kind for name, kind in kinds.items() if kind not in ATTRIBUTE_TYPES}
        became = {name: kind for name in others if (kind := language_type(others[name]))}
        others = {name: kind for name, kind in others.items() if name not in became}
        attributes = {n: positions[n] for n in kinds if n not in others and n not in became}
        event = None
    else:
        event = _event_position(fields, positions, event_column)
        attributes = {}
        if plan == "join":
            raise UserError(
                "the plan 'join' compares columns, and can't look into a column of events"
                f" ({event_column!r}); expected another plan"
            )
    order = [positions[PUBLICATION], *(p for n, p in positions.items() if n != PUBLICATION)]
    place = {old: new for new, old in enumerate(order)}
    renamed = publications.toDF(*(f"c{place[n]}" for n in range(len(fields))))
    placed = {name: place[at] for name, at in attributes.items()}
    for name, kind in became.items():  # beside what they were, which may be kept
        at = placed[name] = len(renamed.columns)
        renamed = renamed.selectExpr("*", f"cast(c{place[positions[name]]} as {kind}) as c{at}")
    filters, names = _subscriptions(subscriptions)
    return Inputs(
        renamed,
        placed,
        others,
        tuple((place[positions[name]], name) for name in keep),
        None if event is None else place[event],
        filters,
        names,
        form,
        _schema(form, fields[positions[PUBLICATION]], [fields[positions[name]] for name in keep]),
    )


def _positions(fields: Sequence[StructField]) -> dict[str, int]:
    twice = [name for name, n in Counter(field.name for field in fields).items() if n > 1]
    if twice:
        raise UserError(f"the table 'publications' has two columns {twice[0]!r}; expected one")
    return {field.name: n for n, field in enumerate(fields)}


def _check_keep(keep: Sequence[str], positions: dict[str, int], form: str) -> None:
    own = (PUBLICATION, "subscriptions" if form == LISTS else SUBSCRIPTION)
    for number, name in enumerate(keep):
        if name not in positions:
            raise UserError(
                f"there is no column {name!r} to keep in the table 'publications'; there are"
                f" {', '.join(map(repr, positions))}"
            )
        if name in own or name in keep[:number]:
            raise UserError(f"the column {name!r} can't be kept: the result has one of that name")


def _event_position(
    fields: Sequence[StructField], positions: dict[str, int], event_column: str
) -> int:
    at = positions.get(event_column)
    if at is None:
        raise UserError(
            f"there is no column {event_column!r} of events in the table 'publications'; there are"
            f" {', '.join(map(repr, positions))}"
        )
    kind = fields[at].dataType.simpleString()
    if kind != "string":
        raise UserError(f"the column {event_column!r} of events is {kind}; expected string")
    return at


def _subscriptions(frame: DataFrame) -> tuple[DataFrame, pa.Array | None]:
    """The two columns of either table: which of them it is, its columns say. And texts they go by, if any."""
    is_parsed = "filters" in frame.columns and "filter" not in frame.columns
    table, column = ("parsed", "filters") if is_parsed else ("subscriptions", "filter")
    frame = checked(with_long_ids(frame, SUBSCRIPTION), table, or_text=SUBSCRIPTION)
    frame = frame.select(SUBSCRIPTION, column)
    if frame.schema[SUBSCRIPTION].dataType.simpleString() != "string":
        return frame, None
    return numbered(frame)


def _schema(form: str, number: StructField, kept: Sequence[StructField]) -> Any:
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 (not in a task)

    _, answer = spark_schema("lists" if form == LISTS else "matches")
    first = StructField(PUBLICATION, number.dataType)
    return StructType([first, answer, *(StructField(field.name, field.dataType) for field in kept)])
