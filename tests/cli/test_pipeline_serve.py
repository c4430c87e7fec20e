"""`roost pipeline subscriptions`, and what `roost pipeline serve` refuses before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Roost

UNREACHABLE = "roost://127.0.0.1:1"


def test_subscriptions_are_added_shown_and_removed(roost: Roost, tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ("pipeline", "subscriptions")
    done = roost(*words, "add", log, 17, "symbol = 'YHOO' and volume > 3", "--subscriber", "Alice")
    assert (done.code, done.err) == (0, "version 1\n")
    assert roost(*words, "add", log, 18, "[x,isPresent,*]").code == 0
    shown = roost(*words, "show", log, "--json").json
    assert shown == {
        "version": 2,
        "count": 2,
        "subscriptions": [
            {"subscription": 17, "filter": "symbol = 'YHOO' and volume > 3", "subscriber": "Alice"},
            {"subscription": 18, "filter": "x present", "subscriber": None},
        ],
    }
    assert roost(*words, "remove", log, 17, 99).err == "version 3\n"
    assert roost(*words, "show", log, "--json").json["count"] == 1
    assert roost(*words, "show", log, "--json", "--version", 2, "--most", 0).json["count"] == 2
    table = roost(*words, "show", log).out
    assert "1 subscription at version 3" in table
    assert "x present" in table


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "LOG", "x", "a = 1"), "'x' is no number of a subscription"),
        (("add", "LOG", "1", "a ="), "FILTER: line 1, column 4"),
        (("add", "LOG", "1", "a = 1", "2"), "3 words; expected a file, or a number and a filter"),
        (("add", "LOG", "missing.csv"), "missing.csv: there is no such file"),
        (("remove", "LOG", "-1"), "'-1' is no number"),
        (("show", "LOG", "--version", "7"), "version 7 of the subscriptions is not known"),
    ],
)
def test_bad_words_change_nothing(
    roost: Roost, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    log = tmp_path / "log"
    given = [str(log) if word == "LOG" else word for word in words]
    dashes = ["--"] if "-1" in given else []
    done = roost("pipeline", "subscriptions", given[0], *dashes, *given[1:])
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not log.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "127.0.0.1:1"),
        (("--filter", "x >"), "--filter: line 1"),
        (("--trigger", "often"), "'often' is no interval; expected one like 200ms"),
        (("--forget",), "127.0.0.1:1"),
    ],
)
def test_what_serve_refuses(
    roost: Roost, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    where = ("--subscriptions", tmp_path / "log", "--checkpoint", tmp_path / "checkpoint")
    done = roost("pipeline", "serve", "--broker", UNREACHABLE, *where, *options)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) < 5
