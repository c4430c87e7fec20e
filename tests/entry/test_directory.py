"""Which brokers a client is given: in turn, by load, and none that is silent (003 section IV.C)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from roost.entry import Directory

PERIOD_S = 2.0


def directory(clients: dict[str, int], weights: dict[str, float] | None = None) -> Directory:
    found = Directory(PERIOD_S)
    for broker, count in clients.items():
        found.heard(broker, f"{broker}:7411", count, (weights or {}).get(broker, 1.0), 0.0)
    return found


def test_in_turn_everybody_is_first_as_often() -> None:
    own = directory(dict.fromkeys(["A", "B", "C", "D", "E"], 0))
    first = Counter(own.some("turn", 3, 1.0)[0] for _ in range(1_000))
    assert set(first.values()) == {200}


def test_a_few_addresses_are_different_ones() -> None:
    own = directory(dict.fromkeys(["A", "B", "C"], 0))
    assert own.some("turn", 2, 1.0) == ["A:7411", "B:7411"]
    assert own.some("turn", 2, 1.0) == ["B:7411", "C:7411"]
    assert sorted(own.some("turn", 9, 1.0)) == ["A:7411", "B:7411", "C:7411"]


def test_a_crowd_within_one_period_does_not_go_to_one_broker() -> None:
    own = directory({"A": 0, "B": 0, "C": 0})
    assert Counter(own.some("load", 1, 1.0)[0] for _ in range(30)) == {
        "A:7411": 10,
        "B:7411": 10,
        "C:7411": 10,
    }


def test_by_load_those_with_the_fewest_clients_are_filled_up_first() -> None:
    own = directory({"A": 40, "B": 0, "C": 20})
    sent = Counter(own.some("load", 1, 1.0)[0] for _ in range(60))
    assert sent == {"B:7411": 40, "C:7411": 20}


def test_by_load_a_broker_that_can_bear_more_gets_more() -> None:
    own = directory({"A": 0, "B": 0}, {"B": 3.0})
    sent = Counter(own.some("load", 1, 1.0)[0] for _ in range(100))
    assert sent == {"A:7411": 25, "B:7411": 75}


def test_who_was_sent_is_counted_once() -> None:
    """As one on the way, until the broker has said how many it has; never as both."""
    own = directory({"A": 0, "B": 0})
    for _ in range(10):
        own.some("load", 1, 1.9)
    own.heard("A", "A:7411", 5, 1.0, 2.0)
    own.heard("B", "B:7411", 2, 1.0, 2.0)  # three of its five are on the way
    own.heard("C", "C:7411", 5, 1.0, 2.0)
    assert Counter(own.some("load", 1, 2.1)[0] for _ in range(3)) == {
        "A:7411": 1,
        "B:7411": 1,
        "C:7411": 1,
    }


def test_who_never_came_is_forgotten() -> None:
    own = directory({"A": 0, "B": 0})
    for _ in range(10):
        own.some("load", 1, 0.5)
    own.heard("A", "A:7411", 5, 1.0, 4.0)
    own.heard("B", "B:7411", 0, 1.0, 4.0)
    assert Counter(own.some("load", 1, 4.1)[0] for _ in range(5)) == {"B:7411": 5}


@pytest.mark.parametrize("policy", ["turn", "load", "near"])
def test_a_broker_that_is_silent_is_not_handed_out(policy: str) -> None:
    own = directory({"A": 0, "B": 0})
    own.heard("B", "B:7411", 0, 1.0, 5.0)
    assert own.some(policy, 3, 6.5) == ["B:7411"]  # type: ignore[arg-type]
    assert own.some(policy, 3, 20.0) == []  # type: ignore[arg-type]


def test_several_entry_points_do_not_all_make_up_for_the_same_broker() -> None:
    """Five of them are asked in turn, and hear of clients four times a second; nobody is far from its share.

    If each counted only whom it has sent itself, the ends would be 10 to 20 % off.
    """
    random = Random(5)
    names = ["A", "B", "C", "D", "E"]
    clients = dict(zip(names, [40, 0, 100, 0, 0], strict=True))
    weights = dict(zip(names, [1.0, 1.0, 1.5, 1.5, 2.0], strict=True))
    own = [directory(clients, weights) for _ in names]
    coming: list[tuple[float, str]] = []
    for number in range(1_000):
        now = number / 130
        if number % 32 == 0:
            for broker in names:
                arrived = [item for item in coming if item[0] <= now and item[1] == broker]
                coming = [item for item in coming if item not in arrived]
                clients[broker] += len(arrived)
                for number_of, each in enumerate(own):
                    host = names.index(broker)
                    sent = own[host].sent if number_of != host else 0  # its own it knows
                    each.heard(
                        broker, f"{broker}:7411", clients[broker], weights[broker], now, sent
                    )
        (first, *_) = own[number % 5].some("load", 3, now)
        coming.append((now + random.uniform(0.1, 0.5), first[0]))
    for _, broker in coming:
        clients[broker] += 1
    due = {broker: 1_140 * weights[broker] / 7 for broker in names}
    assert all(abs(clients[b] - due[b]) <= 0.05 * due[b] for b in names), clients
