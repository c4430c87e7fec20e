"""Clients that ask for the same."""

from __future__ import annotations

import doctest

from roost.optimising import groups
from roost.optimising.groups import called, groups_of


def test_examples() -> None:
    assert not doctest.testmod(groups).failed


def test_the_order_and_number_of_subscriptions_do_not_matter() -> None:
    clients = {
        "S1": {"x": "a > 1", "y": "b > 1"},
        "S2": {"x": "b > 1", "y": "a > 1", "z": "a > 1"},
        "S3": {"x": "a > 1"},
    }
    assert groups_of(clients, lambda _: True) == {
        ("a > 1", "b > 1"): ["S1", "S2"],
        ("a > 1",): ["S3"],
    }


def test_who_does_not_belong_or_asks_for_nothing_is_in_none() -> None:
    clients = {"S1": {"x": "a > 1"}, "S2": {"x": "a > 1"}, "P": {}}
    assert groups_of(clients, lambda client: client != "S1") == {("a > 1",): ["S2"]}


def test_names() -> None:
    assert called(["S1"], ("a > 1",)) == "S1"
    assert called(["S1", "S2"], ("a > 1", "b > 1")) == "2 subscribers to a > 1 or b > 1"
