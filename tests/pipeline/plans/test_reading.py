"""What plans are made from: the sums of Spark are those of every row; a run that lacks a table is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.plans.model import model_of
from roost.pipeline.plans.reading import Tables, interests_at_end, links_at_end, read_run
from tests.cli.support import Roost, make_roost
from tests.pipeline.plans.obvious import recorded_plainly
from tests.pipeline.plans.test_replaying import CHAIN, EVENTS, LIVELY, run_of


def test_sums_are_those_of_every_row(spark: SparkSession, tmp_path: Path) -> None:
    ran = run_of(tmp_path, CHAIN + EVENTS + LIVELY + "75.0 end\n")
    found = read_run(spark, Lake(tmp_path / "lake"), ran.run)
    plain = recorded_plainly(tmp_path / "lake", ran.run)
    assert found.placement == plain.placement
    assert found.publishers == plain.publishers
    assert found.wants == plain.wants
    assert found.seconds == plain.seconds
    assert found.load_per_s == pytest.approx(plain.load_per_s)
    assert found.delay_s == pytest.approx(plain.delay_s)
    assert found.transit_s == pytest.approx(plain.transit_s)
    for broker, load in plain.brokers.items():
        for name in load.__struct_fields__:
            assert getattr(found.brokers[broker], name) == pytest.approx(getattr(load, name))


def test_the_model_of_what_was_has_what_was_measured(tmp_path: Path) -> None:
    ran = run_of(tmp_path, CHAIN + EVENTS + "75.0 end\n")
    run = recorded_plainly(tmp_path / "lake", ran.run, since=10.0)
    effect = model_of(run).effect()
    assert effect.load_per_s == pytest.approx(run.load_per_s, rel=0.02)
    assert effect.delay_s == pytest.approx(run.delay_s)


def test_only_the_end_of_a_run_counts(spark: SparkSession, tmp_path: Path) -> None:
    ran = run_of(tmp_path, CHAIN + EVENTS + "75.0 end\n")
    found = read_run(spark, Lake(tmp_path / "lake"), ran.run, window_s=20.0)
    assert found.seconds == pytest.approx(20.0, rel=0.1)
    with pytest.raises(UserError, match="a window of 0 s; expected some length"):
        read_run(spark, Lake(tmp_path / "lake"), ran.run, window_s=0.0)


def row(time: float, broker: str, client: str, *, added: bool) -> dict[str, object]:
    said = {"kind": "subscription", "id": "1", "filter": "a > 1", "life": 1}
    return {"time": time, "broker": broker, "client": client, "added": added, **said}


def test_a_client_is_where_it_came_last_and_has_not_gone() -> None:
    rows = [
        row(1.0, "B0", "S", added=True),
        row(1.0, "B0", "T", added=True),
        row(2.0, "B1", "S", added=True),
        row(3.0, "B0", "S", added=False),
        row(4.0, "B0", "T", added=False),
    ]
    assert interests_at_end(rows) == ({"S": "B1"}, {"S": ("a > 1",)})


def test_a_link_that_a_live_broker_no_longer_counts_is_gone() -> None:
    def sample(time: float, broker: str, *neighbours: str) -> list[dict[str, object]]:
        return [{"time": time, "broker": broker, "neighbour": n} for n in neighbours]

    rows = [each for time in range(10) for each in sample(float(time), "B1", "B0", "B2")]
    rows += [each for time in range(10, 20) for each in sample(float(time), "B1", "B0")]
    tables = Tables("r", "live", (), (), (), rows, (), ())
    assert links_at_end(tables) == [("B0", "B1")]


# --- the command ----------------------------------------------------------------------------------------


@pytest.fixture
def roost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    return make_roost(capsys, monkeypatch)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--from", "nobody"], "called 'nobody'; there is 'some-3'"),
        (["--from", "some-3", "--goals", "speed=1"], "'speed=1' is no goal; expected GOAL=WEIGHT"),
        (["--from", "some-3", "--goals", "load=0"], "all weights are 0"),
        (["--from", "some-3", "--pin", "B0"], "expected two brokers, such as B0-B1"),
        (["--from", "some-3", "--optimisers", "magic"], "there is no 'magic'; expected some of"),
        (["--from", "some-3", "--suppose", "lose B9"], "its events were not recorded"),
    ],
)
def test_what_is_asked_for_wrongly_is_refused_before_spark_begins(
    words: list[str], why: str, tmp_path: Path, roost: Roost
) -> None:
    run_of(tmp_path, CHAIN + "6.0 end\n", content=False)
    done = roost("plan", "--lake", str(tmp_path / "lake"), *words)
    assert done.code == 2, done.out
    assert why in done.err
    assert "Traceback" not in done.err


def test_a_run_without_a_table_is_refused(tmp_path: Path, roost: Roost) -> None:
    ran = run_of(tmp_path, CHAIN + "6.0 end\n")
    for path in Lake(tmp_path / "lake").files("interests", ran.run):
        path.unlink()
    done = roost("plan", "--lake", str(tmp_path / "lake"), "--from", ran.run)
    assert done.code == 2
    assert "interests" in done.err
