"""`roost decisions`, `roost optimise` and `roost redirect`, against live brokers inside the test."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import roost as roost_
from roost.built_in import BUILT_IN, MODULES
from roost.cli.decisions import Decision, called, folded, show, show_one
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


def test_what_was_carried_out_names_its_decision_as_all_commands_do() -> None:
    cause = "B0.B0~1.0/grape/decision 7"
    done = rewiring("carried out", acted=True, decision=cause, took_s=0.26)
    console = Console(width=200, file=StringIO(), force_terminal=False)
    show(console, [done])
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "decision B0/grape/7, after 0.3 s" in text
    assert called(cause, "B") == cause  # of another broker, whose name begins alike


def test_a_decision_about_a_link_in_full() -> None:
    console = Console(width=120, file=StringIO(), force_terminal=False)
    show_one(console, rewiring("rewire", acted=True))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "from   20 messages in 2 s (roost), with threshold 0" in text
    assert "came   B1 20\n" in text
    assert "went   B2 16, B3 4\n" in text
    assert "Best first, in messages, of 6 candidates:" in text
    assert re.search(r"B1 +B2 +12 +3 +chosen", text)


# --- many of them -----------------------------------------------------------------------------------


def stay(number: int, who: str, why: str = "saves too little", time: float = 1.7e9) -> Decision:
    """A decision about a publisher that stays."""
    return {
        "id": f"B0/grape/{number}",
        "time": time + number,
        "broker": "B0",
        "module": "grape",
        "kind": "stay",
        "subject": who,
        "choice": "B0",
        "acted": True,
        "evidence": {"why": why, "present": {"delay_s": 0.01 * number, "load_per_s": 12.0}},
        "predicted": {"delay_s": 0.02, "load_per_s": 11.0},
        "cause": f"B0/grape/decision {number}",
    }


def shown(found: Sequence[Decision], width: int, limit: int = 20) -> str:
    console = Console(width=width, file=StringIO(), force_terminal=False)
    show(console, found, limit)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_what_is_said_of_somebody_again_is_one_row() -> None:
    found = [stay(1, "P1"), stay(2, "P2"), stay(3, "P1"), stay(4, "P2"), stay(5, "P1")]
    assert [(row.number, row.last["subject"], row.times) for row in folded(found)] == [
        (2, "P2", 2),
        (1, "P1", 3),
    ]
    # Not what was said before something else.
    between = [*found, stay(6, "P1", "it has just moved"), stay(7, "P1")]
    assert [row.times for row in folded(between)] == [2, 3, 1, 1]


@pytest.mark.parametrize("width", [80, 110])
def test_nothing_that_matters_is_left_out_where_it_is_narrow(width: int) -> None:
    why = "the publisher is where most of its audience is, and to move it would save 12 messages"
    found = [stay(n, f"a-publisher-of-quotes-{n}~3f9a12bc45de6789", why) for n in range(1, 31)]
    text = shown(found, width)
    *rows, _ = text.splitlines()
    assert max(map(len, rows)) <= width
    # Columns are folded, and none of their words is cut away.
    said = re.sub(r"\s+", "", text)
    for word in ("publisher", "audience", "12", "messages", "stay"):
        assert word in said
    assert "…" not in text
    assert "a-publisher-of-quotes-30~3f9a12bc45de6789" in text
    last = text.splitlines()[-1]
    assert last.startswith("not shown: 10 earlier decisions (--limit); ")
    assert "load" in last
    assert shown(found, 400, 30).count("not shown") == 0


def test_those_of_a_trace(roost: Roost, tmp_path: Path) -> None:
    workload, lake = tmp_path / "two.workload", tmp_path / "lake"
    workload.write_text(
        "0.0 federation optimiser grape acting session=5\n"
        "0.0 broker add B0 1000 16 10\n"
        "0.0 broker add B1 1000 16 10\n"
        "0.1 link add B0 B1 2\n"
        "1.0 publisher add P1 AAA 120 B0\n"
        "2.0 subscriber add S1 B1 class = 'STOCK'\n"
    )
    ran = roost("sim", "run", workload, "--until", 60, "--trace", lake)
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"Optimisers: \d+ decisions, 1 move\n", ran.out)
    assert re.search(r"move +P1 +B0 -> B1", ran.out)
    assert f"roost decisions --lake {lake} --run two-0" in ran.out
    (move,) = roost("sim", "run", workload, "--until", 60, "--json").json["moves"]
    assert (move["subject"], move["broker"], move["choice"]) == ("P1", "B0", "B1")

    for which in (("--run", "two-0"), ()):
        read = roost("decisions", "--lake", lake, *which, "--limit", 100, "--json").json[
            "decisions"
        ]
        assert [x["subject"] for x in read if x["kind"] == "move"] == ["P1"]
    table = roost("decisions", "--lake", lake)
    assert re.search(r"\d\.\d s +B0/grape/1 +move +P1 +B0 -> B1", table.out)
    assert "B0/grape/1" in roost("decisions", "--lake", lake, "--explain", "B0/grape/1").out
    ran = roost("decisions", "--lake", lake, "--run", "tow-0")
    assert (ran.code, ran.out) == (2, "")
    assert "there is 'two-0'" in ran.err
    ran = roost("decisions", "--lake", tmp_path / "nowhere")
    assert ran.code == 2
    assert "0 runs have recorded decisions; expected a lake" in ran.err
