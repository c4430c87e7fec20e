"""`roost drain`, where it can't be: brokers without a load balancer, and names that nobody has.

That it empties a broker under load is tested in tests/balancing/test_live.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from roost.cli.drain import is_on_its_way, verdict
from tests.cli.live import Live, live_brokers
from tests.cli.support import Roost


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with live_brokers() as live:
        yield live


def test_a_broker_that_there_is_not(roost: Roost, live: Live) -> None:
    ran = roost("drain", "B9", *live.options)
    assert ran.code == 2
    assert "there is no broker 'B9'; expected B0 or B1" in ran.err


def test_a_broker_without_a_load_balancer(roost: Roost, live: Live) -> None:
    ran = roost("drain", "B1", *live.options)
    assert ran.code == 2
    assert ran.err == (
        "error: B1: its load balancer is off; `roost optimise balancing on` wakes it\n"
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"may_stop": True}, "it has no clients any more, and may stop"),
        ({"draining": False}, "it takes clients again"),
        ({"clients": 1}, "1 client still there"),
        (
            {"clients": 3, "durable": ["D"]},
            "3 clients still there, of which these are durable and stay: D",
        ),
    ],
)
def test_in_words(said: dict[str, object], words: str) -> None:
    usual = {"may_stop": False, "draining": True, "clients": 0, "durable": []}
    assert verdict(usual | said) == words


def test_nobody_waits_for_those_who_stay() -> None:
    usual = {"may_stop": False, "draining": True, "durable": ["D"]}
    assert is_on_its_way({**usual, "clients": 2})
    assert not is_on_its_way({**usual, "clients": 1})
