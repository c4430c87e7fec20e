"""Workload files: text to statements, and back.

A file is lines of `time noun verb arguments`. White space separates; `#` starts a comment, at the start of
a line or after white space and not inside quotes. How each line is written is said in `workload_grammar`,
what it means in `statements`; whether the lines make sense together is checked by `workload_check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import NoReturn

import msgspec
from msgspec import Struct

from roost.broker.registry import make_module, parse_order
from roost.broker.routers import router_of
from roost.errors import UserError
from roost.language import LanguageError, ParseError
from roost.language.literals import QUOTED, abbreviate
from roost.simulation.ranks_check import check_ranks
from roost.simulation.settings import Settings, settings_with
from roost.simulation.statements import Set, Statement, UseBars, UseLatencies, UseOptimiser
from roost.simulation.workload_check import WorkloadError, check_workload, refusal
from roost.simulation.workload_grammar import BY_HEAD, FORMS, TIME, Argument, Form

__all__ = ["Workload", "WorkloadError", "parse_workload", "read_workload", "write_workload"]


class Workload(Struct, frozen=True):
    """What a file says: the settings of the run, and what happens in it, sorted by time."""

    name: str
    settings: Settings
    statements: tuple[Statement, ...]


# --- reading --------------------------------------------------------------------------------------


def read_workload(path: Path) -> Workload:
    """The workload of a file; paths in it are relative to where it stands."""
    try:
        data = path.read_bytes()
    except OSError as bad:
        raise WorkloadError(f"{path}: {bad.strerror or bad}; expected a workload file") from None
    try:
        # Some programs start a file with a byte order mark.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = data.count(b"\n", 0, bad.start) + 1
        what = f"the byte 0x{data[bad.start]:02x} is not UTF-8; expected a text in UTF-8"
        raise refusal(str(path), line, what) from None
    return parse_workload(text, str(path), path.parent)


def parse_workload(text: str, name: str, folder: Path | None) -> Workload:
    """The workload that a text says; `name` is what messages call it.

    Paths in it are relative to `folder`, or kept as they are without one.
    """
    # Not splitlines(): that sees ends of lines where editors see none.
    lines = text.split("\n")
    read: list[Statement] = []
    for number, line in enumerate(lines, 1):
        if words := _without_comment(line).strip():
            try:
                read.append(_statement(words, number))
            except _LineError as wrong:
                raise wrong.seen(name, number, line) from None
    read.sort(key=attrgetter("at"))
    check_workload(read, name, lines)

    settings = Settings()
    statements: list[Statement] = []
    for statement in read:
        if isinstance(statement, Set):
            try:
                settings = _with_setting(settings, statement)
            except UserError as wrong:
                raise refusal(name, statement.line, str(wrong)) from None
        elif isinstance(statement, UseOptimiser):
            try:
                settings = _with_module(settings, statement)
            except UserError as wrong:
                raise refusal(name, statement.line, str(wrong)) from None
        elif isinstance(statement, UseBars | UseLatencies) and folder is not None:
            located = str(folder / statement.path)
            statements.append(msgspec.structs.replace(statement, path=located))
        else:
            statements.append(statement)
    check_ranks(read, name, ranked=router_of(settings.routing).strategy.ranks)
    return Workload(name, settings, tuple(statements))


def _with_setting(settings: Settings, statement: Set) -> Settings:
    if statement.at != 0:
        raise UserError(f"{statement.key} is set at {statement.at:g} s; expected time 0.0")
    return settings_with(settings, statement.key, statement.value)


def _with_module(settings: Settings, statement: UseOptimiser) -> Settings:
    if statement.at != 0:
        raise UserError(f"an optimiser comes at {statement.at:g} s; expected time 0.0")
    order = parse_order(statement.reference, (statement.order or "").split())
    make_module(order)  # or it says why not
    return msgspec.structs.replace(settings, modules=(*settings.modules, order))


class _LineError(Exception):
    """A line that cannot be read, because of one of its words."""

    def __init__(
        self, word: int, wrong: str, expected: str, hint: str | None = None, inside: int = 0
    ) -> None:
        self.word, self.inside = word, inside
        self.wrong, self.expected, self.hint = wrong, expected, hint

    def seen(self, name: str, number: int, line: str) -> WorkloadError:
        """The error for people: where in the file, and the line with a mark below the culprit."""
        line = _without_comment(line).rstrip()
        starts = [found.start() for found in re.finditer(r"\S+", line)]
        offset = starts[self.word] + self.inside if self.word < len(starts) else len(line)
        pointing = ParseError(line, offset, self.wrong, self.expected, self.hint)
        hint = f"\nhint: {self.hint}" if self.hint else ""
        what = f"column {pointing.place.column}: {self.wrong}; expected {self.expected}"
        return refusal(name, number, what, pointing.excerpt + hint)


_quoted_or_comment = re.compile(rf"{QUOTED}|(?<!\S)#").finditer


def _without_comment(line: str) -> str:
    if "#" in line:
        for found in _quoted_or_comment(line):
            if found[0] == "#":
                return line[: found.start()]
    return line


def _statement(line: str, number: int) -> Statement:
    time, noun, verb, *_ = *line.split(None, 3), "", ""
    try:
        at = TIME.read(time)
    except ValueError:
        raise _LineError(0, f"the time is {abbreviate(time)!r}", TIME.expected) from None
    form = BY_HEAD.get(f"{noun} {verb}") or BY_HEAD.get(noun) or _refuse_head(noun, verb)
    words = line.split(None, form.splits)[form.first :]
    if len(words) < form.required:
        raise _LineError(form.first + len(words), "too few arguments", form.usage)
    if len(words) > len(form.arguments):
        raise _LineError(form.first + len(form.arguments), "too many arguments", form.usage)
    values = []
    for index, word in enumerate(words):
        try:
            values.append(form.arguments[index].read(word))
        except ValueError as wrong:
            raise _argument_error(form, index, word, wrong) from None
    return form.type(*values, at=at, line=number)


def _refuse_head(noun: str, verb: str) -> NoReturn:
    heads = [head.split() for head in BY_HEAD]
    known = sorted({head[0] for head in heads})
    what, word, place = "noun", noun, 1
    if noun in known:
        known = sorted(head[1] for head in heads if head[0] == noun)
        what, word, place = f"verb of {noun}", verb, 2
    near = get_close_matches(word[:40].lower(), known, 1)
    wrong = f"unknown {what} {abbreviate(word)!r}" if word else f"the {what} is missing"
    hint = f"did you mean {near[0]}?" if near else None
    raise _LineError(place, wrong, f"one of {', '.join(known)}", hint)


def _argument_error(form: Form, index: int, word: str, wrong: ValueError) -> _LineError:
    place, expected = form.first + index, form.arguments[index].expected
    match wrong:
        case ParseError():
            found, hint = f"found {wrong.found}", wrong.suggestion
            return _LineError(place, found, wrong.expected, hint, wrong.place.offset)
        case LanguageError():
            return _LineError(place, str(wrong), expected)
    found = f"{form.slots[index]} is {abbreviate(word)!r}"
    return _LineError(place, found, expected, f"write {form.usage}")


# --- writing --------------------------------------------------------------------------------------


def write_workload(statements: Iterable[Statement], comments: Sequence[str] = ()) -> str:
    """The text that is read back as these statements, if they are sorted and make sense.

    ValueError for what no file can say, such as an id with a blank.
    """
    lines = [f"# {line}".rstrip() for text in comments for line in text.splitlines() or [""]]
    lines += map(_line, statements)
    return "".join(f"{line}\n" for line in lines)


def _line(statement: Statement) -> str:
    form = FORMS[type(statement)]
    values = [getattr(statement, field) for field in form.fields]
    # Only what may be left out is left out.
    while len(values) > form.required and values[-1] is None:
        values.pop()
    words = [_written(statement, "TIME", TIME, statement.at), form.head]
    for slot, argument, value in zip(form.slots, form.arguments, values, strict=False):
        words.append(_written(statement, slot, argument, value))
    return " ".join(words)


def _written(statement: Statement, slot: str, argument: Argument, value: object) -> str:
    word = argument.write(value)
    # What goes to the end of a line comes from its own printer, which can be trusted.
    if not argument.to_the_end:
        try:
            same = argument.read(word) == value
        except ValueError:
            same = False
        if not same:
            raise ValueError(
                f"{statement} cannot be written: {slot} is {word!r}; expected {argument.expected}"
            )
    return word
