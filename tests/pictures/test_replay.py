"""Runs that are played again: the figures of the page are those of the trace, and it needs nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from roost.cli.sim.run import Plan, Result, carry_out
from roost.pictures.replay import (
    Journey,
    Move,
    Replay,
    Slice,
    colour,
    draw_slice,
    placed,
    replay_page,
)
from roost.pictures.replay_of_run import replay_of
from roost.traces import read_table
from tests.cli.support import Roost, make_roost

WORKLOAD = """\
0 federation set load_period_s 2
0 broker add B0 1000 16 10
0 broker add B1 1000 16 10
0 broker add B2 1000 16 10
0 broker add B3 1000 16 10
0 link add B0 B1
0 link add B1 B2
0 link add B2 B3
0 publisher add P - 0 B0 a > 0
0 subscriber add S B2 a > 0
0 subscriber add T B3 a > 5
2 publisher publish P [a,1]
3 publisher publish P [a,9]
9 link move B0 B1 B2
15 publisher publish P [a,9]
20 end
"""
LINKS = {("B0", "B1"), ("B1", "B2"), ("B2", "B3")}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("replay")
    (folder / "x.workload").write_text(WORKLOAD)
    plan = Plan(folder / "x.workload", 0, None, folder / "t", "none", rest=True, stories=False)
    return carry_out(plan)


@pytest.fixture(scope="module")
def replay(ran: Result) -> Replay:
    tables = {name: read_table(path) for name, path in ran.tables.items()}
    return replay_of(tables, "x", ran.summary.virtual_s, ran.overlays, [Move(9.5, "<moved>")])


def test_its_figures_are_those_of_the_trace(ran: Result, replay: Replay) -> None:
    visits = read_table(ran.tables["deliveries"]).to_pylist()
    hops = [row for row in visits if row["source"] is not None and not row["from_client"]]
    assert len(hops) == 2 + 3 + 2  # the last one comes to B2 without B1
    assert (replay.slice_s, len(replay.slices)) == (2.0, 10)
    crossed = sum(sum(piece.links.values()) for piece in replay.slices) * replay.slice_s
    assert crossed == pytest.approx(len(hops))
    came = sum(piece.delivered_per_s for piece in replay.slices) * replay.slice_s
    assert came == pytest.approx(ran.checks.delivered) == pytest.approx(5)
    assert set(replay.slices[0].links) == LINKS
    assert set(replay.slices[-1].links) == {("B0", "B2"), ("B1", "B2"), ("B2", "B3")}
    assert replay.slices[1].links["B0", "B1"] == 1.0  # two in two seconds
    assert replay.slices[-1].publishers == {"B0": ("P",)}
    assert replay.slices[-1].subscriptions["B3"] >= 1
    assert all(0 <= load < 1 for load in replay.slices[5].load.values())
    assert replay.brokers == ("B0", "B1", "B2", "B3")


def test_events_spread_as_they_did(replay: Replay) -> None:
    first, second, third = replay.journeys
    assert (first.at_s, first.hops) == (2.0, ((1, "B0", "B1"), (2, "B1", "B2")))
    assert second.hops[-1] == (3, "B2", "B3")
    assert third.hops == ((1, "B0", "B2"), (2, "B2", "B3"))


def test_the_page_needs_nothing_else(replay: Replay) -> None:
    html = replay_page(replay)
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "&lt;moved&gt;" in html
    data = data_of(html)
    assert data["moves"] == [9.5]
    assert len(data["slices"]) == 10
    assert data["journeys"][0] == [2.0, [[1, 0, 1], [2, 1, 2]]]
    # All within the sheet.
    for piece in data["slices"]:
        for x, y in piece["at"]:
            assert 0 < x < data["width"]
            assert 0 < y < data["height"]
    assert html.count("<svg") == 2


def data_of(html: str) -> Any:
    found = re.search(r"const run = (.*);\n", html)
    assert found
    return json.loads(found[1])


def piece_of(**links: float) -> Slice:
    pairs = {(name[:2], name[2:]): rate for name, rate in links.items()}
    return Slice(0.0, pairs, {"B0": 0.0, "B1": 2.0}, {"B0": 4, "B1": 1}, {"B0": ("P<",)}, 0.0)


def small(*slices: Slice, names: tuple[str, ...] = ("B0", "B1", "B2")) -> Replay:
    journeys = (Journey(0.5, ((1, "B0", "B1"),)), Journey(99.0, ()))
    return Replay("</script>", names, 1.0, slices, (), journeys)


def test_one_slice_as_a_picture() -> None:
    svg = ElementTree.fromstring(draw_slice(small(piece_of(B0B1=8.0, B1B2=0.0)), 0))
    tag = "{http://www.w3.org/2000/svg}"
    widths = [line.get("stroke-width") for line in svg.iter(f"{tag}line")]
    assert widths == ["12.0", "0.8"]
    circles = list(svg.iter(f"{tag}circle"))
    assert [circle.get("fill") for circle in circles] == ["#56B4E9", "#D55E00", "#FFFFFF"]
    assert [circle.get("r") for circle in circles] == ["20", "13.5", "7"]


def test_what_is_no_tree_stays_where_it_was() -> None:
    whole, parted = piece_of(B0B1=1.0, B1B2=1.0), piece_of(B0B1=1.0)
    places = placed(small(parted, whole, parted))
    assert places[0] == places[1] == places[2]
    ring = placed(small(parted, piece_of(B0B1=1.0, B1B2=1.0, B0B2=1.0)))
    assert len(set(ring[0].values())) == 3


def test_names_do_not_end_the_script() -> None:
    html = replay_page(small(piece_of(B0B1=1.0, B1B2=1.0)))
    assert html.count("</script>") == 1
    assert "Nobody was moved" in html
    assert len(data_of(html)["journeys"]) == 1  # the other is after the end


def test_colours_go_from_idle_to_overloaded() -> None:
    assert [colour(load) for load in (None, -1, 0, 1, 9)] == [
        "#FFFFFF",
        "#56B4E9",
        "#56B4E9",
        "#D55E00",
        "#D55E00",
    ]


def test_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    roost: Roost = make_roost(capsys, monkeypatch)
    (tmp_path / "x.workload").write_text(WORKLOAD)
    page = tmp_path / "x.html"
    ran = roost("sim", "run", tmp_path / "x.workload", "--animate", page)
    assert ran.code == 0
    assert "Trace" not in ran.out  # it is not kept
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.html", "x.workload"]
    assert data_of(page.read_text())["names"] == ["B0", "B1", "B2", "B3"]
    ran = roost("sim", "run", tmp_path / "x.workload", "--animate", tmp_path / "no" / "x.html")
    assert (ran.code, "No such file" in ran.err) == (2, True)
