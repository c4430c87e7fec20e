"""What a simulated run leaves behind: the rows of its trace, in virtual time.

Of a publication the machine says where it went (`Module.tap`), and its host how long it waited and was
matched; the two make a row. What was not routed, because it came a second time or was refused, is a visit all
the same, without a source. What was routed later than it came, because it had to wait for something, has a
row when it is, and no times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.broker.commands import Record
from roost.broker.events import LoadIndices
from roost.broker.module import Module
from roost.traces import TraceWriter, decision_row
from roost.traces.interests import Interests
from roost.traces.rows import Names, Reached, event_row, load_row, measure_rows
from roost.traces.schemas import CONTENT
from roost.traces.visits import RawVisit, names_of, reached, source_of
from roost.wire import publication_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roost.broker.hops import Hop
    from roost.broker.messages import Frame, Publication
    from roost.simulation.host import Host, Life

NAME = "recorder"


class Tap(Module):
    """Hears what a machine routes."""

    name = NAME

    def __init__(self) -> None:
        super().__init__()
        self._routed: list[RawVisit] = []
        self.tap: Callable[..., None] = self._tapped

    def _tapped(
        self,
        source: Hop,
        publication: Publication,
        hops: int,
        links: Sequence[Hop],
        local: Sequence[Hop],
        now: float,  # noqa: ARG002
    ) -> None:
        matched = [hop.matched for hop in local]
        self._routed.append((source, publication, hops, links, local, matched))

    def take(self) -> list[RawVisit]:
        """What was routed since the last time."""
        taken = self._routed[:]
        self._routed.clear()
        return taken


class Recording:
    """The trace of a run."""

    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self._visits = trace.columns["deliveries"]
        self._taps: dict[str, Tap] = {}
        self._interests: dict[str, tuple[int, Interests]] = {}  # of each broker, in this life

    def tap(self, broker: str, modules: Sequence[Module]) -> Tap | None:
        """The module that listens for us, at a new host; and what others measure there is kept."""
        if not self._trace.ways:
            return None
        for module in modules:
            module.measured = []
        self._taps[broker] = tap = Tap()
        return tap

    def visited(
        self,
        life: Life,
        frame: Frame,
        publication: Publication,
        queueing_s: float,
        matching_s: float,
    ) -> None:
        """A broker has matched and routed a publication, or passed over it."""
        about = (publication.publisher, publication.sequence)
        routed: RawVisit | None = None
        for each in self._taps[life.name].take():
            if (each[1].publisher, each[1].sequence) == about:
                routed = each
            else:
                self._add(life, each[1], each[2], each)
        self._add(life, publication, frame.hops, routed, queueing_s, matching_s)

    def _add(
        self,
        life: Life,
        publication: Publication,
        hops: int,
        routed: RawVisit | None,
        queueing_s: float = 0.0,
        matching_s: float = 0.0,
    ) -> None:
        visits, now = self._visits, life.clock.now
        words, lists = visits.words, visits.lists
        source, from_client, traced = None, False, False
        neighbours: Names = ()
        clients: Reached = ()
        if routed is not None:
            hop, as_routed, _, links, local, matched = routed
            source, from_client, traced = source_of(hop), hop.is_session, as_routed.traced
            neighbours, clients = names_of(links), reached(local, matched)
            if from_client and CONTENT in self._trace.columns:
                self._trace.add(CONTENT, event_row(now, life.name, as_routed))
        visits.append(
            visits.pack(
                now,
                words[publication.publisher],
                publication.sequence,
                words[life.name],
                hops,
                len(clients),
                len(neighbours),
                len(publication.encoded or publication_bytes(publication)),
                queueing_s,
                matching_s,
                now - publication.published_at,
                words[source],
                from_client,
                lists["neighbours"][neighbours],
                lists["clients"][clients],
                traced,
                life.host.lives,
            )
        )

    def decided(self, host: Host, record: Record) -> None:
        now = host.world.clock.now
        self._trace.add("decisions", decision_row(now, host.name, record.decision))

    def sampled(self, host: Host, life: Life, load: LoadIndices) -> None:
        """A sample of the load of a machine; what else has come since the last one is written with it."""
        trace, now = self._trace, life.clock.now
        trace.add("loads", load_row(now, host.name, load))
        for row in life.link_rows(load):
            trace.add("links", row)
        if trace.ways:
            for routed in self._taps[host.name].take():
                self._add(life, routed[1], routed[2], routed)
            self._look(host, life)

    def _look(self, host: Host, life: Life) -> None:
        lives, interests = self._interests.get(host.name, (0, None))
        if interests is None or lives != host.lives:
            interests = Interests(host.name, host.lives)
            self._interests[host.name] = (host.lives, interests)
        for row in interests.changes(life.machine.sessions, life.clock.now):
            self._trace.add("interests", row)
        for module in host.modules:
            for measure in measure_rows(host.name, module):
                self._trace.add("measures", measure)

    def flush(self) -> None:
        """Rows that were added by hand."""
        self._trace.flush_if_full("deliveries")
