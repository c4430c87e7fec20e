"""A plan is carried out and taken back, whenever the one who does it is killed, and by whoever goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from roost.errors import UserError
from roost.pipeline.plans import applying, journal
from roost.pipeline.plans.applying import Timing
from roost.pipeline.plans.placement import Placement, placement_of
from roost.pipeline.plans.plan import Plan, Step, plan_bytes, read_plan
from tests.pipeline.plans.small import PretendFederation, chain, plan_of_steps

QUICK = Timing(patience_s=0.05, look_every_s=0.001)
START = placement_of(
    ["B0", "B1", "B2", "B3"], chain(4), {"P": "B0", "S1": "B3", "S2": "B2", "X": "B1"}
)
STEPS = (
    Step(1, "rewire", 1, middle="B1", mover="B2", anchor="B0"),
    Step(2, "move", 2, "S1", "B3", "B0"),
    Step(3, "rewire", 3, middle="B2", mover="B3", anchor="B0"),
    Step(4, "move", 4, "S2", "B2", "B3"),
)
PLAN = plan_of_steps(START, STEPS)
END = applying.after(START, STEPS)


class Killed(BaseException):
    """What kill -9 is, seen from inside: nothing below it runs."""


@contextmanager
def killed_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Killed with the entry that comes then, before or after it is on the disk."""
    count = 0
    real = journal.Journal.add

    def add(self: journal.Journal, *arguments: object, **named: object) -> None:
        nonlocal count
        if count == writes:
            raise Killed
        count += 1
        real(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(journal.Journal, "add", add)
    try:
        with pytest.raises(Killed):
            yield
    finally:
        monkeypatch.setattr(journal.Journal, "add", real)


def carried_out(path: Path, there: PretendFederation, plan: Plan = PLAN) -> applying.Result:
    with journal.opened(path, plan) as noted:
        return applying.apply(plan, noted, there, timing=QUICK)


def taken_back(path: Path, there: PretendFederation, plan: Plan = PLAN) -> applying.Result:
    with journal.opened(path, plan) as noted:
        return applying.undo(plan, noted, there, timing=QUICK)


def test_a_plan_is_carried_out_and_undone(tmp_path: Path) -> None:
    there, path = PretendFederation(START), tmp_path / "journal"
    assert carried_out(path, there) == applying.Result(4, 0, 0, 0)
    assert there.placement() == END
    asked = len(there.asked)
    assert carried_out(path, there).done == 4
    assert len(there.asked) == asked  # nothing is asked for twice
    assert taken_back(path, there) == applying.Result(0, 0, 4, 0)
    assert there.placement() == START
    with pytest.raises(UserError, match="is being undone, or was"):
        carried_out(path, there)


@pytest.mark.parametrize("writes", range(2 * len(STEPS)))
@pytest.mark.parametrize("then", [carried_out, taken_back])
def test_killed_at_each_entry_it_goes_on_or_back(
    writes: int,
    then: Callable[..., applying.Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there, path = PretendFederation(START), tmp_path / "journal"
    with killed_after(writes, monkeypatch):
        carried_out(path, there)
    moved = tmp_path / "elsewhere"  # it is resumed elsewhere
    moved.write_bytes(path.read_bytes())
    result = then(moved, there)
    assert not result.failed
    assert not result.left
    assert there.placement() == (END if then is carried_out else START)


@pytest.mark.parametrize("writes", range(2 * len(STEPS)))
def test_killed_at_each_entry_of_the_way_back_it_goes_on(
    writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, path = PretendFederation(START), tmp_path / "journal"
    carried_out(path, there)
    with killed_after(writes, monkeypatch):
        taken_back(path, there)
    assert taken_back(path, there) == applying.Result(0, 0, 4, 0)
    assert there.placement() == START


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_line_that_was_half_written_counts_as_not_written(cut: int, tmp_path: Path) -> None:
    there, path = PretendFederation(START), tmp_path / "journal"
    carried_out(path, there)
    path.write_bytes(path.read_bytes()[:-cut])
    assert carried_out(path, there).done == 4
    assert there.placement() == END


WRITER = """
import sys, time
from pathlib import Path
from roost.pipeline.plans import applying, journal
from tests.pipeline.plans.small import PretendFederation
from tests.pipeline.plans.test_applying import PLAN, START

class Slow(PretendFederation):
    def rewire(self, *arguments):
        super().rewire(*arguments)
        print("asked", flush=True)
        time.sleep(60)

with journal.opened(Path(sys.argv[1]), PLAN) as noted:
    applying.apply(PLAN, noted, Slow(START))
"""


def test_a_process_that_is_killed_leaves_a_journal_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    with pytest.raises(UserError, match="another process is carrying out"):
        carried_out(path, PretendFederation(START))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    entries = journal.read_journal(path, PLAN)
    assert [entries[n].state for n in range(1, 5)] == ["asked", "proposed", "proposed", "proposed"]
    there = PretendFederation(applying.after(START, STEPS[:1]))  # it was asked, and has done it
    assert carried_out(path, there).done == 4
    assert there.placement() == END


# --- what is refused ------------------------------------------------------------------------------------


def with_(
    *, links: object = None, clients: dict[str, str] | None = None, brokers: object = None
) -> Placement:
    return placement_of(
        brokers or START.brokers,  # type: ignore[arg-type]
        links or START.links,  # type: ignore[arg-type]
        {**START.clients, **(clients or {})},
    )


CHANGED = {
    "the link B2 - B3 is not there\n  the link B1 - B3 is new": with_(
        links=[("B0", "B1"), ("B1", "B2"), ("B1", "B3")]
    ),
    "broker B4 is new\n  the link B3 - B4 is new": with_(
        links=[*chain(4), ("B3", "B4")], brokers=[*START.brokers, "B4"]
    ),
    "S1 is at B1, and was at B3": with_(clients={"S1": "B1"}),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_federation_that_has_changed_is_refused_with_what_has(what: str, tmp_path: Path) -> None:
    there = PretendFederation(CHANGED[what])
    with pytest.raises(UserError, match="has changed since plan") as refused:
        carried_out(tmp_path / "journal", there)
    assert what in str(refused.value)
    assert not there.asked


def test_clients_that_the_plan_does_not_move_may_come_and_go(tmp_path: Path) -> None:
    there = PretendFederation(with_(clients={"Y": "B3", "X": "B2"}))
    assert carried_out(tmp_path / "journal", there).done == 4


def test_what_has_changed_since_it_was_carried_out_is_not_undone(tmp_path: Path) -> None:
    there, path = PretendFederation(START), tmp_path / "journal"
    carried_out(path, there)
    there.clients["S2"] = "B0"
    with pytest.raises(UserError, match="S2 is at B0, and was at B3"):
        taken_back(path, there)


def test_a_client_that_has_left_does_not_stop_the_others(tmp_path: Path) -> None:
    there, path = PretendFederation(START), tmp_path / "journal"
    real = there.rewire

    def leaving(middle: str, mover: str, anchor: str) -> None:
        there.clients.pop("S1", None)
        real(middle, mover, anchor)

    there.rewire = leaving  # type: ignore[method-assign]
    result = carried_out(path, there)
    assert (result.done, result.failed) == (3, 1)
    assert result.notes == ("step 2: after 0.05 s: it was asked for, and is not so",)
    back = taken_back(path, there)
    assert (back.undone, back.failed) == (4, 0)
    assert there.placement() == placement_of(
        START.brokers, START.links, {c: b for c, b in START.clients.items() if c != "S1"}
    )


def test_a_journal_of_another_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    carried_out(path, PretendFederation(START))
    other = plan_of_steps(START, STEPS[:2])
    with pytest.raises(UserError, match=f"the journal of another plan, {PLAN.id}; expected that"):
        carried_out(path, PretendFederation(START), other)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{}\n", "no journal of a plan"),
        (b"nonsense\n", "no journal of a plan"),
        (b'{"format":"roost journal","version":9,"plan":"x","steps":1}\n', "roost journal 9"),
    ],
)
def test_what_is_no_journal_is_refused(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(content)
    with pytest.raises(UserError, match=why):
        carried_out(path, PretendFederation(START))
    assert path.read_bytes() == content


# --- files ----------------------------------------------------------------------------------------------


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_bytes(plan_bytes(PLAN))
    assert read_plan(path) == PLAN


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda said: {**said, "version": 2}, "a plan of version 2; expected 1"),
        (lambda said: {**said, "format": "x"}, "no plan; expected"),
        (lambda said: {**said, "steps": said["steps"][:1]}, "was changed after it was made"),
        (lambda said: {k: v for k, v in said.items() if k != "steps"}, "missing required field"),
    ],
)
def test_what_is_no_plan_is_refused(
    change: Callable[[dict[str, object]], object], why: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan"
    path.write_bytes(msgspec.json.encode(change(msgspec.json.decode(plan_bytes(PLAN)))))
    with pytest.raises(UserError, match=why):
        read_plan(path)


def test_entries_say_when(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    began = time.time()
    carried_out(path, PretendFederation(START))
    entries = journal.read_journal(path, PLAN)
    assert all(began <= entry.at <= time.time() for entry in entries.values())
    assert os.stat(path).st_size == len(path.read_bytes())
