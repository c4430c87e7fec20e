"""Traces of a live broker, in the tables that the simulator writes.

The recorder is a module of its broker: off, it costs nothing; on, it hears of every publication that was
routed. Times are seconds since the epoch, so that the traces of several brokers fit together: those that are
told the name of the same run each write a part of it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from roost.broker.commands import Record
from roost.broker.events import LoadIndices, ModuleSwitched
from roost.broker.module import Module, ModuleState, Visit
from roost.errors import UserError
from roost.runtime.shell import Shell
from roost.traces import About, TraceWriter
from roost.traces.rows import DeliveryRow, LinkRow, decision_row, load_row
from roost.traces.run import safe_name
from roost.wire import publication_bytes


def new_run(prefix: str) -> str:
    """A name that no run has, not even one that began a moment ago."""
    return f"{prefix}-{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"


class Recorder(Module):
    """Writes what the broker does."""

    name = "recorder"

    def __init__(self, broker: str, rows_a_group: int) -> None:
        self.trouble = ""  # why the last trace came to an end
        self._broker = broker
        self._rows_a_group = rows_a_group
        self._trace: TraceWriter | None = None
        # Of a publication, on average, in the period before.
        self._queueing_s = self._matching_s = 0.0

    @property
    def recording(self) -> bool:
        return self._trace is not None

    def begin(self, folder: Path, shell: Shell, run: str = "") -> str:
        """From now on, into this run, or one of its own; its name."""
        run = run or new_run(safe_name(self._broker))
        machine = shell.machine
        about = About(
            "live",
            config={**msgspec.to_builtins(machine.config), "neighbours": sorted(machine.links)},
            began=time.time(),
        )
        self._trace = TraceWriter(
            folder,
            run,
            part=self._broker,
            about=about,
            replace=False,
            rows_a_group=self._rows_a_group,
        )
        self.trouble = ""
        shell.handle(ModuleSwitched(self.name, ModuleState.OBSERVING.value))
        return run

    def end(self, shell: Shell | None = None) -> None:
        """No more: what was recorded is complete on the disk."""
        if self._trace is not None:
            if shell is not None:
                shell.handle(ModuleSwitched(self.name, ModuleState.OFF.value))
            trace, self._trace = self._trace, None
            with self._noticing():
                trace.close()

    @property
    def has_failed(self) -> bool:
        """It can't go on, and should be ended."""
        return self._trace is not None and bool(self.trouble)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """What goes wrong with a trace is no concern of the traffic."""
        try:
            yield
        except (OSError, UserError) as error:
            self.trouble = f"the trace has ended: {error}"

    # --- what happens -------------------------------------------------------------------------------

    def routed(self, visit: Visit, _: float) -> None:
        if self._trace is None or self.trouble:
            return
        publication, now = visit.publication, time.time()
        row = DeliveryRow(
            time=now,
            publisher=publication.publisher,
            sequence=publication.sequence,
            broker=self._broker,
            hop=visit.hops,
            local_subscribers=len(visit.matches),
            forwarded=len(visit.neighbours),
            bytes=len(publication_bytes(publication)),
            queueing_s=self._queueing_s,
            matching_s=self._matching_s,
            age_s=now - publication.published_at,
        )
        with self._noticing():
            self._trace.add("deliveries", row)

    def loaded(self, shell: Shell, load: LoadIndices) -> None:
        if self._trace is None or self.trouble:
            return
        now = time.time()
        self._queueing_s, self._matching_s = load.input_queueing_delay_s, load.matching_delay_s
        waits = load.link_queueing_delay_s
        with self._noticing():
            self._trace.add("loads", load_row(now, self._broker, load))
            for link in shell.machine.links.values():
                for name, lane in (("control", link.channel.control), ("data", link.channel.data)):
                    row = LinkRow(
                        time=now,
                        broker=self._broker,
                        neighbour=link.name,
                        class_=name,
                        sent=lane.sent,
                        received=lane.received,
                        waiting=len(lane.outbox),
                        queueing_s=waits.get(link.name, 0.0) if name == "data" else 0.0,
                    )
                    self._trace.add("links", row)

    def decided(self, record: Record) -> None:
        if self._trace is not None:
            with self._noticing():
                row = decision_row(time.time(), self._broker, record.decision)
                self._trace.add("decisions", row)
