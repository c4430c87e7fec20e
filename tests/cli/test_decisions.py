"""`roost decisions`, `roost optimise` and `roost redirect`, against live brokers inside the test."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from io import StringIO

import pytest
from rich.console import Console

import roost as roost_
from roost.built_in import BUILT_IN, MODULES
from roost.cli.decisions import show, show_one
from roost.cli.up import optimisers_of
from roost.client import Client
from roost.errors import UserError
from tests.cli.live import HOST, Live, live_brokers
from tests.cli.support import Roost

SESSIONS = 3  # of 100 events, as GRAPE counts them unless it is told otherwise


@pytest.fixture
def live() -> Iterator[Live]:
    with live_brokers() as brokers:
        yield brokers


async def joined(live: Live, broker: int, name: str) -> Client:
    return await roost_.connect(f"roost://{HOST}:{live.servers[broker].port}", name=name)


def places(live: Live, client: Client) -> list[str]:
    return [
        server.name
        for server in live.servers
        if any(session.client == client.name for session in server.shell.machine.sessions.values())
    ]


def wait_until_at(live: Live, client: Client, broker: str) -> None:
    until = time.monotonic() + 20
    while places(live, client) != [broker]:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_would_be_done_and_why(roost: Roost, live: Live) -> None:
    ran = roost("decisions", *live.options)
    assert ran.out.startswith("nothing has been decided yet")
    ran = roost("optimise", "grape", "observe", *live.options)
    assert (ran.code, ran.err) == (0, "")
    others = "".join(f", {name} off" for name in BUILT_IN[MODULES] if name != "grape")
    assert ran.out == "".join(f"{url}: grape observing{others}\n" for url in live.urls)

    async def work() -> tuple[Client, Client]:
        feed, desk = await joined(live, 0, "feed"), await joined(live, 1, "desk")
        await feed.advertise("class = 'STOCK'")
        subscription = desk.subscribe("class = 'STOCK'")
        await subscription.ready()
        for n in range(100 * SESSIONS):
            await feed.publish({"class": "STOCK", "n": n})
        for _ in range(100 * SESSIONS):
            await subscription.get(10)
        await feed.flush()
        while not live.servers[0].optimisers.decisions:
            await asyncio.sleep(0.01)
        return feed, desk

    feed, desk = live.run(work())
    try:
        found = roost("decisions", "--json", *live.options).json["decisions"]
        assert found
        assert {x["broker"] for x in found} == {"B0"}
        assert [x["id"] for x in found] == [f"B0/grape/{n + 1}" for n in range(len(found))]
        assert roost("decisions", "--limit", "1", "--json", *live.options).json == {
            "decisions": found[-1:]
        }
        shown = roost("decisions", *live.options).out
        assert feed.name in shown
        for wanted in ("1", found[-1]["id"]):
            explained = roost("decisions", "--explain", wanted, *live.options)
            assert explained.code == 0
            assert f"{found[-1]['id']}  20" in explained.out
            assert "Best first, of 2 candidates:" in explained.out
            assert re.search(r"from +\d+ sessions? of publications, at \d", explained.out)
        explained = roost("decisions", "--explain", "1", "--json", *live.options)
        assert explained.json == found[-1]
        ran = roost("decisions", "--explain", "B7/grape/1", *live.options)
        assert (ran.code, ran.out) == (2, "")
        assert "there is no such decision among the last; expected an id" in ran.err
        assert places(live, feed) == ["B0"]

        # Of two that have the same word in their names, nobody is moved by accident.
        second = live.run(joined(live, 1, "feed"))
        ran = roost("redirect", "feed", "B1", *live.options)
        assert ran.err.startswith("error: 'feed' may be feed~")
        live.run(second.close())
        ran = roost("redirect", "feed", "B1", *live.options)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == f"{feed.name}: asked to move from B0 to B1\n"
        wait_until_at(live, feed, "B1")
        ran = roost("redirect", "feed", "B1", *live.options)
        assert ran == (2, "", f"error: {feed.name} is at B1; expected another broker\n")
        ran = roost("redirect", feed.name, f"{HOST}:{live.servers[0].port}", *live.options)
        assert ran.code == 0
        wait_until_at(live, feed, "B0")
    finally:
        for client in (feed, desk):
            live.run(client.close())


def test_what_operators_get_wrong(roost: Roost, live: Live) -> None:
    ran = roost("optimise", "magic", "on", *live.options)
    assert ran.code == 2
    assert "there is no module 'magic'; expected grape or pop" in ran.err
    ran = roost("optimise", "grape", "acting", *live.options)
    assert ran.code == 2
    assert "'acting' is not one of 'on', 'observe', 'off'" in ran.err
    ran = roost("redirect", "nobody", "B1", *live.options)
    assert ran == (2, "", "error: there is no client 'nobody' at any of these brokers\n")
    ran = roost("redirect", "nobody", "B7", *live.options)
    assert ran.err == "error: there is no broker 'B7'; expected B0, B1, or HOST:PORT\n"
    ran = roost("decisions", "--explain", "1", *live.options)
    assert ran == (2, "", "error: --explain 1: there are 0 decisions\n")


def test_the_settings_of_a_federation() -> None:
    assert optimisers_of([], None, observe=False) == {}
    relocation = {"mode": "observing", "algorithm": "pop"}
    assert optimisers_of(["pop"], None, observe=True) == {"relocation": relocation}
    assert optimisers_of(["grape"], "load75", observe=False) == {
        "relocation": {
            "mode": "acting",
            "algorithm": "grape",
            "priority": "load",
            "weight": 75.0,
        }
    }
    assert optimisers_of(["overlay", "pop"], None, observe=True) == {
        "overlay": {"mode": "observing"},
        "relocation": relocation,
    }
    both = {"mode": "acting", "algorithm": "both"}
    assert optimisers_of(["pop", "grape"], None, observe=False) == {"relocation": both}
    for names, goal, observe, message in (
        ([], "load100", False, "--goal goes with --optimise, which is not there"),
        ([], None, True, "--observe goes with --optimise"),
        (["magic"], None, False, "--optimise magic; expected grape or pop"),
        (["pop"], "load100", False, "--goal load100 is GRAPE's; expected --optimise grape"),
        (["grape"], "load101", False, r"expected delay or load with 0 to 100 \(%\)"),
        (["grape"], "cost5", False, "--goal cost5; expected delay or load"),
    ):
        with pytest.raises(UserError, match=message):
            optimisers_of(names, goal, observe=observe)


def rewiring(kind: str, *, acted: bool, **more: object) -> dict[str, object]:
    """A decision about a link, as brokers tell it."""
    option = {"mover": "B1", "anchor": "B2", "utility": 12.0, "second": 3.0, "outcome": "chosen"}
    evidence = {
        "why": "saves 240 messages in 600 s and costs 60",
        "variant": "roost",
        "threshold": 0.0,
        "messages": 20,
        "seconds": 2.0,
        "came_from": {"B1": 20},
        "went_to": {"B2": 16, "B3": 4},
        "candidates": 6,
        "rewirings": [option],
        "present": {"load_per_s": 18.0},
    }
    return {
        "id": "B0/overlay/1",
        "time": 1.7e9,
        "broker": "B0",
        "module": "overlay",
        "kind": kind,
        "subject": "B0 - B1",
        "choice": "B2",
        "acted": acted,
        "evidence": evidence | more,
        "predicted": {"saves": 12.0, "load_per_s": 10.0},
        "cause": "B0/overlay/decision 1",
    }


def test_decisions_about_links_are_shown_like_others() -> None:
    outcome = rewiring("outcome", acted=True, measured={"saves": 11.0, "load_per_s": 10.5})
    shown = [rewiring("rewire", acted=False), rewiring("rewire", acted=True), outcome]
    console = Console(width=200, file=StringIO(), force_terminal=False)
    show(console, shown)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "would rewire" in text
    assert re.search(r"rewire +B0 - B1 +B0 -> B2 +18.0/s -> 10.0/s +saves 240 messages", text)
    assert re.search(r"10.0/s -> 10.5/s +.*saved 11 of 12 messages", text)


def test_a_decision_about_a_link_in_full() -> None:
    console = Console(width=120, file=StringIO(), force_terminal=False)
    show_one(console, rewiring("rewire", acted=True))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "from   20 messages in 2 s (roost), with threshold 0" in text
    assert "came   B1 20\n" in text
    assert "went   B2 16, B3 4\n" in text
    assert "Best first, in messages, of 6 candidates:" in text
    assert re.search(r"B1 +B2 +12 +3 +chosen", text)
