"""Traces of a live broker, in the tables that the simulator writes.

The recorder is a module of its broker: off, it costs nothing; on, it hears of every publication that was
routed. Times are seconds since the epoch, so that the traces of several brokers fit together: those that are
told the name of the same run each write a part of it.

What it records is kept in segments (`traces.segments`), of which a broker that is killed loses the one that
is open. If it has a folder for its data, it notes there what it records, and goes on with that when it is
started again: until somebody turns it off, or it can't be written any more.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from roost.broker.commands import Record
from roost.broker.events import LoadIndices, ModuleSwitched
from roost.broker.module import Module, ModuleState, Visit
from roost.errors import UserError
from roost.runtime.shell import Shell
from roost.runtime.tables import TraceTable
from roost.traces import About
from roost.traces.rows import DeliveryRow, LinkRow, decision_row, load_row
from roost.traces.run import safe_name
from roost.traces.segments import SegmentWriter
from roost.wire import publication_bytes

# In the folder of the broker's data.
NOTE = "recording.json"


def new_run(prefix: str) -> str:
    """A name that no run has, not even one that began a moment ago."""
    return f"{prefix}-{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"


class Recording(Struct, frozen=True):
    """What is recorded: the note of a broker that may be killed."""

    folder: str
    run: str


class Recorder(Module):
    """Writes what the broker does."""

    name = "recorder"

    def __init__(self, broker: str, settings: TraceTable, data: str = "") -> None:
        self.trouble = ""  # why the last trace came to an end
        self._broker = broker
        self._settings = settings
        self._note = Path(data) / NOTE if data else None
        self._trace: SegmentWriter | None = None
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
        self._trace = SegmentWriter(
            folder,
            run,
            part=self._broker,
            now=time.monotonic(),
            about=about,
            segment_s=self._settings.segment_s,
            segment_rows=self._settings.segment_rows,
            rows_a_group=self._settings.rows_a_group,
        )
        self.trouble = ""
        self._keep(Recording(str(folder), run))
        shell.handle(ModuleSwitched(self.name, ModuleState.OBSERVING.value))
        return run

    def resume(self, shell: Shell, check: Callable[[str, str], Path]) -> None:
        """At the start: as the settings say, and else what was recorded when the broker ended.

        `check` says where a folder really is, or refuses it (see `trace_folders`).
        """
        before, settings = self._noted(), self._settings
        if settings.folder:
            same = before is not None and Path(settings.folder) == Path(before.folder)
            run = settings.run or (before.run if before is not None and same else "")
            self.begin(Path(settings.folder), shell, run)
        elif before is not None:
            with self._noticing():
                self.begin(check(before.folder, before.run), shell, before.run)

    def _keep(self, recording: Recording | None) -> None:
        if self._note is None:
            return
        with self._noticing():
            if recording is None:
                self._note.unlink(missing_ok=True)
            else:
                new = self._note.with_suffix(".new")
                new.write_bytes(msgspec.json.encode(recording))
                new.replace(self._note)

    def _noted(self) -> Recording | None:
        if self._note is None or not self._note.is_file():
            return None
        try:
            return msgspec.json.decode(self._note.read_bytes(), type=Recording)
        except (OSError, msgspec.DecodeError) as error:
            self.trouble = f"{self._note}: not what was recorded last: {error}"
            return None

    def end(self, shell: Shell | None = None) -> None:
        """No more: what was recorded is complete on the disk. Without a shell, until the next start."""
        if self._trace is not None:
            if shell is not None:
                self._keep(None)
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
        except (OSError, UserError, ValueError) as error:
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
            self._trace.look(time.monotonic())

    def decided(self, record: Record) -> None:
        if self._trace is not None:
            with self._noticing():
                row = decision_row(time.time(), self._broker, record.decision)
                self._trace.add("decisions", row)
