"""`roost status` and `roost trace`, asking brokers that run in the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.cli.figures import Column, Row, bar, fitted, in_mb
from roost.traces.schemas import traced_tables
from tests.cli.live import Live, live_brokers
from tests.cli.support import Roost


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with live_brokers() as live:
        yield live


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_row_for_each_broker(roost: Roost, live: Live) -> None:
    ran = roost("status", *live.options)
    assert (ran.code, ran.err) == (0, "")
    head, *rows = (line.split() for line in ran.out.splitlines())
    assert head[0] == "broker"
    assert head[-3:] == ["waiting", "links", "state"]
    assert [(row[0], *row[-2:]) for row in rows] == [("B0", "1/1", "ok"), ("B1", "1/1", "ok")]
    assert rows[0][1] == f"127.0.0.1:{live.servers[0].port}"


def test_whom_nobody_has_named_is_said_to_be_whoever_is_there(
    roost: Roost, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roost.runtime.admin_client.DEFAULT_URL", live.urls[0])
    ran = roost("status")
    assert ran.code == 0
    assert "B0" in ran.out
    assert ran.err.startswith("no federation was started from this folder: this is what listens at")
    assert f"{live.urls[0]}, the default; --state DIR or --admin URL" in ran.err
    assert roost("status", "--json").err == ""


def test_for_programs(roost: Roost, live: Live) -> None:
    ran = roost("status", "--json", *live.options)
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    first, second = ran.json["brokers"]
    assert (first["broker"], first["state"], first["trouble"]) == ("B0", "ok", "")
    assert first["admin"] == live.urls[0]
    assert second["links"]["B0"] == {
        **second["links"]["B0"],
        "up": True,
        "dials": True,
        "waiting": 0,
    }


def test_what_operators_should_know(roost: Roost, live: Live) -> None:
    live.servers[0].shell.machine.node.hosted.store_is_full = True
    try:
        ran = roost("status", *live.options)
        assert ran.code == 0  # it does all it can
        assert ran.out.splitlines()[-1] == "  B0: store full: new events are refused"
        found = roost("status", "--json", *live.options).json["brokers"][0]["warnings"]
        assert [each["what"] for each in found] == ["store full"]
    finally:
        live.servers[0].shell.machine.node.hosted.store_is_full = False


def test_one_that_does_not_answer(roost: Roost, live: Live) -> None:
    ran = roost("status", "--admin", live.urls[0], "--admin", "127.0.0.1:1")
    assert ran.code == 1
    *_, row, why = ran.out.splitlines()
    assert row.split()[:3] == ["127.0.0.1:1", "-", "-"]
    assert row.endswith("no answer")
    assert why == "  http://127.0.0.1:1: no answer: Connection refused"


def test_one_that_is_no_broker(roost: Roost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost.runtime.admin_client.ask", lambda *_: {"status": "green"})
    ran = roost("status", "--admin", "127.0.0.1:1")
    assert ran.code == 1
    assert "  127.0.0.1:1: it answers, but not as a broker does\n" in ran.out


def test_nothing_is_there(roost: Roost, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    # Somebody may have a broker on the usual port.
    monkeypatch.setattr("roost.runtime.admin_client.DEFAULT_URL", "http://127.0.0.1:1")
    for command in (("status",), ("top", "--once"), ("trace", "on", "x"), ("trace", "off")):
        ran = roost(*command)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(
            "error: no federation was started from this folder, and http://127"
        )
        assert "`roost up chain --brokers 3`" in ran.err
        ran = roost(*command, "--state", "elsewhere")
        assert (ran.code, ran.out) == (2, "")
        assert "elsewhere: no federation was started from this folder; start one with" in ran.err
    assert not list(folder.iterdir())


def test_a_token_in_the_clear(roost: Roost, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"status": "green"}
    monkeypatch.setattr("roost.runtime.admin_client.ask", lambda *_: answer)
    said = (
        "warning: the token goes to http://10.0.0.2:7412 for everybody on the way to read; expected"
    )
    ran = roost("status", "--admin", "10.0.0.2:7412", "--user", "ops", "--token", "roost_secret")
    assert ran.err.startswith(said)
    ran = roost("status", "--admin", "http://ops:roost_secret@10.0.0.2:7412")
    assert ran.err.startswith(said)
    assert "roost_secret" not in ran.err
    for url in ("https://10.0.0.2:7412", "localhost:7412", "[::1]:7412"):
        assert roost("status", "--admin", url, "--user", "ops", "--token", "x").err == ""
    assert roost("status", "--admin", "10.0.0.2:7412").err == ""


def test_state_or_admin(roost: Roost) -> None:
    ran = roost("status", "--state", "x", "--admin", "127.0.0.1:1")
    assert ran.code == 2
    assert "--state and --admin say different brokers" in ran.err


def test_tracing(roost: Roost, live: Live, folder: Path) -> None:
    ran = roost("trace", "on", "traces", *live.options)
    assert (ran.code, ran.err) == (0, "")
    (run,) = {line.rpartition(" ")[2] for line in ran.out.splitlines()}
    assert run.startswith("live-")
    assert ran.out == "".join(f"{url} records into traces, the run {run}\n" for url in live.urls)
    again = roost("trace", "on", "traces", *live.options)
    assert (again.code, again.out) == (2, "")
    assert again.err.startswith(
        "error: 2 of 2 brokers refused, or did not answer:\n  http://127.0.0.1"
    )
    assert "traffic is recorded already" in again.err
    assert roost("trace", "off", *live.options).code == 0
    parts = ["part-B0-000001.parquet", "part-B1-000001.parquet"]
    for table in traced_tables(content=False):
        paths = sorted(folder.glob(f"traces/{table}/*/*.parquet"))
        assert paths == [folder / "traces" / table / f"run={run}" / part for part in parts]


def test_a_trace_is_never_written_over(roost: Roost, live: Live, folder: Path) -> None:
    on = ("trace", "on", "traces", "--run", "monday")
    assert roost(*on, *live.options[:2]).code == 0
    assert roost("trace", "off", *live.options).code == 0
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    ran = roost(*on, *live.options)
    assert (ran.code, ran.err) == (0, "")
    assert roost("trace", "off", *live.options).code == 0
    after = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    # The one goes on with the next segment, the other begins.
    names = {path.name for path in after if path.parent.parent.name == "links"}
    assert names == {f"part-{part}.parquet" for part in ("B0-000001", "B0-000002", "B1-000001")}
    written = [path for path in before if path.parent.parent.name != "runs"]
    assert written
    assert all(after[path] == before[path] for path in written)
    ran = roost("trace", "on", "traces", "--run", "a/b", *live.options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: a run can't be called 'a/b'; expected letters, digits")


# --- tables that fit --------------------------------------------------------------------------------


def test_columns_are_left_out_by_what_they_are_worth() -> None:
    columns = [
        Column("name", left=True),
        Column("less", expendable=1),
        Column("least", expendable=2),
    ]
    rows = [Row(("B0", "1", "2"))]
    titles = {
        width: [column.header for column in fitted(columns, rows, width).columns]
        for width in (40, 17, 16, 9)
    }
    assert titles[40] == titles[17] == ["name", "less", "least"]
    assert titles[16] == ["name", "less"]
    assert titles[9] == ["name"]


def test_bars() -> None:
    empty, half, odd, over = (bar(share).plain for share in (0, 0.5, 0.51, 1.7))
    assert empty == "·" * 20
    assert half == "█" * 10 + "·" * 10
    assert odd == "█" * 10 + "▎" + "·" * 9
    assert over == "█" * 20


def test_sizes() -> None:
    assert [in_mb(size) for size in (0, 1.25e6, 2e8, 3.2e9)] == [
        "0.0 MB",
        "1.2 MB",
        "200 MB",
        "3,200 MB",
    ]
