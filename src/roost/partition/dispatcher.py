"""A dispatcher: clients attach to it, and it has matchers find out whom their events are for (004 section
II.B).

**Events.** What a client publishes is accepted and held (`holding`) until a matcher has said which
subscriptions it matches; then it goes, in the publisher's order, to the dispatchers whose clients those
are. With a store an event and its acceptance are one transaction, and so are its end here and what is said
to other dispatchers: nothing is lost or doubled, whoever crashes.

**Subscriptions** of its own clients are its to keep; matchers hold copies (`shares`). One is *in place*
when every other dispatcher knows how much whoever matches for it has to have heard (`Need`), and says so in
each question: a matcher that has heard less does not answer. So nobody has to wait for matchers that are
slow, cut off or gone.

**Order** is what events are held for. With `delivery=direct` matchers deliver, as in the paper, and nobody
waits for it: see `direct`.

**The table** may be written by any dispatcher (see `handover`), and the last one holds. It only says whom
to fill and whom to ask: what makes an answer complete are promises.

**Clients that move** to another dispatcher have what they published here arrive everywhere first, and what
was on the way to them come: see `departures`.

**What is held** has a bound (`held_max`). At it, whoever publishes is read no further, and so not
acknowledged, until half of it has gone.

**How it fares** it judges each second (`pulse`), and says in its figures what it wishes for: a matcher more,
or one less. Who provides them looks there (`provisioning`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from roost.broker import events as ev
from roost.broker.commands import Answered, Record, StoreKey
from roost.broker.config import BrokerConfig
from roost.broker.exchange import parts_of
from roost.broker.hops import Entry, Link, Session
from roost.broker.messages import (
    HANDED_OVER,
    Delivery,
    HandOver,
    Publication,
    Settle,
    Settled,
)
from roost.broker.module import Module
from roost.broker.node import Listeners
from roost.broker.server import Costs
from roost.broker.station import Station
from roost.errors import UserError
from roost.partition import bundles, notes
from roost.partition.asking import Asking
from roost.partition.attributes import DimensionStep
from roost.partition.bundles import Bundles, Parting
from roost.partition.candidates import Candidates
from roost.partition.curator import SAMPLE, Curator, operators_step
from roost.partition.decisions import reshaped, wished
from roost.partition.departures import Departures
from roost.partition.direct import DELIVERIES, DIRECT, Arrivals
from roost.partition.forwarding import POLICIES
from roost.partition.handover import JOINS, first_table
from roost.partition.holding import Held, Holding
from roost.partition.matcher import NAME
from roost.partition.needs import Needs
from roost.partition.patches import Patch
from roost.partition.pulse import Pulse
from roost.partition.roster import Answer, Roster
from roost.partition.segments import SegmentTable, regions_of
from roost.partition.settings import DispatcherSettings, parse_dimensions
from roost.partition.shares import Shares
from roost.partition.sights import Sights
from roost.partition.steward import Steward

FLUSH = "flush"
RETRY = "retry"
PULL = "pull"
LOOK = "look"
CHOOSE = "choose"
EVEN = "even"
LOOK_S = 1.0


class Dispatcher(Station):
    """One of the front end."""

    name = NAME
    Config = DispatcherSettings
    takes_subscriptions = True
    # In the laboratory: it looks nothing up in the table of its clients, which matchers do for it. A
    # hundredth of a millisecond at 1,000 MHz, two orders below what matching takes in the experiments (004
    # section IV.B).
    costs = Costs(publication_s_mhz=0.01, entry_s_mhz=0.0)

    def __init__(
        self, config: BrokerConfig, modules: Sequence[Module], settings: DispatcherSettings
    ) -> None:
        if settings.policy not in POLICIES:
            raise UserError(f"policy {settings.policy!r}; expected one of {', '.join(POLICIES)}")
        if settings.join not in JOINS:
            raise UserError(f"join {settings.join!r}; expected one of {', '.join(JOINS)}")
        if settings.delivery not in DELIVERIES:
            raise UserError(
                f"delivery {settings.delivery!r}; expected one of {', '.join(DELIVERIES)}"
            )
        # What the first dispatcher that is there does, and how often.
        self._by_the_first = {CHOOSE: settings.choose_s, EVEN: settings.even_s}
        self._direct = settings.delivery == DIRECT
        self._arrivals = Arrivals()
        self._given_up = 0  # events whose matcher was lost: only if they are delivered directly
        self._dimensions = parse_dimensions(settings.dimensions)  # that it begins with
        self.shares = Shares(self._dimensions, self._fill)
        self.curator = Curator(settings.dimensions_max)
        super().__init__(config, modules, settings)
        self.roster = Roster(self.clientele.subscriptions)
        self.bundles = Bundles(self.roster, self._work, config, self.deliver)
        me = self.identity.name
        self.space = next((s for s, names in settings.spaces.items() if me in names), "")
        its = settings.spaces.get(self.space, [])
        if len(settings.spaces) > 1:
            raise UserError(f"{me}: dispatchers of {len(settings.spaces)} spaces; expected its own")
        self._others = [name for name in its if name != me]
        self.holding = Holding()
        self.sights = Sights(len(self._others) + 1)
        self.pulse = Pulse(settings.patience)
        self._random = Random(me)
        self.candidates = Candidates(
            settings.policy, self.sights, self._is_there, self._random.random
        )
        self.steward = Steward(
            me,
            self._others,
            self.links,
            self._say,
            adopted=self._adopted,
            is_there=self._is_there,
            sights=self.sights,
            spans=self.shares.spans_in,
            join=settings.join,
        )
        self.needs = Needs(me, self._others, self.links, self._say, self.keep, self._settled)
        self.departures = Departures(
            self.holding, self._others, self.links, self._say, self.keep, self._handed_over
        )
        self.asking = Asking(
            me,
            self.holding,
            self.candidates,
            self.shares,
            self.needs,
            self.links,
            self.node.pausing,
            say=self._say,
            later=self._later,
            link_outbox_max=config.link_outbox_max,
            direct=self._direct,
        )
        self._handlers[ev.Asked] = self._asked_by_operator
        self._heard: dict[type, Callable[[Link, Any], None]] = {
            notes.Hello: self._hello,
            notes.Found: self._found,
            notes.Bounced: self._bounced,
            notes.Paces: lambda link, note: self.sights.report(
                link.name, note.paces, note.busy, self.now
            ),
            notes.Need: self._need,
            notes.Heard: self.needs.heard,
            notes.Known: self.steward.knows,
            notes.Tables: self.steward.shown,
            Patch: self.steward.patched,
            notes.Pull: self.steward.shows,
            notes.Join: self.steward.joins,
            notes.Filled: self.steward.filled,
            notes.Leave: self.steward.leaves,
            notes.Suspect: self.steward.suspected,
            notes.Barrier: self.departures.barrier,
            notes.Passed: self.departures.passed,
        }

    # --- the beginning, and neighbours --------------------------------------------------------------

    def restored(self, records: Mapping[StoreKey, Any]) -> None:
        bundles.warm_up()
        self.shares.epoch = f"{self.identity.in_this_life}.{self.identity.life}"
        self.holding.life = self._arrivals.life = self.shares.epoch
        self._random.seed(self.shares.epoch)
        table = records.get(("table",))
        self.steward.table = (
            notes.decode_table(table)
            if table is not None
            else first_table(self._dimensions, self.settings.matcher_names, self.settings.stride)
        )
        self.candidates.adopt(self.steward.table)
        self.shares.adopt(self.steward.table.dimensions)
        self.needs.begin(self.shares.epoch, self.shares.number)
        for key, value in records.items():
            if key[0] == "needs":
                self.needs.restore(str(key[1]), value)
            elif key[0] == "held":
                self.holding.hold(value, None, self.now)
            elif key[0] == "settle":
                self.needs.restore_waiting(str(key[1]), str(key[2]), self.shares.number)
            elif key[0] == "handing":
                self.departures.restore(str(key[1]), value)
        self.set_timer(PULL, self.settings.pull_s * self._random.random())
        self.set_timer(LOOK, LOOK_S)
        for name, every_s in self._by_the_first.items():
            if every_s > 0:
                self.set_timer(name, every_s)
        if len(self.holding) or len(self.departures):
            self._later()

    def greeted(self, link: Link) -> None:
        if link.name in self._others:
            self.needs.greeted(link)
            self.steward.greeted(link)
            self.departures.greeted(link)

    def begun(self, link: Link) -> None:
        self.shares.forget(link.name)  # it says hello, and is told all
        self.greeted(link)

    def lost(self, link: Link) -> None:
        if not self._direct:  # else it may have delivered, or does when it is back
            self._give_up(link.name)

    def removed(self, link: Link, cause: str) -> None:  # noqa: ARG002
        self.shares.forget(link.name)
        self._give_up(link.name)

    def _give_up(self, matcher: str) -> None:
        """It will not answer any more: somebody else is asked, unless it may have delivered."""
        given_up = self.holding.given_up(matcher)
        if self._direct:
            self._given_up += len(given_up)
            for held in given_up:
                self.holding.let_go(held)
            self._go_on_reading()
        else:
            self.asking.add(given_up)

    def told(self, link: Link, body: bytes) -> None:
        note = notes.decode(body)
        listener = self._heard.get(type(note))
        if listener is not None:
            listener(link, note)

    def _say(self, link: Link, said: notes.Said) -> None:
        behind = isinstance(said, notes.BEHIND)
        cause = f"{self.identity.name}: {type(said).__name__.lower()}"
        self.note(link, notes.encode(said), cause=cause, behind=behind)

    # --- subscriptions ------------------------------------------------------------------------------

    def subscribed(self, entry: Entry) -> None:
        slot = self.roster.add(entry, self.shares.number + 1)
        self.shares.add(entry.id, entry.interest, slot)
        self.set_timer(FLUSH, 0.0)

    def unsubscribed(self, entry: Entry) -> None:
        self.roster.remove(entry, self.shares.number + 1)
        self.shares.remove(entry.id)
        self.set_timer(FLUSH, 0.0)

    def _fill(self, matcher: str, fill: notes.Fill) -> None:
        if matcher in self.links:
            self._say(self.links[matcher], fill)

    def _hello(self, link: Link, hello: notes.Hello) -> None:
        share = self.shares.shares.get(link.name)
        if share is None or share.life != hello.life:
            self._give_up(link.name)
            self.sights.forget(link.name)
            self.shares.begin(link.name, hello.life, regions_of(self.steward.table, link.name))
        self.asking.again()

    def session_messages(self) -> Listeners:
        return {
            Settle: self._settle,
            HandOver: lambda session, message: self.departures.begin(session, message.cause),
        }

    def _settle(self, session: Session, message: Settle) -> None:
        self.shares.flush()
        self.needs.settle(session.name, message.id, self.shares.number)

    def _settled(self, name: str, id_: str) -> None:
        session = self.sessions.get(name)
        if session is not None and not session.ended:
            self.tell(session, Settled(id_))

    def _need(self, link: Link, need: notes.Need) -> None:
        self.needs.need(link, need)
        self.asking.again()

    # --- events -------------------------------------------------------------------------------------

    def from_session(self, session: Session, publication: Publication) -> None:
        if not self._direct:
            self.keep("held", publication.publisher, publication.sequence, value=publication)
        self.asking.add((self.holding.hold(publication, session, self.now),))
        if len(self.holding) >= self.settings.held_max and session.connection is not None:
            self.pulse.is_full = True
            self.node.pausing.stop(session.connection)

    def handled(self) -> None:
        """What came at once is asked about at once, with all that has been subscribed to here by then."""
        for some in self.asking.put(self.now):
            if self.settings.choose_s > 0:
                self.curator.note([held.publication.event for held in some])

    def _is_there(self, matcher: str) -> bool:
        link = self.links.get(matcher)
        return link is not None and link.greeted and matcher in self.shares.shares

    def _found(self, link: Link, found: notes.Found) -> None:  # noqa: ARG002
        if found.life != self.holding.life:
            return
        question, some = self.holding.answered(found.request, found.rows)
        if question is None:
            return
        answer = Answer(found, question.heard)
        if self._direct:
            self._came([(held, place) for place, held in enumerate(some) if held], answer)
            return
        publishers: dict[str, None] = {}
        for place, held in enumerate(some):
            if held is not None:
                held.found, held.place = answer, place
                publishers[held.publication.publisher] = None
        for publisher in publishers:
            self._release(publisher)

    def _bounced(self, link: Link, bounced: notes.Bounced) -> None:  # noqa: ARG002
        if bounced.life == self.holding.life:
            question, some = self.holding.answered(bounced.request, bounced.rows)
            for held in some:
                if held is not None and question is not None:
                    held.tried = (*held.tried, question.option)
                    self.asking.add((held,))

    def _came(self, some: Sequence[tuple[Held, int]], answer: Answer) -> None:
        """A matcher has delivered these to others, and says whom here they are for."""
        took_s, anybody = 0.0, self._anybody()
        for held, place in some:
            took_s += self.now - held.at
            self.holding.let_go(held)
            source = held.source if held.source is not None else anybody
            here = self.roster.receivers(answer, place, held.publication.event)
            if source is not None:
                named = self._arrivals.named(held.publication) if here else held.publication
                self.route(source, named, 0, (), here)
        self.pulse.answered(len(some), took_s)
        self._go_on_reading()
        self.departures.go_on()

    def _release(self, publisher: str) -> None:
        durable, now = self._work.journal is not None, self.now
        count, took_s = 0, 0.0
        anybody = self._anybody()
        at_once: list[Parting] = []
        one_by_one = durable or self._listening
        for held in self.holding.released(publisher):
            publication, answer = held.publication, held.found
            assert answer is not None
            count += 1
            took_s += now - held.at
            if durable:
                self.keep("held", publication.publisher, publication.sequence, value=None)
            if answer.others:
                self._pass_on(publication, answer.ids_elsewhere(held.place))
            source = held.source if held.source is not None else anybody
            if source is None:
                continue
            if one_by_one:
                here = self.roster.receivers(answer, held.place, publication.event)
                self.route(source, publication, 0, (), here)
            else:
                at_once.append(Parting(publication, answer, held.place))
        self.bundles.let_go(at_once)
        self.traffic.routed += len(at_once)
        self.pulse.answered(count, took_s)
        self._go_on_reading()
        self.departures.go_on()

    def _go_on_reading(self) -> None:
        if self.node.pausing.stopped and len(self.holding) <= self.settings.held_max // 2:
            self.node.pausing.go_on()

    def _pass_on(
        self, publication: Publication, elsewhere: Sequence[tuple[str, tuple[str, ...]]]
    ) -> None:
        """To the dispatchers whose clients it is for."""
        for name, ids in elsewhere:
            link = self.links.get(name)
            if link is not None:
                for part in parts_of(ids, self.config.delivery_ids_bytes_max):
                    self.tell(link, Delivery(publication, part), 1)

    def _anybody(self) -> Session | None:
        """Of an event that came in an earlier life, or whose client has left: nobody is held up by it."""
        return next(iter(self.sessions.values()), None)

    def link_messages(self) -> Listeners:
        return {Delivery: self._delivered}

    def _delivered(self, link: Link, delivery: Delivery) -> None:
        """From another dispatcher, or a matcher. What it is for is looked at again: it may have changed."""
        publication, wanted = delivery.publication, set(delivery.subscriptions)
        here = {}
        for session, ids in self.clientele.match(publication.event).items():
            if its := tuple(id_ for id_ in ids if id_ in wanted):
                here[session] = its
        if self._direct and here:
            publication = self._arrivals.named(publication)
        self.route(link, publication, 1, (), here)

    # --- the table ----------------------------------------------------------------------------------

    def _adopted(self, table: SegmentTable) -> None:
        self.keep("table", value=notes.encode_table(table))
        self.pulse.begin_anew()
        self.candidates.adopt(table)
        self.shares.adopt(table.dimensions)
        members = table.matchers()
        for matcher in list(self.shares.shares):
            self.shares.promise(matcher, regions_of(table, matcher))
            if self._direct and matcher not in members and not self._is_there(matcher):
                self._give_up(matcher)
        self.asking.again()

    # --- clients that move ----------------------------------------------------------------------------

    def _handed_over(self, name: str, cause: str) -> None:
        session = self.sessions.get(name)
        if session is not None and not session.ended:
            self.node.hosted.mark_ending(session, cause)
            self.node.hosted.say_ended(session, HANDED_OVER)

    # --- time ---------------------------------------------------------------------------------------

    def timer(self, name: str) -> None:
        if name == FLUSH:
            self.shares.flush()
        elif name == RETRY:
            self.asking.again()
            self.departures.go_on()
        elif name == PULL:
            self.set_timer(PULL, self.settings.pull_s)
            there = self.steward.there()
            if there:
                chosen = there[int(self._random.random() * len(there))]
                self._say(self.links[chosen], notes.Pull(self.steward.table.stamp))
        elif name == LOOK:
            self.set_timer(LOOK, LOOK_S)
            self._look()
        elif name in self._by_the_first:
            self.set_timer(name, self._by_the_first[name])
            before = [other for other in self._others if other < self.identity.name]
            if not any(other in self.links and self.links[other].greeted for other in before):
                self._choose() if name == CHOOSE else self.steward.even_out()

    def _later(self) -> None:
        self.set_timer(RETRY, self.settings.retry_s)

    def _choose(self) -> None:
        """Whether another dimension would do good, or one less."""
        step = self.curator.step(self.steward.table, self.shares.sample(SAMPLE))
        if step is not None:
            self._reshape(step)

    def _reshape(self, step: DimensionStep) -> bool:
        done = self.steward.reshape(step)
        if done:
            self._work.command(Record(reshaped(self.identity.name, step)))
        return done

    def _look(self) -> None:
        """Whether a matcher more, or one less, would do good; a new wish leaves a record."""
        pulse, before = self.pulse, self.pulse.wish
        busy = self.sights.busy(self.steward.table.matchers())
        wish = pulse.look(self.holding.waits_s(self.now), busy)
        if wish and wish != before:
            decision = wished(self.identity.name, pulse, len(self.holding), busy)
            self._work.command(Record(decision))

    # --- operators ----------------------------------------------------------------------------------

    def _asked_by_operator(self, event: ev.Asked) -> None:
        """`dimension` with `come=NAME:LOW:HIGH` or `go=NAME`: it does, if it can now."""
        answers: dict[str, Any] = {}
        if event.request == "dimension":
            try:
                step = operators_step(event.arguments)
                answers = {NAME: {"done": self._reshape(step)}}
            except UserError as error:
                answers = {NAME: {"error": str(error)}}
        self._work.command(Answered(event.id, answers, {}))

    def figures(self) -> Mapping[str, Any]:
        table = self.steward.table
        return {
            **super().figures(),
            "held": len(self.holding),
            "held_max": self.settings.held_max,
            "stopped": len(self.node.pausing.stopped),
            "unanswerable": len(self.holding.waiting()),
            "space": self.space,
            "delivery": self.settings.delivery,
            "given_up": self._given_up,
            "table": table.version,
            "matchers": table.matchers(),
            "settled": table.settled,
            "dimensions": [table.dimensions[place].attribute for place in table.live],
            "response_s": self.pulse.last_s,
            "wish": self.pulse.wish,
            "spare": self.pulse.spare,
        }

    def unfinished(self) -> Sequence[str]:
        words = [f"{len(self.holding)} events are held"] if len(self.holding) else []
        if len(self.needs):
            words.append(f"{len(self.needs)} clients wait for their subscriptions")
        if len(self.departures):
            words.append(f"{len(self.departures)} clients are on their way to another dispatcher")
        return words
