"""Traces of a live broker, in the tables that the simulator writes.

The recorder is a module of its broker: off, it costs nothing; on, it taps what is routed (`traces.visits`),
and a few times a second hands it over to a thread, which makes rows of it and writes them (`scribe`). Times
are seconds since the epoch,
so that the traces of several brokers fit together: those that are told the name of the same run each write a
part of it.

What it records is kept in segments (`traces.segments`), of which a broker that is killed loses the one that
is open. If it has a folder for its data, it notes there what it records, and goes on with that when it is
started again: until somebody turns it off, or it can't be written any more.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from roost.broker.commands import Record
from roost.broker.events import LoadIndices, ModuleSwitched
from roost.broker.hops import Hop, Link
from roost.broker.messages import Publication
from roost.broker.module import Module, ModuleState
from roost.errors import UserError
from roost.runtime.scribe import ThreadScribe
from roost.runtime.shell import Shell
from roost.runtime.tables import TraceTable
from roost.traces import About
from roost.traces.interests import Interests
from roost.traces.rows import (
    LinkRow,
    decision_row,
    event_row,
    link_counts,
    load_row,
    measure_rows,
)
from roost.traces.run import safe_name
from roost.traces.schemas import CONTENT
from roost.traces.segments import SegmentWriter
from roost.traces.visits import Read, Stretch, VisitLog

# In the folder of the broker's data.
NOTE = "recording.json"
# How often rows are made of what was routed; until then it is kept as it is.
DRAIN_S = 0.05


def new_run(prefix: str) -> str:
    """A name that no run has, not even one that began a moment ago."""
    return f"{prefix}-{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"


class Recording(Struct, frozen=True):
    """What is recorded: the note of a broker that may be killed."""

    folder: str
    run: str
    content: bool = False


class Recorder(Module):
    """Writes what the broker does."""

    name = "recorder"

    def __init__(self, broker: str, life: int, settings: TraceTable, data: str = "") -> None:
        self.trouble = ""  # why the last trace came to an end
        self._broker = broker
        self._settings = settings
        self._note = Path(data) / NOTE if data else None
        self._life = life
        self._trace: SegmentWriter | None = None
        self._scribe: ThreadScribe
        self._shell: Shell
        self._interests: Interests
        self._modules: Sequence[Module] = ()
        self._log = VisitLog()
        self._logged = 0  # so much of it is of earlier reads:
        self._reads: list[tuple[float, float, int]] = []
        self._published: list[Publication] = []  # if content is wanted
        self._links: set[str] = set()  # those of which there are rows
        self._drain_is_due = False
        self.tap: Callable[..., None] = self._log.tap
        self.tap_many = self._log.tap_many

    def hears_every(self, source: Hop, now: float) -> int:  # noqa: ARG002
        return 0

    @property
    def recording(self) -> bool:
        return self._trace is not None

    def watch(self, modules: Sequence[Module]) -> None:
        """The optimisers beside it, whose measures are recorded."""
        self._modules = modules

    def begin(self, folder: Path, shell: Shell, run: str = "", *, content: bool = False) -> str:
        """From now on, into this run, or one of its own; its name."""
        run = run or new_run(safe_name(self._broker))
        machine = shell.machine
        about = About(
            "live",
            config={**msgspec.to_builtins(machine.config), "neighbours": sorted(machine.links)},
            began=time.time(),
        )
        scribe = ThreadScribe()
        self._trace = SegmentWriter(
            folder,
            run,
            part=self._broker,
            now=time.monotonic(),
            about=about,
            life=self._life,
            content=content,
            scribe=scribe,
            segment_s=self._settings.segment_s,
            segment_rows=self._settings.segment_rows,
            rows_a_group=self._settings.rows_a_group,
        )
        self._scribe = scribe
        self.trouble = ""
        self._keep(Recording(str(folder), run, content))
        self._shell = shell
        self.tap = self._tapped if content else self._log.tap
        self.tap_many = None if content else self._log.tap_many
        self._interests = Interests(self._broker, self._life)
        for module in self._modules:
            module.measured = []
        shell.handle(ModuleSwitched(self.name, ModuleState.OBSERVING.value))
        shell.time_handling(self._handled)
        with self._noticing():
            self._look()
            self._links.clear()
            for link in machine.links.values():
                self._count(link)
        return run

    def resume(self, shell: Shell, check: Callable[[str, str], Path]) -> None:
        """At the start: as the settings say, and else what was recorded when the broker ended.

        `check` says where a folder really is, or refuses it (see `trace_folders`).
        """
        before, settings = self._noted(), self._settings
        if settings.folder:
            same = before is not None and Path(settings.folder) == Path(before.folder)
            run = settings.run or (before.run if before is not None and same else "")
            self.begin(Path(settings.folder), shell, run, content=settings.content)
        elif before is not None:
            with self._noticing():
                real = check(before.folder, before.run)
                self.begin(real, shell, before.run, content=before.content)

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
            self._shell.time_handling(None)
            for module in self._modules:
                module.measured = None
            self._drain()
            trace, self._trace = self._trace, None
            with self._noticing():
                trace.close()
            self._scribe.close()

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

    def _tapped(
        self,
        source: Hop,
        publication: Publication,
        hops: int,
        links: Sequence[Hop],
        local: Sequence[Hop],
        now: float,
    ) -> None:
        """The same with content, whose events are kept until rows are made."""
        self._log.tap(source, publication, hops, links, local, now)
        if source.is_session:
            self._published.append(publication)

    def _handled(self, began: float, ended: float) -> None:
        """The machine was at work; rows of what it has routed meanwhile are made before long."""
        count = len(self._log)
        if count == self._logged:
            return
        self._reads.append((began, ended, count - self._logged))
        self._logged = count
        self._log.pack_if_full()
        if not self._drain_is_due:
            self._drain_is_due = True
            self._shell.loop.call_later(DRAIN_S, self._drain)

    def _drain(self) -> None:
        """Rows of all that was routed."""
        self._drain_is_due = False
        reads, self._reads, self._logged = self._reads, [], 0
        published, self._published = self._published, []
        visits = self._log.take()
        if self._trace is None or self.trouble or not reads:
            return
        # From the clock of the loop to that of the world.
        since = time.time() - time.monotonic()
        trace = self._trace
        with self._noticing():
            timed = [Read(since + began, since + ended, count) for began, ended, count in reads]
            trace.visited(Stretch(visits, timed))
            for publication in published:
                trace.add(CONTENT, event_row(timed[0].began, self._broker, publication))

    def loaded(self, shell: Shell, load: LoadIndices) -> None:
        """A sample of the load; what else has come since the last one is written with it."""
        if self._trace is None or self.trouble:
            return
        trace = self._trace
        with self._noticing():
            trace.add("loads", load_row(time.time(), self._broker, load))
            for link in shell.machine.links.values():
                if link.name not in self._links:
                    self._count(link, before=True)
                self._count(link, load.link_queueing_delay_s.get(link.name, 0.0))
            self._look()
            self._drain()
            trace.look(time.monotonic())

    def _count(self, link: Link, waited_s: float = 0.0, *, before: bool = False) -> None:
        """Rows of `links`; the first ones are what later ones are compared with."""
        assert self._trace is not None
        self._links.add(link.name)
        for name, counts in link_counts(link, before=before):
            wait_s = waited_s if name == "data" else 0.0
            row = LinkRow(time.time(), self._broker, link.name, name, *counts, wait_s, self._life)
            self._trace.add("links", row)

    def _look(self) -> None:
        """What clients want and offer, and what optimisers have measured."""
        assert self._trace is not None
        for row in self._interests.changes(self._shell.machine.sessions, time.time()):
            self._trace.add("interests", row)
        since = time.time() - self._shell.loop.time()
        for module in self._modules:
            for measure in measure_rows(self._broker, module):
                self._trace.add("measures", measure._replace(time=since + measure.time))

    def decided(self, record: Record) -> None:
        if self._trace is not None:
            with self._noticing():
                row = decision_row(time.time(), self._broker, record.decision)
                self._trace.add("decisions", row)
