"""GRAPE's retrieval of statistics: requests go out, answers come back in one piece (000 section 4.1).

    the publisher's broker   -> TIR to each neighbour that got a publication of the session
    a broker that is asked   -> TIR on to those that it sent one to; when all have answered, or at once if
                                there are none, TIA back, with its own statistics and theirs
    the publisher's broker   has the statistics of every broker that a publication of the session came to

A broker that does not answer in time leaves everybody above it without: their collections are dropped, and
the next session is another chance. A part of the tree would be taken for the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from roost.broker.events import LoadIndices
from roost.relocation.link_times import LinkTimes
from roost.relocation.notes import (
    TraceInformationAnswer,
    TraceInformationRequest,
    body_of,
)
from roost.relocation.sessions import TraceSession
from roost.relocation.statistics import Answer, Neighbour

if TYPE_CHECKING:
    from roost.broker.module import Surroundings

TIMER = "collect "


class Collection(Struct):
    """What has come so far."""

    session: TraceSession
    asked_at: float
    upstream: str | None  # who wants it; None: we do
    waiting: dict[str, None]
    answers: list[Answer]
    objection: str = ""


class Collecting:
    """The collections under way at a broker, by publisher."""

    def __init__(
        self,
        around: Surroundings,
        links: LinkTimes,
        count: int,
        timeout_s: float,
        collected: Callable[[str, Collection], None],
        measures: Callable[[float, str, str, float], None] = lambda *_: None,
    ) -> None:
        self._around = around
        self._links = links
        self._count = count
        self._timeout_s = timeout_s
        self._collected = collected  # all that is for ourselves
        self._measures = measures  # what an answer is made from, and no load index
        self._collections: dict[str, Collection] = {}

    def begin(self, publisher: str, session: TraceSession, now: float) -> None:
        """A session of a publisher here is over. Nothing is asked while an earlier one is still awaited.

        A request waits behind the publications in every queue. Where these are long, to ask again would
        be to never hear the end, just when a publisher had better go.
        """
        earlier = self._collections.get(publisher)
        if earlier is None or earlier.upstream is not None:  # which was for where it was then
            self._begin(publisher, session, None, now)

    def asked(
        self,
        neighbour: str,
        request: TraceInformationRequest,
        session: TraceSession | None,
        now: float,
    ) -> None:
        """A neighbour wants to know what became of a session; `session` is all that we know of it."""
        publisher, first = request.publisher, request.first
        if request.count != self._count:
            objection = (
                f"{self._around.broker} traces {self._count} publications a session,"
                f" {neighbour} {request.count}"
            )
            answer = TraceInformationAnswer(publisher, first, (), objection)
            self._around.tell(neighbour, body_of(answer), f"TIA of {publisher}")
            return
        if session is None:  # it has begun after the session
            session = TraceSession(first, neighbour, False, now, now, is_whole=False)
        self._begin(publisher, session, neighbour, now)

    def _begin(
        self, publisher: str, session: TraceSession, upstream: str | None, now: float
    ) -> None:
        neighbours = self._around.neighbours
        waiting = dict.fromkeys(n for n in session.neighbours if n in neighbours)
        own = self.answer_for(session)
        for each in own.neighbours:
            self._measures(now, "link", each.broker, each.latency_s)
        self._measures(now, "expected", "", self._around.expected_per_s())
        self._collections[publisher] = Collection(session, now, upstream, waiting, [own])
        request = TraceInformationRequest(publisher, session.first, self._count)
        for neighbour in waiting:
            self._around.tell(neighbour, body_of(request), f"TIR of {publisher}", behind=True)
        if waiting:
            self._around.set_timer(TIMER + publisher, self._timeout_s)
        else:
            self._finish(publisher)

    def answer_for(self, session: TraceSession) -> Answer:
        """What this broker has to say of a session, and of itself."""
        around = self._around
        load = around.load or NO_LOAD
        waits = load.link_queueing_delay_s
        return Answer(
            broker=around.broker,
            neighbours=tuple(
                Neighbour(
                    name,
                    waits.get(name, load.output_queueing_delay_s),
                    self._links.one_way_s(name),
                )
                for name in around.neighbours
            ),
            bits=session.bits.to_bytes(),
            deliveries=session.deliveries,
            input_queueing_s=load.input_queueing_delay_s,
            matching_s=load.matching_delay_s,
            output_queueing_s=load.client_queueing_delay_s,
            input_utilisation=load.input_utilisation
            + around.expected_per_s() * load.matching_delay_s,
            output_utilisation=load.output_utilisation,
            sending_s=load.output_utilisation / load.output_rate if load.output_rate else 0.0,
            address=around.address,
        )

    def answered(self, neighbour: str, answer: TraceInformationAnswer) -> None:
        """A neighbour has answered, for all behind it."""
        collection = self._collections.get(answer.publisher)
        if (
            collection is None
            or collection.session.first != answer.first
            or neighbour not in collection.waiting
        ):
            return  # it comes too late
        del collection.waiting[neighbour]
        collection.answers.extend(answer.answers)
        collection.objection = collection.objection or answer.objection
        if not collection.waiting:
            self._around.cancel_timer(TIMER + answer.publisher)
            self._finish(answer.publisher)

    def timed_out(self, name: str) -> bool:
        """Whether the timer was one of these; the collection is dropped."""
        if not name.startswith(TIMER):
            return False
        self._collections.pop(name.removeprefix(TIMER), None)
        return True

    def _finish(self, publisher: str) -> None:
        collection = self._collections.pop(publisher)
        if collection.upstream is None:
            self._collected(publisher, collection)
            return
        answers = () if collection.objection else tuple(collection.answers)
        answer = TraceInformationAnswer(
            publisher, collection.session.first, answers, collection.objection
        )
        self._around.tell(collection.upstream, body_of(answer), f"TIA of {publisher}")


NO_LOAD = LoadIndices(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
