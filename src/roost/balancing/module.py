"""Load balancing as a module of a broker: PEER, PIE, detection, mediation, estimation, offload (001 figure
3.1).

What a broker does follows from its role (`peer`): an edge-broker balances with others (`edge`), a
cluster-head has clusters balance (`head`), and without a role there is nothing to do. Every broker
subscribes to LB_CONTROL for its own name and may publish PIEs of either kind; so the tables hold two or
three subscriptions for each broker, whose events go ahead of data.

Operators ask for two things: `drain`, to have the broker emptied, and `balancing`, to see what it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roost.balancing.control import (
    LB_CONTROL,
    BalanceReply,
    BalanceRequest,
    Control,
    Disengage,
    Done,
    Engage,
    GlobalDone,
    GlobalRenewal,
    GlobalReply,
    GlobalRequest,
    GlobalWish,
    Migrating,
    Withdrawn,
    post_with,
    read_control,
    said,
)
from roost.balancing.detection import place_newcomer
from roost.balancing.draws import Draws
from roost.balancing.edge import Edge
from roost.balancing.head import Head
from roost.balancing.peer import Peer, Role
from roost.balancing.pie import GLOBAL_PIE, LOCAL_PIE, pie_of
from roost.balancing.press import WATCH
from roost.balancing.settings import BalancingConfig
from roost.balancing.states import Status
from roost.broker.arbiter import Proposal, link_between
from roost.broker.messages import Publication
from roost.broker.module import Module, Surroundings, Visit
from roost.errors import UserError
from roost.language import Advertisement, Subscription

if TYPE_CHECKING:
    from roost.broker.events import LoadIndices
    from roost.broker.names import Address

MAIL, PIES = "mail", "pies"


class Balancing(Module):
    """Dynamic load balancing in one broker."""

    name = "balancing"
    reserved = (LOCAL_PIE, GLOBAL_PIE, LB_CONTROL)
    Config = BalancingConfig

    def __init__(self, config: BalancingConfig | None = None) -> None:
        self.config: BalancingConfig = config or BalancingConfig()
        self._around: Surroundings

    def started(self, around: Surroundings, now: float) -> None:
        config = self.config
        self._around = around
        self._draws = Draws(around.broker, config.seed)
        post = post_with(around)
        self._peer = Peer(around, self._role_changed, self._edge_for)
        self._edge = Edge(around, config, self._draws, self._peer, post)
        self._head = Head(around, config, self._draws, self._peer, post)
        self._post = post
        self._now = now
        self._role, self._cluster = Role.NONE, ""
        around.advertise(MAIL, Advertisement([said(LB_CONTROL)]))
        around.subscribe(MAIL, Subscription([said(LB_CONTROL, brokerID=around.broker)]))
        self._peer.start()

    # --- roles ----------------------------------------------------------------------------------------

    def neighbours_changed(self, now: float) -> None:
        self._peer.neighbours_changed(now)

    def told(self, neighbour: str, body: bytes, now: float) -> None:
        self._peer.told(neighbour, body, now)

    def _role_changed(self, now: float) -> None:
        peer = self._peer
        if (peer.role, peer.cluster) == (self._role, self._cluster):
            if peer.role is Role.HEAD:
                self._head.clusters_changed()
            return
        if self._role is Role.HEAD:
            self._head.end(now)
        elif self._role is Role.EDGE:
            self._edge.end(now)
        self._role, self._cluster = peer.role, peer.cluster
        self._around.unadvertise(PIES)
        if peer.role is Role.HEAD:
            offer = said(GLOBAL_PIE, via=self._around.broker)
            self._around.advertise(PIES, Advertisement([offer]))
            self._head.begin(now)
        elif peer.role is Role.EDGE:
            offer = said(LOCAL_PIE, clusterID=peer.cluster)
            self._around.advertise(PIES, Advertisement([offer]))
            self._edge.begin(peer.cluster)

    def _edge_for(self, edges: Sequence[str], client: str) -> str:
        """The edge-broker for a subscriber that connects to this cluster-head."""
        known = [entry for entry in self._head.own(self._now) if entry.broker in edges]
        draw = self._draws.between(0, 1, client)
        unheard = [edge for edge in edges if edge not in {entry.broker for entry in known}]
        if unheard and self.config.rules.newcomers == "random":
            # Of whom nothing is known it is not known that it is overloaded.
            return self._draws.choice(edges, client)
        return place_newcomer(known, self.config, draw) or edges[int(draw * len(edges))]

    # --- events ---------------------------------------------------------------------------------------

    def sampled(self, load: LoadIndices, now: float) -> None:
        self._edge.sampled(load, now)

    def routed(self, visit: Visit, now: float) -> None:
        if self._head.relief is not None:
            self._head.relief.traffic.routed(visit)
        self._edge.mediator.routed(visit, now)

    def heard(self, publication: Publication, subscriptions: Sequence[str], now: float) -> None:
        self._now = now
        event = publication.event.attributes
        kind = event.get("class")
        if subscriptions[0].startswith(WATCH):
            self._edge.mediator.heard_sample()
        elif kind == LOCAL_PIE:
            pie = pie_of(event)
            if self._role is Role.HEAD:
                self._head.heard_local(pie, now)
            elif self._role is Role.EDGE:
                self._edge.heard(pie, now)
        elif kind == GLOBAL_PIE:
            if self._role is Role.HEAD:
                self._head.heard_global(pie_of(event), now)
        elif MAIL in subscriptions:
            self._read(publication, now)

    def _read(self, publication: Publication, now: float) -> None:
        message = read_control(publication)
        if self._role is Role.EDGE and not isinstance(message, GlobalRequest):
            self._read_at_edge(message, now)
        elif self._role is Role.HEAD and not isinstance(message, BalanceRequest):
            self._read_at_head(message, now)
        else:
            self._decline(message)

    def _read_at_edge(self, message: Control, now: float) -> None:
        mediator = self._edge.mediator
        match message:
            case BalanceRequest():
                mediator.requested(message, now)
            case BalanceReply():
                mediator.replied(message, now)
            case Migrating():
                mediator.migrating(message, now)
            case Withdrawn():
                mediator.withdrawn(message, now)
            case Done():
                mediator.done(message, now)
            case Engage():
                self._edge.engage(message, now)
            case Disengage() if message.sender == self._cluster:
                self._edge.disengage(message.cluster)

    def _read_at_head(self, message: Control, now: float) -> None:
        head = self._head
        match message:
            case GlobalRequest():
                head.requested(message, now)
            case GlobalReply():
                head.replied(message, now)
            case GlobalRenewal():
                head.renewed(message, now)
            case GlobalDone():
                head.done(message, now)
            case GlobalWish() if message.sender in self._peer.edges:
                head.wished(now)

    def _decline(self, message: Control) -> None:
        """What is asked of a broker in another role than it has: whoever asks need not wait."""
        here = self._around.broker
        if isinstance(message, BalanceRequest):
            self._post(message.sender, BalanceReply(message.session, here, Status.NOT_AVAILABLE))
        elif isinstance(message, GlobalRequest):
            self._post(message.sender, GlobalReply(message.session, here, Status.NOT_AVAILABLE))

    def timer(self, name: str, now: float) -> None:
        self._now = now
        if not self._peer.timer(name) and not self._head.timer(name, now):
            self._edge.timer(name, now)

    # --- clients --------------------------------------------------------------------------------------

    def place(self, client: str, now: float) -> Address | None:  # noqa: ARG002
        """Where newcomers go while this broker is emptied."""
        return self._around.address_of(self._cluster) if self._edge.is_draining else None

    def first_advertised(self, client: str, now: float) -> None:  # noqa: ARG002
        self._judge_soon(now)

    def first_subscribed(self, client: str, now: float) -> None:  # noqa: ARG002
        self._judge_soon(now)

    def _judge_soon(self, now: float) -> None:
        self._now = now
        self._peer.judge_soon()

    def arrived(self, client: str, now: float) -> None:
        self._edge.mediator.arrived(client, now)
        self._judge_soon(now)

    def moved(self, client: str, now: float) -> None:  # noqa: ARG002
        self._edge.mediator.left(client, moved=True)

    def left(self, client: str, now: float) -> None:  # noqa: ARG002
        self._edge.mediator.left(client, moved=False)

    def objection_to(self, proposal: Proposal, now: float) -> str:
        """To what others want: nobody goes where its role would send it away, or where it is too much.

        Nor does a link move that makes a broker an edge-broker, or that would make it none; nor one whose
        move would leave a neighbour here as the first edge-broker, to which the subscribers here had to go.
        """
        there = proposal.choice
        if proposal.kind == "rewire":
            links = {link_between(self._around.broker, edge): edge for edge in self._peer.edges}
            ends = [links[subject] for subject in proposal.subjects if subject in links]
            edge = next(iter(ends), there if there in self._peer.edges else "")
            return f"{edge} is an edge-broker, and has one link" if edge else ""
        if proposal.kind == "anchor":
            return self._peer.objection_to_edge(*proposal.subjects)
        known = self._head.brokers if self._role is Role.HEAD else self._edge.table
        entry = known.get(there, now)
        if entry is not None and entry.status is Status.NOT_AVAILABLE:
            return f"{there} is overloaded"
        clients = self._around.clients()
        subscribes = any(clients.get(subject) for subject in proposal.subjects)
        if self._role is Role.EDGE and there == self._cluster and subscribes:
            return f"{there} is a cluster-head, and serves publishers"
        if self._role is Role.HEAD and there in self._peer.edges and not subscribes:
            return f"{there} is an edge-broker, and serves subscribers"
        return ""

    # --- operators ------------------------------------------------------------------------------------

    def asked(
        self, request: str, arguments: Mapping[str, Any], now: float
    ) -> Mapping[str, Any] | None:
        self._now = now
        if request == "balancing":
            return {"role": self._role.value, **self._edge.evidence(now)}
        if request != "drain":
            return None
        if self._role is not Role.EDGE:
            raise UserError(
                f"{self._around.broker} has the role {self._role.value}; expected an edge-broker:"
                " others are linked through a cluster-head, and with two brokers there are no roles"
            )
        wish = str(arguments.get("do", "begin"))
        if wish not in ("begin", "look", "cancel"):
            raise UserError(f"do={wish}; expected begin, look or cancel")
        if wish != "look":
            self._edge.drain(now, is_draining=wish == "begin")
            self._peer.close(is_closed=wish == "begin")
        return self._edge.drained()
