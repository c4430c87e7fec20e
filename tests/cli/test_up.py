"""`roost up` and `roost down`, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.built_in import BUILT_IN, MODULES
from roost.cli.up import overlay_of
from roost.errors import UserError
from roost.runtime import federation
from tests.cli.support import Roost

WORKLOAD = """\
0 broker add west 1000 16 10
0 broker add east 1000 16 10
0 link add west east 5
1 publisher add P1 YHOO 60 west
2 link remove west east
3 broker add north 1000 16 10
9 end
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing is left running, whatever becomes of the test."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path / ".roost"
    federation.end(tmp_path / ".roost")


def test_a_federation_from_start_to_end(roost: Roost, state: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as bystander:
        optimise = (
            "--optimise",
            "grape",
            "--goal",
            "load100",
            "--optimise",
            "overlay",
            "--observe",
        )
        ran = roost("up", "chain", "--brokers", "3", *optimise, "--json")
        assert (ran.code, ran.err) == (0, "")
        assert ran.json["links"] == [["B0", "B1"], ["B1", "B2"]]
        pids = [broker["pid"] for broker in ran.json["brokers"]]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)

        ran = roost("status", "--json")
        assert ran.code == 0
        assert [(x["broker"], x["pid"]) for x in ran.json["brokers"]] == list(
            zip(["B0", "B1", "B2"], pids, strict=True)
        )
        modules = [x["modules"] for x in ran.json["brokers"]]
        states = dict.fromkeys(BUILT_IN[MODULES], "off")
        assert modules == [states | {"grape": "observing", "overlay": "observing"}] * 3
        assert 'priority = "load"\nweight = 100.0\n' in (state / "B0.toml").read_text()
        links = [x["links"] for x in ran.json["brokers"]]
        assert [list(each) for each in links] == [["B1"], ["B0", "B2"], ["B1"]]
        assert all(link["up"] for each in links for link in each.values())

        ran = roost("up", "star", "--brokers", "2")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(
            "error: .roost: a federation runs from this folder, with 3 brokers; end it with `roost down`"
        )

        os.kill(pids[2], signal.SIGKILL)
        deadline = time.monotonic() + 10
        while (ran := roost("status")).out.count("link down") == 0:
            assert time.monotonic() < deadline
        assert ran.code == 1
        assert "  B1: no link to B2\n" in ran.out

        ran = roost("restart", "B2")
        assert (ran.code, ran.err) == (0, "")
        pids[2], *_ = (x["pid"] for x in roost("status", "--json").json["brokers"][2:])
        assert ran.out == f"B2 had ended before, and runs again (pid {pids[2]})\n"
        # Without a store it is its neighbours who know that a link was moved.
        assert roost("rewire", "B0", "B2").code == 0
        ran = roost("restart", "B0", "--json")
        (again,) = ran.json["brokers"]
        assert (again["broker"], again["before"], again["pid"] != pids[0]) == ("B0", "ended", True)
        pids[0] = again["pid"]
        ran = roost("status", "--json")
        assert [list(x["links"]) for x in ran.json["brokers"]] == [["B2"], ["B2"], ["B1", "B0"]]
        assert ran.code == 0
        ran = roost("restart", "B9")
        assert ran.err == "error: there is no broker 'B9'; expected B0 or B1 or B2\n"

        ran = roost("down")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.splitlines() == [
            f"B0 (pid {pids[0]}): ended",
            f"B1 (pid {pids[1]}): ended",
            f"B2 (pid {pids[2]}): ended",
        ]
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        assert bystander.poll() is None
        bystander.kill()
    ran = roost("down")
    assert (ran.code, ran.out) == (
        0,
        "nothing to end: no federation was started from .roost\n",
    )
    assert (state / "B0.log").read_text().count("B0 stops") == 2
    ran = roost("restart", "B0")
    assert ran.err == "error: .roost: no federation was started from this folder\n"


