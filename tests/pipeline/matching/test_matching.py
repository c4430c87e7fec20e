"""The bulk match gives the matches of the obvious loop, by every plan and in both forms."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from roost.bench.workloads import Workload, workload_of
from roost.errors import UserError
from roost.language import Event
from roost.pipeline.matching import explain_match, layout, match, prepare_match
from roost.pipeline.parsing import parse, plain_refusals
from tests.pipeline.matching.cases import Case, lists_of, pairs_of, random_case

# So little that the subscriptions of a random case need several parts.
SMALL = 600_000
# A smaller example would take minutes to find, and tell no more than the pairs that differ.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)


def found_pairs(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row[0], row[1]) for row in frame.collect())


@settings(max_examples=2, deadline=None, phases=UNSHRUNK)
@given(seed=st.integers(0, 2**32))
def test_every_plan_finds_what_the_obvious_loop_finds(spark: SparkSession, seed: int) -> None:
    case = random_case(seed, subscriptions=300, publications=100)
    publications, texts = case.publications(spark), case.filters(spark)
    expected = case.pairs()
    assert len(expected) > 500
    parsed = parse(texts)
    ways = [("broadcast", None, texts), ("partitioned", SMALL, parsed), ("join", None, texts)]
    for plan, limit, subscriptions in ways:
        prepared = prepare_match(
            publications, subscriptions, plan=plan, keep=["tag"], memory_limit_bytes=limit
        )
        assert prepared.choice.figures.get("parts", 2) > 1
        assert prepared.frame.columns == ["publication", "subscription", "tag"]
        assert found_pairs(prepared.frame) == expected, plan


@settings(max_examples=1, deadline=None, phases=UNSHRUNK)
@given(seed=st.integers(0, 2**32))
def test_every_plan_makes_the_same_lists(spark: SparkSession, seed: int) -> None:
    case = random_case(seed, subscriptions=400, publications=100)
    publications, subscriptions = case.publications(spark), case.filters(spark)
    expected = lists_of(case.pairs())
    for plan, limit in (("broadcast", None), ("partitioned", SMALL), ("join", None)):
        frame = match(
            publications,
            subscriptions,
            plan=plan,
            form="lists",
            keep=["tag", "whole"],
            memory_limit_bytes=limit,
        )
        assert frame.columns == ["publication", "subscriptions", "tag", "whole"]
        rows = frame.collect()
        assert {row[0]: sorted(row[1]) for row in rows} == expected, plan
        for row in rows:
            assert row["tag"] == datetime.date(2024, 1, 2) + datetime.timedelta(row[0])
            assert row["whole"] == case.rows[row[0]][1]


def test_events_may_be_texts(spark: SparkSession) -> None:
    case = random_case(1, subscriptions=300, publications=60)
    expected = case.pairs()
    for plan, limit in (("broadcast", None), ("partitioned", SMALL)):
        frame = match(
            case.texts(spark),
            case.filters(spark),
            plan=plan,
            event_column="event",
            memory_limit_bytes=limit,
        )
        assert found_pairs(frame) == expected, plan


def test_an_attribute_of_several_kinds_is_a_matter_for_texts(spark: SparkSession) -> None:
    texts = ['{"x": 1}', '{"x": "1"}', '{"x": true}', "[x,1.0]", "[y,9007199254740993]"]
    publications = spark.createDataFrame(list(enumerate(texts)), "publication bigint, e string")
    filters = {1: "x = 1", 2: "x = '1'", 3: "x = true", 4: "y > 9007199254740992"}
    subscriptions = spark.createDataFrame(
        list(filters.items()), "subscription bigint, filter string"
    )
    frame = match(publications, subscriptions, event_column="e")
    assert found_pairs(frame) == [(0, 1), (1, 2), (2, 3), (3, 1), (4, 4)]


def test_rows_with_the_same_number_are_rows_of_their_own(spark: SparkSession) -> None:
    rows = [(7, 1.0), (7, 2.0), (None, 1.0)]
    publications = spark.createDataFrame(rows, "publication bigint, x double")
    subscriptions = table_of(spark, {1: "x > 0 or x = 1", 2: "x = 1"})
    for plan in ("broadcast", "partitioned", "join"):
        pairs = match(publications, subscriptions, plan=plan).collect()
        found = sorted((row[0] or 0, row[1]) for row in pairs)
        assert found == [(0, 1), (0, 2), (7, 1), (7, 1), (7, 2)], plan
        lists = match(publications, subscriptions, plan=plan, form="lists").collect()
        assert sorted(len(row[1]) for row in lists) == [1, 2, 2], plan


PLANS = pytest.mark.parametrize("plan", ["broadcast", "join"])  # the third takes its time


@PLANS
def test_columns_may_stand_in_any_order_and_have_types_that_no_filter_asks_for(
    spark: SparkSession, plan: str
) -> None:
    """A number that is no text, ahead of `publication`; times and amounts that nobody speaks of."""
    rows = [("A", 1.5, 7), ("B", 2.5, 8)]
    publications = spark.createDataFrame(rows, "word string, x double, publication int").selectExpr(
        "word",
        "timestamp '2026-01-02 03:04:05' as at",
        "cast(x as decimal(10, 2)) as amount",
        "publication",
        "x",
        "array(x) as all",
    )
    subscriptions = table_of(spark, {1: "x > 2", 2: "word = 'A'", 3: "x < 2 and word = 'A'"})
    found = match(publications, subscriptions, plan=plan, keep=["at"])
    assert found.columns == ["publication", "subscription", "at"]
    assert found_pairs(found) == [(7, 2), (7, 3), (8, 1)]


@PLANS
def test_times_days_and_amounts_are_numbers_and_texts(spark: SparkSession, plan: str) -> None:
    publications = spark.sql(
        "select 1L as publication, timestamp '2026-01-02 00:00:00.5 UTC' as at, date '2026-01-02' as day,"
        " timestamp_ntz '2026-01-02 09:30:00.5' as local, 12.50bd as price, cast(7 as decimal(9, 0)) as n"
        " union all select 2L, null, null, null, null, null"
    )
    filters = {
        1: "at = 1767312000.5",
        2: "at > 1767312000.5",
        3: "day = '2026-01-02'",
        4: "day >= '2026-01-03'",
        5: "local = '2026-01-02 09:30:00.5'",
        6: "price = 12.5",
        7: "n = 7",
        8: "price > 12.5 or n < 7",
    }
    found = match(publications, table_of(spark, filters), plan=plan, keep=["day"])
    assert dict(found.dtypes)["day"] == "date"
    assert found_pairs(found) == [(1, number) for number in (1, 3, 5, 6, 7)]


def test_ids_may_be_texts(spark: SparkSession) -> None:
    publications = spark.createDataFrame([("p1", 1.0), ("p2", 3.0)], "publication string, x double")
    filters = [("late", "x > 2"), ("any", "x present"), ("early", "x < 2")]
    subscriptions = spark.createDataFrame(filters, "subscription string, filter string")
    pairs = [("p1", "any"), ("p1", "early"), ("p2", "any"), ("p2", "late")]
    for plan in ("partitioned", "join"):
        found = match(publications, subscriptions, plan=plan)
        assert sorted(map(tuple, found.collect())) == pairs, plan
    lists = match(publications, subscriptions, form="lists", keep=["x"])
    assert {row[0]: (sorted(row[1]), row.x) for row in lists.collect()} == {
        "p1": (["any", "early"], 1.0),
        "p2": (["any", "late"], 3.0),
    }


def test_texts_that_are_no_ids(spark: SparkSession) -> None:
    publications = spark.createDataFrame([(1, 1.0)], "publication bigint, x double")
    for names, said in ((["a", "a"], "the subscription 'a' comes twice"), (["a", None], "no id")):
        rows = [(name, "x > 1") for name in names]
        subscriptions = spark.createDataFrame(rows, "subscription string, filter string")
        with pytest.raises(UserError, match=said):
            match(publications, subscriptions)


@PLANS
def test_a_string_that_no_event_may_have(spark: SparkSession, plan: str) -> None:
    publications = spark.createDataFrame([(1, "a" * 65_537)], "publication bigint, x string")
    frame = match(publications, table_of(spark, {1: "x prefix 'a'"}), plan=plan)
    said = "column 'x' has a string of more than 65,536"
    with pytest.raises(UserError, match=said), plain_refusals():
        frame.collect()


def table_of(spark: SparkSession, filters: dict[int, str]) -> DataFrame:
    return spark.createDataFrame(list(filters.items()), "subscription bigint, filter string")


# --- division -------------------------------------------------------------------------------------


def tables(spark: SparkSession, load: Workload) -> tuple[DataFrame, DataFrame]:
    import pyarrow as pa

    numbers = pa.array(range(load.event_count))
    publications = spark.createDataFrame(pa.table({"publication": numbers, **load.columns}))
    filters = {id_: str(filter_) for id_, filter_ in enumerate(load.filters())}
    return publications, table_of(spark, filters)


def expected_of(load: Workload) -> list[tuple[int, int]]:
    return pairs_of(dict(enumerate(load.filters())), range(load.event_count), load.events())


@pytest.mark.parametrize(
    ("workload", "count", "events", "how"),
    [("stock", 2_000, 200, "a hash of 'symbol'"), ("bluedove", 600, 900, "ranges of 'd")],
)
def test_subscriptions_that_do_not_fit_are_divided_by_what_they_ask_for(
    spark: SparkSession, workload: str, count: int, events: int, how: str
) -> None:
    load = workload_of(workload, 7, count, events)
    publications, subscriptions = tables(spark, load)
    most = explain_match(publications, subscriptions, plan="partitioned").figures["index_bytes"]
    prepared = prepare_match(publications, subscriptions, memory_limit_bytes=int(most / 2))
    assert prepared.choice.plan == "partitioned"
    assert how in prepared.choice.reason
    assert prepared.choice.figures["parts"] > 1
    assert prepared.choice.figures["largest_part_bytes"] < most / 2
    assert found_pairs(prepared.frame) == expected_of(load)


def test_a_symbol_that_everybody_wants_and_quotes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "SALTED_ROWS", 10)
    hot = [Event({"symbol": "HOT" if n % 10 else f"S{n}", "note": str(n)}) for n in range(150)]
    rows = [(n, e.attributes["symbol"], str(n)) for n, e in enumerate(hot)]
    publications = spark.createDataFrame(rows, "publication bigint, symbol string, note string")
    filters = {
        id_: f"symbol = '{'HOT' if id_ % 8 else f'S{id_}'}' and note contains '{id_ % 10}'"
        for id_ in range(1_000)
    }
    subscriptions = table_of(spark, filters)
    from roost.language import parse_filter

    expected = pairs_of(
        {id_: parse_filter(text) for id_, text in filters.items()}, range(len(hot)), hot
    )
    for limit in (500_000, 10_000_000):
        prepared = prepare_match(
            publications, subscriptions, plan="partitioned", memory_limit_bytes=limit
        )
        assert "a hash of 'symbol'" in prepared.choice.reason
        assert prepared.choice.figures["largest_part_bytes"] <= limit
        frame = prepared.frame
        # No task does more than its share.
        by_task = frame.groupBy(spark_partition_id()).count().collect()
        assert max(row[1] for row in by_task) < 0.75 * len(expected)
        assert found_pairs(frame) == expected


# --- plans and limits -----------------------------------------------------------------------------


def test_auto_takes_what_fits(spark: SparkSession) -> None:
    load = workload_of("bluedove", 3, 1_000, 50)
    publications, subscriptions = tables(spark, load)
    roomy = prepare_match(publications, subscriptions, memory_limit_bytes=1 << 30)
    assert roomy.choice.plan == "broadcast"
    tight = prepare_match(publications, subscriptions, memory_limit_bytes=300_000)
    assert tight.choice.plan == "partitioned"
    assert found_pairs(tight.frame) == found_pairs(roomy.frame) == expected_of(load)
    with pytest.raises(UserError, match=r"'broadcast' does not fit: .* takes about .* 300.0 kB"):
        match(publications, subscriptions, plan="broadcast", memory_limit_bytes=300_000)
    with pytest.raises(UserError, match=r"limit of 2.0 kB is too small .* at least"):
        match(publications, subscriptions, memory_limit_bytes=2_000)
    choice = explain_match(publications, subscriptions)
    assert choice.plan == "broadcast"
    assert "1,000 subscriptions" in choice.reason


def test_nothing_matches_nothing(spark: SparkSession) -> None:
    publications = spark.createDataFrame([(1, 1.0)], "publication bigint, x double")
    none = spark.createDataFrame([], "subscription bigint, filter string")
    for plan in ("auto", "partitioned", "join"):
        assert match(publications, none, plan=plan).collect() == []
    assert match(publications.limit(0), table_of(spark, {1: "*"})).collect() == []
    assert found_pairs(match(publications, table_of(spark, {1: "*"}))) == [(1, 1)]


# --- what is wrong is said first ------------------------------------------------------------------


@pytest.fixture(scope="module")
def one(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    case = Case({}, [])
    return case.publications(spark), table_of(spark, {1: "word = 'a'"})


def test_tables_that_are_none(spark: SparkSession, one: tuple[DataFrame, DataFrame]) -> None:
    publications, subscriptions = one
    for plan in ("broadcast", "join"):
        on_tag = table_of(spark, {1: "word = 'a'", 2: "tags present"})
        with pytest.raises(UserError, match=r"'tags' .* is array<date>; an attribute is one of"):
            match(publications.selectExpr("*", "array(tag) as tags"), on_tag, plan=plan)
    publications = publications.drop("tag")
    with pytest.raises(UserError, match="no column 'publication'"):
        match(subscriptions, subscriptions)
    with pytest.raises(UserError, match="no column 'filter'"):
        match(publications, publications.withColumnRenamed("publication", "subscription"))
    with pytest.raises(UserError, match=r"'filter' .* is bigint; expected string"):
        match(publications, subscriptions.selectExpr("subscription", "subscription as filter"))
    with pytest.raises(UserError, match=r"'filters' .* is string; expected array"):
        match(publications, subscriptions.withColumnRenamed("filter", "filters"))
    with pytest.raises(UserError, match="two columns 'word'"):
        match(publications.toDF(*["word"] * len(publications.columns)), subscriptions)
    with pytest.raises(UserError, match="column 'gone' of events"):
        match(publications, subscriptions, event_column="gone")
    with pytest.raises(UserError, match="'whole' of events is bigint"):
        match(publications, subscriptions, event_column="whole")
    with pytest.raises(UserError, match=r"'join' .* can't look into a column of events"):
        match(publications, subscriptions, event_column="word", plan="join")


def test_options_that_are_none(one: tuple[DataFrame, DataFrame]) -> None:
    publications, subscriptions = one
    publications = publications.drop("tag")
    with pytest.raises(UserError, match="plan 'best' is unknown; expected one of auto"):
        match(publications, subscriptions, plan="best")
    with pytest.raises(UserError, match="form 'rows' is unknown; expected one of pairs, lists"):
        match(publications, subscriptions, form="rows")
    with pytest.raises(UserError, match=r"no column 'gone' to keep .* 'whole'"):
        match(publications, subscriptions, keep=["gone"])
    with pytest.raises(UserError, match="'word' can't be kept"):
        match(publications, subscriptions, keep=["word", "word"])
    with pytest.raises(TypeError, match="keep is a str; expected a list of texts"):
        match(publications, subscriptions, keep="word")
    with pytest.raises(UserError, match="limit is 0 bytes"):
        match(publications, subscriptions, memory_limit_bytes=0)


@pytest.mark.parametrize("plan", ["broadcast", "partitioned", "join"])
def test_subscriptions_that_are_none(spark: SparkSession, plan: str) -> None:
    publications = spark.createDataFrame([(1, 1.0)], "publication bigint, x double")
    schema = "subscription bigint, filter string"
    for rows, message in (
        ([(1, "x > 1"), (2, "x >> 1")], r"subscription 2: in the filter, line 1, column 4: found"),
        ([(4, "x > 1"), (4, "x > 2")], "the subscription 4 comes twice"),
        ([(-4, "x > 1")], "-4 is not a subscription id"),
        ([(None, "x > 1")], "no id"),
        ([(5, None)], "subscription 5: the filter is null"),
    ):
        with pytest.raises(UserError, match=message):
            match(publications, spark.createDataFrame(rows, schema), plan=plan)


def test_an_event_that_is_none_is_said_by_the_job(spark: SparkSession) -> None:
    rows = [(1, '{"x": 1}'), (2, '{"x": [1]}')]
    publications = spark.createDataFrame(rows, "publication bigint, e string")
    frame = match(publications, table_of(spark, {1: "x = 1"}), event_column="e")
    with (
        pytest.raises(UserError, match="publication 2: line 1, column 7") as caught,
        plain_refusals(),
    ):
        frame.collect()
    assert "Traceback" not in str(caught.value)
