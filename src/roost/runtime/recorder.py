"""Traces of a live broker, in the tables that the simulator writes (DESIGN.md, traces and the pipeline).

The recorder is a module of its broker: off, it costs nothing; on, it hears of every publication that was
routed. Times are seconds since the epoch, so that the traces of several brokers fit together.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from roost.broker.commands import Record
from roost.broker.events import LoadIndices, ModuleSwitched
from roost.broker.module import Module, ModuleState, Visit
from roost.runtime.shell import Shell
from roost.traces import TraceWriter, decision_row
from roost.wire import publication_bytes


class Recorder(Module):
    """Writes what the broker does."""

    name = "recorder"

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._trace: TraceWriter | None = None

    @property
    def recording(self) -> bool:
        return self._trace is not None

    def begin(self, folder: Path, shell: Shell) -> None:
        """From now on, into a run of its own."""
        if self._trace is None:
            run = f"{self._broker}-{time.strftime('%Y%m%dT%H%M%S')}-{shell.machine.incarnation[:4]}"
            self._trace = TraceWriter(folder, run)
            shell.handle(ModuleSwitched(self.name, ModuleState.OBSERVING.value))

    def end(self, shell: Shell | None = None) -> None:
        """No more: what was recorded is complete on the disk."""
        if self._trace is not None:
            if shell is not None:
                shell.handle(ModuleSwitched(self.name, ModuleState.OFF.value))
            self._trace.close()
            self._trace = None

    # --- what happens -------------------------------------------------------------------------------

    def routed(self, visit: Visit, _: float) -> None:
        if self._trace is None:
            return
        publication, now = visit.publication, time.time()
        self._trace.add(
            "deliveries",
            (
                now,
                publication.publisher,
                publication.sequence,
                self._broker,
                visit.hops,
                len(visit.matches),
                len(visit.neighbours),
                len(publication_bytes(publication)),
                0.0,
                0.0,
                now - publication.published_at,
            ),
        )

    def loaded(self, shell: Shell, load: LoadIndices) -> None:
        if self._trace is None:
            return
        now = time.time()
        self._trace.add("loads", (now, self._broker, *msgspec.structs.astuple(load)))
        for link in shell.machine.links.values():
            for name, lane in (("control", link.channel.control), ("data", link.channel.data)):
                row = (
                    now,
                    self._broker,
                    link.name,
                    name,
                    lane.sent,
                    lane.received,
                    len(lane.outbox),
                )
                self._trace.add("links", row)

    def decided(self, record: Record) -> None:
        if self._trace is not None:
            self._trace.add("decisions", decision_row(time.time(), self._broker, record.decision))
