"""A page on recorded runs: its figures are those of the rows, and it asks for nothing and stays small."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.plans.replaying import read_scene, workload_text
from roost.pipeline.reports.optimisers import with_optimisers
from roost.pipeline.reports.page import report_page
from roost.pipeline.reports.series import Series, series_of
from roost.relocation.collecting import NO_LOAD
from roost.simulation.workload_file import parse_workload
from roost.traces import About, TraceWriter
from roost.traces.rows import DecisionRow, DeliveryRow, LinkRow, load_row
from tests.cli.support import Roost, make_roost
from tests.pipeline.plans.obvious import rows_of
from tests.pipeline.plans.test_replaying import CHAIN, EVENTS, LIVELY, run_of

IDLE = load_row(0.0, "", NO_LOAD)
SMALL = CHAIN + EVENTS + LIVELY + "75.0 end\n"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    run_of(folder, SMALL)
    return folder / "lake"


def test_series_are_those_of_the_rows(lake: Path) -> None:
    found = series_of(Lake(lake), "some-3")
    rows = [row for row in rows_of(Lake(lake), "deliveries", "some-3") if row["source"] is not None]
    ages = sorted(row["age_s"] for row in rows for _ in range(row["local_subscribers"]))
    assert found.total_published == sum(row["from_client"] for row in rows)
    assert found.total_messages == sum(not row["from_client"] for row in rows)
    assert found.total_delivered == len(ages)
    assert found.total_mean_s == pytest.approx(sum(ages) / len(ages))
    assert found.total_p99_s == pytest.approx(np.quantile(ages, 0.99), rel=0.05)
    assert found.published.sum() * found.width_s == pytest.approx(found.total_published)
    low = rows[0]["time"]
    first = [row for row in rows if row["time"] < low + found.width_s]
    assert found.messages[0] * found.width_s == pytest.approx(
        sum(not row["from_client"] for row in first)
    )
    assert set(found.utilisation) == {"B0", "B1", "B2", "B3"}


def test_overlays_are_those_of_the_beginning_and_of_the_end(lake: Path) -> None:
    found = series_of(Lake(lake), "some-3")
    assert set(found.links_before) == {("B0", "B1"), ("B1", "B2"), ("B2", "B3")}
    assert set(found.links_after) == {("B0", "B1"), ("B1", "B2"), ("B1", "B3")}
    assert found.links_before["B0", "B1"] > 0


def check_alone(page: str) -> None:
    """It asks for nothing: no script, no address but the name of SVG's language."""
    assert "<script" not in page
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"(?:src|href)=|url\(|@import", page)


def test_a_page_needs_nothing_else(lake: Path) -> None:
    page = report_page([series_of(Lake(lake), "some-3")])
    check_alone(page)
    assert "prefers-color-scheme: dark" in page
    assert page.count("<svg") == 5  # three charts and two overlays


def hour(folder: Path, brokers: int) -> Series:
    """An hour between so many brokers, with an optimiser that decides all the time."""
    names = [f"B{n}" for n in range(brokers)]
    links = [(names[(n - 1) // 2], names[n], 1.0) for n in range(1, brokers)]
    about = About("simulated", 0, {"overlays": [[0.0, links], [1_800.0, links]]})
    draws = np.random.default_rng(1)
    with TraceWriter(folder, "hour", about=about) as trace:
        for n in range(40_000):
            time = 3_600 * n / 40_000
            broker = names[n % brokers]
            age, clients = float(draws.lognormal(-6)), (("S", ("S/1",)),)
            begun = n % 3 == 0
            trace.add(
                "deliveries",
                DeliveryRow(
                    time, "P", n, broker, 1, 1, 0, 100, 0.0, 1e-4, age, "P", begun, (), clients
                ),
            )
        for period in range(360):
            for broker in names:
                busy = [float(draws.random()) for _ in range(3)]
                load = IDLE._replace(
                    time=period * 10.0,
                    broker=broker,
                    input_utilisation=busy[0],
                    output_utilisation=busy[1],
                )
                trace.add("loads", load)
            for a, b, _ in links:
                trace.add("links", LinkRow(period * 10.0, a, b, "data", period * 50, 0, 0))
        for n in range(500):
            evidence = msgspec.json.encode(
                {"worth": {"reason": "saves 100 messages"}, "others": [1] * 900}
            ).decode()
            row = DecisionRow(
                n * 7.0, "B1", "grape", "move", f"P{n}", "B2", True, evidence, "{}", ""
            )
            trace.add("decisions", row)
    return series_of(Lake(folder), "hour")


def test_an_hour_of_63_brokers_is_a_small_page(tmp_path: Path) -> None:
    page = report_page([hour(tmp_path, 63)])
    check_alone(page)
    assert len(page.encode()) < 1_500_000


# --- optimisers -----------------------------------------------------------------------------------------


def test_one_workload_with_each_optimiser_and_with_all(lake: Path) -> None:
    scene = read_scene(Lake(lake), "some-3")
    found = with_optimisers(scene)
    assert list(found) == ["none", "pop", "grape", "overlay", "balancing", "together"]
    for each in found.values():
        parse_workload(workload_text(each), "made", None)  # or it says what is wrong with it
    assert found["together"].modules == ("overlay", "balancing")


# --- the command ----------------------------------------------------------------------------------------


@pytest.fixture
def roost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    return make_roost(capsys, monkeypatch)


def test_the_command_writes_the_page(lake: Path, tmp_path: Path, roost: Roost) -> None:
    out = tmp_path / "page.html"
    done = roost("report", "some-3", "--lake", lake, "--out", out, "--compare", "--json")
    assert done.code == 0, done.err
    page = out.read_text()
    check_alone(page)
    assert done.json["bytes"] == len(page.encode())
    assert set(done.json["compared"]) == {
        "none",
        "pop",
        "grape",
        "overlay",
        "balancing",
        "together",
    }
    assert all(not row["violations"] for row in done.json["compared"].values())


def test_a_run_that_is_not_there_leaves_no_page(lake: Path, tmp_path: Path, roost: Roost) -> None:
    out = tmp_path / "page.html"
    done = roost("report", "nobody", "--lake", lake, "--out", out)
    assert done.code == 2
    assert "nobody" in done.err
    assert not out.exists()


def test_a_run_in_which_nothing_happened_is_refused(tmp_path: Path) -> None:
    run_of(tmp_path, "0.0 broker add B0 1000 16 10\n20.0 end\n")
    with pytest.raises(UserError, match="nothing happened in it"):
        series_of(Lake(tmp_path / "lake"), "some-3")
