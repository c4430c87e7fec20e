"""Users' files become tables, in the order of the file; what is wrong is said with its place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from roost.errors import UserError
from roost.language.lines import LineError
from roost.pipeline.files.lines import Csv, Form, Ndjson, csv_header
from roost.pipeline.files.parts import Places, type_of
from roost.pipeline.files.small import read_small_subscriptions as read_small
from roost.pipeline.files.tables import read_bars, read_events, read_subscriptions
from roost.pipeline.workload.quotes import bars
from roost.simulation.market import BarMarket, SyntheticMarket

Rows = list[dict[str, Any]]


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_bytes(text.encode())
    return str(path)


def rows_of(frame: Any) -> Rows:
    """The rows, without what is absent."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in frame.toArrow().to_pylist()
    ]


# --- lines ----------------------------------------------------------------------------------------


def read(form: Form, lines: list[str]) -> Rows:
    """Both passes over some lines, without Spark."""
    array = pa.array(lines, pa.string())
    places = Places(["f"])
    places.begin(0)
    types = {name: type_of(places, name, seen, form) for name, seen in form.survey(array).items()}
    columns = [column.to_pylist() for column in form.columns(array, types)]
    return [dict(zip(types, [c[n] for c in columns], strict=True)) for n in range(len(lines))]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "-2", "+3", "007", ""], [1, -2, 3, 7, None]),
        (["1", "2.5", ".5", "1e3", "5."], [1.0, 2.5, 0.5, 1000.0, 5.0]),
        (["true", "FALSE", ""], [True, False, None]),
        (["true", "1"], ["true", "1"]),
        (["12", "12a", ""], ["12", "12a", None]),
        (["1,5", 'say ""hi""'], ["1,5", 'say "hi"']),
        (["", ""], [None, None]),
        (["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)]),
        # Too large for a number, but it is none: another cell says so.
        (["99999999999999999999", "x"], ["99999999999999999999", "x"]),
        (["NaN", "1"], ["NaN", "1"]),
        ([" 1", "2"], [" 1", "2"]),
    ],
)
def test_a_csv_column_has_the_narrowest_type_of_its_cells(
    cells: list[str], values: list[Any]
) -> None:
    found = read(Csv(["a", "b"]), [f'"{cell}",x' for cell in cells])
    assert [row["a"] for row in found] == values
    assert {type(row["a"]) for row in found} == {type(value) for value in values}


