"""`roost demo` without its federation, which tests/pipeline runs; how it ends; the help of every command."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import ExitStack, suppress
from io import StringIO
from itertools import chain, pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from roost.bench.demo.plan import plan_of
from roost.cli.console import people
from roost.cli.demo import command as demo
from roost.cli.demo import faults, live, match, optimisers
from roost.language import contradictions
from roost.matching import Naive
from roost.simulation.fuzz import Scenario, fuzz, scenario_of
from roost.simulation.run import Checks
from roost.simulation.service_scenario import ServiceScenario
from roost.simulation.statements import CrashBroker
from roost.simulation.world import World
from tests.cli.support import Roost

TRY_NEXT = [line for line in demo.NEXT.splitlines() if "covers" in line or "topology" in line]
PATIENCE_S = 120.0


def test_a_small_market(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "SPEED_SUBSCRIPTIONS", 100)
    monkeypatch.setattr(match, "SPEED_EVENTS", 10)
    monkeypatch.setattr(match, "SPEED_BUDGET_S", 0.01)
    match.show(people())
    out = capsys.readouterr().out
    for words in (
        "10 events, and who gets them",
        "Why yahoo-dip does not get event 4",
        "30.62 is not less than 30.5",
        "How fast",
    ):
        assert words in out
    assert max(map(len, out.splitlines())) <= 110


def test_the_sample_is_worth_showing() -> None:
    subscriptions, events = match.sample()
    naive = Naive()
    for position, subscription in enumerate(subscriptions.values()):
        assert not any(map(contradictions, subscription.filters))
        naive.add(position, subscription)
    matched = [set(naive.match(event).tolist()) for event in events]
    assert set().union(*matched) == set(range(len(subscriptions))), "everyone gets something"
    assert set() in matched, "not everything is wanted"
    id_, number = match.NEAR_MISS
    assert list(subscriptions).index(id_) not in matched[number]


@pytest.mark.parametrize("width", [60, 80, 110])
def test_what_is_told_fits_the_terminal(width: int) -> None:
    """Every line but the last is as full as it gets: none is broken twice."""
    console = Console(width=width, file=StringIO(), markup=False, highlight=False)
    live.show_plan(console, plan_of(1.0))
    assert isinstance(console.file, StringIO)
    _, title, *lines, empty, _ = console.file.getvalue().split("\n")
    assert (title, empty.strip()) == (live.TITLE, "")
    assert all(line.startswith("  ") and len(line) <= width for line in lines)
    for line, following in pairwise(lines):
        assert len(f"{line.rstrip()} {following.split()[0]}") > width


def test_the_scenario_is_worth_showing(capsys: pytest.CaptureFixture[str]) -> None:
    for _, profile, seed in faults.SCENARIOS:
        statements = scenario_of(seed, profile).statements
        crashes = [s for s in statements if isinstance(s, CrashBroker)]
        assert all(s.keep_store for s in crashes), "a lost store would make promises void"
        if len(crashes) > 1:
            assert f"{len(crashes)} crashes" in faults.happenings(statements)
        assert faults.inventory(statements)[0].endswith(" servers")
    faults.show(people())
    out = capsys.readouterr().out
    clean = "  checked         lost 0, doubled 0, reordered 0, unwanted 0,"
    assert out.count(clean) == len(faults.SCENARIOS)
    for what in (" crashes", " moved links", " failed nodes", " changes of way"):
        assert what in out


def test_what_checkers_find_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seed: int, profile: str) -> tuple[Scenario | ServiceScenario, World, Checks]:
        scenario, world, checks = fuzz(seed, profile)
        return scenario, world, replace(checks, lost=1, violations=("P1:1 never reached S1",))

    monkeypatch.setattr("roost.simulation.fuzz.fuzz", broken)
    faults.show(people())
    out = capsys.readouterr().out
    assert "  checked         lost 1, doubled 0" in out
    assert "P1:1 never reached S1" in out


# --- what is left of it -----------------------------------------------------------------------------


def test_only_the_picture_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with demo.folder_of(None) as folder:
        (folder / demo.TRACES).mkdir()
        (folder / demo.PICTURE).touch()
    assert [path.name for path in folder.iterdir()] == [demo.PICTURE]

    def interrupted() -> None:
        with demo.folder_of(None) as second:
            (second / demo.PICTURE).touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == [folder]


# What it says at moments of its life, from the first to the last.
MOMENTS = (
    "starting brokers",
    "A live federation",
    "everybody begins",
    "GRAPE is off",
    "GRAPE observes",
    "would move from",
    "GRAPE acts",
    "moves from",
    "GRAPE goes on",
    "Spark reads",
)


# One while clients come; all others take until there is something else to interrupt.
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGINT, MOMENTS[1]),
        pytest.param(signal.SIGTERM, MOMENTS[0], marks=pytest.mark.long),
        *(pytest.param(signal.SIGINT, words, marks=pytest.mark.long) for words in MOMENTS),
    ],
)
def test_nothing_is_left_when_it_is_interrupted(
    tmp_path: Path, number: signal.Signals, words: str
) -> None:
    command = [sys.executable, "-m", "roost", "demo", "--fast"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        # Whoever runs the tests in the background may have it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (no threads)
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        # What a visitor sees first does not wait for Spark.
        assert first.strip()
        assert not any(name.endswith("(java") for name in session_of(process.pid))
        assert any(words in line for line in chain([first], process.stdout))
        # As a terminal does it: to all processes that are there.
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number
    assert err == ""
    assert "Before and after" not in out
    await_end_of(process.pid)
    # What Java keeps for the next time may stay.
    left = [path.name for path in tmp_path.iterdir()]
    assert [name for name in left if not name.startswith(("roost-java-", "hsperfdata"))] == []


@pytest.mark.long
def test_twice_at_once_into_files(tmp_path: Path) -> None:
    """Neither takes ports, folders or a session of Spark's from the other."""
    with ExitStack() as stack:
        both = []
        for number in range(2):
            out = stack.enter_context((tmp_path / f"out{number}").open("w"))
            err = stack.enter_context((tmp_path / f"err{number}").open("w"))
            command = [sys.executable, "-m", "roost", "demo", "--fast", "--out", f"shown{number}"]
            process = subprocess.Popen(
                command, stdout=out, stderr=err, cwd=tmp_path, start_new_session=True
            )
            both.append(stack.enter_context(process))
        for process in both:
            # On a busy machine delays may not fall as they should, which is told.
            assert process.wait(3 * PATIENCE_S) in (0, demo.EXIT_NOT_SHOWN)
            await_end_of(process.pid)
    for number in range(2):
        assert (tmp_path / f"err{number}").read_text() == ""
        shown = (tmp_path / f"out{number}").read_text()
        assert "0 lost, 0 doubled, 0 reordered" in " ".join(shown.split())
        assert "\x1b" not in shown  # nothing of a terminal's
        assert (tmp_path / f"shown{number}" / demo.PICTURE).is_file()


