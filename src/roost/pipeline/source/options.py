"""The options of the data source `roost`: what a user may say, checked in one place.

Spark hands options over as texts, whatever was given, and does not mind their case.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from roost.errors import UserError

if TYPE_CHECKING:
    from roost.client import SyncClient

T = TypeVar("T")

# As many as a durable broker sends, by default, without an acknowledgement.
EVENTS_A_BATCH = 10_000
TIMEOUT_S = 10.0
SPOOL = "roost-spool"

# What Spark itself adds to the options of a stream.
OF_SPARK = frozenset(("path", "checkpointlocation", "queryname"))
CONNECTING = ("url", "user", "token", "authority", "certificate", "key", "timeout")
READING = (
    "subscription",
    "name",
    "maxEventsPerBatch",
    "partitions",
    "without",
    "failOnDataLoss",
    "takeOver",
)
BATCH_READING = ("acknowledge",)
WRITING = ("name", "spool", "takeOver")


class Place(Struct, frozen=True, kw_only=True):
    """Where the broker is, and who is calling."""

    url: str | None = None
    user: str | None = None
    token: str | None = None
    authority: str = ""
    certificate: str = ""
    key: str = ""
    timeout_s: float = TIMEOUT_S

    def connect(self, name: str, *, buffer_max: int = 10_000) -> SyncClient:
        """A client there, not yet open."""
        from roost.client import Tls, connect_sync  # noqa: PLC0415 (only some processes connect)

        files = Tls(authority=self.authority, certificate=self.certificate, key=self.key)
        return connect_sync(
            self.url,
            name=name,
            user=self.user,
            token=self.token,
            tls=files if self.authority or self.certificate or self.key else None,
            timeout_s=self.timeout_s,
            wait=True,  # a broker that is being started again is no reason to fail a batch
            buffer_max=buffer_max,
        )


class Reading(Struct, frozen=True, kw_only=True):
    """What `spark.read` and `spark.readStream` were told."""

    place: Place
    name: str
    subscription: str = "*"
    events_a_batch: int = EVENTS_A_BATCH
    partitions: int = 1
    without: str = ""  # events with this attribute are passed over
    fail_on_data_loss: bool = True
    acknowledge: bool = False
    take_over: bool = False  # the name, from the query that it belongs to
    events_max: int | None = None  # of `spark.read`, if somebody wants no more


class Writing(Struct, frozen=True, kw_only=True):
    """What `df.write` and `df.writeStream` were told."""

    place: Place
    name: str  # "" only for a batch, which then is published as often as the job is run
    spool: str  # "" only for a batch
    take_over: bool = False  # the name, from the query that it belongs to


def reading(given: Mapping[str, str]) -> Reading:
    """The options of a source."""
    options = _Options(given, CONNECTING + READING + BATCH_READING)
    name = options.text("name")
    if not name:
        raise UserError(
            "the option 'name' is missing: the name of the durable subscription that is read, under which"
            " the broker keeps its events"
        )
    return Reading(
        place=_place(options),
        name=name,
        subscription=_filter(options.text("subscription") or "*"),
        events_a_batch=options.number("maxEventsPerBatch", EVENTS_A_BATCH),
        partitions=options.number("partitions", os.cpu_count() or 1),
        without=options.text("without"),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        acknowledge=options.flag("acknowledge", False),
        take_over=options.flag("takeOver", False),
        events_max=options.number("maxEventsPerBatch", 0) or None,
    )


def writing(given: Mapping[str, str], *, stream: bool) -> Writing:
    """The options of a sink."""
    options = _Options(given, CONNECTING + WRITING)
    name, spool = options.text("name"), options.text("spool")
    if stream and not name:
        raise UserError(
            "the option 'name' is missing: the name of the outbox that events are published from, by which"
            " the broker tells those that it has from those that it has not"
        )
    if stream and not spool:
        checkpoint = options.text("checkpointLocation")
        if not checkpoint:
            raise UserError(
                "the option 'spool' is missing, and there is no option 'checkpointLocation' to put it"
                " into: a folder that the driver and all workers see"
            )
        spool = f"{local_path(checkpoint, 'checkpointLocation')}/{SPOOL}"
    if not stream and bool(name) != bool(spool):
        raise UserError(
            "of 'name' and 'spool' there is only one; expected both, for events that are published"
            " once however often the job is run, or neither"
        )
    return Writing(
        place=_place(options),
        name=name,
        spool=str(local_path(spool, "spool")) if spool else "",
        take_over=options.flag("takeOver", False),
    )


def local_path(text: str, option: str) -> Path:
    """A folder that can be reached as a file is; `file:` before it is as Spark writes it."""
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme and "://" in text:
        raise UserError(
            f"the option {option!r} is {text!r}; expected a folder in the file system of every machine"
            " (with another place for checkpoints, say where to spool with the option 'spool')"
        )
    return Path(text)


def _place(options: _Options) -> Place:
    return Place(
        url=options.text("url") or None,
        user=options.text("user") or None,
        token=options.text("token") or None,
        authority=options.text("authority"),
        certificate=options.text("certificate"),
        key=options.text("key"),
        timeout_s=options.seconds("timeout", TIMEOUT_S),
    )


def _filter(text: str) -> str:
    from roost.language import ParseError, parse_subscription  # noqa: PLC0415 (not in every process)

    try:
        parse_subscription(text)
    except ParseError as bad:
        raise UserError(f"the option 'subscription': {bad}") from None
    return text


class _Options:
    """Options by name, in whatever case."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}
        names = {name.lower() for name in known} | OF_SPARK
        for name in self._given:
            if name not in names and not name.startswith("__"):
                raise UserError(
                    f"there is no option {name!r} for the format 'roost'; expected one of"
                    f" {', '.join(known)}"
                )

    def text(self, name: str) -> str:
        return self._given.get(name.lower(), "").strip()

    def number(self, name: str, default: int) -> int:
        return self._read(name, default, int, lambda n: n >= 1, "a whole number from 1 on")

    def seconds(self, name: str, default: float) -> float:
        return self._read(
            name, default, float, lambda s: s > 0 and math.isfinite(s), "a number of seconds"
        )

    def flag(self, name: str, default: bool) -> bool:
        said = {"true": True, "false": False}
        return self._read(name, default, lambda t: said[t.lower()], lambda _: True, "true or false")

    def _read(
        self,
        name: str,
        default: T,
        read: Callable[[str], T],
        is_right: Callable[[Any], bool],
        expected: str,
    ) -> T:
        text = self.text(name)
        if not text:
            return default
        try:
            value = read(text)
        except (ValueError, KeyError):
            value = None
        if value is None or not is_right(value):
            raise UserError(f"the option {name!r} is {text!r}; expected {expected}")
        return value
