"""What has become of each step of a plan: a file beside it, which is on the disk before anything happens.

A line is JSON. The first says which plan it is of; each of the others, what became of a step:

    proposed   it is to be carried out: all steps, when the journal begins
    asked      a broker is about to be asked for it, or for taking it back (`undo`)
    done       it was seen to be so
    failed     it was not, and why
    undone     it was taken back, or never came about

*Asked* comes before the request, *done* after the proof. So whoever is killed leaves a journal from which
another process, elsewhere too, knows what may have happened: at most the step that was asked for last. A
line that was half written counts as not written.

Two processes never write to one journal: it is locked.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from roost.errors import UserError
from roost.pipeline.plans.plan import Plan

FORMAT, VERSION = "roost journal", 1
State = Literal["proposed", "asked", "done", "failed", "undone"]


class Head(Struct, frozen=True):
    """The first line."""

    format: str
    version: int
    plan: str  # its id
    steps: int


class Entry(Struct, frozen=True, omit_defaults=True):
    """Any other line."""

    step: int
    state: State
    at: float  # in seconds since the epoch
    undo: bool = False  # it is being taken back
    note: str = ""


def journal_path(plan: Path) -> Path:
    """Where the journal of a plan is."""
    return plan.with_name(f"{plan.name}.journal")


class Journal:
    """The journal of one plan, open for writing."""

    def __init__(self, file: BinaryIO, entries: dict[int, Entry]) -> None:
        self._file = file
        self.entries = entries  # the last one of each step

    def of(self, step: int) -> Entry:
        """What became of it last."""
        return self.entries[step]

    def add(self, step: int, state: State, *, undo: bool = False, note: str = "") -> None:
        """Note it; on return it is on the disk."""
        entry = Entry(step, state, time.time(), undo, note)
        self._file.write(msgspec.json.encode(entry) + b"\n")
        _sync(self._file)
        self.entries[step] = entry


@contextmanager
def opened(path: Path, plan: Plan) -> Iterator[Journal]:
    """The journal of a plan, begun if there is none. UserError if it is of another plan, or in use."""
    fresh = not path.exists()
    try:
        file = path.open("a+b", buffering=0)
    except OSError as bad:
        raise UserError(
            f"{path}: {bad.strerror or bad}; expected a journal beside the plan"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{path}: another process is carrying out this plan") from None
        if fresh:
            _sync_folder(path.parent)
        yield _begun(file, path, plan)


def read_journal(path: Path, plan: Plan) -> dict[int, Entry]:
    """The last entry of each step; none if there is no journal."""
    if not path.exists():
        return {}
    return _entries(_lines(path.read_bytes())[0], path, plan)


def _begun(file: BinaryIO, path: Path, plan: Plan) -> Journal:
    file.seek(0)
    lines, whole = _lines(file.read())
    file.truncate(whole)
    # A journal that was killed while it began has fewer steps than the plan: they are proposed still.
    entries = _entries(lines, path, plan) if lines else {}
    if not lines:
        head = Head(FORMAT, VERSION, plan.id, len(plan.steps))
        file.write(msgspec.json.encode(head) + b"\n")
    journal = Journal(file, entries)
    for step in plan.steps:
        if step.number not in entries:
            entry = Entry(step.number, "proposed", time.time())
            file.write(msgspec.json.encode(entry) + b"\n")
            entries[step.number] = entry
    _sync(file)
    return journal


def _lines(data: bytes) -> tuple[list[bytes], int]:
    """Those that were written to their end, and how many bytes they are."""
    whole = data.rfind(b"\n") + 1
    return data[:whole].splitlines(), whole


def _entries(lines: list[bytes], path: Path, plan: Plan) -> dict[int, Entry]:
    if not lines:
        return {}
    try:
        head = msgspec.json.decode(lines[0], type=Head)
        entries = [msgspec.json.decode(line, type=Entry) for line in lines[1:]]
    except msgspec.DecodeError as bad:
        raise UserError(
            f"{path}: no journal of a plan: {bad}; expected one of `roost apply`"
        ) from None
    if head.format != FORMAT or head.version != VERSION:
        raise UserError(
            f"{path}: a journal of {head.format} {head.version}; expected {FORMAT} {VERSION}"
        )
    if head.plan != plan.id:
        raise UserError(
            f"{path}: the journal of another plan, {head.plan}; expected that of {plan.id}"
        )
    known = {step.number for step in plan.steps}
    if strange := [entry.step for entry in entries if entry.step not in known]:
        raise UserError(f"{path}: it has a step {strange[0]}; the plan has {len(known)}")
    return {entry.step: entry for entry in entries}


def _sync(file: BinaryIO) -> None:
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
