"""Points, spans and other sets against the language's own `covers`."""

from __future__ import annotations

import math

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from roost.language import Filter, Interest, covers, parse_filter, parse_subscription
from roost.matching.conjunct import Conjunct, conjunct_of, parts_cover, parts_of
from tests.language.core_strategies import filters, pools, related_filters, related_interests

often = settings(max_examples=max(120, settings().max_examples))


def tables(text: str) -> Conjunct:
    conjunct = conjunct_of(parse_filter(text))
    assert conjunct is not None
    return conjunct


@often
@given(related_filters())
def test_covers_as_the_language_does(pair: tuple[Filter, Filter]) -> None:
    a, b = map(conjunct_of, pair)
    if a is not None and b is not None:
        answer = a.covers(b)
        event(f"covers: {answer}")
        assert answer == covers(*pair)


@often
@given(related_interests())
def test_parts_cover_as_the_language_says(pair: tuple[Interest, Interest]) -> None:
    a, b = map(parts_of, pair)
    assert parts_cover(a, b) == covers(*pair)
    for parts, interest in ((a, pair[0]), (b, pair[1])):
        assert bool(parts) == bool(interest)
        assert not any(x.covers(y) for x in parts for y in parts if x is not y)


@often
@given(pools().flatmap(lambda pool: filters(pool, 4)))
def test_every_attribute_stands_in_one_table(filter_: Filter) -> None:
    conjunct = conjunct_of(filter_)
    assert (conjunct is None) == (not filter_)
    if conjunct is not None:
        names = [*conjunct.points, *conjunct.spans, *conjunct.others]
        assert sorted(names) == sorted(filter_.sets)


@often
@given(st.data())
def test_a_set_of_one_value_is_a_point(data: st.DataObject) -> None:
    filter_ = data.draw(pools().flatmap(lambda pool: filters(pool, 4)))
    conjunct = conjunct_of(filter_)
    if conjunct is None:
        return
    for name, point in conjunct.points.items():
        value = point[0] if isinstance(point, tuple) else point
        admitted = filter_.sets[name]
        assert value in admitted
        other = conjunct_of(Filter(p for p in filter_.predicates if p.attribute == name))
        assert other is not None
        assert other.points == {name: point}


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("x = 'a'", "a"),
        ("x = 5", 5),
        ("x = true", (True,)),
        ("x != true", (False,)),
        ("x >= 5 and x <= 5", 5),
        ("x >= inf", math.inf),
        ("x in (1, 'a') and x present number", 1),
        ("x in ('a', 'b') and x prefix 'a'", "a"),
        ("x >= 'a' and x <= 'a'", "a"),
        ("x >= 'a' and x <= 'a\\0' and x != 'a'", "a\0"),
        ("x < 'a' and x <= ''", ""),
    ],
)
def test_points(text: str, point: object) -> None:
    assert tables(text).points == {"x": point}


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("x >= 5", (5, math.inf)),
        ("x < 1 and x <= 2", (-math.inf, math.nextafter(1, 0))),
        ("x >= 1 and x <= 2", (1, 2)),
        ("x >= 1 and x <= 2 and x != 1", (math.nextafter(1, 2), 2)),
        ("x > 9007199254740992", (9007199254740993, math.inf)),
    ],
)
def test_spans(text: str, span: object) -> None:
    assert tables(text).spans == {"x": span}


@pytest.mark.parametrize(
    "text",
    [
        "x present",
        "x <= inf",
        "x != 3",
        "x > 1 and x != 3",
        "x in (1, 2)",
        "x in (1, true)",
        "x prefix 'a'",
    ],
)
def test_others(text: str) -> None:
    assert list(tables(text).others) == ["x"]


def test_parts() -> None:
    wide, narrow, never = "x > 1", "x > 2 and y = 1", "y > 1 and y < 0"
    assert parts_of(parse_filter(never)) == ()
    assert parts_of(parse_subscription(f"({never}) or ({never})")) == ()
    for text in (f"({narrow}) or ({wide}) or ({never})", f"({wide}) or ({narrow})"):
        assert [str(part.filter) for part in parts_of(parse_subscription(text))] == [wide]
