"""The log of a broker: lines for people and programs, with bounds, that nobody can steer or fill."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any, Literal

import pytest

from roost.errors import UserError
from roost.runtime.log import EventLog
from roost.runtime.security import RefusalLog
from roost.runtime.tables import LogTable

NOON = 1_800_000_000.25
AT_NOON = "2027-01-15T08:00:00.250+00:00"


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def logged(**settings: Any) -> tuple[EventLog, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    bounds = {key: settings.pop(key) for key in list(settings) if key.startswith("lines_")}
    log = EventLog(LogTable(**settings), "B0", stream, clock=clock, **bounds)
    return log, stream, clock


def test_for_people() -> None:
    log, stream, _ = logged()
    log.info("started", address="127.0.0.1:7411", store="", boots=2, after_s=1.23456)
    log.warning("link refused", about="B1", detail='it is no "neighbour" of B1')
    log.error("trouble")
    assert stream.getvalue().splitlines() == [
        f"{AT_NOON} info    B0: started: address=127.0.0.1:7411 boots=2 after_s=1.235",
        f'{AT_NOON} warning B0: link refused: about=B1 detail="it is no \\"neighbour\\" of B1"',
        f"{AT_NOON} error   B0: trouble",
    ]


def test_for_programs() -> None:
    log, stream, _ = logged(format="json")
    log.info("restored", records=7, kinds={"out": 3}, acted=False)
    assert lines_of(stream.getvalue()) == [
        {
            "time": AT_NOON,
            "level": "info",
            "broker": "B0",
            "event": "restored",
            "records": 7,
            "kinds": {"out": 3},
            "acted": False,
        }
    ]


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_what_is_worth_a_line(level: str) -> None:
    log, stream, _ = logged(level=level, format="json")
    levels = ["debug", "info", "warning", "error"]
    for each in levels:
        log.add(each, "x", {})
    log.add("of no such level", "x", {})  # is not lost for that
    said = [line["level"] for line in lines_of(stream.getvalue())]
    assert said == [*levels[levels.index(level) :], "of no such level"]


@pytest.mark.parametrize("format_", ["text", "json"])
def test_nobody_steers_a_terminal(format_: Literal["text", "json"]) -> None:
    log, stream, _ = logged(format=format_)
    evil = "\x1b[2J\x9b1A\r\n2027 info B0: all is well\x7f\u202e\x00"
    log.info("session begun", about=evil, **{evil: 1})
    log.add("info", evil, {"list": [evil], "table": {evil: evil}})
    EventLog(LogTable(format=format_), evil, stream).info("x")
    said = stream.getvalue()
    assert said.count("\n") == 3
    assert all(" " <= character <= "~" for character in said.replace("\n", ""))


def test_what_peers_say_is_cut_short() -> None:
    log, stream, _ = logged(format="json")
    log.info("x", about="y" * 100_000)
    (line,) = lines_of(stream.getvalue())
    assert len(line["about"]) == 400
    assert line["about"].endswith("y ...")


def test_a_minute_has_bounds() -> None:
    log, stream, clock = logged(format="json", lines_a_kind=3, lines_in_all=5)
    for number in range(10):
        log.info("loud", number=number)
    for number in range(4):
        log.info("quiet", number=number)
    log.error("trouble")  # finds room though all together have had theirs
    said = [line["event"] for line in lines_of(stream.getvalue())]
    assert said == ["loud"] * 3 + ["quiet"] * 2 + ["trouble"]
    assert log.suppressed == 9
    clock.now += 60
    log.info("loud", number=10)
    *_, how_many, last = lines_of(stream.getvalue())
    assert (how_many["event"], how_many["level"]) == ("suppressed", "warning")
    assert (how_many["lines"], how_many["since"]) == (9, AT_NOON)
    assert how_many["kinds"] == {"loud": 7, "quiet": 2}
    assert last["number"] == 10


def test_kinds_do_not_fill_the_memory() -> None:
    log, _, _ = logged()
    for number in range(1_000):
        log.info(f"kind {number}")
    assert len(log._written) <= 201


def test_what_was_suppressed_is_said_in_the_end() -> None:
    log, stream, _ = logged(format="json", lines_a_kind=1)
    log.info("x")
    log.info("x")
    log.close()
    assert [line["event"] for line in lines_of(stream.getvalue())] == ["x", "suppressed"]


def test_a_file_of_its_owner_with_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = EventLog(LogTable(file=str(path), format="json"), "B0", file_bytes_max=1_000)
    assert (path.stat().st_mode & 0o777, log.is_aloud) == (0o600, False)
    for number in range(100):
        log.info("x", number=number)
    log.close()
    assert {each.name for each in tmp_path.iterdir()} == {"log", "log.1"}
    kept = lines_of((tmp_path / "log.1").read_text() + path.read_text())
    assert [line["number"] for line in kept] == list(range(100 - len(kept), 100))
    assert all(each.stat().st_size <= 1_000 for each in tmp_path.iterdir())
    EventLog(LogTable(file=str(path)), "B0").info("more")
    assert path.read_text().endswith("info    B0: more\n")


def test_a_file_that_was_put_elsewhere_is_begun_anew(tmp_path: Path) -> None:
    path, clock = tmp_path / "log", Clock()
    log = EventLog(LogTable(file=str(path)), "B0", clock=clock)
    log.info("first")
    path.rename(tmp_path / "log.old")
    clock.now += 61
    log.info("second")
    log.close()
    assert "first" in (tmp_path / "log.old").read_text()
    assert path.read_text().endswith("second\n")
    log.info("last words")
    assert path.read_text().endswith("last words\n")


def test_a_log_that_cant_be_written_is_in_nobodys_way(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be written: No such file or directory"):
        EventLog(LogTable(file=str(tmp_path / "no" / "log")))
    log = EventLog(LogTable(file="/dev/full"))
    log.info("x")
    log.info("x")
    assert log.lost == 2
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        log = EventLog(LogTable(), "B0", stream)
        log.info("x")
        assert log.lost == 1
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), writer)  # so that it can be closed


def test_who_reads_standard_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert EventLog().is_aloud
    assert not EventLog().is_for_programs
    assert EventLog(LogTable(format="json")).is_for_programs
    quiet = EventLog(aloud=False)
    quiet.error("x")
    assert quiet.refusals is None
    assert not EventLog(LogTable(file=str(tmp_path / "x"), format="json")).is_for_programs
    assert capsys.readouterr().err == ""
    EventLog().info("x")
    assert capsys.readouterr().err.endswith("x\n")


def test_refusals_are_events_and_suppressed_once() -> None:
    log, stream, clock = logged(format="json", lines_a_kind=1)
    refusals = RefusalLog("", log.refusals, lines_an_address=2, clock=clock)
    for number in range(5):
        refusals.add("10.0.0.1", "eve", "connection", f"\x1b[2J{number}")
    clock.now += 60
    refusals.add("10.0.0.2", "", "s1", "not granted")
    first, second, how_many, last = lines_of(stream.getvalue())
    assert first == {
        "time": AT_NOON,
        "level": "warning",
        "broker": "B0",
        "event": "refused",
        "address": "10.0.0.1",
        "principal": "eve",
        "asked": "connection",
        "reason": "\x1b[2J0",
    }
    assert "\x1b" not in stream.getvalue()
    assert second["reason"].endswith("1")
    assert (how_many["event"], how_many["suppressed"]) == ("refusals suppressed", 3)
    assert last["asked"] == "s1"
    assert "principal" not in last
    assert log.suppressed == 0
