"""How every statement of a workload file is written: one table, `_USAGE`.

The parser, the printer and the messages of `workload_file` all go by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from roost.broker.hierarchy import WAYS
from roost.language import parse_advertisement, parse_event, parse_subscription
from roost.language.literals import QUOTED, read_string, write_string
from roost.language.values import STRING_LENGTH_MAX
from roost.simulation import statements as say
from roost.simulation.statements import Statement

# --- arguments ------------------------------------------------------------------------------------


class Argument(NamedTuple):
    """What an argument can be; `read` raises ValueError for what it cannot be."""

    expected: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    to_the_end: bool = False  # it takes the rest of the line, white space and all


_is_number = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_is_id = re.compile(r"[A-Za-z0-9_.-]{1,64}").fullmatch
_is_symbol = re.compile(r"[^\s'\"#]{1,64}").fullmatch
_is_quoted = re.compile(QUOTED, re.DOTALL).fullmatch
_is_bare = re.compile(r"[^\s'\"#]+").fullmatch


def _number(expected: str, fits: Callable[[float], bool]) -> Argument:
    def read(word: str) -> float:
        # Not all that float() takes: inf, nan and 1_000 are no numbers here.
        value = float(word) if _is_number(word) else math.nan
        if not (fits(value) and value < math.inf):
            raise ValueError
        return value

    return Argument(expected, read, _write_number)


def _write_number(number: float) -> str:
    """As people write it: 500, not 500.0."""
    return str(int(number)) if number % 1 == 0 and number < 1e15 else float.__repr__(float(number))


def _word(expected: str, fits: Callable[[str], object]) -> Argument:
    def read(word: str) -> str:
        if not fits(word):
            raise ValueError
        return word

    return Argument(expected, read)


def _one_of(*words: str) -> Argument:
    return _word(f"{', '.join(words[:-1])} or {words[-1]}", lambda word: word in words)


def _read_ids(word: str) -> tuple[str, ...]:
    ids = tuple(map(_ID.read, word.split(",")))
    if len(set(ids)) < len(ids):
        raise ValueError
    return ids


def _read_arguments(text: str) -> str:
    words = text.split()
    if not all(word.partition("=")[0] and "=" in word for word in words):
        raise ValueError
    return " ".join(words)


def _read_path(text: str) -> str:
    if _is_quoted(text):
        return read_string(text, STRING_LENGTH_MAX)
    return _BARE.read(text)  # type: ignore[no-any-return]


def _write_path(path: str) -> str:
    return path if _is_bare(path) else write_string(path, "'")


_ABOVE_ZERO = _number("a number above 0", lambda x: x > 0)
_FROM_ZERO = _number("a number from 0 on", lambda x: x >= 0)
# With a point, as the thesis writes it.
TIME = _number("a time in seconds, from 0 on, such as 1.0", lambda x: x >= 0)._replace(
    write=lambda time: float.__repr__(float(time))
)
_ID = _word("a name of at most 64 letters, digits, '_', '-' and '.'", _is_id)
_BARE = _word("a word", _is_bare)
_SYMBOL = _word("a symbol of at most 64 characters, or - for none", _is_symbol)

# The words of `_USAGE`, other than nouns and verbs.
_ARGUMENTS: Mapping[str, Argument] = {
    **dict.fromkeys(("BROKER", "PUBLISHER", "SUBSCRIBER", "CLIENT", "NAME"), _ID),
    **dict.fromkeys(("CPU", "MEMORY", "BANDWIDTH", "FACTOR", "SECONDS"), _ABOVE_ZERO),
    **dict.fromkeys(("RATE", "LATENCY", "EXTRA_MS"), _FROM_ZERO),
    **dict.fromkeys(("KEY", "VALUE"), _BARE),
    "BROKER,BROKER,...": Argument(
        "different brokers, by commas without blanks", _read_ids, ",".join
    ),
    "SYMBOL|-": _SYMBOL._replace(
        read=lambda word: None if word == "-" else _SYMBOL.read(word),
        write=lambda symbol: "-" if symbol is None else symbol,
    ),
    "keep|lose": Argument(
        "keep or lose",
        lambda word: ("lose", "keep").index(word) == 1,
        lambda keep: "keep" if keep else "lose",
    ),
    "cluster|tree": _word("cluster or tree", WAYS.__contains__),
    "NODE": _one_of("leader", "standby", "both", "between"),
    "FAULT": _one_of("kill", "lose", "stop", "cut"),
    "MODULE": _BARE,
    "MACHINE": Argument("package.module:Class, and KEY=VALUE", str.strip, to_the_end=True),
    "ORDER": Argument("off, observing or acting, and KEY=VALUE", str.strip, to_the_end=True),
    "ARGUMENTS": Argument("KEY=VALUE, and more of them", _read_arguments, to_the_end=True),
    "FILTER": Argument("a filter", parse_subscription, to_the_end=True),
    "ADVERTISEMENT": Argument("an advertisement", parse_advertisement, to_the_end=True),
    "EVENT": Argument("an event", parse_event, to_the_end=True),
    "PATH": Argument(
        "a path, in quotes if it has blanks", _read_path, _write_path, to_the_end=True
    ),
}


# --- statements -----------------------------------------------------------------------------------

# The arguments are the fields of the Struct, in order; those in brackets may be left out.
_USAGE: Mapping[type[Statement], str] = {
    say.Set: "federation set KEY VALUE",
    say.UseOptimiser: "federation optimiser MODULE [ORDER]",
    say.UseBars: "market bars PATH",
    say.UseLatencies: "latency matrix PATH",
    say.AddBroker: "broker add BROKER CPU MEMORY BANDWIDTH [MACHINE]",
    say.RemoveBroker: "broker remove BROKER",
    say.CrashBroker: "broker crash BROKER keep|lose",
    say.RestartBroker: "broker restart BROKER",
    say.SlowBroker: "broker slow BROKER FACTOR",
    say.FailNode: "node fail BROKER NODE FAULT SECONDS",
    say.FillStore: "broker fill BROKER",
    say.FreeStore: "broker free BROKER",
    say.AskBroker: "broker ask BROKER NAME [ARGUMENTS]",
    say.SwitchBroker: "broker switch BROKER cluster|tree",
    say.AddLink: "link add BROKER BROKER [LATENCY]",
    say.AddPeerLink: "link peer BROKER BROKER [LATENCY]",
    say.RemoveLink: "link remove BROKER BROKER",
    say.MoveLink: "link move BROKER BROKER BROKER",
    say.ShuffleLinks: "link shuffle",
    say.CutLink: "link cut BROKER BROKER [SECONDS] [SECONDS]",
    say.HealLink: "link heal BROKER BROKER",
    say.DelayLink: "link delay BROKER BROKER EXTRA_MS SECONDS",
    say.Partition: "partition cut BROKER,BROKER,...",
    say.HealPartition: "partition heal",
    say.AddPublisher: "publisher add PUBLISHER SYMBOL|- RATE BROKER [ADVERTISEMENT]",
    say.ChangeRate: "publisher chrate PUBLISHER RATE",
    say.Publish: "publisher publish PUBLISHER EVENT",
    say.Advertise: "publisher advertise PUBLISHER NAME ADVERTISEMENT",
    say.Unadvertise: "publisher unadvertise PUBLISHER NAME",
    say.RemovePublisher: "publisher remove PUBLISHER",
    say.AddSubscriber: "subscriber add SUBSCRIBER BROKER FILTER",
    say.AddDurableSubscriber: "subscriber durable SUBSCRIBER BROKER FILTER",
    say.RestartSubscriber: "subscriber restart SUBSCRIBER",
    say.Subscribe: "subscriber subscribe SUBSCRIBER NAME FILTER",
    say.Unsubscribe: "subscriber unsubscribe SUBSCRIBER NAME",
    say.RemoveSubscriber: "subscriber remove SUBSCRIBER",
    say.PermitClient: "client permit CLIENT FILTER",
    say.RedirectClient: "client redirect CLIENT BROKER",
    say.VanishClient: "client vanish CLIENT",
    say.ReturnClient: "client return CLIENT",
    say.End: "end",
}


class Form:
    """How one type of statement is written: `TIME head arguments`."""

    def __init__(self, type_: type[Statement], usage: str) -> None:
        words = usage.split()
        self.type = type_
        self.fields = [f for f in type_.__struct_fields__ if f not in Statement.__struct_fields__]
        self.usage = f"TIME {usage}"
        self.head = " ".join(words[:2])  # noun and verb; `end` has no verb
        self.slots = [word.strip("[]") for word in words[2:]]
        self.arguments = [_ARGUMENTS[slot] for slot in self.slots]
        self.required = sum(not word.startswith("[") for word in words[2:])
        # The arguments are the words from `first` on; of a line with one to its end, the last is that.
        self.first = 1 + len(words[:2])
        to_the_end = any(argument.to_the_end for argument in self.arguments)
        self.splits = len(words) if to_the_end else -1


FORMS = {type_: Form(type_, usage) for type_, usage in _USAGE.items()}
BY_HEAD = {form.head: form for form in FORMS.values()}
