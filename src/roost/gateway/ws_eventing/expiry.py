"""Until when a subscription is asked for, and until when it is granted.

A request says a duration (`PT1H`) or a date (`2026-01-01T00:00:00Z`), and the answer says the same kind. A
duration of months depends on the calendar, so all of it depends on `now`, in seconds since 1970.
"""

from __future__ import annotations

import calendar
import math
import re
from datetime import UTC, datetime

from msgspec import Struct

_duration = re.compile(
    r"(?P<minus>-)?P(?=.)(?:(?P<years>\d{1,9})Y)?(?:(?P<months>\d{1,9})M)?(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=.)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
).fullmatch
_date = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?P<zone>Z|[+-]\d\d:\d\d)?", re.ASCII
).fullmatch
_fraction = re.compile(r"(\.\d{1,6})\d*", re.ASCII)

YEAR_MAX = 9_999
# What our answers can say as a date.
LATEST = datetime(YEAR_MAX, 12, 31, tzinfo=UTC).timestamp()


class Wanted(Struct, frozen=True):
    """What a request asks for."""

    at: float  # when it ends, in seconds since 1970; may be infinite
    is_date: bool
    is_zero: bool  # a duration of nothing
    best_effort: bool = False  # another end will do


def wanted_of(text: str, now: float, *, best_effort: bool = False) -> Wanted | None:
    """What a text asks for; None if it is neither a duration nor a date."""
    found = _duration(text)
    if found:
        seconds = _seconds_of(found, now)
        return Wanted(now + seconds, is_date=False, is_zero=not seconds, best_effort=best_effort)
    at = _time_of(text)
    return None if at is None else Wanted(at, is_date=True, is_zero=False, best_effort=best_effort)


def _seconds_of(found: re.Match[str], now: float) -> float:
    days, hours, minutes = (int(found[part] or 0) for part in ("days", "hours", "minutes"))
    seconds = ((days * 24 + hours) * 60 + minutes) * 60 + float(found["seconds"] or 0)
    months = 12 * int(found["years"] or 0) + int(found["months"] or 0)
    if months:
        seconds += _months_later(months, now) - now
    return -seconds if found["minus"] else seconds


def _months_later(months: int, now: float) -> float:
    """The same day so many months later, or the last of that month."""
    date = datetime.fromtimestamp(now, UTC)
    years, month = divmod(date.month - 1 + months, 12)
    year = date.year + years
    if year > YEAR_MAX:
        return math.inf
    day = min(date.day, calendar.monthrange(year, month + 1)[1])
    return date.replace(year=year, month=month + 1, day=day).timestamp()


def _time_of(text: str) -> float | None:
    found = _date(text)
    if not found:
        return None
    try:
        date = datetime.fromisoformat(_fraction.sub(r"\1", text))
        # A date without a zone is taken for one of Greenwich.
        return (date if found["zone"] else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def granted(
    wanted: Wanted | None, now: float, most_s: float, *, zero_is_forever: bool
) -> float | None:
    """When a subscription ends that is asked for so; None if it can't be granted.

    Whoever does not say gets as much as there is. One that asks for more than that gets it too, unless it
    insists; and so does one that asks for ever, where a duration of nothing means that.
    """
    most = now + most_s
    if wanted is None:
        return most
    if wanted.is_zero and zero_is_forever:
        return most if wanted.best_effort else None
    if wanted.at <= now:
        return None
    if wanted.at <= most:
        return wanted.at
    return most if wanted.best_effort or not zero_is_forever else None


def duration_text(seconds: float) -> str:
    """A duration as XML Schema writes it, to the millisecond.

    >>> duration_text(3600), duration_text(0.25)
    ('PT3600S', 'PT0.25S')
    """
    return f"PT{max(0.0, seconds):.3f}".rstrip("0").rstrip(".") + "S"


def date_text(at: float) -> str:
    """A point in time as XML Schema writes it, to the millisecond.

    >>> date_text(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    date = datetime.fromtimestamp(min(at, LATEST), UTC)
    return date.isoformat(timespec="milliseconds").replace("+00:00", "Z")