@pytest.mark.long
def test_in_a_small_terminal(tmp_path: Path) -> None:
    """What moves fits into 80 x 24: it is drawn over itself, and never pushed out at the top."""
    process, screen = os.forkpty()
    if process == 0:
        os.environ.update(TERM="xterm", TMPDIR=str(tmp_path))
        os.environ.pop("COLUMNS", None)
        os.execv(sys.executable, [sys.executable, "-m", "roost", "demo", "--fast"])
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = b""
    with suppress(OSError):  # at its end
        while piece := os.read(screen, 65_536):
            shown += piece
    os.close(screen)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) in (0, demo.EXIT_NOT_SHOWN)
    text = shown.decode()
    assert "Traceback" not in text
    assert "0 lost, 0 doubled, 0 reordered" in " ".join(text.split())
    # How far up it goes to draw a frame again.
    heights = [found.count("\x1b[1A") for found in re.findall(r"(?:\r?\x1b\[2K|\x1b\[1A)+", text)]
    assert 5 < max(heights) < 24


def await_end_of(leader: int) -> None:
    """Until no process of its session is left: Java takes a moment longer."""
    until = time.monotonic() + PATIENCE_S
    while alive := session_of(leader):
        assert time.monotonic() < until, f"still there: {alive}"
        time.sleep(0.05)


def session_of(leader: int) -> list[str]:
    """The processes of a session, by what they are called."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition(") ")
        except OSError:
            continue  # it has just ended
        if int(rest.split()[3]) == leader:
            found.append(name)
    return found


# --- files and help ---------------------------------------------------------------------------------


def test_the_files_can_be_saved_and_matched(roost: Roost, tmp_path: Path) -> None:
    assert roost("demo", "--save", tmp_path).code == 0
    subscriptions, events = (tmp_path / name for name in match.FILES)
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert ran.code == 0
    assert len(ran.ndjson) == 10
    ran = roost("demo", "--save", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {subscriptions} is there already; choose another folder\n"
    ran = roost("demo", "--save", tmp_path / "nowhere")
    assert ran == (2, "", f"error: {tmp_path / 'nowhere'}: No such file or directory\n")


@pytest.mark.parametrize("line", TRY_NEXT)
def test_what_to_try_next_works(roost: Roost, line: str) -> None:
    assert roost(*shlex.split(line)[1:]).code == 0


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "match",
        "explain",
        "covers",
        "bench",
        "bench match",
        "decisions",
        "optimise",
        "redirect",
    ],
)
def test_every_help_has_an_example(roost: Roost, command: str) -> None:
    ran = roost(*command.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "Examples:" in ran.out
    assert f"roost {command}" in ran.out.partition("Examples:")[2]


def test_the_demo_as_a_process() -> None:
    command = [sys.executable, "-m", "roost", "demo", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    assert "roost demo --save ." in ran.stdout


def test_load_spreads_and_links_follow_the_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    optimisers.show(people())
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("lost 0, doubled 0, reordered 0") == 2
    rows = re.findall(r"B\d │ +0\.\d │ +(\d+) │ +(\d+) │ +(\d+)% │ +(\d+)%", said)
    crowd = [tuple(map(int, row)) for row in rows]
    assert [before for before, _, _, _ in crowd] == [optimisers.SUBSCRIBERS, 0, 0]
    assert crowd[0][2] > 100
    used = [after for _, _, _, after in crowd]
    assert max(used) - min(used) <= 10
    found = re.search(r"\(-(\d+)%\)", said)
    assert found is not None
    assert int(found[1]) >= 50
