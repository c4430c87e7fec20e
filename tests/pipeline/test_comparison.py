"""Rates, delays and hops of two parts of a run, from traces that are made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from roost.errors import UserError
from roost.pipeline.comparison import Window, compare, link_rates, publisher_places
from roost.pipeline.schemas import SCHEMAS

# Four seconds with the publisher at A and the subscribers at C, three links away, and four with it at C.
WINDOWS = [Window("before", 100.0, 104.0), Window("after", 106.0, 110.0)]
CHAIN = ["A", "B", "C"]
EMPTY = {pa.string(): "", pa.bool_(): False}


def table(spark: SparkSession, name: str, rows: list[dict[str, Any]]) -> DataFrame:
    schema = SCHEMAS[name]
    whole = [
        {
            f.name: row.get(f.name, EMPTY.get(f.type, [] if pa.types.is_list(f.type) else 0))
            for f in schema
        }
        for row in rows
    ]
    return spark.createDataFrame(pa.Table.from_pylist(whole, schema)).repartition(2)


def visit(
    time: float, sequence: int, broker: str, hop: int, local: int, on: int, age: float
) -> Any:
    names = ("time", "publisher", "sequence", "broker", "hop", "local_subscribers", "forwarded")
    return dict(zip(names, (time, "P", sequence, broker, hop, local, on), strict=True)) | {
        "age_s": age
    }


@pytest.fixture(scope="module")
def traces(spark: SparkSession) -> dict[str, DataFrame]:
    visits, counts, samples = [], [], []
    sent = dict.fromkeys([("A", "B"), ("B", "C"), ("B", "A"), ("C", "B")], 0)
    for second in range(98, 112):
        moved = second >= 105
        for tenth in range(1, 11):
            sequence, time = 10 * second + tenth, second + tenth / 10 - 0.05
            if moved:
                visits.append(visit(time, sequence, "C", 0, 3, 0, 0.001))
            else:
                slow = 0.030 if tenth == 1 else 0.010
                visits += [
                    visit(time, sequence, "A", 0, 0, 1, 0.001),
                    visit(time + 0.001, sequence, "B", 1, 0, 1, 0.002),
                    visit(time + 0.002, sequence, "C", 2, 3, 0, slow),
                ]
        # 10 publications a second on, and from 105 on just what the optimiser says, 2 messages a second.
        for way, step in {("A", "B"): 10, ("B", "C"): 10}.items():
            sent[way] += 0 if moved else step
        for way in (("C", "B"), ("B", "A")) if moved else ():
            sent[way] += 1
        at = second + 1.0
        samples += [{"time": at, "broker": broker} for broker in CHAIN]
        for (broker, neighbour), count in sent.items():
            data = {"time": at, "broker": broker, "neighbour": neighbour, "class": "data"}
            counts += [data | {"sent": count}, data | {"class": "control", "sent": 5}]
    return {
        "deliveries": table(spark, "deliveries", visits),
        "links": table(spark, "links", counts),
        "loads": table(spark, "loads", samples),
    }


def test_two_parts_of_a_run(traces: dict[str, DataFrame]) -> None:
    before, after = (row.asDict() for row in compare(**traces, windows=WINDOWS).collect())
    assert before == {
        "window": "before",
        "brokers": 3,
        "published_per_s": 10.0,
        "between_per_s": 20.0,
        "other_per_s": 0.0,
        "overhead": 0.0,
        "received_per_s": 10.0,
        "busiest_per_s": 10.0,
        "delivered_per_s": 30.0,
        "delay_mean_s": pytest.approx(0.012),
        "delay_median_s": pytest.approx(0.010, rel=0.01),
        "hops": 2.0,
    }
    assert after["window"] == "after"
    assert (after["between_per_s"], after["other_per_s"], after["overhead"]) == (2.0, 2.0, 1.0)
    assert (after["received_per_s"], after["hops"]) == (4.0, 0.0)
    assert after["delay_mean_s"] == pytest.approx(0.001)


def test_where_publishers_and_messages_are(traces: dict[str, DataFrame]) -> None:
    places = publisher_places(traces["deliveries"], WINDOWS).collect()
    assert sorted(map(tuple, places)) == [("after", "P", "C"), ("before", "P", "A")]
    rates = link_rates(traces["links"], traces["loads"], WINDOWS).collect()
    busy = {tuple(row)[:3]: row["per_s"] for row in rates if row["per_s"]}
    assert busy == {
        ("before", "A", "B"): 10.0,
        ("before", "B", "C"): 10.0,
        ("after", "C", "B"): 1.0,
        ("after", "B", "A"): 1.0,
    }


def test_a_link_of_a_broker_that_was_restarted(spark: SparkSession) -> None:
    """It counts from 0 again, or with a store goes on; either way it is 50 messages a second."""
    counts, samples = [], []
    for keeps, broker in ((False, "A"), (True, "B")):
        sent = 0
        for second in range(100, 120):
            life = 1 if second < 110 else 2
            data = {"broker": broker, "neighbour": "C", "class": "data", "life": life}
            if second in (100, 110):
                sent = sent if keeps else 0
                counts.append(data | {"time": second, "sent": sent})
            sent += 50
            counts.append(data | {"time": second + 1.0, "sent": sent})
            samples.append({"time": second + 1.0, "broker": broker})
    links, loads = table(spark, "links", counts), table(spark, "loads", samples)
    for start, end in ((112.0, 118.0), (105.0, 118.0)):
        rates = link_rates(links, loads, [Window("x", start, end)]).collect()
        assert {(row["broker"], row["per_s"]) for row in rates} == {("A", 50.0), ("B", 50.0)}


def test_counts_of_before_there_were_lives(traces: dict[str, DataFrame]) -> None:
    links = traces["links"].drop("life")
    (row,) = link_rates(links, traces["loads"], WINDOWS[:1]).where("broker = 'A'").collect()
    assert row["per_s"] == 10.0


def test_brokers_write_down_their_counts_when_they_do(traces: dict[str, DataFrame]) -> None:
    """Rates are those of the time between two samples, wherever the window begins and ends."""
    windows = [Window("before", 100.7, 103.4)]
    (row,) = compare(**traces, windows=windows).collect()
    assert row["between_per_s"] == 20.0
    assert row["other_per_s"] == pytest.approx(0.0)


def test_bad_windows_are_refused(traces: dict[str, DataFrame]) -> None:
    with pytest.raises(UserError, match="the window 'x' goes from 2 to 2; expected an end"):
        compare(**traces, windows=[Window("x", 2, 2)])
    with pytest.raises(UserError, match="the windows are none; expected one or more"):
        publisher_places(traces["deliveries"], [])
    with pytest.raises(UserError, match="the windows are 'x', 'x'; expected one or more"):
        publisher_places(traces["deliveries"], [Window("x", 1, 2), Window("x", 3, 4)])
