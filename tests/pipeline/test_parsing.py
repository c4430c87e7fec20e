"""Filters taken apart into Arrow columns are the same filters when they are put together again."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.functions import explode, flatten

from roost.errors import UserError
from roost.language import LanguageError, Subscription, parse_subscription
from roost.pipeline import parsing_forms
from roost.pipeline.parsed import from_arrow, to_arrow
from roost.pipeline.parsing import Parser, parse, plain_refusals
from roost.pipeline.schemas import SCHEMAS, checked
from tests.language.strategies import subscriptions


@given(st.lists(subscriptions(), max_size=6))
def test_there_and_back(interests: list[Subscription]) -> None:
    column = to_arrow(interests)
    assert column.type == SCHEMAS["parsed"].field("filters").type
    assert from_arrow(range(len(interests)), column) == interests
    assert from_arrow(range(1, len(interests)), column[1:]) == interests[1:]


@given(st.lists(subscriptions(), max_size=6))
def test_a_batch_of_texts(interests: list[Subscription]) -> None:
    texts = [str(interest) for interest in (*interests, *interests)]
    parsed = Parser().parsed(batch_of(texts))
    assert parsed.schema == SCHEMAS["parsed"]
    expected = [parse_subscription(text) for text in texts]
    assert from_arrow(range(len(texts)), parsed.column(1)) == expected


LITERALS = [
    *("5", "-5", "+5", "007", "-0", "0.0", "-0.0", "1e5", "1E+5", "1e400", "5.", ".5", "1.5e-3"),
    *("1_000", "0x5", "1.2.3", "0.1", "123456789.123456789", "1e-400", "true", "inf"),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("'x'", "'it''s'", "''", r"'a\nb'", '"q"', '"\'"', "'unclosed", "'ü'", "'5'", "'and'"),
    *("' '", "'a = 5'", "'" + "y" * 4_096 + "'", "'" + "y" * 4_097 + "'"),
]
FORMS = [
    "a = {}",
    "a={} and b<{}",
    "[a,eq,{}],[b,>=,{}]",
    "a > {} and a <{}",
    "(a = {}) and (b != {})",
    "a = {} or b = {}",
    "a in ({}, {})",
    "a prefix {} and b present",
    "a-1 = {} and b = 2",
    "a = {}{}",
    '"a 5" = {}',
]


@given(
    st.lists(
        st.tuples(st.sampled_from(FORMS), st.sampled_from(LITERALS), st.sampled_from(LITERALS)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([1, 2, 100]),
)
def test_forms_only_save_time(drawn: list[tuple[str, str, str]], enough: int) -> None:
    texts = [form.format(*literals) for form, *literals in drawn]
    parser = Parser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing_forms, "FRAME_MIN", enough)
        if not all(map(is_filter, texts)):
            with pytest.raises(UserError, match="subscription"):
                parser.parsed(batch_of(texts))
        texts = list(filter(is_filter, texts))
        expected = to_arrow([parse_subscription(text) for text in texts])
        assert parser.parsed(batch_of(texts)).column(1).equals(expected)
        # What it has learnt does not change what it does.
        assert parser.parsed(batch_of(texts)).column(1).equals(expected)


def is_filter(text: str) -> bool:
    try:
        parse_subscription(text)
    except LanguageError:
        return False
    return True


def batch_of(texts: list[str]) -> pa.RecordBatch:
    ids = pa.array(range(len(texts)), pa.int64())
    return pa.record_batch([ids, pa.array(texts, pa.string())], ["subscription", "filter"])


def test_forms_are_found() -> None:
    texts = [f"symbol = 'S{n}' and high > {n / 4} and volume <= {n}" for n in range(30)]

    def never(rest: Sequence[str]) -> pa.ListArray:
        assert not rest
        return to_arrow([])

    found = parsing_forms.Forms().filters(texts, never)
    assert found.equals(to_arrow([parse_subscription(text) for text in texts]))


def test_a_parsed_table_is_one(spark: SparkSession) -> None:
    rows = [
        (1, "class = 'STOCK' and (volume > 5 or x in (1, 'a', true))"),
        (2, "*"),
        (3, "[a,=,1]"),
    ]
    frame = parse(spark.createDataFrame(rows, "subscription bigint, filter string"))
    checked(frame, "parsed")
    table = frame.orderBy("subscription").toArrow()
    found = from_arrow([1, 2, 3], table.column("filters").combine_chunks())
    assert found == [parse_subscription(text) for _, text in rows]
    operators = frame.select(explode(flatten("filters")).alias("p")).select("p.operator")
    assert sorted(row[0] for row in operators.collect()) == ["=", "=", "=", ">", "in"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((7, "x > > 1"), "subscription 7: in the filter, line 1, column 5: found '>'"),
        ((8, "x = 1 and\ny ="), "subscription 8: in the filter, line 2, column 4: found the end"),
        ((9, None), "subscription 9: the filter is null"),
        ((-1, "x = 1"), "-1 is not a subscription id"),
    ],
)
def test_what_can_not_be_parsed(row: tuple[int, str | None], message: str) -> None:
    batch = pa.record_batch(
        [pa.array([3, row[0]]), pa.array(["x = 1", row[1]])], ["subscription", "filter"]
    )
    with pytest.raises(UserError) as caught:
        Parser().parsed(batch)
    assert str(caught.value).startswith(message)


def test_a_refusal_of_a_task_is_one_message(spark: SparkSession) -> None:
    rows = [(1, "x = 1"), (2, 'y = "é')]
    frame = parse(spark.createDataFrame(rows, "subscription bigint, filter string"))
    with pytest.raises(UserError) as caught, plain_refusals():
        frame.collect()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("subscription 2: in the filter, line 1, column 5: found a quote")
    assert lines[1:3] == ['  y = "é', "      ^"]


@pytest.mark.parametrize(
    "words",
    [
        "ModuleNotFoundError: No module named 'roost'",
        "Error from python worker:\n  /usr/bin/python3: Error while finding module specification for"
        " 'roost.pipeline.worker_daemon' (ModuleNotFoundError: No module named 'roost')",
        "ModuleNotFoundError: No module named 'roost.pipeline'",
    ],
)
def test_workers_without_roost_are_one_message(words: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    traceback = f"[PYTHON_EXCEPTION] Traceback (most recent call last):\n  ...\n{words}"
    said = "Spark's workers have no Roost: expected"
    with pytest.raises(UserError, match=said) as caught, plain_refusals():
        raise PySparkException(traceback)
    assert "Traceback" not in str(caught.value)
    # What the JVM says comes otherwise.
    with pytest.raises(UserError, match=said), plain_refusals():
        raise Py4JError(traceback)


def test_other_failures_are_not_ours() -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="disk"), plain_refusals():
        raise PySparkException("no disk")


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ({"attribute": "x", "operator": "~", "values": []}, "'~' is not an operator"),
        ({"attribute": "x", "operator": ">", "values": []}, "0 values; expected one"),
        ({"attribute": "", "operator": "present", "values": []}, "name is empty"),
        (
            {"attribute": "x", "operator": "present", "values": [{"text": "odd"}]},
            "'odd' is not a kind",
        ),
        ({"attribute": "x", "operator": "=", "values": [{}]}, "a value is null"),
        ({"attribute": "x", "operator": ">", "values": [{"number": float("nan")}]}, "NaN"),
    ],
)
def test_a_parsed_table_of_somebody_else(predicate: dict[str, object], message: str) -> None:
    column = pa.array([[[predicate]]], SCHEMAS["parsed"].field("filters").type)
    with pytest.raises(UserError, match=message) as caught:
        from_arrow([5], column)
    assert str(caught.value).startswith("subscription 5: ")
