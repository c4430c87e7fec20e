"""Matching a stream against subscriptions that change, and running its batches again."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from roost.errors import UserError
from roost.language import Event, parse_subscription
from roost.pipeline.parsing import plain_refusals
from roost.pipeline.source.rows import to_json
from roost.pipeline.streaming import LogIndex, match_stream
from roost.pipeline.subscription_log import SubscriptionLog

TEXTS = ["x > 1", "x <= 2", "y = 'a'", "x = 1 or y = 'b'", "x > 0 and y = 'a'", "y present"]
EVENTS = [Event({"x": x, "y": y}) for x in range(4) for y in "abc"] + [Event({"x": math.inf})]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_the_index_of_a_worker_at_any_version(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = SubscriptionLog(tmp_path_factory.mktemp("log"))
    states: list[dict[int, str]] = [{}]
    for _ in range(data.draw(st.integers(0, 8))):
        state = dict(states[-1])
        if data.draw(st.booleans()):
            added = data.draw(
                st.dictionaries(st.integers(0, 30), st.sampled_from(TEXTS), max_size=24)
            )
            log.add(added.items())
            state |= added
        else:
            removed = data.draw(st.lists(st.integers(0, 30), max_size=5))
            log.remove(removed)
            state = {id_: text for id_, text in state.items() if id_ not in removed}
        states.append(state)
        if data.draw(st.integers(0, 5)) == 0:
            log.compact()
    index = LogIndex(log)
    oldest = log.oldest()
    for version in data.draw(st.lists(st.integers(oldest, len(states) - 1), max_size=6)):
        index.bring_to(version)
        interests = {id_: parse_subscription(text) for id_, text in states[version].items()}
        offsets, ids = index.index.match_batch(EVENTS)
        for i, event in enumerate(EVENTS):
            found = sorted(ids[offsets[i] : offsets[i + 1]].tolist())
            assert found == sorted(id_ for id_, f in interests.items() if f.matches(event))


def test_deliveries_are_by_subscriber(tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path)
    log.add([(1, "*"), (5, "*")], subscriber="S")
    log.add([(2, "*"), (3, "*")])
    log.add([(3, "*")], subscriber="S")
    index = LogIndex(log)
    index.bring_to(3)
    lists = pa.record_batch(
        {"publication": [7, 8], "subscriptions": [[5, 2, 1], [3]], "kept": ["a", "b"]}
    )
    (rows,) = index.deliveries([lists])
    assert rows.to_pylist() == [
        {"publication": 7, "subscriber": "2", "subscriptions": [2], "kept": "a"},
        {"publication": 7, "subscriber": "S", "subscriptions": [1, 5], "kept": "a"},
        {"publication": 8, "subscriber": "S", "subscriptions": [3], "kept": "b"},
    ]
    log.add([(3, "*")])  # and now it is for itself
    index.bring_to(4)
    assert next(index.deliveries([lists])).column("subscriber").to_pylist() == ["2", "S", "3"]


def test_a_frame_that_is_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path)
    log.add([(1, "x > 1"), (2, "y = 'a'")])
    rows = [(1, 2, "a", "k"), (2, 0, "b", "l"), (3, 5, None, "m")]
    frame = spark.createDataFrame(rows, "publication bigint, x int, y string, z string")
    pairs = match_stream(frame, tmp_path, keep=["z"]).collect()
    assert sorted(map(tuple, pairs)) == [(1, 1, "k"), (1, 2, "k"), (3, 1, "m")]
    texts = [(n, to_json(event.attributes)) for n, event in enumerate(EVENTS)]
    events = spark.createDataFrame(texts, "publication bigint, event string")
    lists = match_stream(events, log, form="lists", event_column="event").collect()
    assert {n: sorted(ids) for n, ids in lists} == {
        n: found
        for n, event in enumerate(EVENTS)
        if (found := [1] * (event.attributes["x"] > 1) + [2] * (event.attributes.get("y") == "a"))  # type: ignore[operator]
    }
    with pytest.raises(UserError, match="the form 'trees' is unknown"):
        match_stream(frame, log, form="trees")


def publications(spark: SparkSession, folder: Path) -> DataFrame:
    schema = "publication bigint, x bigint"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(folder.as_uri())


def run(frame: DataFrame, out: Path, checkpoint: Path) -> None:
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(out))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_column_that_can_be_no_attribute(spark: SparkSession, tmp_path: Path) -> None:
    """It may be there, and a filter on it is refused. The time of an event is one: a number."""
    log = SubscriptionLog(tmp_path / "log")
    log.add([(1, "x > 1")])
    frame = spark.createDataFrame([(1, 2.0)], "publication int, x double").selectExpr(
        "*", "timestamp_seconds(7) as at", "array(x) as all"
    )
    assert [tuple(row) for row in match_stream(frame, log).collect()] == [(1, 1)]
    log.add([(2, "at = 7")])
    assert sorted(tuple(row) for row in match_stream(frame, log).collect()) == [(1, 1), (1, 2)]
    log.add([(3, "all present")])
    said = r"'all' .* is array<double>; an attribute is one of"
    with pytest.raises(UserError, match=said), plain_refusals():
        match_stream(frame, log).collect()


def test_a_batch_that_is_run_again_matches_what_it_matched(
    spark: SparkSession, tmp_path: Path
) -> None:
    incoming, out, checkpoint = (tmp_path / name for name in ("in", "out", "checkpoint"))
    incoming.mkdir()
    log = SubscriptionLog(tmp_path / "log")
    log.add([(1, "x >= 0")])

    def publish(*numbers: int) -> None:
        lines = [json.dumps({"publication": n, "x": n}) for n in numbers]
        (incoming / f"{numbers[0]}.json").write_text("\n".join(lines))

    def pairs() -> list[tuple[int, int]]:
        return sorted(map(tuple, spark.read.parquet(str(out)).collect()))

    matches = match_stream(publications(spark, incoming), log)
    publish(1, 2)
    run(matches, out, checkpoint)
    assert pairs() == [(1, 1), (2, 1)]
    log.remove([1])
    log.add([(2, "x >= 0")])
    publish(3)
    run(matches, out, checkpoint)
    assert pairs() == [(1, 1), (2, 1), (3, 2)]
    # As if the process had been killed before the second batch was committed, here and at the sink.
    for commit in (checkpoint / "commits" / "1", out / "_spark_metadata" / "1"):
        commit.unlink()
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    log.remove([2])
    run(matches, out, checkpoint)
    assert pairs() == [(1, 1), (2, 1), (3, 2)]
    # Killed before anything was pinned, it would have been the new version: the pin is what did it.
    for commit in (checkpoint / "commits" / "1", out / "_spark_metadata" / "1"):
        commit.unlink()
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    shutil.rmtree(log.folder / "pins")
    run(matches, out, checkpoint)
    assert pairs() == [(1, 1), (2, 1)]
