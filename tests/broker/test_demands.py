"""Demands say the same as the advertisement, or that they can't say."""

from __future__ import annotations

from hypothesis import given

from roost.broker.demands import demands_of, meets
from roost.language import Advertisement, Event, parse_advertisement
from tests.language.strategies import advertisements, events


@given(advertisements(), events())
def test_demands_say_what_the_advertisement_says(
    advertisement: Advertisement, event: Event
) -> None:
    demands = demands_of(advertisement)
    answer = None if demands is None else meets(demands, event.attributes)
    assert answer in (None, advertisement.matches(event))


def test_what_derived_advertisements_look_like_is_answered() -> None:
    demands = demands_of(parse_advertisement("class = 'STOCK' and symbol present and low > 0"))
    assert demands is not None
    quote = {"class": "STOCK", "symbol": "YHOO", "low": 18.5}
    assert meets(demands, quote)
    assert not meets(demands, quote | {"class": "BOND"})
    assert not meets(demands, quote | {"low": -1})
    assert not meets(demands, quote | {"low": True})
    assert not meets(demands, quote | {"symbol": float("nan")})
    assert not meets(demands, {"class": "STOCK"})


def test_other_types_are_left_to_the_matcher() -> None:
    class Word(str):
        __slots__ = ()

    demands = demands_of(parse_advertisement("class = 'STOCK'"))
    assert demands is not None
    assert meets(demands, {"class": Word("STOCK")}) is None
