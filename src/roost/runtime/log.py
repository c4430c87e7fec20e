"""The log of a broker: what happened, when, how bad it is, and to whom; a line each.

    text   2026-05-04T06:07:08.901+00:00 warning link refused: neighbour=B1 reason="no neighbour of B1"
    json   {"time": "2026-05-04T06:07:08.901+00:00", "level": "warning", "event": "link refused", ...}

**Nobody steers it.** Lines are ASCII and end where they end: whatever peers call themselves is escaped, so
that it can't move the cursor of whoever reads the log, nor pass for another line.

**Nobody fills a disk with it.** In a minute each kind of event gets so many lines, and all together so many
(errors apart); the rest are counted, and the next minute begins with a line of how many there were of which
kind. A file that has become too long is renamed to end in `.1`, in place of the one before. Refusals have
bounds of their own (`security.RefusalLog`): what that log counts and does not write is not here either.

**It is never in the way.** A line that can't be written is lost, and `lost` counts; nobody waits, and nothing
fails for it.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TextIO, cast

from roost.errors import UserError
from roost.runtime.tables import LogTable

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
WINDOW_S = 60.0
LINES_A_KIND = 200
LINES_IN_ALL = 2_000
# Kinds are few; should they come from outside after all, they do not fill the memory.
KINDS_COUNTED = 200
FIELD_LENGTH_MAX = 400
FILE_BYTES_MAX = 16_000_000
CALLS_SHOWN = 8


class EventLog:
    """The log of one broker. May be used by several threads.

    With `aloud=False` it goes to the file of the settings only: standard error is the business of whoever's
    process it is.
    """

    def __init__(
        self,
        settings: LogTable | None = None,
        broker: str = "",
        stream: TextIO | None = None,
        *,
        aloud: bool = True,
        lines_a_kind: int = LINES_A_KIND,
        lines_in_all: int = LINES_IN_ALL,
        file_bytes_max: int = FILE_BYTES_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        settings = settings or LogTable()
        self.suppressed = 0  # since the start
        self.lost = 0
        self._broker = broker
        self._threshold = LEVELS[settings.level]
        self._as_json = settings.format == "json"
        self._lines_a_kind, self._lines_in_all = lines_a_kind, lines_in_all
        self._clock = clock
        self._lock = threading.Lock()
        # This minute: its beginning, lines of each kind, and how many more there would have been.
        self._since = clock()
        self._written: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}
        self._stream = stream
        self._file = _File(settings.file, file_bytes_max) if settings.file else None
        if stream is None and self._file is None and aloud:
            self._stream = sys.stderr
        # For a `RefusalLog` to write to; None if nobody reads it here.
        self.refusals = cast(TextIO, _Refusals(self)) if self.is_heard else None

    @property
    def is_heard(self) -> bool:
        """It goes anywhere at all."""
        return self._stream is not None or self._file is not None

    @property
    def is_aloud(self) -> bool:
        """It goes to standard error, where people read along."""
        return self._stream is sys.stderr

    @property
    def is_for_programs(self) -> bool:
        """Standard error is JSON: nothing else may be said there."""
        return self._as_json and self.is_aloud

    def debug(self, event: str, **fields: object) -> None:
        self.add("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self.add("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self.add("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self.add("error", event, fields)

    def add(self, level: str, event: str, fields: Mapping[str, object], kind: str = "") -> None:
        """One event, of this kind if that is not its name; empty fields are left out."""
        if LEVELS.get(level, LEVELS["error"]) < self._threshold:
            return
        with self._lock:
            now = self._clock()
            if not 0 <= now - self._since < WINDOW_S:
                self._turn(now)
            if self._has_room(level, kind or event):
                self._line(now, level, event, fields)

    def pass_on(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        """One event that somebody else has found a bound for."""
        if LEVELS[level] >= self._threshold:
            with self._lock:
                self._line(self._clock(), level, event, fields)

    def close(self) -> None:
        """Says what is left to say, and closes the file."""
        with self._lock:
            self._turn(self._clock())
            if self._file is not None:
                self._file.close()

    def _has_room(self, level: str, kind: str) -> bool:
        if kind not in self._written and len(self._written) >= KINDS_COUNTED:
            kind = "others"
        written = self._written.setdefault(kind, 0)
        full = level != "error" and sum(self._written.values()) >= self._lines_in_all
        if written < self._lines_a_kind and not full:
            self._written[kind] = written + 1
            return True
        self.suppressed += 1
        self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
        return False

    def _turn(self, now: float) -> None:
        """A new minute begins."""
        suppressed, self._suppressed = self._suppressed, {}
        since, self._since = self._since, now
        self._written.clear()
        if suppressed:
            fields = {"lines": sum(suppressed.values()), "since": iso(since), "kinds": suppressed}
            self._line(now, "warning", "suppressed", fields)
        if self._file is not None:
            self._file.look()

    def _line(self, now: float, level: str, event: str, fields: Mapping[str, object]) -> None:
        said = {
            _short(key): _plain(value) for key, value in fields.items() if value not in ("", None)
        }
        if self._as_json:
            head = {"time": iso(now), "level": level, "broker": self._broker, "event": event}
            line = json.dumps({**head, **said}, ensure_ascii=True, default=str)
        else:
            what = f"{iso(now)} {level:<7} {_ascii(self._broker)}: {_ascii(event)}"
            pairs = (f" {_ascii(key)}={_value(value)}" for key, value in said.items())
            line = f"{what}{':' if said else ''}{''.join(pairs)}"
        line = line.replace(
            "\x7f", "\\u007f"
        )  # the one control character that JSON leaves as it is
        try:
            if self._stream is not None:
                self._stream.write(f"{line}\n")
                self._stream.flush()
            if self._file is not None:
                self._file.write(f"{line}\n".encode("ascii"))
        except (OSError, UserError, ValueError):
            self.lost += 1


class _File:
    """A file of lines with a bound: one that is full becomes the `.1`."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._path, self._bytes_max = path, bytes_max
        self._handle = self._open()

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as bad:
            raise UserError(f"{self._path}: can't be written: {bad.strerror or bad}") from None

    def write(self, data: bytes) -> None:
        if self._handle < 0:  # last words, after the end
            self._handle = self._open()
        size = os.fstat(self._handle).st_size
        if size and size + len(data) > self._bytes_max:
            os.replace(self._path, f"{self._path}.1")
            self._begin()
        os.write(self._handle, data)

    def look(self) -> None:
        """Somebody may have put the file elsewhere, as programs do that keep logs for long."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            there = None
        except OSError:
            return
        if self._handle >= 0 and (
            there is None or not os.path.samestat(there, os.fstat(self._handle))
        ):
            try:
                self._begin()
            except UserError:
                return  # on with the one that we have

    def _begin(self) -> None:
        old, self._handle = self._handle, self._open()
        os.close(old)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class _Refusals(io.TextIOBase):
    """What the log of refusals writes, as events of this one: what it suppresses does not get here."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def write(self, line: str) -> int:
        said = json.loads(line)
        said.pop("time", None)
        event = "refusals suppressed" if "suppressed" in said else "refused"
        self._log.pass_on("warning", event, said)
        return len(line)


def iso(now_s: float) -> str:
    """A time as the log has it."""
    return datetime.fromtimestamp(now_s, UTC).isoformat(timespec="milliseconds")


def calls_of(error: BaseException | None) -> list[str]:
    """Where something went wrong that nobody had thought of: the innermost calls."""
    return traceback.format_exception(error)[-CALLS_SHOWN:] if error is not None else []


def _plain(value: object) -> object:
    """As both formats can have it, and not too long."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {_short(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= FIELD_LENGTH_MAX else f"{text[: FIELD_LENGTH_MAX - 4]} ..."


_is_word = re.compile(r"[A-Za-z0-9_.:/~@%+,*#()\[\]-]+").fullmatch


def _value(value: object) -> str:
    """In quotes unless it is a word or a number."""
    if isinstance(value, str) and _is_word(value):
        return value
    return json.dumps(value, ensure_ascii=True, default=str)


def _ascii(text: str) -> str:
    return text if text.isascii() and text.isprintable() else json.dumps(text, ensure_ascii=True)
