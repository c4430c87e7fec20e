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

**The table** may be written by any dispatcher (see `handover`), and the last one holds. It only says whom
to fill and whom to ask: what makes an answer complete are promises.

**Clients that move** to another dispatcher have what they published here arrive everywhere first, and what
was on the way to them come: see `_hands_over`.

**What is held** has a bound (`held_max`). At it, whoever publishes is read no further, and so not
acknowledged, until half of it has gone.

**How it fares** it judges each second (`pulse`), and says in its figures what it wishes for: a matcher more,
or one less. Who provides them looks there (`provisioning`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from roost.broker.commands import Decision, Record, StoreKey
from roost.broker.config import BrokerConfig
from roost.broker.exchange import parts_of
from roost.broker.hops import Entry, Link, Session
from roost.broker.messages import (
    HANDED_OVER,
    Delivery,
    Frame,
    HandOver,
    Message,
    Publication,
    Settle,
    Settled,
)
from roost.broker.module import Module
from roost.broker.node import Listeners
from roost.broker.server import Costs
from roost.broker.station import Station
from roost.errors import UserError
from roost.partition import notes
from roost.partition.dimensions import point_of
from roost.partition.forwarding import POLICIES, choose
from roost.partition.handover import JOINS, first_table
from roost.partition.holding import Held, Holding
from roost.partition.matcher import NAME
from roost.partition.pulse import Pulse
from roost.partition.segments import Finder, Option, SegmentTable, regions_of, spare_options
from roost.partition.settings import DispatcherSettings, parse_dimensions
from roost.partition.shares import Shares
from roost.partition.sights import Sights
from roost.partition.steward import Steward

FLUSH = "flush"
RETRY = "retry"
PULL = "pull"
LOOK = "look"
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
        self._dimensions = parse_dimensions(settings.dimensions)
        self.shares = Shares(self._dimensions, self._fill)
        super().__init__(config, modules, settings)
        me = self.identity.name
        self._others = [name for name in settings.dispatcher_names if name != me]
        self.holding = Holding()
        self.sights = Sights(len(self._others) + 1)
        self.pulse = Pulse(settings.patience)
        self._policy = POLICIES[settings.policy]
        self._random = Random(me)
        self.steward = Steward(me, self._others, self._adopted)
        # Of each dispatcher, how much a matcher has to have heard of it.
        self._needs: dict[str, notes.Mark] = {}
        self._known: dict[str, notes.Mark] = {}  # what the others have of ours
        self._settles: dict[
            tuple[str, str], int
        ] = {}  # (session, id) -> the number that it waits for
        self._handing: dict[str, _HandingOver] = {}  # by session
        self._barriers: list[tuple[str, str, int]] = []  # (who asks, id, up to which event)
        self._kept_back: dict[int, Message] = {}  # between `clear` and `begin`
        self._asking: dict[str, list[notes.Ask]] = {}  # by matcher, until `handled`
        self._heard: dict[type, Callable[[Link, Any], None]] = {
            notes.Hello: self._hello,
            notes.Answers: self._answers,
            notes.Paces: lambda link, note: self.sights.report(
                link.name, note.paces, note.busy, self.now
            ),
            notes.Need: self._need,
            notes.Heard: self._is_heard,
            notes.Known: lambda link, note: self._steward(
                lambda: self.steward.known(link.name, (note.version, note.writer))
            ),
            notes.Tables: lambda _, note: self._steward(lambda: self.steward.adopt(note.table)),
            notes.Pull: lambda link, _: self._say(link, notes.Tables(self.steward.table)),
            notes.Join: self._joins,
            notes.Filled: self._filled,
            notes.Leave: lambda link, _: self._steward(
                lambda: self.steward.leave(link.name, self.sights.loads(), self._away())
            ),
            notes.Suspect: self._suspect,
            notes.Barrier: self._barrier,
            notes.Passed: self._passed,
        }

    # --- the beginning, and neighbours --------------------------------------------------------------

    def restored(self, records: Mapping[StoreKey, Any]) -> None:
        self.shares.epoch = f"{self.identity.in_this_life}.{self.identity.life}"
        self.holding.life = self.shares.epoch
        self._random = Random(self.shares.epoch)
        table = records.get(("table",))
        self.steward.table = (
            notes.decode_table(table)
            if table is not None
            else first_table(self._dimensions, self.settings.matcher_names, self.settings.stride)
        )
        self._finder = Finder(self.steward.table)
        self._needs[self.identity.name] = (self.shares.epoch, self.shares.number)
        for key, value in records.items():
            if key[0] == "needs":
                self._needs[str(key[1])] = (value[0], value[1])
            elif key[0] == "held":
                self._hold(value, None)
            elif key[0] == "settle":
                self._settles[str(key[1]), str(key[2])] = self.shares.number
            elif key[0] == "handing":
                self._handing[str(key[1])] = _HandingOver(f"{self.shares.epoch}/{key[1]}", value)
        self.set_timer(PULL, self.settings.pull_s * self._random.random())
        self.set_timer(LOOK, LOOK_S)
        if len(self.holding) or self._handing:
            self._later()

    def greeted(self, link: Link) -> None:
        if link.name in self._others:
            self._say(link, notes.Need(self._needs[self.identity.name]))
            self._say(link, notes.Tables(self.steward.table))
            self._say(link, notes.Known(*self.steward.table.stamp))
            for handing in self._handing.values():
                if handing.waits_for is not None:
                    self._say(link, notes.Barrier(handing.id))

    def begun(self, link: Link) -> None:
        self.shares.forget(link.name)  # it says hello, and is told all
        self.greeted(link)

    def lost(self, link: Link) -> None:
        for held in self.holding.given_up(link.name):
            self._ask(held)

    def removed(self, link: Link, cause: str) -> None:  # noqa: ARG002
        self.shares.forget(link.name)
        self.lost(link)

    def clear(self, link: Link, cause: str) -> None:
        # Of all that waits for a neighbour only publications would stay, and what goes to dispatchers are
        # deliveries: they are put back where they were.
        outbox = link.channel.data.outbox
        self._kept_back = {f.sequence: f.message for f in outbox if type(f.message) is Delivery}
        super().clear(link, cause)

    def begin(self, link: Link, cause: str, *, undelivered: bool, again: list[Frame]) -> None:
        data = link.channel.data
        for place, frame in enumerate(data.outbox):
            if frame.sequence in self._kept_back:
                data.replace(place, self._kept_back[frame.sequence])
        self._kept_back = {}
        super().begin(link, cause, undelivered=undelivered, again=again)

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
        self.shares.add(entry.id, entry.interest)
        self.set_timer(FLUSH, 0.0)

    def unsubscribed(self, entry: Entry) -> None:
        self.shares.remove(entry.id)
        self.set_timer(FLUSH, 0.0)

    def _fill(self, matcher: str, fill: notes.Fill) -> None:
        if matcher in self.links:
            self._say(self.links[matcher], fill)

    def _hello(self, link: Link, hello: notes.Hello) -> None:
        share = self.shares.shares.get(link.name)
        if share is None or share.life != hello.life:
            for held in self.holding.given_up(link.name):
                self._ask(held)
            self.sights.forget(link.name)
            self.shares.begin(link.name, hello.life, regions_of(self.steward.table, link.name))
        self._ask_again()

    def session_messages(self) -> Listeners:
        return {Settle: self._settle, HandOver: self._hands_over}

    def _settle(self, session: Session, message: Settle) -> None:
        """In place is what all dispatchers know that matchers have to know."""
        self.shares.flush()
        self._settles[session.name, message.id] = self.shares.number
        self.keep("settle", session.name, message.id, value=True)
        mark = self._needs[self.identity.name] = (self.shares.epoch, self.shares.number)
        for name in self._others:
            if name in self.links and not self._has(name, mark):
                self._say(self.links[name], notes.Need(mark))
        self._confirm()

    def _need(self, link: Link, need: notes.Need) -> None:
        epoch, number = need.mark
        self._needs[link.name] = (epoch, number)
        self.keep("needs", link.name, value=(epoch, number))
        self._say(link, notes.Heard(need.mark))
        self._ask_again()

    def _is_heard(self, link: Link, heard: notes.Heard) -> None:
        epoch, number = heard.mark
        self._known[link.name] = (epoch, number)
        self._confirm()

    def _confirm(self) -> None:
        """Whose subscriptions are in place now is told so."""
        for (name, id_), number in list(self._settles.items()):
            mark = (self.shares.epoch, number)
            if all(self._has(other, mark) for other in self._others):
                del self._settles[name, id_]
                self.keep("settle", name, id_, value=None)
                session = self.sessions.get(name)
                if session is not None and not session.ended:
                    self.tell(session, Settled(id_))

    def _has(self, other: str, mark: notes.Mark) -> bool:
        epoch, number = self._known.get(other, ("", -1))
        return epoch == mark[0] and number >= mark[1]

    # --- events -------------------------------------------------------------------------------------

    def from_session(self, session: Session, publication: Publication) -> None:
        self.keep("held", publication.publisher, publication.sequence, value=publication)
        self._ask(self._hold(publication, session))
        if len(self.holding) >= self.settings.held_max and session.connection is not None:
            self.pulse.is_full = True
            self.node.pausing.stop(session.connection)

    def _hold(self, publication: Publication, source: Session | None) -> Held:
        point = point_of(publication.event, self._dimensions)
        return self.holding.hold(publication, point, source, self.now)

    def _ask(self, held: Held) -> None:
        """Ask the best candidate that has not been asked; if there is none, later."""
        option = self._candidate(held)
        if option is None:
            held.tried.clear()
            self._later()
            return
        link = self.links[option.matcher]
        heard = self.shares.heard(option.matcher)
        request = self.holding.asking(held, option, heard)
        self.sights.sent(option, self.now)
        needs = {**self._needs, self.identity.name: (self.shares.epoch, heard)}
        attributes = held.publication.event.attributes
        ask = notes.Ask(request, option.key, held.point, attributes, needs)
        self._asking.setdefault(option.matcher, []).append(ask)
        lane = link.channel.data
        if held.source is not None and lane.sent - lane.acked >= self.config.link_outbox_max:
            self.node.pausing.block(held.source, link)

    def _candidate(self, held: Held) -> Option | None:
        if any(name not in self._needs for name in self._others):
            return None  # nobody knows what has to be known
        table = self.steward.table
        for find in (self._finder.options, partial(spare_options, table)):
            some = find(held.point)
            there = [o for o in some if o not in held.tried and self._is_there(o.matcher)]
            if there:
                sights = [self.sights.sight(option, self.now) for option in there]
                return there[choose(self._policy, sights, self._random.random)]
        return None

    def _is_there(self, matcher: str) -> bool:
        link = self.links.get(matcher)
        return link is not None and link.greeted and matcher in self.shares.shares

    def handled(self) -> None:
        """What came at once is asked about at once."""
        asking, self._asking = self._asking, {}
        for matcher, asks in asking.items():
            link = self.links.get(matcher)
            if link is not None:  # else they have been given up
                for part in notes.in_bulk(asks):
                    self._say(link, notes.Asks(part))

    def _answers(self, link: Link, answers: notes.Answers) -> None:
        for answer in answers.answers:
            if isinstance(answer, notes.Found):
                self._found(link, answer)
            else:
                self._bounced(link, answer)

    def _found(self, link: Link, found: notes.Found) -> None:  # noqa: ARG002
        held = self.holding.answered(found.request)
        if held is not None:
            held.found = found.matches
            self._release(held.publication.publisher)

    def _bounced(self, link: Link, bounced: notes.Bounced) -> None:  # noqa: ARG002
        held = self.holding.answered(bounced.request)
        if held is not None:
            self._ask(held)

    def _release(self, publisher: str) -> None:
        me = self.identity.name
        for held in self.holding.released(publisher):
            publication, found = held.publication, held.found or {}
            self.pulse.answered(self.now - held.at)
            self.keep("held", publication.publisher, publication.sequence, value=None)
            for name, ids in found.items():
                link = self.links.get(name)
                if name != me and link is not None:
                    for part in parts_of(ids, self.config.delivery_ids_bytes_max):
                        self.tell(link, Delivery(publication, part), 1)
            source = held.source if held.source is not None else self._anybody()
            if source is not None:
                here = self._receivers(publication, found.get(me, ()), held.heard)
                self.route(source, publication, 0, (), here)
        if self.node.pausing.stopped and len(self.holding) <= self.settings.held_max // 2:
            self.node.pausing.go_on()
        self._pass_barriers()

    def _anybody(self) -> Session | None:
        """Of an event that came in an earlier life, or whose client has left: nobody is held up by it."""
        return next(iter(self.sessions.values()), None)

    def _receivers(
        self, publication: Publication, ids: Sequence[str], heard: int = -1
    ) -> dict[Session, Sequence[str]]:
        """The clients of these subscriptions, as far as they are there.

        A subscription that has changed since the number that the matcher had `heard` of is looked at again.
        """
        found: dict[Session, list[str]] = {}
        entries, is_as_of, event = (
            self.clientele.subscriptions,
            self.shares.is_as_of,
            publication.event,
        )
        for id_ in ids:
            entry = entries.get(id_)
            if entry is not None and (is_as_of(id_, heard) or entry.interest.matches(event)):
                found.setdefault(entry.hop, []).append(id_)  # type: ignore[arg-type]
        return {session: tuple(its) for session, its in found.items()}

    def link_messages(self) -> Listeners:
        return {Delivery: self._delivered}

    def _delivered(self, link: Link, delivery: Delivery) -> None:
        publication = delivery.publication
        here = self._receivers(publication, delivery.subscriptions)
        self.route(link, publication, 1, (), here)

    # --- the table ----------------------------------------------------------------------------------

    def _steward(self, act: Callable[[], None]) -> None:
        """Have the table changed, and tell whom it concerns."""
        before = self.steward.table.stamp
        act()
        table = self.steward.table
        if table.stamp == before:
            return
        if table.writer == self.identity.name:
            for name in (*self._others, *table.matchers()):
                if name in self.links and name != self.identity.name:
                    self._say(self.links[name], notes.Tables(table))

    def _adopted(self, table: SegmentTable) -> None:
        self.keep("table", value=notes.encode_table(table))
        self.pulse.begin_anew()
        self._finder = Finder(table)
        for matcher in list(self.shares.shares):
            self.shares.promise(matcher, regions_of(table, matcher))
        for name in self._others:
            if name in self.links:
                self._say(self.links[name], notes.Known(*table.stamp))
        self._ask_again()

    def _joins(self, link: Link, _: notes.Join) -> None:
        join, loads, spans = JOINS[self.settings.join], self.sights.loads(), self.shares.spans_in
        self._steward(lambda: self.steward.join(link.name, join, loads, spans))
        self._say(link, notes.Tables(self.steward.table))

    def _filled(self, link: Link, filled: notes.Filled) -> None:
        if (filled.version, filled.writer) == self.steward.table.stamp:
            self._steward(lambda: self.steward.switch(link.name))

    def _suspect(self, link: Link, suspect: notes.Suspect) -> None:  # noqa: ARG002
        name = suspect.matcher
        there = self.links.get(name)
        if there is None or not there.greeted:  # else it is there, and gossip does not reach it
            self._steward(lambda: self.steward.leave(name, self.sights.loads(), self._away()))

    def _away(self) -> list[str]:
        return [n for n in self.steward.table.matchers() if not self._is_there(n)]

    # --- clients that move ----------------------------------------------------------------------------

    def _hands_over(self, session: Session, message: HandOver) -> None:
        """It ends when all that it published has arrived, and all that is on the way to it now has come."""
        if not session.leaving:
            session.leaving = True
            self._handing[session.name] = _HandingOver(
                f"{self.shares.epoch}/{session.name}", message.cause
            )
            self.keep("handing", session.name, value=message.cause)
            self._pass_barriers()

    def _pass_barriers(self) -> None:
        """Those whose events have been let go are told so, behind them."""
        left = []
        for name, id_, number in self._barriers:
            if not self.holding.has_passed(number):
                left.append((name, id_, number))
            elif name in self.links:
                self._say(self.links[name], notes.Passed(id_))
        self._barriers = left
        for name, handing in list(self._handing.items()):
            if handing.number is None:
                handing.number = self.holding.newest
            if handing.waits_for is None and self.holding.has_passed(handing.number):
                handing.waits_for = dict.fromkeys(self._others)
                for other in self._others:
                    if other in self.links:
                        self._say(self.links[other], notes.Barrier(handing.id))
            if handing.waits_for is not None and not handing.waits_for:
                self._handed_over(name, handing)

    def _barrier(self, link: Link, barrier: notes.Barrier) -> None:
        """It came behind all events from there; what is held here now is told of behind it."""
        self._barriers.append((link.name, barrier.id, self.holding.newest))
        self._pass_barriers()

    def _passed(self, link: Link, passed: notes.Passed) -> None:
        for handing in self._handing.values():
            if handing.id == passed.id and handing.waits_for is not None:
                handing.waits_for.pop(link.name, None)
        self._pass_barriers()

    def _handed_over(self, name: str, handing: _HandingOver) -> None:
        del self._handing[name]
        self.keep("handing", name, value=None)
        session = self.sessions.get(name)
        if session is not None and not session.ended:
            self.node.hosted.mark_ending(session, handing.cause)
            self.node.hosted.say_ended(session, HANDED_OVER)

    # --- time ---------------------------------------------------------------------------------------

    def timer(self, name: str) -> None:
        if name == FLUSH:
            self.shares.flush()
        elif name == RETRY:
            self._ask_again()
            self._pass_barriers()
        elif name == PULL:
            self.set_timer(PULL, self.settings.pull_s)
            there = [n for n in self.steward.table.matchers() if self._is_there(n)]
            if there:
                chosen = there[int(self._random.random() * len(there))]
                self._say(self.links[chosen], notes.Pull())
        elif name == LOOK:
            self.set_timer(LOOK, LOOK_S)
            self._look()

    def _later(self) -> None:
        self.set_timer(RETRY, self.settings.retry_s)

    def _ask_again(self) -> None:
        for held in self.holding.waiting():
            self._ask(held)

    def _look(self) -> None:
        """Whether a matcher more, or one less, would do good; a new wish leaves a record."""
        pulse, before = self.pulse, self.pulse.wish
        busy = self.sights.busy(self.steward.table.matchers())
        wish = pulse.look(self.holding.waits_s(self.now), busy)
        if wish and wish != before:
            decision = Decision(
                module=NAME,
                kind="elasticity",
                subject=pulse.spare if wish == "fewer" else "",
                choice=f"{wish} matchers",
                acted=False,  # it asks
                evidence={"held": len(self.holding), "busy": busy, "response_s": pulse.times_s},
                predicted={},
                cause=f"{self.identity.name}: {LOOK}",
            )
            self._work.command(Record(decision))

    # --- operators ----------------------------------------------------------------------------------

    def figures(self) -> Mapping[str, Any]:
        table = self.steward.table
        return {
            **super().figures(),
            "held": len(self.holding),
            "held_max": self.settings.held_max,
            "stopped": len(self.node.pausing.stopped),
            "unanswerable": len(self.holding.waiting()),
            "table": table.version,
            "matchers": table.matchers(),
            "settled": not any(s.heir or s.former for row in table.segments for s in row),
            "response_s": self.pulse.last_s,
            "wish": self.pulse.wish,
            "spare": self.pulse.spare,
        }

    def unfinished(self) -> Sequence[str]:
        words = [f"{len(self.holding)} events are held"] if len(self.holding) else []
        if self._settles:
            words.append(f"{len(self._settles)} clients wait for their subscriptions")
        if self._handing:
            words.append(f"{len(self._handing)} clients are on their way to another dispatcher")
        return words


class _HandingOver:
    """A client that leaves for another dispatcher."""

    __slots__ = ("cause", "id", "number", "waits_for")

    def __init__(self, id_: str, cause: str) -> None:
        self.id = id_
        self.cause = cause
        self.number: int | None = None  # the last event that was accepted by then
        self.waits_for: dict[str, None] | None = None  # dispatchers; None: events are held here
