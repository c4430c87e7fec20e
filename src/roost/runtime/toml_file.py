"""TOML files of people: what they say, checked against structs, with the line of whatever is wrong.

TOML's reader does not say where a key stands. So when something is wrong the text is looked through once
more, line by line (`lines_of`): a message always begins with the file and the line. What a key may be is said
by the type of a struct's field; the words for it are made from that (`expected`).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import Struct
from msgspec import inspect as types

from roost.errors import UserError, type_of
from roost.language.literals import abbreviate

S = TypeVar("S", bound=Struct)


class TomlFile(Struct, frozen=True):
    """A text in TOML: what it says, and where."""

    name: str  # what messages call it
    text: str
    tree: dict[str, Any]

    def refusal(self, path: Iterable[str], what: str) -> UserError:
        """The error for what stands at the path, or around it."""
        place, lines = tuple(path), lines_of(self.text)
        while place and place not in lines:
            place = place[:-1]
        return UserError(f"{self.name}:{lines[place]}: {what}" if place else f"{self.name}: {what}")

    def refuse(self, path: Iterable[str], what: str) -> NoReturn:
        raise self.refusal(path, what)


def read_toml(path: Path, expected: str) -> TomlFile:
    """A file; UserError with the line if it is no TOML."""
    try:
        data = path.read_bytes()
    except OSError as bad:
        raise UserError(f"{path}: {bad.strerror or bad}; expected {expected}") from None
    try:
        text = data.decode("utf-8-sig")  # some programs start a file with a byte order mark
    except UnicodeDecodeError as bad:
        line = data.count(b"\n", 0, bad.start) + 1
        what = f"the byte 0x{data[bad.start]:02x} is not UTF-8; expected a text in UTF-8"
        raise UserError(f"{path}:{line}: {what}") from None
    return parse_toml(text, str(path))


_toml_place = re.compile(r"\(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)$").search


def parse_toml(text: str, name: str) -> TomlFile:
    """A text; UserError with the line if it is no TOML."""
    try:
        return TomlFile(name, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as bad:
        said = str(bad)
        place = _toml_place(said)
        line = (place and place[1]) or text.rstrip("\n").count("\n") + 1
        column = f"column {place[2]}: " if place and place[2] else ""
        what = said[: place.start()].rstrip() if place else said
        raise UserError(f"{name}:{line}: {column}{what}; expected TOML") from None
    except RecursionError:
        raise UserError(f"{name}: tables within tables without end; expected a few") from None


_key = re.compile(r"""\s*((?:[\w\-.\s]|"(?:[^"\\]|\\.)*"|'[^']*')+?)\s*=\s*(\"{3}|'{3})?""").match


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """Where the tables and keys of a text stand that is TOML: path to line, from 1.

    Keys inside of tables that are written in one line are not looked for: that line is the table's.
    """
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    until = ""  # the quotes that end the text of many lines that we are in
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if until:
            until = "" if until in line else until
        elif line.lstrip().startswith("["):
            # Also the second line of a list of lists looks so, and is none.
            table = _path(line) or table
            for end in range(1, len(table) + 1):
                found.setdefault(table[:end], number)
        elif key := _key(line):
            place = table + _path(f"{key[1]} = 0")
            for end in range(len(table) + 1, len(place) + 1):
                found.setdefault(place[:end], number)
            quotes = key[2] or ""
            until = quotes if quotes and quotes not in line[key.end() :] else ""
    return found


def _path(line: str) -> tuple[str, ...]:
    """The path that a line of TOML makes; () if it is none by itself."""
    try:
        tree: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path = []
    while isinstance(tree, dict) and tree:
        ((name, tree),) = tree.items()
        path.append(name)
    return tuple(path)


