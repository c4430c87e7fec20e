"""Profiles equal what the protocols had on-line in the same simulated run, with and without faults."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from roost.optimising.bitvector import BitVector
from roost.pipeline.lake import Lake
from roost.pipeline.profiles import Profile, delivery_vectors, link_traffic, pop_averages
from roost.pipeline.profiles.vectors import KEYS
from tests.pipeline.profiles.runs import SESSION, OnLine, recorded, rows
from tests.pipeline.test_comparison import table

RUNS = [(seed, faults) for seed in range(4) for faults in ("none", "all")]
Key = tuple[str, int, str, int]  # publisher, session, broker, life


def name_of(seed: int, faults: str) -> str:
    return f"{faults}-{seed}"


@pytest.fixture(scope="module")
def on_line(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, OnLine]]:
    lake = tmp_path_factory.mktemp("lake")
    with pytest.MonkeyPatch.context() as patch:
        runs = {name_of(*each): recorded(lake, name_of(*each), *each, patch) for each in RUNS}
    return lake, runs


def all_runs(spark: SparkSession, lake: Path, table: str, key: str) -> DataFrame:
    """The runs in one table: each has publishers, or brokers, of its own."""
    frame = Lake(lake).read(spark, table)
    return frame.withColumn(key, F.concat_ws("/", "run", key)).drop("run")


def vectors_of(frame: DataFrame) -> dict[Key, tuple[bytes, int]]:
    """Bits and deliveries."""
    bits: defaultdict[Key, int] = defaultdict(int)
    counts: defaultdict[Key, int] = defaultdict(int)
    for row in rows(delivery_vectors(SESSION).of(frame)):
        key = (row["publisher"], row["first"], row["broker"], row["life"])
        bits[key] |= (row["bits"] % 2**64) << 64 * row["word"]
        counts[key] += row["deliveries"]
    found = {}
    for key, each in bits.items():
        size = (each.bit_length() + 7) // 8
        found[key] = (each.to_bytes(size, "little"), counts[key])
    return found


def test_grape_s_vectors_and_counts(
    spark: SparkSession, on_line: tuple[Path, dict[str, OnLine]]
) -> None:
    """000 section 4.1. A broker that was restarted since the session has forgotten it."""
    lake, runs = on_line
    vectors = vectors_of(all_runs(spark, lake, "deliveries", "publisher"))
    compared = dict.fromkeys(runs, 0)
    for name, run in runs.items():
        for session in run.sessions:
            for broker, told in session.answers.items():
                life = session.lives[broker]
                key = (f"{name}/{session.publisher}", session.first, broker, life)
                assert told == vectors.get(key, (b"", 0)), (name, session, broker)
                compared[name] += told != (b"", 0)
    for faults, least in (("none", 250), ("all", 50)):
        assert sum(n for name, n in compared.items() if name.startswith(faults)) > least


def test_links_are_counted_as_brokers_count_them(
    spark: SparkSession, on_line: tuple[Path, dict[str, OnLine]]
) -> None:
    lake, runs = on_line
    run = name_of(0, "none")
    found = {
        (row["broker"], row["neighbour"], row["class"]): (row["sent"], row["received"])
        for row in rows(link_traffic().of(Lake(lake).read(spark, "links", run)))
    }
    counted = {}
    for host in runs[run].world.hosts.values():
        assert host.life is not None
        for link in host.life.machine.links.values():
            for name, lane in (("control", link.channel.control), ("data", link.channel.data)):
                counted[host.name, link.name, name] = (lane.sent, lane.received)
    assert found == counted
    assert any(sent > 50 for sent, _ in found.values())


def test_pop_s_averages(spark: SparkSession, on_line: tuple[Path, dict[str, OnLine]]) -> None:
    """000 section 3.1: to the last bit, because the same sums are made in the same order."""
    lake, runs = on_line
    calm = all_runs(spark, lake, "deliveries", "publisher").where("publisher like 'none%'")
    found = {
        (row["publisher"], row["broker"]): (row["traces"], row["local"], row["downstream"])
        for row in rows(pop_averages().of(calm))
    }
    expected = {
        (f"{name}/{publisher}", broker): (profile.traces, profile.local, dict(profile.downstream))
        for name, run in runs.items()
        if name.startswith("none")
        for (publisher, broker), profile in run.averages.items()
    }
    assert found == expected
    assert len({publisher for publisher, _ in found}) == 3 * len(RUNS) // 2


@pytest.mark.parametrize("profile", [delivery_vectors(SESSION), pop_averages(), link_traffic()])
def test_sums_are_the_same_in_whatever_parts_they_are_made(
    spark: SparkSession, on_line: tuple[Path, dict[str, OnLine]], profile: Profile
) -> None:
    lake, _ = on_line
    frame = Lake(lake).read(spark, profile.table, name_of(1, "all"))
    halves = [frame.where(F.col("time") <= 30), frame.where(F.col("time") > 30)]
    parts = profile.sums(halves[0]).unionByName(profile.sums(halves[1]))
    both = (profile.of(frame), profile.merged(parts))
    whole, added = (sorted(map(str, rows(each))) for each in both)
    assert added == whole


# --- vectors, by hand -------------------------------------------------------------------------------


def visits(spark: SparkSession, *seen: tuple[int, str, int, int]) -> DataFrame:
    """(sequence, source, subscribers, life) at B1, one a second."""
    names = ("sequence", "source", "local_subscribers", "life")
    rows = [dict(zip(names, each, strict=True)) for each in seen]
    same = {"publisher": "P", "broker": "B1"}
    return table(spark, "deliveries", [same | row | {"time": n} for n, row in enumerate(rows)])


def test_figure_3_of_the_paper_and_words(spark: SparkSession) -> None:
    """000 section 4.1: the session of M = 212 has bit d for publication 212 + d; here it has 211 bits."""
    frame = visits(
        spark, (212, "B0", 1, 1), (213, "B0", 2, 1), (214, "B0", 0, 1), (300, "B0", 1, 1)
    )
    first, second = sorted(rows(delivery_vectors(211).of(frame)), key=lambda row: row["word"])
    assert (first["first"], first["bits"], first["deliveries"]) == (212, 0b11, 3)
    assert (second["word"], second["bits"]) == (1, 1 << (300 - 212 - 64))
    assert (first["seen"], first["whole"], first["over"], first["certain"]) == (
        0b111,
        True,
        False,
        True,
    )
    assert BitVector([0, 1]).to_bytes() == bytes([first["bits"]])


def test_sessions_begin_anew_when_events_come_from_elsewhere(spark: SparkSession) -> None:
    turned = [(1, "B0", 1, 1), (2, "B0", 1, 1), (3, "B2", 1, 1), (4, "B2", 1, 1)]
    (row,) = rows(delivery_vectors(4).of(visits(spark, *turned)))
    assert (row["bits"], row["deliveries"], row["source"]) == (0b1100, 2, "B2")
    assert (row["whole"], row["over"], row["certain"]) == (False, True, True)
    back = [(1, "B0", 1, 1), (2, "B2", 1, 1), (3, "B0", 1, 1), (4, "B0", 1, 1)]
    (row,) = rows(delivery_vectors(4).of(visits(spark, *back)))
    assert (row["bits"], row["certain"]) == (0b1100, False)
    # In another life what was before is forgotten, whatever comes again.
    again = [(1, "B0", 1, 1), (2, "B0", 1, 1), (2, "B0", 1, 2), (3, "B0", 1, 2)]
    found = {row["life"]: row for row in rows(delivery_vectors(4).of(visits(spark, *again)))}
    assert [(found[n]["bits"], found[n]["whole"]) for n in (1, 2)] == [(0b11, True), (0b110, False)]


def test_the_sums_have_their_keys(spark: SparkSession) -> None:
    frame = visits(spark, (1, "B0", 1, 1))
    assert set(KEYS) < set(delivery_vectors(4).sums(frame).columns)
