"""`roost explain` and `roost covers`: verdicts, exit codes, and what programs read."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.cli.support import Roost

EVENT = "[class,'STOCK'],[volume,250000],[symbol,'YHOO']"


def test_a_match_exits_with_0(roost: Roost) -> None:
    ran = roost("explain", "class = 'STOCK' and volume > 1000", EVENT)
    assert (ran.code, ran.err) == (0, "")
    assert "The event matches: 2 of 2 predicates held." in ran.out


def test_a_near_miss_exits_with_1_and_says_why(roost: Roost) -> None:
    ran = roost("explain", "class = 'STOCK' and volume > 300000 and x present", EVENT)
    assert (ran.code, ran.err) == (1, "")
    assert "250000 is not greater than 300000" in ran.out
    assert "the event does not have the attribute" in ran.out
    assert "The event does not match: 2 of 3 predicates failed." in ran.out


def test_a_disjunction_is_explained_filter_by_filter(roost: Roost) -> None:
    ran = roost("explain", "symbol = 'IBM' or symbol = 'YHOO'", EVENT)
    assert ran.code == 0
    assert "Filter 1 of 2 does not match: symbol = 'IBM'" in ran.out
    assert "Filter 2 of 2 matches: symbol = 'YHOO'" in ran.out
    assert "The event matches, by filter 2." in ran.out
    ran = roost("explain", "symbol = 'IBM' or symbol = 'GE'", EVENT)
    assert ran.code == 1
    assert "each of the 2 filters fails" in ran.out


def test_the_filter_that_matches_everything(roost: Roost) -> None:
    ran = roost("explain", "*", "{}")
    assert ran.code == 0
    assert "matches every event" in ran.out


def test_odd_filters_are_remarked_on(roost: Roost) -> None:
    ran = roost("explain", "volume > 10 and volume > 20", EVENT)
    assert "Note: volume > 10 says nothing that the other predicates do not." in ran.out
    ran = roost("explain", "volume > 20 and volume < 10", EVENT)
    assert ran.code == 1
    assert "no event can ever match: no value of volume satisfies volume > 20 and" in ran.out


def test_brackets_are_text(roost: Roost) -> None:
    ran = roost("explain", "[class,eq,'[bold]STOCK[/bold]']", "[class,'[red]']")
    assert "'[bold]STOCK[/bold]'" in ran.out
    assert "'[red]'" in ran.out


def test_explain_for_programs(roost: Roost) -> None:
    text = "volume > 10 and volume > 20 and x in (1, inf) and symbol = 5 or y present number"
    ran = roost("explain", text, "[volume,15],[x,inf],[symbol,'A'],[y,nan]", "--json")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.count("\n") == 1
    first, second = ran.json["filters"]
    assert ran.json["matches"] is first["matches"] is second["matches"] is False
    assert [(p["cause"], p["held"]) for p in first["predicates"]] == [
        ("held", True),
        ("value", False),
        ("held", True),
        ("kind", False),
    ]
    assert first["predicates"][0] == {
        "attribute": "volume",
        "operator": ">",
        "constant": 10,
        "value": 15,
        "held": True,
        "cause": "held",
        "why": "",
    }
    assert first["predicates"][2]["constant"] == [1, "inf"]
    assert first["predicates"][2]["value"] == "inf"
    assert first["redundant"] == ["volume > 10"]
    assert first["contradictions"] == []
    assert second["predicates"][0]["constant"] == "number"
    assert second["predicates"][0]["value"] == "nan"
    never = roost("explain", "x = 1 and x = 2", "{}", "--json").json["filters"][0]
    assert never["contradictions"] == [{"attribute": "x", "predicates": ["x = 1", "x = 2"]}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "volume >", EVENT), "error: the filter: line 1, column 9: found the end"),
        (("explain", "volume > 1", "volume"), "error: the event: line 1, column 1: found the word"),
        (("covers", "x", "y = 1"), "error: A: line 1, column 2: "),
        (("covers", "y = 1", "x"), "error: B: line 1, column 2: "),
    ],
)
def test_bad_input_says_which(roost: Roost, arguments: tuple[str, ...], message: str) -> None:
    ran = roost(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(message)


@pytest.mark.parametrize("arguments", [("explain",), ("explain", "*"), ("covers", "*")])
def test_missing_arguments(roost: Roost, arguments: tuple[str, ...]) -> None:
    ran = roost(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Missing argument" in ran.err


# --- covers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "relation", "code"),
    [
        ("volume > 5", "volume > 10 and class = 'STOCK'", "covers", 0),
        ("volume > 10", "volume > 5", "covered", 1),
        ("[x,eq,1]", "x = 1.0", "equivalent", 0),
        ("x > 1", "x < 5", "overlaps", 1),
        ("x > 1", "y = 5", "overlaps", 1),
        ("x > 5", "x < 1", "disjoint", 1),
        ("x > 5", "x > 2 and x < 1", "covers", 0),
        ("x = 1 or x = 2", "x = 2", "covers", 0),
    ],
)
def test_how_two_filters_stand(roost: Roost, a: str, b: str, relation: str, code: int) -> None:
    ran = roost("covers", a, b, "--json")
    assert (ran.json["relation"], ran.code) == (relation, code)
    assert ran.json["a_covers_b"] == (code == 0)
    people = roost("covers", a, b)
    assert people.code == code
    assert people.out


@pytest.mark.parametrize(
    ("a", "b", "lines"),
    [
        (
            "volume > 10",
            "volume > 5",
            ["volume: B admits 6, A does not.", "An event that matches only B: [volume,6]"],
        ),
        ("volume > 10", "class = 'STOCK'", ["volume: A asks about it, B does not."]),
        ("x > 5", "x < 1", ["they are disjoint", "No value satisfies both on: x."]),
        ("x > 5", "x > 2 and x < 1", ["B can never match."]),
        (
            "x = 1",
            "x = 1 or x = 2",
            ["x: filter 2 of B admits 2, A does not.", "matches only B: [x,2]"],
        ),
        (
            "x < 1 or x >= 1",
            "x present number",
            ["several filters of A together may cover it after all, which is not decided"],
        ),
    ],
)
def test_covers_says_what_decides(roost: Roost, a: str, b: str, lines: list[str]) -> None:
    out = roost("covers", a, b).out
    for line in lines:
        assert line in out


def test_covers_for_programs(roost: Roost) -> None:
    ran = roost("covers", "volume > 10 and x = inf", "volume > 5", "--json")
    assert ran.out.count("\n") == 1
    answer: dict[str, Any] = ran.json
    assert answer == {
        "relation": "covered",
        "a_covers_b": False,
        "b_covers_a": True,
        "overlap": True,
        "never_matches": [],
        "a_lacks": [{"filter": "volume > 5", "attributes": ["volume", "x"]}],
        "b_lacks": [],
        "apart": [],
        "only_b": {"volume": 6},
        "only_a": None,
        "both": {"volume": 11, "x": "inf"},
    }


def test_the_installed_command_exits_alike() -> None:
    command = [sys.executable, "-m", "roost", "covers", "x > 2", "x > 1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "x: B admits 2, A does not." in ran.stdout
