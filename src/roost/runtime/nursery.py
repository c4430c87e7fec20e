"""Brokers that are forked from one process which has everything loaded: `roost up` starts many in a second.

A broker that starts by itself reads Python, NumPy, Numba and its kernels, which takes a second and more and
some hundred megabytes, as much again for each. What is forked has all that from the one that was ready, and
shares its memory until either writes there. The collector would write everywhere, so it keeps off what is
there by then (`gc.freeze`).

The nursery (`nursery_process`) is told on standard input, a line each, of a settings file and a log, and
answers with the number of a process. It ends with its input. Its children are then those of whoever has
asked for that (Linux: *child subreaper*), as if that one had started them.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from roost.errors import UserError
from roost.runtime import broker_process, processes
from roost.runtime.processes import Process

READY = "ready"
# Of prctl: a process is called that, by `ps` and `top`; orphans of ours become children of this process.
SET_NAME, SET_CHILD_SUBREAPER = 15, 36


class Nursery:
    """The other end of it, for whoever wants brokers."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "roost.runtime.nursery_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for us
        )

    def wait_until_ready(self) -> None:
        """UserError if it can't be, after it has said why. The first of all compiles kernels."""
        if self._line() != READY:
            raise UserError("no broker can be started here; what was said above is why")

    def fork(self, config: Path, log: Path) -> Process:
        """A broker that lives on without us; what it says goes to the end of the log."""
        assert self._process.stdin is not None
        with undisturbed():  # or nobody would know of it
            self._process.stdin.write(json.dumps([str(config), str(log)]) + "\n")
            self._process.stdin.flush()
            answer = self._line()
            if not answer:
                raise UserError("the process that starts brokers has ended; try again")
            return processes.known(int(answer))

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def end(self) -> None:
        """Its children are ours from now on."""
        with adopting():
            self._process.communicate()


@contextmanager
def starting(count: int) -> Iterator[Callable[[Path, Path], Process]]:
    """How so many brokers are started, of their settings and logs: one by itself, several from a nursery."""
    if count == 1:
        yield broker_process.start
        return
    nursery = Nursery()
    try:
        nursery.wait_until_ready()
        yield nursery.fork
    finally:
        nursery.end()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that would end us wait for the end of it."""
    asked = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, asked)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def adopting() -> Iterator[None]:
    """Whoever loses its parent meanwhile, and has us among its forebears, becomes our child."""
    prctl(SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(SET_CHILD_SUBREAPER, 0)


def prctl(what: int, value: int | bytes) -> None:
    """The system's call of that name."""
    ctypes.CDLL(None).prctl(what, value, 0, 0, 0)
