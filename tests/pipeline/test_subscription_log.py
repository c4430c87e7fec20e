"""The log of subscriptions: a folder that several write to, and that a stream reads at a version."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from roost.errors import UserError
from roost.pipeline import subscription_log
from roost.pipeline.parsing import from_arrow
from roost.pipeline.subscription_log import SubscriptionLog

State = dict[int, tuple[str, str | None]]


def state_of(log: SubscriptionLog, version: int) -> State:
    table = log.at(version)
    ids, whose = (table.column(name).to_pylist() for name in ("subscription", "subscriber"))
    filters = from_arrow(ids, table.column("filters").combine_chunks()) if ids else []
    return {i: (str(f), name) for i, f, name in zip(ids, filters, whose, strict=True)}


IDS = st.integers(0, 6)
FILTERS = st.sampled_from(["x = 1", "x > 2 or y = 'b'", "z present", "*"])
CHANGES = st.one_of(
    st.tuples(
        st.dictionaries(IDS, FILTERS, min_size=1, max_size=3), st.sampled_from(["S", "T", None])
    ),
    st.lists(IDS, min_size=1, max_size=3),
    st.just("compact"),
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes=st.lists(CHANGES, max_size=10))
def test_a_version_is_all_changes_up_to_it(
    tmp_path_factory: pytest.TempPathFactory, changes: list[object]
) -> None:
    log = SubscriptionLog(tmp_path_factory.mktemp("log") / "new")
    states: list[State] = [{}]
    for change in changes:
        if change == "compact":
            log.compact()
            continue
        state = dict(states[-1])
        if isinstance(change, tuple):
            filters, whose = change
            version = log.add(filters.items(), subscriber=whose)
            state |= {id_: (text, whose) for id_, text in filters.items()}
        else:
            assert isinstance(change, list)
            version = log.remove(change)
            state = {id_: kept for id_, kept in state.items() if id_ not in change}
        states.append(state)
        assert version == log.version() == len(states) - 1
    assert state_of(log, log.version()) == states[-1]
    # What the last two snapshots leave is whole, from nothing and from any version that is known.
    oldest = log.oldest()
    for version in range(oldest, len(states)):
        assert state_of(log, version) == states[version]
    for version in range(1, oldest):
        with pytest.raises(UserError, match=f"version {version} of the subscriptions is not known"):
            log.at(version)


def test_nothing_is_added_with_a_filter_that_is_none(tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path)
    log.add([(1, "x = 1")])
    with pytest.raises(UserError, match=r"subscription 3: in the filter, .*expected a value"):
        log.add([(2, "x = 2"), (3, "x =")])
    for bad in ([(-1, "x = 1")], [(True, "x = 1")], [(1.5, "x = 1")], [(2**63, "x = 1")], [(1,)]):
        with pytest.raises(UserError, match="expected"):
            log.add(bad)
    with pytest.raises(UserError, match="'a' is no id of a subscription"):
        log.remove(["a"])  # type: ignore[list-item]
    assert log.version() == 1
    assert [path.name for path in tmp_path.iterdir()] == ["version-0000000001"]


def test_writers_at_the_same_time_each_get_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_log, "SNAPSHOT_EVERY", 7)
    versions: list[int] = []

    def write(first: int) -> None:
        log = SubscriptionLog(tmp_path)
        versions.extend(log.add([(id_, f"x = {id_}")]) for id_ in range(first, first + 10))

    threads = [threading.Thread(target=write, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = SubscriptionLog(tmp_path)
    assert len(set(versions)) == 40
    assert len(log.at(log.version())) == 40
    assert log._numbers("snapshot-")


def test_a_batch_keeps_its_version_and_what_it_needs(tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path)
    log.add([(1, "x = 1")])
    assert log.pins("query").version(5) == 1
    for id_ in range(2, 6):
        log.add([(id_, "x = 1")])
        log.compact()
    assert SubscriptionLog(tmp_path).pins("query").version(5) == 1
    assert list(state_of(log, 1)) == [1]
    # Others have pins of their own, and old ones go.
    assert log.pins("other").version(5) == 5
    for batch in range(6, 12):
        assert log.pins("query").version(batch) == 5
    assert log.pins("query").known(5) is None
    assert log.pins("query").known(11) == 5


def test_a_frame_is_added_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path)
    rows = [(1, "x = 1", "S"), (2, "y > 2 or x = 3", None)]
    frame = spark.createDataFrame(rows, "subscription bigint, filter string, subscriber string")
    assert log.add(frame, subscriber="T") == 1
    assert state_of(log, 1) == {1: ("x = 1", "S"), 2: ("y > 2 or x = 3", "T")}
    bad = spark.createDataFrame([(3, "x =")], "subscription bigint, filter string")
    with pytest.raises(UserError, match=r"^subscription 3: in the filter, ") as caught:
        log.add(bad)
    assert "Traceback" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["version-0000000001"]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UserError, match="expected a folder of subscriptions"):
        SubscriptionLog(file).version()
    assert SubscriptionLog(tmp_path / "new").version() == 0
