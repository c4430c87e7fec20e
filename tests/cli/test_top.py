"""`roost top`: single frames, of brokers that run in the test and of some that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from roost.cli import top
from roost.cli.fleet import Sight, Target
from roost.cli.top import Seen, frame, links_of
from tests.cli.live import Live, live_brokers
from tests.cli.support import Roost


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with live_brokers() as live:
        yield live


def sight(name: str, utilisation: float, links: dict[str, dict[str, Any]]) -> Sight:
    status = {
        "broker": name,
        "host": "127.0.0.1",
        "port": 7411,
        "pid": 1,
        "trouble": "",
        "attached": 3,
        "sessions": 4,
        "waiting": 2,
        "subscriptions": 1_000,
        "links": links,
        "load": {
            "input_utilisation": utilisation,
            "output_utilisation": 0.0,
            "input_rate": 1_234.0,
            "output_rate": 5_678.0,
            "output_bytes_per_s": 1.5e6,
            "memory_bytes": 2e8,
        },
    }
    return Sight(Target("http://127.0.0.1:1"), status)


def link(sent: int, received: int, *, up: bool = True, waiting: int = 0) -> dict[str, Any]:
    return {"up": up, "sent": sent, "received": received, "waiting": waiting}


def pair(at_s: float, there: int, back: int) -> Seen:
    brokers = [
        sight("B0", 0.2, {"B1": link(there, back)}),
        sight("B1", 0.9, {"B0": link(back, there, waiting=7), "B2": link(0, 0, up=False)}),
        Sight(Target("http://127.0.0.1:2", "B2"), None, "no answer"),
    ]
    return Seen(at_s, brokers)


def printed(shown: Any, width: int = 120) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(shown)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_one_frame_of_live_brokers(
    roost: Roost, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "ONCE_S", 0.1)
    peer = live.run(live.attach(0, "c1"))
    ran = roost("top", "--once", *live.options)
    live.run(peer.close())
    assert (ran.code, ran.err) == (0, "")
    assert "  2/2 brokers well, 1/1 links up, " in ran.out.splitlines()[0]
    rows = [line.split() for line in ran.out.splitlines()]
    assert sorted(row[0] for row in rows[3:5]) == ["B0", "B1"]
    assert rows[-1] == ["B0", "-", "B1", "0", "0", "0", "0", "up"]


def test_the_busiest_first_and_links_with_their_rates() -> None:
    lines = printed(frame(pair(12.0, 500, 80), pair(10.0, 100, 60), 120))
    assert lines[0].endswith("2,468 in/s, 11,356 out/s, 3.0 MB/s")
    assert "  1/3 brokers well, 1/2 links up," in lines[0]
    assert lines[2:] == [
        "broker  load                         in/s  out/s  MB/s  memory  clients   subs  waiting  links"
        "  state",
        "B1      ██████████████████··  90 %  1,234  5,678   1.5  200 MB        3  1,000        9    1/2"
        "  link down",
        "B0      ████················  20 %  1,234  5,678   1.5  200 MB        3  1,000        2    1/1"
        "  ok",
        "B2      ····················     -      -      -     -       -        -      -        -      -"
        "  no answer",
        "",
        "link     →/s  ←/s  → waiting  ← waiting  state",
        "B0 - B1  200   10          0          7  up",
        "B1 - B2    0    0          0          -  down",
    ]


def test_rates_of_a_broker_that_began_anew_or_was_not_there() -> None:
    (first, _) = links_of(pair(12.0, 5, 80), pair(10.0, 100, 60))
    assert (first.to_b, first.to_a) == (0.0, 10.0)
    (first, _) = links_of(pair(12.0, 5, 80), Seen(10.0, []))
    assert (first.to_b, first.to_a) == (None, None)


@pytest.mark.parametrize(("width", "lines"), [(120, 24), (80, 10), (40, 9), (20, 3)])
def test_a_frame_fits_the_terminal(width: int, lines: int) -> None:
    names = [f"B{number}" for number in range(40)]
    brokers = [
        sight(name, 0.5, {other: link(0, 0) for other in names[number + 1 : number + 2]})
        for number, name in enumerate(names)
    ]
    shown = printed(frame(Seen(1.0, brokers), Seen(0.0, brokers), width, lines), width)
    assert len(shown) <= max(lines, top.FRAME_LINES + 2)
    assert any(line.startswith("and ") and "brokers with less load" in line for line in shown) or (
        width < 30
    )


def test_without_a_terminal_it_is_once_or_not_at_all(roost: Roost, live: Live) -> None:
    ran = roost("top", *live.options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: standard output is no terminal; expected one, or --once")
