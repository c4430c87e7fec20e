"""Until when: durations and dates as XML Schema writes them, and what is granted."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.gateway.ws_eventing.expiry import (
    Wanted,
    date_text,
    duration_text,
    granted,
    wanted_of,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
SECONDS = st.integers(1, 10**9).map(lambda ms: ms / 1_000)


@given(SECONDS)
def test_durations_there_and_back(seconds: float) -> None:
    wanted = wanted_of(duration_text(seconds), NOW)
    assert wanted is not None
    assert not wanted.is_date
    assert wanted.at - NOW == pytest.approx(seconds, abs=0.001)


@given(st.integers(0, 2**41).map(lambda ms: ms / 1_000))
def test_dates_there_and_back(at: float) -> None:
    wanted = wanted_of(date_text(at), NOW)
    assert wanted is not None
    assert wanted.is_date
    assert wanted.at == pytest.approx(at, abs=0.001)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1H", 3_600),
        ("P1DT2H3M4.5S", 93_784.5),
        ("P2D", 172_800),
        ("-PT5S", -5),
        ("PT0S", 0),
        ("P1M", 28 * 86_400),  # to the last day of February
        ("P1Y", 365 * 86_400),
        ("P9999Y", math.inf),
        ("2026-01-31T13:00:00Z", 3_600),
        ("2026-01-31T13:00:00", 3_600),
        ("2026-01-31T14:00:00+01:00", 3_600),
        ("2026-01-31T12:00:00.1234567Z", 0.123456),
    ],
)
def test_what_texts_mean(text: str, seconds: float) -> None:
    wanted = wanted_of(text, NOW)
    assert wanted is not None
    assert wanted.at - NOW == pytest.approx(seconds, abs=1e-5)
    assert wanted.is_zero == (seconds == 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "1H",
        "PT1H2",
        "P1H",
        "PT-1S",
        "P1.5D",
        "2026-01-31",
        "2026-13-01T00:00:00Z",
        "tomorrow",
        "P99999999999D",
        "2026-01-31T12:00:00 Z",
        "20260131T120000Z",
    ],
)
def test_no_texts(text: str) -> None:
    assert wanted_of(text, NOW) is None


@given(st.text("PTYMDHS0123456789.-:Z+", max_size=25))
def test_any_text_is_something_or_nothing(text: str) -> None:
    wanted = wanted_of(text, NOW)
    assert wanted is None or not math.isnan(wanted.at)


@given(st.none() | SECONDS, st.booleans(), st.booleans())
def test_what_is_granted_lies_between(
    seconds: float | None, best_effort: bool, forever: bool
) -> None:
    wanted = None if seconds is None else Wanted(NOW + seconds, False, False, best_effort)
    until = granted(wanted, NOW, 1_000, zero_is_forever=forever)
    if until is not None:
        assert NOW < until <= NOW + 1_000
    else:
        # Only of 2011, whose subscribers may insist.
        assert (forever, best_effort) == (True, False)
        assert seconds is not None
        assert seconds > 1_000
    if seconds is not None and seconds <= 1_000:
        assert until == NOW + seconds


def test_nothing_and_the_past() -> None:
    zero = Wanted(NOW, is_date=False, is_zero=True)
    assert granted(zero, NOW, 10, zero_is_forever=False) is None
    assert granted(zero, NOW, 10, zero_is_forever=True) is None
    anything = Wanted(NOW, is_date=False, is_zero=True, best_effort=True)
    assert granted(anything, NOW, 10, zero_is_forever=True) == NOW + 10
    for forever in (False, True):
        past = Wanted(NOW - 1, is_date=True, is_zero=False, best_effort=True)
        assert granted(past, NOW, 10, zero_is_forever=forever) is None
