"""Many texts of few forms: `symbol = 'A' and high > 12.5` differs from its neighbours only in literals.

A text is split into its literals and what stands between them, its *frame*. The first text of a frame is
parsed; if it is a plain conjunction with one literal a predicate, all others of that frame are the same with
other constants, and these are converted a column at a time. It is about ten times as quick as parsing.

Whatever is not certain is parsed, so that a mistake here can only cost time. A frame has no quotes or
backslashes left in it, so what was taken for a string is one; a number stands alone between blanks, commas
and the like, so it is not part of a name; and each literal must be the constant of its predicate.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roost.language import LanguageError, Operator, parse_subscription
from roost.language.values import CONSTANT_LENGTH_MAX
from roost.pipeline.parsed import column_of

# Fewer of a frame in a batch are parsed: the columns would cost more.
FRAME_MIN = 8
FRAMES_MAX = 4_096

_split = re.compile(
    r"""('[^'\\]*'
    |(?<=[\s,(=<>])-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=[\s,)\]]|\Z))""",
    re.VERBOSE,
).split
_suspect = re.compile(r"""["'\\]""").search
_NOT_PLAIN = (Operator.IN, Operator.PRESENT)

Frame = tuple[str, ...]
# Integers, floats and strings, null where it is another of the three.
Constants = tuple[pa.Array, pa.Array, pa.Array]


class Form(NamedTuple):
    """A conjunction without its constants: an attribute, an operator and whether it is a string, each."""

    attributes: list[str]
    operators: list[str]
    is_text: list[bool]


class Forms:
    """The forms that were met."""

    def __init__(self) -> None:
        self._known: dict[Frame, Form | None] = {}

    def filters(
        self, texts: Sequence[str], parse: Callable[[Sequence[str]], pa.ListArray]
    ) -> pa.ListArray:
        """The column `filters` of texts; `parse` is for those that are not of a plain form."""
        by_frame: dict[Frame, list[int]] = defaultdict(list)
        literals = []
        for row, text in enumerate(texts):
            parts = _split(text)
            literals.append(parts[1::2])
            by_frame[tuple(parts[::2])].append(row)
        parsed: list[int] = []
        found: list[pa.ListArray] = []
        order: list[int] = []
        for frame, rows in by_frame.items():
            column = None
            if len(rows) >= FRAME_MIN:
                form = self._form(frame, texts[rows[0]], literals[rows[0]])
                if form is not None:
                    column = _column(form, [literals[row] for row in rows])
            if column is None:
                parsed += rows
            else:
                found.append(column)
                order += rows
        found.append(parse([texts[row] for row in parsed]))
        order += parsed
        # Where each text stands among what was found.
        return pa.concat_arrays(found).take(pa.array(np.argsort(np.array(order, np.int64))))

    def _form(self, frame: Frame, text: str, literals: list[str]) -> Form | None:
        if frame not in self._known:
            if len(self._known) >= FRAMES_MAX:
                return None
            self._known[frame] = _form_of(frame, text, literals)
        return self._known[frame]


def _form_of(frame: Frame, text: str, literals: list[str]) -> Form | None:
    # Strings that touch are one with a quote in it.
    if not literals or any(_suspect(part) for part in frame) or "" in frame[1:-1]:
        return None
    try:
        filters = parse_subscription(text).filters
    except LanguageError:
        return None
    predicates = filters[0].predicates
    if len(filters) > 1 or len(predicates) != len(literals):
        return None
    for predicate, literal in zip(predicates, literals, strict=True):
        if predicate.operator in _NOT_PLAIN or predicate.constant != _value(literal):
            return None
    return Form(
        [predicate.attribute for predicate in predicates],
        [predicate.operator.value for predicate in predicates],
        [literal[0] == "'" for literal in literals],
    )


def _value(literal: str) -> str | int | float:
    if literal[0] == "'":
        return literal[1:-1]
    return int(literal) if literal.lstrip("-").isdigit() else float(literal)


def _column(form: Form, literals: Sequence[list[str]]) -> pa.ListArray | None:
    """The column `filters` of texts of one form; None if a literal is not as it should be."""
    n, width = len(literals), len(form.attributes)
    columns = [pa.array(column, pa.string()) for column in zip(*literals, strict=True)]
    converted = [
        _texts(column) if is_text else _numbers(column)
        for column, is_text in zip(columns, form.is_text, strict=True)
    ]
    found = [constants for constants in converted if constants is not None]
    if len(found) < width:
        return None
    # From columns to rows: predicate after predicate.
    across = pa.array((np.arange(n)[:, None] + n * np.arange(width)).ravel())
    again = pa.array(np.tile(np.arange(width), n))
    return column_of(
        pa.array(form.attributes, pa.string()).take(again),
        pa.array(form.operators, pa.string()).take(again),
        [
            pa.nulls(n * width, pa.bool_()),
            *(pa.concat_arrays(kind).take(across) for kind in zip(*found, strict=True)),
        ],
        of_predicates=np.arange(n * width + 1),
        of_filters=np.arange(0, n * width + 1, width),
        of_interests=np.arange(n + 1),
    )


def _texts(literals: pa.StringArray) -> Constants | None:
    if not pc.all(pc.starts_with(literals, "'")).as_py():
        return None
    words = pc.utf8_slice_codeunits(literals, 1, -1)
    if pc.max(pc.utf8_length(words)).as_py() > CONSTANT_LENGTH_MAX:
        return None
    return pa.nulls(len(words), pa.int64()), pa.nulls(len(words), pa.float64()), words


def _numbers(literals: pa.StringArray) -> Constants | None:
    none = pa.nulls(len(literals), pa.string())
    real = pc.match_substring_regex(literals, "[.eE]")
    try:
        whole = pc.if_else(real, None, literals).cast(pa.int64())
        numbers = pc.if_else(real, literals, None).cast(pa.float64())
    except pa.ArrowInvalid:
        return None  # a string among them, or a number that is too large
    if not pc.all(pc.is_finite(numbers.drop_null()), min_count=0).as_py():
        return None
    return whole, numbers, none
