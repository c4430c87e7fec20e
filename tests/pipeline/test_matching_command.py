"""`roost pipeline match`: what it writes, says and refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roost.cli.pipeline import match as pipeline_match
from roost.cli.pipeline.match import bytes_of
from roost.errors import UserError
from tests.cli.support import Roost, make_roost

EVENTS = "publication,symbol,high,day\n1,A,5.0,2024-01-02\n2,B,7.5,2024-01-03\n3,,1.0,2024-01-04\n"
FILTERS = "subscription,filter\n10,\"symbol = 'A' and high > 3\"\n11,high < 6\n"


@pytest.fixture
def roost(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Roost:
    """Commands that use the session of the tests, which is not theirs to stop."""

    @contextmanager
    def session(master: str | None, conf: Sequence[str] | None) -> Iterator[SparkSession]:
        assert (master, conf) == (None, None)
        yield spark

    monkeypatch.setattr(pipeline_match, "session_of", session)
    return make_roost(capsys, monkeypatch)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "filters.csv").write_text(FILTERS)
    return [
        *("--publications", str(tmp_path / "events.csv")),
        *("--subscriptions", str(tmp_path / "filters.csv")),
    ]


def test_pairs_for_people(roost: Roost, files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "pairs"
    ran = roost("pipeline", "match", *files, "--out", str(out), "--keep", "day")
    assert ran.code == 0
    assert "broadcast: an index of 2 subscriptions takes at most" in ran.out
    assert "3 matches in " in ran.out
    rows = pq.read_table(out).sort_by([("publication", "ascending"), ("subscription", "ascending")])
    assert rows.to_pydict() == {
        "publication": [1, 1, 3],
        "subscription": [10, 11, 11],
        "day": ["2024-01-02", "2024-01-02", "2024-01-04"],
    }


def test_lists_for_programs(roost: Roost, files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "lists"
    options = ("--lists", "--plan", "partitioned", "--memory-limit", "2GB", "--json")
    told = roost("pipeline", "match", *files, "--out", str(out), *options).json
    assert (told["plan"], told["matches"], told["publications_matched"]) == ("partitioned", 3, 2)
    assert told["figures"]["memory_limit_bytes"] == 2_000_000_000
    assert "one part" in told["reason"]
    assert told["bytes"] > 0
    rows = pq.read_table(out).to_pylist()
    assert {row["publication"]: sorted(row["subscriptions"]) for row in rows} == {
        1: [10, 11],
        3: [11],
    }


def test_refusals(roost: Roost, files: list[str], tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        ran = roost("pipeline", "match", *arguments)
        assert ran.code == 2
        assert "Traceback" not in ran.err
        return ran.err

    out = ("--out", str(tmp_path / "new"))
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1 and no more")
    assert "damaged.parquet" in refused("--publications", str(damaged), *files[2:], *out)
    gone = str(tmp_path / "gone.csv")
    assert "there is no such file" in refused(*files[:2], "--subscriptions", gone, *out)
    assert "no column 'filter'" in refused(*files[:2], "--subscriptions", files[1], *out)
    assert "no column 'x' to keep" in refused(*files, *out, "--keep", "x")
    assert "already there" in refused(*files, "--out", str(tmp_path))
    assert "there is no folder" in refused(*files, "--out", str(tmp_path / "a" / "b"))
    assert "'much' is no size" in refused(*files, *out, "--memory-limit", "much")
    (tmp_path / "bad.csv").write_text("filter\nx = 1\nx >\n")
    bad = ("--subscriptions", str(tmp_path / "bad.csv"))
    assert "subscription 1: in the filter, line 1, column 4" in refused(*files[:2], *bad, *out)
    broadcast = ("--plan", "broadcast", "--memory-limit", "1kB")
    assert "'broadcast' does not fit" in refused(*files, *out, *broadcast)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("text", "size"), [("500MB", 500_000_000), ("1.5g", 1_500_000_000), ("12", 12), ("3 kB", 3_000)]
)
def test_sizes(text: str, size: int) -> None:
    assert bytes_of(text) == size


def test_no_size() -> None:
    with pytest.raises(UserError, match="'-1GB' is no size"):
        bytes_of("-1GB")
