"""`roost sessions`, against live brokers inside the test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.broker.messages import SessionEnded
from roost.cli import sessions as sessions_module
from roost.cli.sessions import duration
from roost.runtime.plain_peer import PlainPeer
from tests.cli.live import HOST, Live, live_brokers
from tests.cli.support import Roost


@pytest.fixture
def live() -> Iterator[Live]:
    with live_brokers() as brokers:
        yield brokers


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def leave(live: Live, broker: int, client: str, *, waiting: int = 0) -> None:
    """A durable session whose client has left, with so many events that wait for it."""
    server = live.servers[broker]
    peer = await PlainPeer.connect(HOST, server.port)
    await peer.attach(client, durable=True)
    peer.subscribe(f"{client}/s", "x > 0")
    peer.advertise(f"{client}/a", "x > 0")
    await peer.acknowledged()
    await peer.close()
    session = server.shell.machine.sessions[client]
    async with asyncio.timeout(20):
        while session.connection is not None:
            await asyncio.sleep(0.01)
    if waiting:
        feed = await live.attach(broker, "feed")
        feed.advertise("feed/a", "x > 0")
        for x in range(1, waiting + 1):
            feed.publish({"x": x})
        await feed.acknowledged()
        await feed.close()


def test_who_is_there_and_who_is_away(roost: Roost, live: Live) -> None:
    assert roost("sessions", *live.options) == (0, "there are no sessions\n", "")
    assert roost("sessions", "--away", *live.options) == (0, "nobody is away\n", "")
    desk = live.run(live.attach(0, "desk~1"))
    live.run(leave(live, 1, "archive"))
    ran = roost("sessions", *live.options)
    assert (ran.code, ran.err) == (0, "")
    head, first, second = ran.out.splitlines()
    assert head.split() == (
        ["broker", "client", "session", "user", "kind", "state", "waiting", "held", "subs"]
    )
    assert first.split() == ["B0", "desk~1", "desk~1", "-", "plain", "there", "0", "0.0", "MB", "0"]
    assert second.split()[:7] == ["B1", "archive", "archive", "-", "durable", "away", "0"]
    assert "6 d left" in second
    ran = roost("sessions", "--away", "--json", *live.options)
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    (session,) = ran.json["sessions"]
    assert (session["broker"], session["client"], session["durable"]) == ("B1", "archive", True)
    assert (session["attached"], session["subscriptions"], session["waiting"]) == (False, 1, 0)
    ran = roost("sessions", "--broker", "B0", "--json", *live.options)
    assert [each["session"] for each in ran.json["sessions"]] == ["desk~1"]
    ran = roost("sessions", "--broker", "B7", *live.options)
    assert ran == (2, "", "error: there is no broker 'B7'; expected B0 or B1\n")
    live.run(desk.close())


def test_page_by_page(roost: Roost, live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "A_PAGE", 2)
    peers = [live.run(live.attach(0, f"c {number}&")) for number in range(5)]
    found = roost("sessions", "--json", *live.options).json["sessions"]
    assert [each["client"] for each in found] == [f"c {number}&" for number in range(5)]
    for peer in peers:
        live.run(peer.close())


def test_one_is_ended(roost: Roost, live: Live) -> None:
    live.run(leave(live, 1, "archive~7", waiting=3))
    ran = roost("sessions", "end", "archive", "--broker", "B1", *live.options)
    said = "archive~7: its session at B1 has ended, and with it 3 deliveries that waited\n"
    assert ran == (0, said, "")
    assert "archive~7" not in live.servers[1].shell.machine.sessions
    ran = roost("sessions", "end", "archive", *live.options)
    assert ran == (2, "", "error: there is no session 'archive' at these brokers\n")

    desk = live.run(live.attach(0, "desk"))
    ran = roost("sessions", "end", "desk", "--json", *live.options)
    assert (ran.code, ran.json["ended"]["session"]) == (0, "desk")
    assert live.run(desk.next(SessionEnded)).reason == "an operator has ended it"
    live.run(desk.close())


def test_which_one_is_meant(roost: Roost, live: Live) -> None:
    peers = [
        live.run(live.attach(place, name)) for place, name in ((0, "a~1"), (1, "a~2"), (1, "b"))
    ]
    ran = roost("sessions", "end", "a", *live.options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "error: 'a' may be a~1 at B0, a~2 at B1; expected the name of one session, and --broker\n"
    )
    assert roost("sessions", "end", "a", "--broker", "B1", *live.options).code == 0
    assert roost("sessions", "end", "a~1", *live.options).code == 0
    assert roost("sessions", "end", "a~2", "--broker", "B0", *live.options).code == 2
    for peer in peers:
        live.run(peer.close())


def test_what_strangers_call_themselves_does_not_steer_a_terminal(roost: Roost, live: Live) -> None:
    evil = live.run(live.attach(0, "x\x1b[2J"))
    out = roost("sessions", *live.options).out
    assert "x\\x1b[2J" in out
    assert "\x1b" not in out
    live.run(evil.close())


def test_not_all_answer(roost: Roost, live: Live) -> None:
    live.run(leave(live, 0, "archive"))
    options = ("--admin", live.urls[0], "--admin", "127.0.0.1:1")
    ran = roost("sessions", *options)
    assert ran.code == 1
    assert "archive" in ran.out
    assert ran.err.startswith(
        "warning: 1 of 2 brokers refused, or did not answer:\n  http://127.0.0.1:1: no answer"
    )
    ran = roost("sessions", "end", "nobody", *options)
    assert ran.code == 2
    assert (
        "there is no session 'nobody' at these brokers; 1 of 2 brokers refused, or did not answer:"
        in ran.err
    )
    assert roost("sessions", "end", "archive", *options).code == 0


def test_bad_input(roost: Roost, live: Live) -> None:
    ran = roost("sessions", "end", *live.options)
    assert ran == (2, "", "error: end which one? expected `roost sessions end NAME`\n")
    ran = roost("sessions", "end", "x", "--away", *live.options)
    assert (ran.code, ran.out) == (2, "")
    assert "--away goes with the list" in ran.err
    ran = roost("sessions", "begin", *live.options)
    assert ran.code == 2
    assert "'begin' is not" in ran.err
    ran = roost("sessions", "--admin", "127.0.0.1:1")
    assert ran.code == 2
    assert ran.err.startswith("error: http://127.0.0.1:1: no answer")


def test_durations() -> None:
    seconds = (0.4, 119, 120, 7_199, 7_200, 604_799)
    assert [duration(each) for each in seconds] == (
        ["0 s", "119 s", "2 min", "119 min", "2 h", "6 d"]
    )