def test_brokers_with_stores_from_a_file(roost: Roost, state: Path) -> None:
    Path("sites.txt").write_text("west east\n")
    ran = roost("up", "sites.txt", "--durable", "--bandwidth", "2.5")
    assert (ran.code, ran.err) == (0, "")
    assert "bandwidth_mbps = 2.5\n" in (state / "west.toml").read_text("utf-8")
    head, west, east, _, last = ran.out.splitlines()
    assert head.split()[0] == "broker"
    assert (west.split()[0], east.split()[0]) == ("west", "east")
    assert west.split()[1].startswith("roost://127.0.0.1:")
    assert (
        last == "1 link up; `roost status` and `roost top` show how it fares, `roost down` ends it"
    )
    # Traces stay where the federation was started.
    ran = roost("trace", "on", "/somewhere/else")
    assert (ran.code, ran.out) == (2, "")
    assert f"'/somewhere/else' is not for traces; expected {state.parent}, or a folder" in ran.err
    assert roost("trace", "on", "traces", "--run", "monday").code == 0
    assert roost("down").code == 0
    assert (state / "data" / "west" / "roost.db").exists()
    assert Path("traces/loads/run=monday/part-east-000001.parquet").is_file()


def test_a_broker_that_fails_says_why(roost: Roost, state: Path) -> None:
    state.mkdir()
    (state / federation.MARK).write_text(federation.MARK_TEXT)
    (state / "data").write_text("")  # where the stores would be
    ran = roost("up", "chain:1", "--durable")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(
        "error: B0 did not start (exit code 2); .roost/B0.log says:\n  error: "
    )
    assert "nothing to end" in roost("down").out


@pytest.mark.parametrize(
    ("text", "brokers", "names"),
    [
        ("chain", None, 3),
        ("star", 5, 5),
        ("tree", 7, 7),
        ("random", 9, 9),
        ("scale-free", 9, 9),
        ("tree:7:3", None, 7),
        ("peer:2x3", None, 8),
    ],
)
def test_topologies(text: str, brokers: int | None, names: int) -> None:
    overlay = overlay_of(text, brokers)
    assert len(overlay.brokers) == names
    assert len(overlay.links) == names - 1


def test_a_workload_gives_its_first_overlay(tmp_path: Path) -> None:
    path = tmp_path / "x.workload"
    path.write_text(WORKLOAD)
    overlay = overlay_of(str(path), None)
    assert overlay.brokers == ("west", "east")
    assert [(link.a, link.b) for link in overlay.links] == [("west", "east")]
    path.write_text(
        WORKLOAD.replace("0 link add west east 5\n", "").replace("2 link remove west east\n", "")
    )
    with pytest.raises(UserError, match=r"x\.workload: the overlay falls into 3 parts"):
        overlay_of(str(path), None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ring",), "error: 'ring' is neither a topology nor a file; the forms are:"),
        (("peer",), "error: 'peer' is neither a topology nor a file; the forms are:"),
        (("chain", "--brokers", "0"), "error: --brokers 0; expected 1 or more"),
        (
            ("chain", "--brokers", "1000"),
            "error: 1,000 brokers; expected 1 to 256, each is a process",
        ),
        (("chain:3", "--brokers", "3"), "error: --brokers goes with chain, star, tree,"),
        (("chain", "--base-port", "65531"), "error: the ports 65531 to 65536; expected"),
        (("chain", "--base-port", "0"), "error: the ports 0 to 5; expected 1 to 65535"),
        (
            ("cluster:2", "--optimise", "entry", "--optimise", "grape"),
            "error: --optimise grape: grape knows trees only; expected none of it in a hierarchy",
        ),
        (
            ("none.workload",),
            "error: none.workload: No such file or directory; expected a workload",
        ),
    ],
)
def test_bad_input(roost: Roost, state: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = roost("up", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(message)
    assert federation.read(state) is None


def test_every_form_is_told(roost: Roost) -> None:
    ran = roost("up", "cluter:2x2")
    assert ran.code == 2
    assert "'cluter:2x2' is neither a topology nor a file; the forms are:\n  chain:5\n" in ran.err
    assert "\n  a hierarchy, cluster:2x3x4 (2 at the top, " in ran.err
    assert "'cluster:2y' does not read as cluster:2x3x4" in roost("up", "cluster:2y").err


def test_machines_that_are_no_brokers(roost: Roost, tmp_path: Path) -> None:
    """Each is started by itself, by `roost broker --machine`."""
    path = tmp_path / "mesh.workload"
    path.write_text("0 broker add M0 1000 16 10 tests.example.mesh:Mesh\n")
    ran = roost("up", path)
    assert ran.code == 2
    assert "mesh.workload:1: M0 is tests.example.mesh:Mesh; expected brokers only" in ran.err
    ran = roost("broker", "--machine", "nobody")
    assert ran.code == 2
    assert "[broker] no package offers a machine 'nobody'" in ran.err