def read_table(file: TomlFile, path: tuple[str, ...], kind: type[S], folder: Path | None) -> S:
    """The table at the path as a struct: every key known, every value of the type of its field."""
    tree: Any = file.tree
    for name in path:
        tree = tree[name]
    title = f"[{'.'.join(path)}]"
    if not isinstance(tree, dict):
        file.refuse(path, f"{path[-1]} is {shown(tree)}; expected a table, {title}")
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    read = {}
    for name, value in tree.items():
        if name not in fields:
            what = f"{title} has no {abbreviate(name)}; {instead(name, fields)}"
            file.refuse((*path, name), what)
        wanted = fields[name]
        if isinstance(value, dict) and isinstance(_plain(wanted), types.DictType):
            for key, part in value.items():
                if not isinstance(part, str):
                    what = f"{title} {name}: {abbreviate(key)} is {shown(part)}"
                    file.refuse((*path, name, key), f"{what}; expected a text, in quotes")
        if objection := objection_to_value(value, wanted):
            file.refuse((*path, name), f"{title} {name} {objection}")
        converted = msgspec.convert(value, wanted)
        if converted and folder is not None and _extra(wanted).get("file"):
            several = isinstance(converted, tuple)
            paths = tuple(str(folder / each) for each in (converted if several else (converted,)))
            converted = paths if several else paths[0]
        read[name] = converted
    try:
        return kind(**read)
    except UserError as error:  # what it has does not go together
        raise file.refusal(path, f"{title} {error}") from None


def objection_to_value(value: object, wanted: Any) -> str:
    """To a value where this type is wanted: "is 5; expected true or false". "" if it will do."""
    try:
        converted = msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        pass
    else:
        if not isinstance(converted, float) or math.isfinite(converted):
            return ""
    have = "something else" if _extra(wanted).get("secret") else shown(value)
    return f"is {have}; expected {expected(_plain(wanted))}"


def _plain(wanted: Any) -> types.Type:
    """The type without what is said about it."""
    info = types.type_info(wanted)
    return info.type if isinstance(info, types.Metadata) else info


def _extra(wanted: Any) -> dict[str, Any]:
    info = types.type_info(wanted)
    return (isinstance(info, types.Metadata) and info.extra) or {}


def instead(name: str, known: Iterable[str], form: str = "{}") -> str:
    """What somebody may have meant by a name that is unknown."""
    known = list(known)
    near = get_close_matches(name[:40].lower(), known, 1)
    if near:
        return f"did you mean {form.format(near[0])}?"
    return f"expected one of {', '.join(map(form.format, known))}"


def expected(info: types.Type) -> str:
    """What a type admits, in words."""
    match info:
        case types.BoolType():
            return "true or false"
        case types.LiteralType(values=values):
            return " or ".join(map(shown, values))
        case types.IntType(ge=low, le=high):
            return f"a whole number {_range(low, high)}".rstrip()
        case types.FloatType(gt=None, ge=low, le=high):
            return f"a number {_range(low, high)}".rstrip()
        case types.FloatType(gt=low, le=high) if low is not None and high is not None:
            return f"a number above {low:g}, up to {high:.0f}"
        case types.StrType(min_length=low, max_length=high):
            bound = f" of {low} to {high} characters" if low and high else ""
            return f"a text{bound}, in quotes"
        case types.DictType():
            return 'a table of name = "text"'
        case types.ListType() | types.VarTupleType():
            return "a list of texts"
        case types.DateType():
            return "a date, such as 2030-12-31"
        case types.UnionType(types=(first, *_)):
            return expected(first)
    raise TypeError(f"no words for {info}")


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return f"from {low:.0f} to {high:.0f}" if high < 1 << 32 else f"of {low:.0f} or more"


# --- writing --------------------------------------------------------------------------------------

_bare_key = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_not_plain = re.compile(r'["\\\x00-\x1f\x7f]').sub


def toml_key(name: str) -> str:
    """A name as TOML writes it where a key stands."""
    return name if _bare_key(name) else toml_value(name)


def toml_value(value: object) -> str:
    """A value as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{_not_plain(_escaped, value)}"'
        case int() | float():
            return repr(value)
        case date():
            return value.isoformat()
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case dict():
            pairs = (f"{toml_key(name)} = {toml_value(part)}" for name, part in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
    raise TypeError(f"{type(value).__name__} is no value of a setting")


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}" if found[0] in '"\\' else f"\\u{ord(found[0]):04x}"


def shown(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    try:
        return abbreviate(toml_value(value))
    except TypeError:
        return type_of(value)
