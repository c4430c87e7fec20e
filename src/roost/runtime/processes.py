"""Processes that outlive the one that started them: which one is meant, and how to end it.

The number of a process says little, because numbers come back. Together with the time at which it started, in
ticks since the boot, and that boot, it says all: no other process has these, so that no other is ever
signalled. Nor can the number change hands between looking and signalling: a handle (pidfd) is taken first.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

Ending = Literal["ended", "killed", "gone"]

ZOMBIE = "Z"
# A process that was killed is over as soon as the system comes round to it.
KILL_S = 10.0


class Process(Struct, frozen=True):
    """One process, of all that ever were on this machine."""

    pid: int
    start_ticks: int  # since the boot
    boot: str


def start(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Process:
    """A process on its own: without a terminal, and what it says goes to the end of the log.

    Its environment is ours, unless one is given.
    """
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    # Whoever reads a pipe of ours to its end should not have to wait for the end of that process.
    actions += [(os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()]
    # Not `subprocess`, which takes it for an error to forget a process that runs.
    variables = os.environ if environment is None else environment
    pid = os.posix_spawn(command[0], list(command), variables, file_actions=actions, setsid=True)
    return known(pid)


def known(pid: int) -> Process:
    """Which one it is that has this number now: a child that nobody has waited for, so that it is visible."""
    seen = _seen(pid)
    assert seen is not None
    return Process(pid, seen[1], _boot())


def is_alive(process: Process) -> bool:
    return process.boot == _boot() and _state(process) not in (None, ZOMBIE)


def exit_code(process: Process) -> int | None:
    """How a child of ours has ended, negative if by a signal; None while it runs. To be asked once."""
    pid, status = os.waitpid(process.pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


def end(processes: Sequence[Process], within_s: float) -> list[Ending]:
    """End all of them: politely, and after so long by force. `gone` are those that had ended before."""
    endings: dict[int, Ending] = {}
    with ExitStack() as closing:
        running: dict[int, int] = {}  # handle -> number in the list
        for number, process in enumerate(processes):
            handle = _handle(process)
            if handle is not None:
                closing.callback(os.close, handle)
                running[handle] = number
        steps: tuple[tuple[signal.Signals, Ending, float], ...] = (
            (signal.SIGTERM, "ended", within_s),
            (signal.SIGKILL, "killed", KILL_S),
        )
        for how, ending, patience_s in steps:
            for handle in running:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, how)
            for handle in _over(running, patience_s):
                endings[running.pop(handle)] = ending
        # What even that did not end hangs in the system, and will end when that lets go of it.
        endings.update(dict.fromkeys(running.values(), "killed"))
    for process in processes:
        if _state(process) == ZOMBIE:
            with suppress(ChildProcessError):  # of somebody else
                os.waitpid(process.pid, os.WNOHANG)
    return [endings.get(number, "gone") for number in range(len(processes))]


def _over(handles: Iterable[int], within_s: float) -> Iterator[int]:
    """The handles of processes that are over within this time."""
    poll, left = select.poll(), set(handles)
    for handle in left:
        poll.register(handle, select.POLLIN)
    deadline = time.monotonic() + within_s
    while left and (patience_s := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(1e3 * patience_s):
            poll.unregister(handle)
            left.discard(handle)
            yield handle


def _handle(process: Process) -> int | None:
    """For signals to this process and no other; None if it is over."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    if is_alive(process):
        return handle
    os.close(handle)
    return None


def _state(process: Process) -> str | None:
    """As `ps` names it; None if there is no such process any more."""
    seen = _seen(process.pid)
    return seen[0] if seen is not None and seen[1] == process.start_ticks else None


def _seen(pid: int) -> tuple[str, int] | None:
    """The state of whoever has this number now, and when it started."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name comes second, in parentheses, and may contain anything.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _inheritable() -> list[int]:
    """What a new process would have open, other than the usual three."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing itself, which is over
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found
