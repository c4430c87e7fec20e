"""`roost serve`, with real processes: two matchers and a dispatcher, from start to end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.runtime import federation
from tests.cli.support import Roost


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing is left running, whatever becomes of the test."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path / ".roost"
    federation.end(tmp_path / ".roost")


def test_a_service_from_start_to_end(roost: Roost, state: Path) -> None:
    ran = roost(
        "serve", "--matchers", "2", "--dimension", "x:0:10", "--dimension", "y:-1:1", "--json"
    )
    assert (ran.code, ran.err) == (0, "")
    assert [server["broker"] for server in ran.json["brokers"]] == ["D0", "M0", "M1"]
    assert ran.json["links"] == [["D0", "M0"], ["D0", "M1"], ["M0", "M1"]]
    assert "dimensions=x:0:10,y:-1:1 matchers=M0,M1" in (state / "D0.toml").read_text()
    (url,) = (s["url"] for s in ran.json["brokers"] if s["broker"] == "D0")
    published = roost("publish", "--url", url, "x=1", "y=0")
    assert published.code == 0, published.err
    status = roost("status", "--json")
    assert {s["broker"]: s.get("table") for s in status.json["brokers"]} == {
        "D0": 1,
        "M0": 1,
        "M1": 1,
    }
    assert roost("down").code == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--dimension", "x"], "expected NAME:LOW:HIGH"),
        (["--dimension", "x:2:1"], "LOW below HIGH"),
        (["--dimension", "x:0:1", "--matchers", "0"], "0 matchers; expected at least one"),
        (["--dimension", "x:0:1", "--policy", "best"], "expected one of amount"),
    ],
)
def test_bad_input(roost: Roost, state: Path, arguments: list[str], what: str) -> None:
    ran = roost("serve", *arguments)
    assert ran.code == 2
    assert what in ran.err
    assert not state.exists()
