"""The broker: `handle(event, now) -> commands`.

A broker is a *node*, which talks to neighbours and clients; a *router*, which says where events go and who
has to be told what for that; and *modules*, which watch and rearrange. Here the parts are put together, each
with what it uses of the others, and what happens is given to whoever it concerns:

    events     connections, parcels, timers                 node
               links, sessions, redirections of an operator node, requests, rewirings
               load, modules                                modules
    messages   of neighbours                                router, draining, migrating, absence, membership,
                                                            rewirings
               of clients                                   requests, migrating

Publications take the exchange, from wherever they come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roost.broker import events as ev
from roost.broker import restoring
from roost.broker.absence import TIMER as ABSENCE
from roost.broker.absence import Absence
from roost.broker.advertisements import AdvertisementBased
from roost.broker.arbiter import Arbiter
from roost.broker.commands import Command, Report
from roost.broker.config import BrokerConfig
from roost.broker.draining import Draining
from roost.broker.exchange import Exchange
from roost.broker.federation import Federation
from roost.broker.hops import Entry, Hop, Link, Session
from roost.broker.machine import Happening
from roost.broker.membership import MEMBERS, Membership
from roost.broker.messages import (
    ASKS_BACK,
    Advertise,
    Answer,
    Arrived,
    Done,
    DrainEcho,
    EndSession,
    HandOver,
    Inquiry,
    Marker,
    MarkerEcho,
    Members,
    Migrate,
    MigrationComplete,
    MigrationFailed,
    MigrationUpdate,
    Note,
    Paused,
    Probed,
    Publication,
    Rewire,
    Settle,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wants,
)
from roost.broker.migrating import Migrating
from roost.broker.module import Module, ModuleState
from roost.broker.module_host import Premises
from roost.broker.modules import Modules
from roost.broker.names import Address
from roost.broker.node import Listeners, Node
from roost.broker.requests import Requests
from roost.broker.rewiring.party import Ground
from roost.broker.rewiring.plan import TIMER as REWIRE
from roost.broker.rewiring.rewirings import Rewirings
from roost.broker.router import ROUTER, Flooding
from roost.broker.routers import router_of
from roost.broker.server import Costs


class Broker:
    """One broker of a federation: a `Server`."""

    costs = Costs()

    def __init__(self, config: BrokerConfig, modules: Sequence[Module] = ()) -> None:
        self.config = config
        self.node = node = Node(config)
        work, links, sessions, tell = node.work, node.links, node.sessions, node.flow.tell
        self.identity, self.links, self.sessions = node.identity, links, sessions
        self.router: Flooding = router_of(config.routing)(
            links,
            tell,
            work.journal,
            stranded=self._stranded,
            announced=self._announced,
        )
        self.migrating: Migrating | None = None
        if isinstance(self.router, AdvertisementBased):
            self.migrating = Migrating(
                config.broker, self.router, tell, locked=lambda: self.rewirings.now is not None
            )
        self.draining = Draining(
            links,
            node.identity,
            tell,
            self._drained,
            work.journal,
            self.router.passes,
        )
        self.absence = Absence(
            node.identity,
            links,
            tell=tell,
            command=work.command,
            greedy=self._set_greedy,
            answered=self.router.answered,
            excused=self._excused,
            passes=self.router.passes,
            grace_s=config.absence_grace_s,
        )
        self.membership = Membership(
            node.identity,
            links,
            tell=tell,
            close=self._close,
            passes=self.router.passes_now,
            enabled=config.members,
        )
        arbiter = Arbiter(lease_s=config.leases.lease_s, rest_s=config.leases.rest_s)
        premises = Premises(
            node.identity,
            work,
            links,
            sessions,
            self.router,
            arbiter,
            tell=tell,
            publish=self._publish,
            redirect=self._redirect,
            rewire=self._rewire,
        )
        self.modules = Modules(premises, modules)
        self.federation = Federation(
            node.identity,
            work,
            tell,
            router=self.router,
            draining=self.draining,
            absence=self.absence,
            membership=self.membership,
            modules=self.modules,
            rewirings=lambda: self.rewirings,
        )
        node.host(
            neighbourhood=self.federation,
            interests=self.router,
            place=lambda client: self.modules.place(client, work.now),
            arriving=self.modules.arriving,
            over=self.draining.ended,
            left=self.modules.left,
        )
        self.exchange = Exchange(
            config,
            work,
            self.router,
            node.flow,
            node.pausing,
            node.patience,
            node.hosted,
            self.modules,
            self.absence.give_up,
        )
        ground = Ground(
            work,
            links,
            tell,
            linked=node.linked,
            flow=node.flow,
            pausing=node.pausing,
            router=self.router,
            exchange=self.exchange,
            draining=self.draining,
            absence=self.absence,
            membership=self.membership,
            arbiter=arbiter,
            changed=lambda: self.modules.neighbours_changed(work.now),
            rewired=self.modules.rewired,
        )
        self.rewirings = Rewirings(node.identity, ground)
        self.requests = Requests(
            config,
            work,
            links,
            sessions,
            tell,
            hosted=node.hosted,
            router=self.router,
            draining=self.draining,
            exchange=self.exchange,
            modules=self.modules,
        )
        node.listen(
            from_link=self.exchange.publish,
            from_session=self.requests.publishes,
            link_messages=self._link_messages(),
            session_messages=self._session_messages(),
        )
        self.traffic, self.table = self.exchange, self.router.subscriptions
        # The short ways, for a client's acknowledgement and a neighbour's publication.
        self.take_ack, self.take = node.take_ack, node.take
        self._work = work
        self._handlers = self._events()

    # --- the one verb -------------------------------------------------------------------------------

    def handle(self, event: Happening, now: float) -> list[Command]:
        """What there is to do now that this has happened."""
        work = self._work
        if type(event) is ev.Persisted:
            return work.released(event.token)
        work.begin(now)
        self._handlers[type(event)](event)
        if self.absence.due:
            self.absence.inquire()
        return work.commit()

    # --- what happens -------------------------------------------------------------------------------

    def _events(self) -> dict[type, Any]:
        return {
            **self.node.events(),
            ev.TimerFired: self._timer,
            ev.RewiringRequested: lambda event: self.rewirings.begin(
                event.mover, event.anchor, event.cause
            ),
            ev.ClientRedirected: lambda event: self._redirect(
                event.client, event.address, event.cause
            ),
            ev.LoadSampled: lambda event: self.modules.sampled(event.load, self._work.now),
            ev.ModuleSwitched: lambda event: self.modules.switch(
                event.module, ModuleState(event.state), self._work.now
            ),
            ev.Asked: self.modules.asked,
            ev.WaySwitched: lambda event: self.router.switch(event.way, event.cause),
            ev.Started: self._started,
        }

    def _timer(self, event: ev.TimerFired) -> None:
        kind, _, name = event.name.partition(":")
        if kind == ABSENCE:
            self.absence.timer(name)
        elif kind == REWIRE:
            self.rewirings.timer()
        elif not self.node.timer(kind, name):
            self.modules.timer(name, self._work.now)

    def _started(self, event: ev.Started) -> None:
        restoring.restore(event.records, self.node, self.router, self.draining, self.rewirings)
        self.router.started(f"{self.identity.name} has started")
        self.federation.start(self.links)
        self.node.start()
        self.modules.start(self._work.now)

    # --- what parts have to do with parts that are built after them -----------------------------------

    def _drained(self, purpose: str, argument: str, session: str, missing: tuple[str, ...]) -> None:
        self.requests.drained(purpose, argument, session, missing)

    def _stranded(self, entry: Entry) -> None:
        if self.migrating is not None:
            self.migrating.stranded(entry)

    def _announced(self, link: Link) -> None:
        self.absence.due[link] = None

    def _close(self, link: Link, reason: str) -> None:
        self.node.linked.close(link, reason)

    def _excused(self, link: Link) -> None:
        self.draining.excuse(link)
        self._forsake()

    def _told_members(self, link: Link, message: Members) -> None:
        self.membership.told(link, message)
        self._forsake()

    def _forsake(self) -> None:
        """Links that were moved away while we had lost our store are none any more."""
        if not self.node.linked.has_forgotten:
            return
        for link in list(self.links.values()):
            other = self.membership.elsewhere(link)
            if other is not None:
                cause = f"{link.name} is behind {other.name} now"
                self.node.work.command(Report("warning", "link forsaken", link.name, cause))
                self.node.linked.remove(link, cause)

    def _publish(self, source: Hop, publication: Publication, hops: int) -> None:
        self.exchange.publish(source, publication, hops)

    def _redirect(self, client: str, address: Address, cause: str) -> None:
        self.requests.redirect(client, address, cause)

    def _rewire(self, mover: str, anchor: str, cause: str, urgency: str) -> str:
        objection = self.rewirings.begin(mover, anchor, cause, urgency)
        if objection:
            self.modules.rewired(mover, anchor, objection)
        return objection

    def _set_greedy(self, links: Sequence[Link]) -> None:
        self.router.greedy = links

    # --- what neighbours say ------------------------------------------------------------------------

    def _link_messages(self) -> Listeners:
        listeners: dict[Any, Any] = {
            Advertise: self._advertise,
            Unadvertise: self._unadvertise,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Inquiry: self.absence.inquiry,
            Answer: self.absence.answer,
            Wants: self.absence.wants,
            Members: self._told_members,
            Marker: self.draining.marker,
            MarkerEcho: self._echo,
            DrainEcho: self.draining.echo,
            Rewire: self.rewirings.hear,
            Note: self._note,
        }
        if self.migrating is not None:
            listeners |= {
                MigrationUpdate: self.migrating.update,
                MigrationComplete: self.migrating.complete,
            }
        return listeners

    def _note(self, link: Link, note: Note) -> None:
        if note.module == ROUTER:
            self.router.noted(link, note.body, note.cause)
        elif note.module == MEMBERS:
            self.membership.trail(link, note.body)
        else:
            self.modules.told(link, note, self._work.now)

    def _advertise(self, link: Link, message: Advertise) -> None:
        self.router.advertise(
            link, message.id, message.advertisement, message.cause, message.announcement
        )
        if link.version >= ASKS_BACK:
            self.absence.due.clear()  # its own inquiry is behind it, and will be passed on

    def _echo(self, link: Link, echo: MarkerEcho) -> None:
        if not self.absence.echo(link, echo):
            self.draining.echo(link, echo)

    def _unadvertise(self, hop: Link | Session, message: Unadvertise) -> None:
        self.router.unadvertise(hop, message.id, message.cause, message.announcement)

    def _subscribe(self, link: Link, message: Subscribe) -> None:
        self.router.subscribe(link, message.id, message.subscription, message.cause)

    def _unsubscribe(self, hop: Link | Session, message: Unsubscribe) -> None:
        self.router.unsubscribe(hop, message.id, message.cause)

    # --- what clients say ---------------------------------------------------------------------------

    def _session_messages(self) -> Listeners:
        requests, migrating = self.requests, self.migrating
        return {
            Advertise: requests.advertises,
            Unadvertise: self._unadvertise,
            Subscribe: requests.subscribes,
            Unsubscribe: self._unsubscribe,
            Settle: requests.settles,
            EndSession: requests.ends,
            HandOver: requests.hands_over,
            Done: self.node.hosted.done,
            Migrate: self._stays if migrating is None else migrating.begin,
            Paused: self._stays if migrating is None else migrating.paused,
            Arrived: lambda session, _: self.modules.arrived(session.client),
            Probed: lambda session, said: self.modules.probed(session, said, self._work.now),
        }

    def _stays(self, session: Session, _: Migrate | Paused) -> None:
        reason = "where subscriptions flood, no advertisement shows the way"
        self.node.flow.tell(session, MigrationFailed(reason))

    # --- for whoever looks --------------------------------------------------------------------------

    @property
    def load(self) -> ev.LoadIndices | None:
        """The last sample of the load indices."""
        return self.modules.load

    def figures(self) -> Mapping[str, Any]:
        """What only a broker can say of itself."""
        return {
            "routing": self.config.routing,
            "subscriptions": len(self.router.subscriptions),
            "advertisements": len(self.router.advertisements),
            **self.router.figures(),
        }

    def unfinished(self) -> Sequence[str]:
        """What it still has to do, in words, besides what waits in channels; at rest there is nothing."""
        left = {
            f"{len(self.draining)} markers have not come back": len(self.draining),
            "entries from two sides have not been withdrawn from one": self.router.spare_entries,
            "advertisements are expected from elsewhere": self.router.expected_entries,
            "a link is being moved": self.rewirings.now is not None,
        }
        return [what for what, count in left.items() if count]
