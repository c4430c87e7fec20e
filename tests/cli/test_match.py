"""`roost match` on real files: every format, and everything that can be wrong with one."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roost.bench.workloads import workload_of
from roost.cli import match as command
from roost.cli import sinks, sources
from roost.cli.lines import arriving
from roost.language import Event, Subscription, parse_subscription
from roost.matching import Naive
from tests.cli.support import Roost

Subscriptions = Sequence[tuple[int | str, str]]

SUBSCRIPTIONS: Subscriptions = [
    (7, "class = 'STOCK' and volume > 300000"),
    (3, "[symbol,eq,'YHOO'],[low,<,24.5]"),
    (-2, "symbol = 'IBM' or halted = true"),
    (10**18, "title contains 'a, \"b\"'"),
    (0, "*"),
]
EVENTS: list[dict[str, Any]] = [
    {"class": "STOCK", "symbol": "YHOO", "volume": 300001, "low": 24.25},
    {"class": "STOCK", "symbol": "IBM", "volume": 300000, "low": 100.0},
    {"class": "STOCK", "symbol": "GE", "halted": True},
    {"class": "NEWS", "title": 'say "a, "b"" twice'},
    {"class": "NEWS", "title": 'it said: a, "b" and größer 名前'},
    {"volume": -5, "low": 1e-3},
]


def write_subscriptions(path: Path, rows: Subscriptions) -> Path:
    match path.suffix:
        case ".ndjson" | ".jsonl":
            lines = (json.dumps({"id": id_, "filter": text}) + "\n" for id_, text in rows)
            path.write_text("".join(lines), "utf-8")
        case ".csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([("id", "filter"), *rows])
        case _:
            columns = zip(*rows, strict=True)
            pq.write_table(pa.table(list(map(list, columns)), names=["id", "filter"]), path)
    return path


def write_events(path: Path, events: Sequence[dict[str, Any]]) -> Path:
    names = list(dict.fromkeys(name for event in events for name in event))
    match path.suffix:
        case ".ndjson" | ".jsonl":
            path.write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
        case ".csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                rows = csv.DictWriter(file, names)
                rows.writeheader()
                rows.writerows(events)
        case _:
            columns = {name: [event.get(name) for event in events] for name in names}
            pq.write_table(pa.table(columns), path)
    return path


def expected(
    subscriptions: Subscriptions, events: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """What the obvious matcher says, in the order of the files."""
    naive = Naive()
    for position, (_, text) in enumerate(subscriptions):
        naive.add(position, parse_subscription(text))
    return [
        {
            "event": number,
            "subscriptions": [subscriptions[i][0] for i in naive.match(Event(event)).tolist()],
        }
        for number, event in enumerate(events)
    ]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", SUBSCRIPTIONS)
    return subscriptions, write_events(tmp_path / "events.ndjson", EVENTS)


# --- what it answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("events_suffix", [".ndjson", ".csv", ".parquet"])
@pytest.mark.parametrize("subscriptions_suffix", [".ndjson", ".jsonl", ".csv", ".parquet"])
def test_all_formats_give_the_same_matches(
    roost: Roost, tmp_path: Path, subscriptions_suffix: str, events_suffix: str
) -> None:
    subscriptions = write_subscriptions(tmp_path / f"subs{subscriptions_suffix}", SUBSCRIPTIONS)
    events = write_events(tmp_path / f"events{events_suffix}", EVENTS)
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert (ran.code, ran.err) == (0, "")
    assert ran.ndjson == expected(SUBSCRIPTIONS, EVENTS)


@pytest.mark.parametrize("suffix", [".ndjson", ".csv", ".parquet"])
def test_more_than_a_batch(
    roost: Roost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(sources, "BATCH", 16)
    load = workload_of("stock", 3, 200, 50)
    rows = [(f"s{i}", str(filter_)) for i, filter_ in enumerate(load.filters())]
    quotes = [dict(event.attributes) for event in load.events()]
    subscriptions = write_subscriptions(tmp_path / f"subs{suffix}", rows)
    events = write_events(tmp_path / f"events{suffix}", quotes)
    out = tmp_path / "matches.parquet"
    arguments = ("match", "--subscriptions", subscriptions, "--events", events)
    answers = expected(rows, quotes)
    assert roost(*arguments).ndjson == answers
    assert roost(*arguments, "--out", out).code == 0
    table = pq.read_table(out)
    assert table.schema.types == [pa.int64(), pa.string()]
    assert list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True)) == [
        (answer["event"], id_) for answer in answers for id_ in answer["subscriptions"]
    ]


def test_ids_that_are_texts_come_back_as_they_were(roost: Roost, tmp_path: Path) -> None:
    rows: Subscriptions = [("007", "*"), (str(2**63), "*"), ("a\tb", "*"), ("größe", "*"), (5, "*")]
    events = write_events(tmp_path / "events.ndjson", [{"x": 1}])
    for suffix in (".ndjson", ".csv"):
        subscriptions = write_subscriptions(tmp_path / f"subs{suffix}", rows)
        ran = roost("match", "--subscriptions", subscriptions, "--events", events)
        assert ran.ndjson == [{"event": 0, "subscriptions": [id_ for id_, _ in rows]}]


@pytest.mark.parametrize("suffix", [".ndjson", ".csv", ".parquet"])
def test_ids_may_stand_in_a_column_as_the_pipeline_calls_it(
    roost: Roost, tmp_path: Path, suffix: str
) -> None:
    """What `roost pipeline match` takes, `roost match` takes."""
    path = tmp_path / f"subs{suffix}"
    if suffix == ".ndjson":
        path.write_text('{"subscription": 7, "filter": "x > 0"}\n')
    elif suffix == ".csv":
        path.write_text("filter,subscription\nx > 0,7\n")
    else:
        pq.write_table(pa.table({"subscription": [7], "filter": ["x > 0"]}), path)
    events = write_events(tmp_path / "events.ndjson", [{"x": 1}])
    ran = roost("match", "--subscriptions", path, "--events", events)
    assert ran.ndjson == [{"event": 0, "subscriptions": [7]}]


def test_whole_ids_are_whole_in_parquet(roost: Roost, files: tuple[Path, Path]) -> None:
    out = files[0].parent / "out.parquet"
    assert roost("match", "--subscriptions", files[0], "--events", files[1], "--out", out).code == 0
    assert pq.read_schema(out).types == [pa.int64(), pa.int64()]


def test_ndjson_into_a_file(roost: Roost, files: tuple[Path, Path]) -> None:
    out = files[0].parent / "out.ndjson"
    ran = roost("match", "--subscriptions", files[0], "--events", files[1], "--out", out)
    assert ran == (0, "", "")
    lines = out.read_text("utf-8").splitlines()
    assert list(map(json.loads, lines)) == expected(SUBSCRIPTIONS, EVENTS)
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(
        ["out.ndjson", "subs.ndjson", "events.ndjson"]
    )


def test_standard_input_and_output(roost: Roost, files: tuple[Path, Path]) -> None:
    subscriptions, events = files
    answers = expected(SUBSCRIPTIONS, EVENTS)
    ran = roost(
        *("match", "--subscriptions", subscriptions, "--events", "-", "--out", "-"),
        stdin=events.read_bytes().rstrip(b"\n"),
    )
    assert ran.ndjson == answers
    arguments = ("match", "--subscriptions", "-", "--events", events)
    assert roost(*arguments, stdin=subscriptions.read_bytes()).ndjson == answers


def test_lines_that_arrive_in_pieces() -> None:
    pieces = [b'{"a"', b": 1}\n{}", b"\n", b"{}"]

    class Pipe:
        def read1(self, _: int) -> bytes:
            return pieces.pop(0) if pieces else b""

    lines = list(arriving(Pipe()))  # type: ignore[arg-type]
    assert lines == [[b'{"a": 1}\n'], [b"{}\n"], [b"{}"]]


def test_the_table_counts_what_it_does_not_show(
    roost: Roost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "EVENTS_SHOWN", 2)
    rows: Subscriptions = [(f"id{i}", "x = 1") for i in range(11)]
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", [*rows, ("\x1b[1m", "x = 2")])
    events = write_events(tmp_path / "events.ndjson", [{"x": 1}, {"x": 2}, {"x": 1}, {"y": 1}])
    arguments = ("match", "--subscriptions", subscriptions, "--events", events)
    ran = roost(*arguments, "--format", "table")
    assert ran.code == 0
    assert "id7 and 3 more" in ran.out
    assert "'\\x1b[1m'" in ran.out, "an id must not drive the terminal"
    assert "2 events more" in ran.out
    assert "4 events, 3 of them with a subscription; 23 matches" in ran.out


def test_a_terminal_gets_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert command.chosen_format(None, None) == "table"
    assert command.chosen_format(None, "-") == "ndjson"


def test_no_events_and_no_subscriptions(roost: Roost, tmp_path: Path) -> None:
    empty = write_events(tmp_path / "empty.ndjson", [])
    some = write_events(tmp_path / "some.ndjson", [{"x": 1}])
    ran = roost("match", "--subscriptions", empty, "--events", some)
    assert ran.ndjson == [{"event": 0, "subscriptions": []}]
    assert ran.err == f"warning: {empty}: there are no subscriptions\n"
    subscriptions = write_subscriptions(tmp_path / "subs.csv", SUBSCRIPTIONS)
    assert roost("match", "--subscriptions", subscriptions, "--events", empty) == (0, "", "")
    out = tmp_path / "out.parquet"
    assert not roost("match", "--subscriptions", empty, "--events", some, "--out", out).code
    assert pq.read_table(out).num_rows == 0


def test_blank_lines_count_as_lines_and_not_as_events(roost: Roost, tmp_path: Path) -> None:
    subscriptions = tmp_path / "subs.csv"
    subscriptions.write_text("\ufeffid,filter\n\n1,x = 1\n", "utf-8")
    events = tmp_path / "events.ndjson"
    events.write_text('\n{"x": 1}\r\n   \n{"x": 2}\n[\n', "utf-8")
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {events}, line 5: ")
    events.write_text('\n{"x": 1}\r\n   \n{"x": 2}\n', "utf-8")
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert [answer["subscriptions"] for answer in ran.ndjson] == [[1], []]


def test_an_empty_cell_is_no_attribute(roost: Roost, tmp_path: Path) -> None:
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", [(1, "a present")])
    events = tmp_path / "events.csv"
    events.write_text("a,b\n,1\n1,\n", "utf-8")
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert [answer["subscriptions"] for answer in ran.ndjson] == [[], [1]]


def test_a_column_of_csv_has_one_kind(roost: Roost, tmp_path: Path) -> None:
    """Some identifiers of aircraft look like numbers; an amount does, whatever its neighbours look like."""
    subscriptions = write_subscriptions(
        tmp_path / "subs.ndjson",
        [(1, "icao = '3946e2'"), (2, "icao present string"), (3, "n > 1"), (4, "n = '2'")],
    )
    events = tmp_path / "events.csv"
    events.write_text("icao,n,up\n3946e2,2,true\na0f1b2,2.5,\n,1,false\n123456,,true\n", "utf-8")
    options = ("match", "--subscriptions", subscriptions, "--events", events)
    ran = roost(*options)
    assert [answer["subscriptions"] for answer in ran.ndjson] == [[1, 2, 3], [2, 3], [], [2]]
    ran = roost(*options, "--type", "n=text")
    assert [answer["subscriptions"] for answer in ran.ndjson] == [[1, 2, 4], [2], [], [2]]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("events.csv", "n=integer", ", line 3, n: '2.5' is no integer, and this is a column of"),
        ("events.csv", "gone=text", ", line 1: there is no column 'gone', of which --type speaks"),
        ("events.csv", "n=date", "--type n=date: expected NAME=KIND, with one of the kinds bool, "),
        ("events.csv", "n", "--type n: expected NAME=KIND"),
        ("events.ndjson", "n=text", ": --type is for CSV; here values say what they are"),
    ],
)
def test_kinds_that_can_not_be(
    roost: Roost, tmp_path: Path, name: str, kind: str, said: str
) -> None:
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", [(1, "n = 1")])
    events = tmp_path / name
    events.write_text("n\n1\n2.5\n" if name.endswith("csv") else '{"n": 1}\n', "utf-8")
    options = ("--subscriptions", subscriptions, "--events", events, "--type", kind)
    ran = roost("match", *options)
    assert (ran.code, said in ran.err) == (2, True), ran.err


def test_csv_from_a_pipe(roost: Roost, tmp_path: Path) -> None:
    """It can be read once only."""
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", [(1, "n = 1")])
    pipe = tmp_path / "events.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("n\n1\n2\n",))
    writer.start()
    ran = roost("match", "--subscriptions", subscriptions, "--events", pipe)
    writer.join()
    assert [answer["subscriptions"] for answer in ran.ndjson] == [[1], []]


def test_parquet_columns_that_nobody_asks_about_may_have_any_flat_type(
    roost: Roost, tmp_path: Path
) -> None:
    events = tmp_path / "events.parquet"
    when = pa.array([0, 1], pa.timestamp("ms"))
    pq.write_table(pa.table({"when": when, "x": [1.0, math.nan]}), events)
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", [(1, "x present"), (2, "*")])
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert [answer["subscriptions"] for answer in ran.ndjson] == [[1, 2], [2]]
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", [(1, "*")])
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert [answer["subscriptions"] for answer in ran.ndjson] == [[1], [1]]
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", [(1, "when > 0")])
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {events}: column 'when' has the type timestamp[ms]")


# --- what it says about filters that can never be true ----------------------------------------------


def test_a_contradiction_is_a_warning(roost: Roost, tmp_path: Path) -> None:
    rows: Subscriptions = [
        ("fine", "x > 1"),
        ("never", "y = 1 and x > 20 and x < 10"),
        ("half", "x = 1 or x = 'a' and x = 'b'"),
    ]
    subscriptions = write_subscriptions(tmp_path / "subs.csv", rows)
    events = write_events(tmp_path / "events.ndjson", [{"x": 1}])
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert ran.ndjson == [{"event": 0, "subscriptions": ["half"]}]
    assert ran.err.splitlines() == [
        f"warning: {subscriptions}, line 3: the filter of 'never' can never be true:"
        " no value of x satisfies x > 20 and x < 10",
        f"warning: {subscriptions}, line 4: part 2 of the filter of 'half' can never be true:"
        " no value of x satisfies x = 'a' and x = 'b'",
    ]


def test_warnings_end(roost: Roost, tmp_path: Path) -> None:
    rows = [(i, "x > 2 and x < 1") for i in range(command.WARNINGS_MAX + 3)]
    subscriptions = write_subscriptions(tmp_path / "subs.parquet", rows)
    events = write_events(tmp_path / "events.ndjson", [])
    lines = roost("match", "--subscriptions", subscriptions, "--events", events).err.splitlines()
    assert len(lines) == command.WARNINGS_MAX + 1
    assert lines[0].startswith(f"warning: {subscriptions}, row 1: ")
    assert lines[-1] == "warning: and 3 more filters that can never be true"


# --- what it refuses --------------------------------------------------------------------------------

GOOD_SUBSCRIPTION = '{"id": 1, "filter": "x > 1"}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.ndjson", GOOD_SUBSCRIPTION * 2, ", line 2: the id 1 is already that of FILE, line 1"),
        (
            "s.ndjson",
            GOOD_SUBSCRIPTION + '{"id": "1", "filter": "x > 1"}',
            ", line 2: the id '1' is already that of FILE, line 1",
        ),
        (
            "s.ndjson",
            GOOD_SUBSCRIPTION + '\n{"id": 2, "filter": "symbol = YHOO"}',
            ", line 3: in the filter, column 10: found the word YHOO, expected a value\n"
            "  symbol = YHOO\n           ^\nhint: a string needs quotes: 'YHOO'",
        ),
        (
            "s.ndjson",
            '{"id": 2, "filter": "x = 1 and\\nx ="}',
            ", line 1: in the filter, line 2, column 4: found the end of the text, expected a value\n"
            "  x =\n     ^",
        ),
        ("s.ndjson", '{"id": 2, "filter": ""}', ", line 1: in the filter, column 1: found the end"),
        ("s.ndjson", '{"id": 2, "filter"', ", line 1: not JSON: expecting ':' delimiter"),
        ("s.ndjson", '{"id": 2 "filter"}', ", line 1: not JSON: "),
        ("s.ndjson", "[1]", ', line 1: expected an object such as {"id": 7, '),
        ("s.ndjson", '{"id": 1}', ', line 1: the object has no "filter"'),
        ("s.ndjson", '{"filter": "*"}', ', line 1: the object has no "id"'),
        ("s.ndjson", '{"id": true, "filter": "*"}', ", line 1: the id is a bool; expected a whole"),
        ("s.ndjson", '{"id": 1.5, "filter": "*"}', ", line 1: the id is a number with a fraction;"),
        ("s.ndjson", '{"id": null, "filter": "*"}', ", line 1: the id is missing; expected"),
        ("s.ndjson", '{"id": [1], "filter": "*"}', ", line 1: the id is nested; expected"),
        ("s.ndjson", '{"id": "", "filter": "*"}', ", line 1: the id is empty"),
        ("s.ndjson", f'{{"id": {2**63}, "filter": "*"}}', f", line 1: the id {2**63} does not fit"),
        ("s.ndjson", '{"id": 1, "filter": 5}', ", line 1: the filter is a number; expected a text"),
        ("s.ndjson", GOOD_SUBSCRIPTION.encode() + b"\xff", ", line 2: byte 1 is not UTF-8"),
        ("s.csv", "", ", line 1: expected a header"),
        ("s.csv", "id,query\n1,*\n", ", line 1: no column 'filter'; there are 'id', 'query'"),
        ("s.csv", "a\n", ", line 1: no column 'id' and no column 'filter'; there are 'a'"),
        ("s.csv", "id,filter,id\n", ", line 1: the header has 'id' twice"),
        ("s.csv", "id,filter\n1,*\n2\n", ", line 3: 1 values, but the header has 2 names"),
        ("s.csv", 'id,filter\n1,"*\n', ", line 2: not CSV: "),
        ("s.csv", "id,filter\n1,*\n1,*\n", ", line 3: the id 1 is already that of FILE, line 2"),
        ("s.csv", "id,filter\n1,x >\n", ", line 2: in the filter, column 4: found the end of"),
        ("s.csv", "id,filter\n,*\n", ", line 2: the id is empty"),
        ("s.txt", "", ": expected a file that ends in .ndjson, .jsonl, .csv, .parquet, or -"),
        ("s.parquet", "no", ": not a Parquet file that can be read: "),
    ],
)
def test_bad_subscriptions(
    roost: Roost, tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    events = write_events(tmp_path / "events.ndjson", EVENTS)
    ran = roost("match", "--subscriptions", path, "--events", events)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {path}{message.replace('FILE', str(path))}")
    assert ran.err.count("error:") == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1, 1], "filter": ["*", "*"]}, ", row 2: the id 1 is already that of FILE, row 1"),
        ({"id": [1], "filter": ["x"]}, ", row 1: in the filter, column 2: "),
        ({"id": [1], "text": ["*"]}, ": no column 'filter'; there are 'id', 'text'"),
        ({"id": [None], "filter": ["*"]}, ", row 1: the id is missing"),
        ({"id": [1], "filter": [None]}, ", row 1: the filter is missing; expected a text"),
        ({"id": [[1]], "filter": ["*"]}, ", row 1: the id is nested"),
    ],
)
def test_bad_parquet_subscriptions(
    roost: Roost, tmp_path: Path, columns: dict[str, list[Any]], message: str
) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table(columns), path)
    events = write_events(tmp_path / "events.ndjson", EVENTS)
    ran = roost("match", "--subscriptions", path, "--events", events)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {path}{message.replace('FILE', str(path))}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "e.ndjson",
            '{"x": 1}\n{"x": {"y": 1}}',
            ", line 2, column 7: found '{', expected a string",
        ),
        ("e.ndjson", '{"x": [1]}', ", line 1, column 7: found '[', expected a string, a number"),
        (
            "e.ndjson",
            '{"x": null}',
            ", line 1, column 7: found 'null', expected a string, a number",
        ),
        ("e.ndjson", '{"x": 1, "x": 2}', ", line 1, column 10: "),
        ("e.ndjson", '{"x": NaN}', ", line 1, column 7: "),
        ("e.ndjson", '{"x": 1e999}', ", line 1, column 7: found the number 1e999, expected"),
        ("e.ndjson", f'{{"x": {2**63}}}', ", line 1, column 7: found the integer "),
        ("e.ndjson", '{"": 1}', ", line 1, column 2: found an empty name"),
        (
            "e.ndjson",
            '{"x": 1',
            ", line 1, column 8: found the end of the text, expected ',' or '}'",
        ),
        ("e.ndjson", '{"x": 1} {"x": 2}', ", line 1, column 10: found '{', expected the end"),
        ("e.ndjson", '[["x", 1]]', ', line 1: expected an object such as {"symbol": '),
        ("e.ndjson", "5", ", line 1: expected an object"),
        ("e.ndjson", "[" * 100_000, ", line 1: expected an object"),
        ("e.ndjson", b'{"x": "\xff"}', ", line 1: byte 8 is not UTF-8"),
        ("e.csv", "", ", line 1: expected a header"),
        ("e.csv", "x,x\n", ", line 1: the header has 'x' twice"),
        ("e.csv", "x,\n", ", line 1: the header: an attribute name is empty"),
        ("e.csv", "x\n1\n1,2\n", ", line 3: 2 values, but the header has 1 names"),
        ("e.csv", f"x\n{'9' * 30}\n", ", line 2, x: found the integer 999"),
        ("e.csv", "x\n1e999\n", ", line 2, x: found the number 1e999"),
        ("e.csv", f"x\n{'a' * 70_000}\n", ", line 2: event attribute 'x': the string has 70,000"),
        ("e.xlsx", "", ": expected a file that ends in .ndjson, "),
        ("e.parquet", "", ": not a Parquet file that can be read: "),
    ],
)
def test_bad_events(
    roost: Roost, tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", SUBSCRIPTIONS)
    ran = roost("match", "--subscriptions", subscriptions, "--events", path)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {path}{message}")
    assert ran.err.count("error:") == 1


def test_nested_parquet_columns_are_refused(roost: Roost, tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"x": [1], "deep": [{"y": 1}]}), path)
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", SUBSCRIPTIONS)
    ran = roost("match", "--subscriptions", subscriptions, "--events", path)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {path}: the column 'deep' is nested (struct<y: int64>)")


@pytest.mark.parametrize("suffix", [".ndjson", ".csv", ".parquet"])
def test_missing_files(roost: Roost, files: tuple[Path, Path], suffix: str) -> None:
    missing = files[0].parent / f"missing{suffix}"
    for arguments in (("--subscriptions", missing, "--events", files[1]),):
        ran = roost("match", *arguments)
        assert ran == (2, "", f"error: {missing}: No such file or directory\n")
    ran = roost("match", "--subscriptions", files[0], "--events", missing)
    assert ran == (2, "", f"error: {missing}: No such file or directory\n")


def test_a_folder_is_no_file(roost: Roost, files: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "folder.ndjson"
    folder.mkdir()
    ran = roost("match", "--subscriptions", folder, "--events", files[1])
    assert ran == (2, "", f"error: {folder}: Is a directory\n")
    ran = roost("match", "--subscriptions", files[0], "--events", files[1], "--out", folder)
    assert ran == (2, "", f"error: {folder}: Is a directory\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "parquet"), "--format parquet needs a file: --out matches.parquet"),
        (("--format", "parquet", "--out", "-"), "--format parquet needs a file"),
        (("--format", "table", "--out", "x.ndjson"), "--format table is for standard output"),
        (("--out", "x.txt"), "x.txt: expected a name that ends in .ndjson, .jsonl, .parquet"),
        (("--out", "no/such/folder.ndjson"), "no/such/folder.ndjson: No such file or directory"),
    ],
)
def test_bad_outputs(
    roost: Roost, files: tuple[Path, Path], arguments: tuple[str, ...], message: str
) -> None:
    ran = roost("match", "--subscriptions", files[0], "--events", files[1], *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}")


@pytest.mark.parametrize("suffix", [".ndjson", ".parquet"])
def test_a_file_is_written_whole_or_not_at_all(roost: Roost, tmp_path: Path, suffix: str) -> None:
    subscriptions = write_subscriptions(tmp_path / "subs.ndjson", SUBSCRIPTIONS)
    events = tmp_path / "events.ndjson"
    events.write_text('{"x": 1}\n' * 5000 + "oops\n", "utf-8")
    out = tmp_path / f"out{suffix}"
    out.write_text("precious", "utf-8")
    ran = roost("match", "--subscriptions", subscriptions, "--events", events, "--out", out)
    assert ran.code == 2
    assert f"{events}, line 5001: " in ran.err
    assert out.read_text("utf-8") == "precious"
    assert len(list(tmp_path.iterdir())) == 3


def test_only_one_can_be_standard_input(roost: Roost) -> None:
    ran = roost("match", "--subscriptions", "-", "--events", "-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: only one of --subscriptions and --events can be standard input\n"


@pytest.mark.parametrize(
    "arguments",
    [(), ("--events", "x.csv"), ("--subscriptions", "x.csv"), ("--format", "xml")],
)
def test_arguments_that_are_missing_or_wrong(roost: Roost, arguments: tuple[str, ...]) -> None:
    ran = roost("match", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "error:" in ran.err


def test_the_installed_command(files: tuple[Path, Path]) -> None:
    command = [sys.executable, "-m", "roost", "match", "--subscriptions", str(files[0])]
    events = files[1].read_bytes()
    ran = subprocess.run(
        [*command, "--events", "-"], input=events, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    lines = ran.stdout.decode().splitlines()
    assert list(map(json.loads, lines)) == expected(SUBSCRIPTIONS, EVENTS)


def test_a_subscription_is_what_its_file_says(tmp_path: Path) -> None:
    path = write_subscriptions(tmp_path / "subs.parquet", SUBSCRIPTIONS)
    read = list(sources.read_subscriptions(str(path)))
    assert [(r.id, r.subscription) for r in read] == [
        (id_, parse_subscription(text)) for id_, text in SUBSCRIPTIONS
    ]
    assert all(isinstance(r.subscription, Subscription) for r in read)
