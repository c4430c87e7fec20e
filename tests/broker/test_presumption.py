"""What a neighbour that has not answered is presumed to want: no less than it may, and hardly more."""

from __future__ import annotations

import pytest
from hypothesis import given

from roost.broker.advertisements import presumption_of
from roost.language import Advertisement, Event, covers, parse_advertisement
from tests.language.strategies import advertisements, events


@given(advertisements(), events())
def test_no_event_of_it_is_left_out(advertisement: Advertisement, event: Event) -> None:
    presumed = presumption_of(advertisement)
    assert presumed.matches(event) or not advertisement.matches(event)


@pytest.mark.parametrize(
    ("said", "presumed"),
    [
        ("class = 'STOCK' and volume present and low > 3", "class = 'STOCK' and low > 3"),
        ("class = 'STOCK'", "class = 'STOCK'"),
        (
            "low > 3 and volume present",
            "low > 3 and volume present",
        ),  # else it would be for too many
        ("volume present", "volume present"),
        ("class = 'A' and x present or y present", "class = 'A' or y present"),
    ],
)
def test_what_is_left_of_it(said: str, presumed: str) -> None:
    found, wanted = presumption_of(parse_advertisement(said)), parse_advertisement(presumed)
    assert covers(found, wanted)
    assert covers(wanted, found)