@pytest.mark.parametrize(
    ("cell", "message"), [("9223372036854775808", "line 2: the a is too"), ("1e999", "too large")]
)
def test_a_number_that_the_language_does_not_have_is_refused(cell: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(Csv(["a"]), ["1", cell])


@pytest.mark.parametrize("cell", [str(2**53 + 1), str(-(2**53) - 1), str(2**63 - 1)])
def test_an_integer_that_no_float_equals_makes_no_column_of_floats(cell: str) -> None:
    for form, lines in (
        (Csv(["a"]), [cell, "0.5"]),
        (Ndjson(), [f'{{"a": {cell}}}', '{"a": 0.5}']),
    ):
        with pytest.raises(
            UserError, match=r"line 1: the a is an integer that no float equals.*line 2"
        ):
            read(form, lines)
        assert [row["a"] for row in read(form, lines[:1])] == [int(cell)]
    assert read(Csv(["a"]), [cell, "x"])[0]["a"] == cell


def test_a_large_integer_that_a_float_equals_is_one() -> None:
    assert read(Ndjson(), [f'{{"a": {2**60}}}', '{"a": 0.5}'])[0]["a"] == 2**60


flat = st.dictionaries(
    st.sampled_from(["a", "b", "open%", "x.y"]),
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.just("2024-01-01"),
)


def unequalled(rows: Rows) -> bool:
    """Whether a column of floats would have an integer that no float equals."""
    for name in {name for row in rows for name in row}:
        values = [row[name] for row in rows if row.get(name) is not None]
        if {type(value) for value in values} == {int, float} and any(
            isinstance(value, int) and int(float(value)) != value for value in values
        ):
            return True
    return False


def one_kind(rows: Rows) -> bool:
    for name in {name for row in rows for name in row}:
        kinds = {type(row[name]) for row in rows if row.get(name) is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            return False
    return True


@given(st.lists(flat, min_size=1, max_size=6))
def test_json_lines_say_what_they_say(rows: Rows) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    if not one_kind(rows):
        with pytest.raises(UserError, match=r"is of the kind .* and of the kind"):
            read(Ndjson(), lines)
        return
    if unequalled(rows):
        with pytest.raises(UserError, match="no float equals"):
            read(Ndjson(), lines)
        return
    found = read(Ndjson(), lines)
    for row, got in zip(rows, found, strict=True):
        assert {k: v for k, v in got.items() if v is not None} == {
            k: v for k, v in row.items() if v is not None
        }


@pytest.mark.parametrize(
    ("lines", "place", "message"),
    [
        (['{"a": 1}', "[1]"], 1, "expected an object"),
        (['{"a": 1}', "{"], 1, "not JSON: "),
        (['{"a": {"b": 1}}'], 0, "the attribute 'a' is nested"),
        (['{"a": 1}', '{"c": [1]}'], 1, "the attribute 'c' is nested"),
        (['{"a": 1, "a": 2}'], 0, "'a' stands twice"),
        (['{"a": 9223372036854775808}'], 0, "an integer of 64 bits"),
        (['{"a": 1e999}'], 0, "a number up to"),
        (['{"a": 1}', '{"a": NaN}'], 1, "JSON has no NaN"),
        (['{"a": 1} {"a": 2}'], 0, "not JSON: extra data"),
        (['{"a": "\\ud800"}'], 0, "half of a surrogate pair"),
    ],
)
def test_json_that_is_no_event_is_refused(lines: list[str], place: int, message: str) -> None:
    with pytest.raises(LineError, match=message) as refused:
        Ndjson().survey(pa.array(lines))
    assert refused.value.place == place


def test_a_header_is_a_list_of_different_names() -> None:
    assert csv_header('a,"b,c",d') == ["a", "b,c", "d"]
    with pytest.raises(LineError, match="the header has 'a' twice"):
        csv_header("a,b,a")
    with pytest.raises(LineError, match="not CSV"):
        csv_header('a,"b')


# --- Spark ----------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(spark: SparkSession) -> Iterator[None]:
    """Files are cut into parts of a few lines."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", "512")
    yield
    spark.conf.unset("spark.sql.files.maxPartitionBytes")


@pytest.mark.usefixtures("small_parts")
def test_csv_events_are_numbered_in_the_order_of_the_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = [
        f"{n},{n / 4},{'yes' if n % 3 else ''},{'true' if n % 2 else 'False'}" for n in range(200)
    ]
    # Some empty lines, Windows' line ends and a byte order mark.
    text = "\ufeffn,half,word,flag\r\n" + "\r\n".join([*lines[:50], "", "", *lines[50:]])
    frame = read_events(spark, written(tmp_path, "events [1].csv", text))
    assert frame.dtypes == [
        ("publication", "bigint"),
        ("n", "bigint"),
        ("half", "double"),
        ("word", "string"),
        ("flag", "boolean"),
    ]
    # More than one part was read.
    assert frame.rdd.getNumPartitions() > 3
    found = {row["publication"]: row for row in rows_of(frame)}
    assert sorted(found) == list(range(200))
    for n, row in found.items():
        expected = {"publication": n, "n": n, "half": n / 4, "flag": n % 2 == 1}
        assert row == expected | ({"word": "yes"} if n % 3 else {})


@pytest.mark.usefixtures("small_parts")
def test_json_events_are_numbered_in_the_order_of_the_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    events: Rows = [{"n": n, **({"late": "x"} if n > 30 else {"early": n / 2})} for n in range(120)]
    text = "\n\n".join(map(json.dumps, events))
    found = rows_of(read_events(spark, written(tmp_path, "events.ndjson", text)))
    assert sorted(found, key=lambda row: int(row["publication"])) == [
        {"publication": n, **event} for n, event in enumerate(events)
    ]


@pytest.mark.usefixtures("small_parts")
def test_folders_of_lines_are_read_in_the_order_of_their_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder [1]"
    folder.mkdir()
    written(folder, "_SUCCESS", "")
    for name, first, last in (("b+%20.csv", 100, 200), ("a é.csv", 0, 100), ("c.csv", 200, 201)):
        rows = "".join(f"{n},{n + 0.5 if n > 150 else n}\n" for n in range(first, last))
        written(folder, name, f"n,x\n{rows}")
    frame = read_events(spark, str(folder))
    assert frame.dtypes[1:] == [("n", "bigint"), ("x", "double")]
    found = sorted((row["publication"], row["n"]) for row in rows_of(frame))
    assert found == [(n, n) for n in range(201)]
    # A wrong line is that of its file.
    written(folder, "c.csv", "n,x\n1,2\n1\n")
    with pytest.raises(UserError, match=r"c\.csv, line 3: "):
        read_events(spark, str(folder))
    written(folder, "c.csv", "n,y\n1,2\n")
    with pytest.raises(
        UserError, match=r"c\.csv, line 1: the header is n, y; expected that of .*: n, x"
    ):
        read_events(spark, str(folder))
    written(folder, "d.ndjson", "{}\n")
    with pytest.raises(UserError, match=r"files that end in \.csv, \.ndjson; expected one kind"):
        read_events(spark, str(folder))


def test_what_spark_wrote_as_json_is_read(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.range(0, 40, 1, 4).selectExpr("id as n", "if(id > 30, null, id / 2) as half")
    events.write.json(f"file://{tmp_path}/events")
    found = rows_of(read_events(spark, f"{tmp_path}/events"))
    assert sorted(row["n"] for row in found) == list(range(40))
    assert sorted(row["publication"] for row in found) == list(range(40))
    assert all(row.get("half") == (row["n"] / 2 if row["n"] <= 30 else None) for row in found)


def test_compressed_lines_and_numbers_that_are_given(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events.csv.gz"
    path.write_bytes(gzip.compress(b"a,publication\nx,70\ny,5\n"))
    assert rows_of(read_events(spark, str(path))) == [
        {"publication": 70, "a": "x"},
        {"publication": 5, "a": "y"},
    ]


def test_parquet_events_are_numbered_by_file_and_row(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    for name, values in (("b", [10, 20]), ("a", list(range(5))), ("c", [7])):
        pq.write_table(pa.table({"x.y": values}), folder / f"{name}.parquet")
    frame = read_events(spark, str(folder))
    assert frame.columns == ["publication", "x.y"]
    rows = sorted(rows_of(frame), key=lambda row: int(row["publication"]))
    assert rows == [
        {"publication": n, "x.y": value} for n, value in enumerate([0, 1, 2, 3, 4, 10, 20, 7])
    ]
    one = read_events(spark, str(folder / "a.parquet"))
    assert [row["publication"] for row in rows_of(one)] == [0, 1, 2, 3, 4]
    given_ = pa.table({"v": [1.5], "publication": pa.array([9], pa.int32())})
    pq.write_table(given_, tmp_path / "given.parquet")
    assert rows_of(read_events(spark, str(tmp_path / "given.parquet"))) == [
        {"publication": 9, "v": 1.5}
    ]


def test_subscriptions_have_a_number_an_id_or_neither(spark: SparkSession, tmp_path: Path) -> None:
    for names, expected in (
        ("subscription", [70, 5]),
        ("id", [70, 5]),
        ("other", [0, 1]),
    ):
        text = f'{names},filter\n70,"a > 1, b"\n5,a = 2\n'
        frame = read_subscriptions(spark, written(tmp_path, f"{names}.csv", text))
        rows = rows_of(frame)
        assert [row["subscription"] for row in rows] == expected
        assert [row["filter"] for row in rows] == ["a > 1, b", "a = 2"]
        assert ("other" in frame.columns) == (names == "other")
    json_text = '{"id": 1, "filter": "a = 1", "broker": "B1"}\n'
    frame = read_subscriptions(spark, written(tmp_path, "s.jsonl", json_text))
    assert rows_of(frame) == [{"subscription": 1, "filter": "a = 1", "broker": "B1"}]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.csv", "", "e.csv, line 1: expected a header"),
        ("e.csv", "a,b\n", "e.csv: there is nothing in it"),
        ("e.csv", "a,b,a\n1,2,3\n", "e.csv, line 1: the header has 'a' twice"),
        ("e.csv", "a,b\n1,2\n\n3\n", "e.csv, line 4: 1 values, but the header has 2 names"),
        ("e.csv", "a,b\n1,2,3\n", "e.csv, line 2: 3 values, but the header has 2 names"),
        ("e.csv", 'a,b\n1,2\n3,"4\n5",6\n', "e.csv, line 3: not CSV: unexpected end of data"),
        ("e.csv", "a,\n1,2\n", "e.csv: the header: an attribute name is empty"),
        ("e.csv", "publication,a\nx,1\n", "e.csv, line 2: the publication is of the kind text"),
        ("e.csv", "publication,a\n1,1\n,2\n", "e.csv: 1 of 2 rows have no publication"),
        ("e.csv", "a\n1\n99999999999999999999\n", "e.csv, line 3: the a is too large"),
        ("e.ndjson", "", "e.ndjson: there is nothing in it"),
        ("e.ndjson", '{"a":1}\n\n{"a":{"b":2}}\n', "e.ndjson, line 3: the attribute 'a' is nested"),
        (
            "e.ndjson",
            '{"a":1}\n{"a":"x"}\n',
            "'a' is of the kind integer in line 1 and of the kind",
        ),
        ("e.parquet", "PAR1", "e.parquet: not a whole Parquet file; expected a Parquet file"),
        ("e.xlsx", "x", "e.xlsx: expected a file that ends in .csv, .ndjson, .jsonl, .parquet"),
    ],
)
def test_bad_files_of_events_are_refused(
    spark: SparkSession, tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(UserError) as refused:
        read_events(spark, path)
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path))


def test_bytes_that_are_no_text_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name, raw in (("e.csv", b"a\nx\n\xff\n"), ("e.ndjson", b'{"a":"x"}\n\n{"a":"\xff"}\n')):
        path = tmp_path / name
        path.write_bytes(raw)
        with pytest.raises(UserError, match=r"line 3: byte \d is not UTF-8"):
            read_events(spark, str(path))


def test_what_spark_cannot_read_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "e.csv.gz"
    path.write_bytes(b"a,b\n1,2\n")
    for place in (str(path), "nowhere://bucket/e.ndjson"):
        with pytest.raises(UserError) as refused:
            read_events(spark, place)
        assert str(refused.value).startswith(f"{place}: Spark can't read it: ")
        assert "\n" not in str(refused.value)


def test_bad_parquet_files_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"a": [[1]], "publication": ["x"]}), path)
    with pytest.raises(UserError, match="'publication' of the table 'publications' is string"):
        read_events(spark, str(path))
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    with pytest.raises(UserError, match=r"e\.parquet: there is nothing in it"):
        read_events(spark, str(path))
    with pytest.raises(UserError, match="there is no such file"):
        read_events(spark, str(tmp_path / "gone.parquet"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty: there is nothing in it"):
        read_events(spark, str(tmp_path / "empty"))


def test_subscriptions_without_a_filter_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path, "s.csv", "id,text\n1,a\n")
    with pytest.raises(
        UserError, match=r"s\.csv: the table 'subscriptions' has no column 'filter'"
    ):
        read_subscriptions(spark, path)
    path = written(tmp_path, "t.ndjson", '{"id": "x7", "filter": "a = 1"}\n')
    with pytest.raises(UserError, match="line 1: the id is of the kind text; expected a whole"):
        read_subscriptions(spark, path)


# --- small files ----------------------------------------------------------------------------------

BAD_SUBSCRIPTIONS = [
    ("s.csv", ""),
    ("s.csv", "id,filter\n"),
    ("s.csv", "id,text\n1,a\n"),
    ("s.csv", "id,filter\n1,a = 1\nx,a = 2\n"),
    ("s.csv", "id,filter\n1,a = 1\n,a = 2\n"),
    ("s.csv", "filter,b\na = 1,2\n\na = 2\n"),
    ("s.ndjson", '{"id": "x7", "filter": "a = 1"}\n'),
    ("s.ndjson", '{"id": 1, "filter": 7}\n'),
    ("s.ndjson", '{"id": 1, "filter": "a = 1"}\n{"filter": {"b": 2}}\n'),
    ("s.parquet", "PAR1"),
    ("s.xlsx", "x"),
]


@pytest.mark.parametrize(("name", "text"), BAD_SUBSCRIPTIONS)
def test_small_files_are_refused_in_the_same_words(
    spark: SparkSession, tmp_path: Path, name: str, text: str
) -> None:
    path = written(tmp_path, name, text)
    told = []
    for read_them in (lambda: read_subscriptions(spark, path), lambda: read_small(path)):
        with pytest.raises(UserError) as refused:
            read_them()
        told.append(str(refused.value))
    assert told[0] == told[1]


def test_small_files_are_read_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    texts = {
        "number.csv": '\ufefffilter,subscription\r\n"a > 1, b",70\r\n\r\na = 2,5',
        "id.jsonl": '{"id": 1, "filter": "a = 1", "subscriber": "S"}\n{"filter": "b = 2", "id": 3}\n',
        "none.csv": "filter,weight\na = 1,1.5\na = 2,\n",
    }
    paths = [written(tmp_path, name, text) for name, text in texts.items()]
    with gzip.open(tmp_path / "packed.csv.gz", "wt") as file:
        file.write("filter\na = 1\nb = 2\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("b.csv", "a.csv"):
        written(folder, name, f"filter\n{name[0]} = 1\n{name[0]} = 2\n")
    table = pa.table({"id": pa.array([7, 2], pa.int32()), "filter": ["a = 1", "a = 2"]})
    pq.write_table(table, tmp_path / "small.parquet")
    for path in (
        *paths,
        *(str(tmp_path / n) for n in ("packed.csv.gz", "folder", "small.parquet")),
    ):
        small = read_small(path)
        assert small is not None
        big = read_subscriptions(spark, path)
        assert small.column_names == big.columns
        rows = [{n: v for n, v in row.items() if v is not None} for row in small.to_pylist()]
        assert sorted(rows, key=str) == sorted(rows_of(big), key=str), path
    assert read_small(paths[0], rows_max=2) is None
    assert read_small(str(tmp_path / "small.parquet"), rows_max=1) is None
    assert read_small("s3a://bucket/s.csv") is None


# --- bars -----------------------------------------------------------------------------------------


def test_bars_of_any_format_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "bars"
    made = bars(spark, seed=4, symbols=3, days=20)
    made.write.parquet(f"file://{folder}")
    expected = made.toArrow()
    rows = [{k: v for k, v in row.items() if k != "day"} for row in expected.to_pylist()]
    names = list(rows[0])
    text = "\n".join([",".join(names), *(",".join(map(str, row.values())) for row in rows)])
    paths = [
        str(folder),
        written(tmp_path, "bars.csv", text),
        written(tmp_path, "bars.ndjson", "\n".join(map(json.dumps, rows))),
    ]
    quotes = SyntheticMarket(4, 3, 20).quotes("MSFT")
    for path in paths:
        assert read_bars(spark, path).toArrow() == expected
        assert list(BarMarket(path).quotes("MSFT")) == list(quotes)


def test_bad_bars_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name, text, message in (
        ("b.ndjson", "", "no column 'symbol'; there are none"),
        ("b.ndjson", '{"symbol": "A"}', "no column 'open'; there are 'symbol'"),
        ("b.csv", "symbol,open\nA\n", "not a file of bars that can be read"),
    ):
        with pytest.raises(UserError, match=message):
            read_bars(spark, written(tmp_path, name, text))
    with pytest.raises(UserError, match="there are no Parquet files in it"):
        read_bars(spark, str(tmp_path))


def test_attributes_that_differ_by_case_are_two(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("a,A\n1,2\n")
    (row,) = read_events(spark, str(path)).collect()
    assert (row["a"], row["A"]) == (1, 2)
    # Unless the session was made by somebody who did not know.
    spark.conf.set("spark.sql.caseSensitive", "false")
    try:
        with pytest.raises(UserError, match="'A' and 'a' differ only by case"):
            read_events(spark, str(path))
    finally:
        spark.conf.set("spark.sql.caseSensitive", "true")
