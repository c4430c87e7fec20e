"""Global load balancing, at a cluster-head (001 sections 3.3.1.2, 3.3.2.2 and 3.4.3).

A head hears the local PIEs of its edge-brokers and tells neighbouring heads their mean, as a global PIE.
When another cluster has less of something than a threshold allows, it asks that one's head for a *global
session*:

    none       -> asked (one request at a time), or agrees to be asked: engaged
    asking     -> OK: engaged      anything else, or nothing in time: asking the next cluster, or none is left
    engaged    the edge-brokers of both clusters listen to each other's local PIEs, and balance among them
               -> all say that they are balanced with all others, or one side has had enough: none

Heads do not move anybody. They only have their edge-brokers see more of the federation, for a while. All of
it runs out if it is not said again: an engagement that is not renewed ends at each edge-broker by itself,
and a head that does not know a session (it may have crashed) answers a renewal with *done*.

An overloaded edge-broker that finds nobody sends a wish. Without a session that makes the head look for one
at once, also among clusters that are BUSY. In a session it is counted: at the threshold the session is given
up, for one with another cluster. So are requests of overloaded clusters, at a head whose own is not and
whose session has had its time: else two could keep each other busy while the one beside them drowns. And a
session in which nobody has been BUSY for a while is over, balanced or not: nothing is left to be done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from roost.balancing.control import (
    Disengage,
    Engage,
    GlobalDone,
    GlobalRenewal,
    GlobalReply,
    GlobalRequest,
    Post,
    said,
)
from roost.balancing.detection import PieEntry, detect_global
from roost.balancing.draws import Draws
from roost.balancing.indices import mean_of
from roost.balancing.peer import Peer
from roost.balancing.pie import GLOBAL_PIE, LOCAL_PIE, Pie, PieRecord, PieSource, PieTable
from roost.balancing.publishers import PublisherRelief
from roost.balancing.settings import BalancingConfig
from roost.balancing.states import Status
from roost.language import Subscription

if TYPE_CHECKING:
    from roost.broker.module import Surroundings

PERIOD, DETECT, ASKING = "global pie", "global detection", "global request"
# A session in which nobody has been busy for so many global periods is over; and for so long it has not to
# give way to others.
IDLE_PERIODS, PATIENCE_PERIODS = 5, 5
# Brokers may try the same in vain for ever; after so long another cluster has its turn.
LONGEST_PERIODS = 20
OWN, VIA, OTHER = "cluster", "clusters", "other cluster"


def local_pies(cluster: str) -> Subscription:
    """Those of a cluster."""
    return Subscription([said(LOCAL_PIE, clusterID=cluster)])


class GlobalSession(Struct):
    """With another cluster, which is named after its head."""

    id: str
    cluster: str
    since: float
    stage: Literal["asking", "engaged"]
    wishes: int = 0
    heard_at: float = 0.0  # of the other head, or its brokers
    busy_at: float = 0.0  # when an edge-broker of either cluster was in a session last


class Head:
    """A cluster, as its head sees it."""

    def __init__(
        self, around: Surroundings, config: BalancingConfig, draws: Draws, peer: Peer, post: Post
    ) -> None:
        self._around = around
        self._config = config
        self._draws = draws
        self._peer = peer
        self._post = post
        self._count = 0
        self._list: list[str] = []
        self._source = PieSource(config, config.global_pie_period_s)
        self.brokers = PieTable(config, config.local_pie_period_s)
        self.clusters = PieTable(config, config.global_pie_period_s)
        self.session: GlobalSession | None = None
        self._via: tuple[str, ...] = ()
        self.relief: PublisherRelief | None = None

    # --- beginning and end ----------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        around, config = self._around, self._config
        self.relief = PublisherRelief(around, config, self._peer, now)
        around.subscribe(OWN, local_pies(around.broker))
        self.clusters_changed()
        period_s = config.global_pie_period_s
        around.set_timer(PERIOD, self._draws.between(0, period_s, PERIOD))
        self._detect_later()

    def end(self, now: float) -> None:
        """It is no head any more."""
        self._list = []
        self.relief = None
        self.over("it is no cluster-head any more", now)
        for name in (OWN, VIA):
            self._around.unsubscribe(name)
        for name in (PERIOD, DETECT, ASKING):
            self._around.cancel_timer(name)

    def clusters_changed(self) -> None:
        """The heads next to this one are others."""
        heads = tuple(self._peer.heads)
        if heads == self._via:
            return
        self._via = heads
        self._around.unsubscribe(VIA)
        filters = [said(GLOBAL_PIE, via=head) for head in heads]
        if filters:
            self._around.subscribe(VIA, Subscription(filters))

    # --- PIE ------------------------------------------------------------------------------------------

    def heard_local(self, pie: Pie, now: float) -> None:
        self.brokers.heard(pie, now)
        if self.session is not None:
            if pie.cluster == self.session.cluster:
                self.session.heard_at = now
            if pie.status is Status.BUSY:
                self.session.busy_at = now
        self._end_if_balanced(now)
        if self._told_status() is not self.status(now):
            self._publish(now)

    def heard_global(self, pie: Pie, now: float) -> None:
        here = self._around.broker
        if pie.cluster == here:
            return
        self.clusters.heard(pie, now)
        if self.status(now) is Status.NOT_AVAILABLE and len(self._peer.heads) > 1:
            self._around.publish(replace(pie, via=here).attributes())
        if pie.status is Status.OK:
            self.detect(now)

    def own(self, now: float) -> list[PieRecord]:
        """What is known of the edge-brokers here."""
        edges = self._peer.edges
        return [e for e in self.brokers.entries(now).values() if e.broker in edges]

    def status(self, now: float) -> Status:
        if self.session is not None and self.session.stage == "engaged":
            return Status.BUSY
        return Status.NOT_AVAILABLE if self._is_overloaded(now) else Status.OK

    def _is_overloaded(self, now: float) -> bool:
        return any(entry.status is Status.NOT_AVAILABLE for entry in self.own(now))

    def _told_status(self) -> Status | None:
        told = self._source.told
        return None if told is None else told.status

    def _pie(self, now: float) -> Pie | None:
        entries = self.own(now)
        if not entries:
            return None
        mean = mean_of([entry.indices for entry in entries])
        here = self._around.broker
        return Pie(
            here,
            here,
            self.status(now),
            (),
            mean.matching_delay_s,
            mean.input_ratio,
            mean.output_ratio,
            via=here,
        )

    def _publish(self, now: float) -> None:
        pie = self._pie(now)
        if pie is not None and self._peer.heads:
            said = self._source.next(now, pie)
            if said is not None:
                self._around.publish(said.attributes())

    # --- detection ------------------------------------------------------------------------------------

    def _detect_later(self) -> None:
        config = self._config
        delay_s = self._draws.between(
            config.global_detection_min_s, config.global_detection_max_s, DETECT
        )
        self._around.set_timer(DETECT, delay_s)

    def detect(self, now: float, *, is_requested: bool = False, besides: str = "") -> None:
        """Look for a cluster to balance with; not for the one that was just given up."""
        self._detect_later()
        own = self.own(now)
        if not own or self.session is not None:
            return
        known: list[PieEntry] = list(self.clusters.entries(now).values())
        if (
            is_requested
        ):  # as an overloaded broker does: who is busy may be free by then, or give way
            known = [
                replace(entry, status=Status.OK) if entry.status is Status.BUSY else entry
                for entry in known
            ]
        found = detect_global(
            mean_of([entry.indices for entry in own]),
            self.status(now),
            known,
            self._config,
            is_requested=is_requested,
        )
        self._list = [each.broker for each in found.actions if each.broker != besides]
        self._ask_next(now)

    # --- mediation ------------------------------------------------------------------------------------

    def _ask_next(self, now: float) -> None:
        self.session = None
        if not self._list:
            return
        cluster = self._list.pop(0)
        self._count += 1
        id_ = f"{self._around.broker}@{now:.6f}/global {self._count}"
        self.session = GlobalSession(id_, cluster, now, "asking")
        self._around.set_timer(ASKING, self._config.reply_timeout_s)
        request = GlobalRequest(id_, self._around.broker, self._is_overloaded(now))
        self._post(cluster, request)

    def requested(self, request: GlobalRequest, now: float) -> None:
        if request.is_overloaded:
            self._give_way(now)
        status = self.status(now)
        if status is Status.OK and self.session is not None:
            status = Status.BUSY  # it asks somebody itself
        if not self._peer.edges and status is Status.OK:
            status = Status.NOT_AVAILABLE
        self._post(request.sender, GlobalReply(request.session, self._around.broker, status))
        if status is Status.OK:
            self.session = GlobalSession(request.session, request.sender, now, "asking")
            self._engage(now)

    def _give_way(self, now: float) -> None:
        """An overloaded cluster asks; if this one is not, and has had its time, it is counted."""
        session = self.session
        if session is None or session.stage != "engaged" or self._is_overloaded(now):
            return
        if now - session.since > PATIENCE_PERIODS * self._config.global_pie_period_s:
            session.wishes += 1
            if session.wishes >= self._config.global_request_threshold:
                self.over("an overloaded cluster waits", now)

    def replied(self, reply: GlobalReply, now: float) -> None:
        session = self.session
        if session is None or session.id != reply.session or session.stage != "asking":
            if reply.status is Status.OK:
                why = "the answer came too late"
                self._post(reply.sender, GlobalDone(reply.session, self._around.broker, why))
        elif reply.status is Status.OK:
            self._list = []
            self._engage(now)
        else:
            self._ask_next(now)

    def _engage(self, now: float) -> None:
        session, around = self.session, self._around
        assert session is not None
        session.stage, session.since = "engaged", now
        session.heard_at = session.busy_at = now
        around.cancel_timer(ASKING)
        around.subscribe(OTHER, local_pies(session.cluster))
        around.decide(
            "engage",
            around.broker,
            session.cluster,
            evidence={"session": session.id, "own": self._evidence(now)},
            predicted={},
        )
        self._renew()
        self._publish(now)

    def _renew(self) -> None:
        session = self.session
        if session is not None and session.stage == "engaged":
            for edge in self._peer.edges:
                self._post(edge, Engage(self._around.broker, session.cluster))

    def renewed(self, message: GlobalRenewal, now: float) -> None:
        session = self.session
        if session is not None and session.id == message.session:
            session.heard_at = now
        else:
            why = "the session is not known here"
            self._post(message.sender, GlobalDone(message.session, self._around.broker, why))

    def done(self, message: GlobalDone, now: float) -> None:
        if self.session is not None and self.session.id == message.session:
            self._over(message.why, now)

    def wished(self, now: float) -> None:
        """An edge-broker here is overloaded, and found nobody."""
        session = self.session
        if session is None:
            self.detect(now, is_requested=True)
        elif session.stage == "engaged":
            session.wishes += 1
            if session.wishes >= self._config.global_request_threshold:
                self.over("an edge-broker is overloaded, and finds nobody in both clusters", now)
                self.detect(now, is_requested=True, besides=session.cluster)

    def _end_if_balanced(self, now: float) -> None:
        """Whether all edge-brokers of both clusters say that they are balanced with all others."""
        session = self.session
        if session is None or session.stage != "engaged":
            return
        here = self._around.broker
        entries = {
            b: e
            for b, e in self.brokers.entries(now).items()
            if e.cluster in (here, session.cluster)
        }
        clusters = {entry.cluster for entry in entries.values()}
        missing = [edge for edge in self._peer.edges if edge not in entries]
        if (
            len(clusters) == 2
            and not missing
            and all(
                other == broker or other in entry.balanced
                for broker, entry in entries.items()
                for other in entries
            )
        ):
            self.over("balanced", now)

    def over(self, why: str, now: float) -> None:
        """End the session, and say so."""
        session = self.session
        if session is not None:
            self._post(session.cluster, GlobalDone(session.id, self._around.broker, why))
            self._over(why, now)

    def _over(self, why: str, now: float) -> None:
        session, around = self.session, self._around
        assert session is not None
        self.session = None
        around.cancel_timer(ASKING)
        if session.stage == "asking":
            return
        around.unsubscribe(OTHER)
        self.brokers.forget_cluster(session.cluster)
        for edge in self._peer.edges:
            self._post(edge, Disengage(around.broker, session.cluster))
        around.decide(
            "disengage",
            around.broker,
            session.cluster,
            evidence={
                "session": session.id,
                "why": why,
                "took_s": now - session.since,
                "own": self._evidence(now),
            },
            predicted={},
        )
        self._publish(now)

    def _evidence(self, now: float) -> dict[str, Any]:
        return {
            entry.broker: {
                name: getattr(entry.indices, name) for name in entry.indices.__struct_fields__
            }
            for entry in self.own(now)
        }

    # --- time -----------------------------------------------------------------------------------------

    def timer(self, name: str, now: float) -> bool:
        """Whether it was one of these."""
        if name == PERIOD:
            self._around.set_timer(PERIOD, self._config.global_pie_period_s)
            self._tick(now)
        elif name == DETECT:
            if self.relief is not None:
                self.relief.look(now)
            self.detect(now)
        elif name == ASKING:
            if self.session is not None and self.session.stage == "asking":
                self._ask_next(now)
        else:
            return False
        return True

    def _tick(self, now: float) -> None:
        session = self.session
        if session is not None and session.stage == "engaged":
            lasts_s = self._config.pie_expiry_periods * self._config.global_pie_period_s
            if now - session.heard_at > lasts_s:
                self.over("nothing is heard of the other cluster any more", now)
            elif now - session.busy_at > IDLE_PERIODS * self._config.global_pie_period_s:
                self.over("nothing is left to be done", now)
            elif now - session.since > LONGEST_PERIODS * self._config.global_pie_period_s:
                self.over("it had its time, and others may want theirs", now)
                self.detect(now, besides=session.cluster)
            else:
                self._renew()
                renewal = GlobalRenewal(session.id, self._around.broker)
                self._post(session.cluster, renewal)
        self._publish(now)
