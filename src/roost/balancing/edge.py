"""Local load balancing, at an edge-broker: detection, sessions, and what comes of them (001 sections 3.3
and 3.4).

    samples     the driver measures the load; PIE tells it the others of the cluster
    detection   at random intervals, and whenever somebody says OK in a PIE: is this broker overloaded, has
                it much more of something than another (`detection`)? Then those of the list are asked
                (`mediation`)
    session     PRESS, an offload (`offload`), redirections
    after it    the broker stabilises; once it has, the outcome is recorded next to the prediction

`states` has the statuses. A broker that is to be emptied (`drain`) says BUSY: nobody asks it for anything,
and others go on among themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from roost.balancing.back_off import BackOff
from roost.balancing.cards import LoadReport, Offload, Spectrum
from roost.balancing.control import Engage, GlobalWish, Post
from roost.balancing.costs import OwnLoad
from roost.balancing.detection import (
    BrokerAction,
    Moment,
    balanced_set,
    detect,
    is_available,
    is_stable,
)
from roost.balancing.drain import choose_drain
from roost.balancing.draws import Draws
from roost.balancing.head import local_pies
from roost.balancing.indices import Action, BrokerIndices, indices_of, smoothed
from roost.balancing.mediation import (
    AcceptSession,
    Mediator,
    OffloadSession,
    indices_dict,
)
from roost.balancing.offload import SubscriptionPoset, choose
from roost.balancing.peer import Peer
from roost.balancing.pie import Pie, PieSource, PieTable
from roost.balancing.reach import futile_actions
from roost.balancing.settings import BalancingConfig
from roost.balancing.states import BROKER, Cue, Status, after
from roost.language import Subscription
from roost.matching import Poset

if TYPE_CHECKING:
    from roost.broker.events import LoadIndices
    from roost.broker.module import Surroundings

PERIOD, DETECT, DRAIN = "local pie", "local detection", "drain"
# How often a broker that is to be emptied looks for a partner.
DRAIN_S = 2.0
OWN, OTHER = "cluster", "other cluster"
# What a reply may have of the covering subscription set: the rest would not fit in a message. Who is not
# told of some believes that they would be new here, and sends less.
CSS_BYTES_MAX = 400_000


class Awaited(Struct, frozen=True):
    """A prediction for this broker, whose outcome is not known yet."""

    session: str
    partner: str
    side: str  # offloading or accepting
    decision: str
    clients: int
    predicted: Mapping[str, float]


class Edge:
    """Load balancing at one edge-broker."""

    def __init__(
        self, around: Surroundings, config: BalancingConfig, draws: Draws, peer: Peer, post: Post
    ) -> None:
        self._around = around
        self._config = config
        self._draws = draws
        self._peer = peer
        self._post = post
        self._own_load = OwnLoad(config)
        self._back_off = BackOff(config)
        self._poset = SubscriptionPoset()  # of the candidates here, from one offload to the next
        self._source = PieSource(config, config.local_pie_period_s)
        self._status = Status.OK
        self._ended_at: float | None = None  # the last session, as long as its effects are awaited
        self._smooth: BrokerIndices | None = None
        self._history: deque[Moment] = deque()
        self._awaited: Awaited | None = None
        self._engaged: dict[str, float] = {}  # other clusters: until when
        self.table = PieTable(config, config.local_pie_period_s)
        self.mediator = Mediator(around, config, post, self)
        self.is_draining = False
        self.cluster = ""

    # --- beginning and end ----------------------------------------------------------------------------

    def begin(self, cluster: str) -> None:
        """It is an edge-broker of this cluster now."""
        self.cluster = cluster
        self._source.begin_anew()
        self._around.subscribe(OWN, local_pies(cluster))
        period_s = self._config.local_pie_period_s
        self._around.set_timer(PERIOD, self._draws.between(0, period_s, PERIOD))
        self._detect_later()

    def end(self, now: float) -> None:
        """It is none any more, or of another cluster."""
        self.mediator.give_up(now)
        for cluster in list(self._engaged):
            self.disengage(cluster)
        self._around.unsubscribe(OWN)
        self.table.forget_cluster(self.cluster)
        self.cluster = ""
        for name in (PERIOD, DETECT):
            self._around.cancel_timer(name)

    # --- PIE ------------------------------------------------------------------------------------------

    def sampled(self, load: LoadIndices, now: float) -> None:
        self._own_load.sampled(load)
        self._history.append(Moment(now, indices_of(load)))
        while self._history[0].at < now - self._config.stable_window_s:
            self._history.popleft()

    def heard(self, pie: Pie, now: float) -> None:
        if pie.broker == self._around.broker:
            return
        if pie.cluster != self.cluster and pie.cluster not in self._engaged:
            return  # it was on its way when that ended
        self.table.heard(pie, now)
        if pie.status is Status.OK:
            self.detect(now)

    def status(self, now: float) -> Status:  # noqa: ARG002
        return Status.BUSY if self.is_draining else self._status

    def _publish(self, now: float) -> None:
        load = self._around.load
        if load is None or not self.cluster:
            return
        raw = indices_of(load)
        values = raw if self._config.rules.pie_values == "raw" else self._smooth or raw
        entries = self.table.entries(now).values()
        pie = Pie(
            self._around.broker,
            self.cluster,
            self.status(now),
            tuple(balanced_set(values, entries, self._config)),
            values.matching_delay_s,
            values.input_ratio,
            values.output_ratio,
        )
        said = self._source.next(now, pie, watched=bool(self._engaged))
        if said is not None:
            self._around.publish(said.attributes())

    def _cue(self, cue: Cue, now: float) -> None:
        """The status, after something has happened; a new one is published at once."""
        before, self._status = self._status, after(BROKER, self._status, cue)
        if self._status is not before:
            self._publish(now)

    # --- other clusters (3.4.3) -----------------------------------------------------------------------

    def engage(self, message: Engage, now: float) -> None:
        """The cluster-head has a session with another cluster."""
        if message.sender != self.cluster:
            return
        is_new = message.cluster not in self._engaged
        lasts_s = self._config.pie_expiry_periods * self._config.global_pie_period_s
        self._engaged[message.cluster] = now + lasts_s
        if is_new:
            self._around.subscribe(OTHER + message.cluster, local_pies(message.cluster))

    def disengage(self, cluster: str) -> None:
        if self._engaged.pop(cluster, None) is not None:
            self._around.unsubscribe(OTHER + cluster)
            self.table.forget_cluster(cluster)

    # --- detection ------------------------------------------------------------------------------------

    def _detect_later(self) -> None:
        config = self._config
        delay_s = self._draws.between(
            config.local_detection_min_s, config.local_detection_max_s, DETECT
        )
        self._around.set_timer(DETECT, delay_s)

    def detect(self, now: float) -> None:
        """Look at the own load, and at the others' (figure 3.5)."""
        self._detect_later()
        load = self._around.load
        if load is None or self._status is Status.BUSY or self.is_draining:
            return  # in a session, or too early
        config = self._config
        self._smooth = own = smoothed(self._smooth, indices_of(load), config.smoothing)
        if is_available(own, config):
            unstable = self._ended_at is not None
            self._cue(Cue.RELIEVED_UNSTABLE if unstable else Cue.RELIEVED, now)
        else:
            self._cue(Cue.OVERLOADED, now)
        self._settle(now)
        found = detect(
            own,
            self._status,
            list(self.table.entries(now).values()),
            config,
            futile=futile_actions(self._own_load.report(load), own, config),
            resting=self._back_off.resting(now),
        )
        if not self.mediator.is_free:
            return
        urgency = "overload" if found.overload is not None else "evening out"
        if found.actions:
            self.mediator.ask(found.actions, urgency, now)
        elif found.overload is not None:
            self._wish()

    def _settle(self, now: float) -> None:
        """Whether what the last session did is to be seen by now."""
        ended_at = self._ended_at
        if ended_at is None or self._status is not Status.STABILIZING:
            return
        if is_stable(self._history, ended_at, now, self._config):
            self._ended_at = None
            self._outcome(is_stable=True)
            self._cue(Cue.STABLE, now)

    def _outcome(self, *, is_stable: bool) -> None:
        awaited, load = self._awaited, self._around.load
        self._awaited = None
        if awaited is not None and load is not None:
            self._around.decide(
                "outcome",
                awaited.session,
                awaited.partner,
                evidence={
                    "decision": awaited.decision,
                    "side": awaited.side,
                    "clients": awaited.clients,
                    "stable": is_stable,
                    "measured": indices_dict(indices_of(load)),
                },
                predicted=awaited.predicted,
            )

    def nobody_left(self, now: float) -> None:  # noqa: ARG002
        if self._status is Status.NOT_AVAILABLE or self.is_draining:
            self._wish()

    def _wish(self) -> None:
        self._post(self.cluster, GlobalWish(self._around.broker))

    # --- sessions (`mediation.Balancer`) --------------------------------------------------------------

    def begun(self, now: float) -> None:
        self._outcome(is_stable=False)
        self._cue(Cue.BEGUN, now)

    def report(self) -> LoadReport | None:
        load = self._around.load
        return None if load is None else self._own_load.report(load, self._css())

    def _css(self) -> tuple[str, ...]:
        """The covering subscription set of the clients here, as texts, as far as they fit in a message."""
        poset = Poset()
        interests: list[Subscription] = []
        for subscriptions in self._around.clients().values():
            for subscription in subscriptions.values():
                poset.insert(len(interests), subscription)
                interests.append(subscription)
        texts, size = [], 0
        for position in poset.css():
            text = str(interests[position])
            size += len(text.encode())
            if size > CSS_BYTES_MAX:
                break
            texts.append(text)
        return tuple(texts)

    def choose(self, session: OffloadSession, spectrum: Spectrum) -> Offload | None:
        load = self._around.load
        assert session.report is not None
        if load is None or not spectrum.loads or not (spectrum.samples or session.drains):
            return None  # nobody may move, or nothing is known
        sizes = [each.message_bytes for each in spectrum.loads]
        own = self._own_load.report(load, message_bytes=sizes[0] if sizes else 0.0)
        if session.drains:
            return choose_drain(own, session.report, spectrum, self._config)
        return choose(
            session.action,
            own,
            session.report,
            spectrum,
            self._config,
            is_overloaded=session.is_overloaded,
            poset=self._poset,
        )

    def offloaded(self, session: OffloadSession, offload: Offload | None, now: float) -> None:
        if session.moved:
            self._back_off.succeeded(session.partner, session.action)
        else:
            self._back_off.failed(session.partner, session.action, now)
        if offload is not None and session.moved:
            predicted = indices_dict(offload.own_predicted)
            self._awaited = Awaited(
                session.id,
                session.partner,
                "offloading",
                session.decision,
                session.moved,
                predicted,
            )
        self._over(session.moved, now)

    def accepted(self, session: AcceptSession, now: float) -> None:
        came = session.count - len(session.waiting)
        if came:
            self._awaited = Awaited(
                session.id, session.partner, "accepting", session.decision, came, session.predicted
            )
        self._over(came, now)

    def _over(self, moved: int, now: float) -> None:
        """A session has ended."""
        stabilises = moved > 0 or self._config.rules.empty_session_stabilises
        if stabilises:
            self._ended_at = now
        self._cue(Cue.ENDED if stabilises else Cue.ENDED_EMPTY, now)

    # --- a broker that is emptied ---------------------------------------------------------------------

    def drain(self, now: float, *, is_draining: bool) -> None:
        """Have everybody go; or not any more."""
        self.is_draining = is_draining
        if is_draining:
            self._drain(now)
        else:
            self._around.cancel_timer(DRAIN)
        self._publish(now)

    def _drain(self, now: float) -> None:
        """A session with the least loaded who is willing; again and again, until nobody is left."""
        self._around.set_timer(DRAIN, DRAIN_S)
        going = [c for c in self._around.movable() if self.mediator.may_move(c, now)]
        if not going or not self.mediator.is_free or not self._around.acting:
            return
        entries = self.table.entries(now).values()
        willing = [entry for entry in entries if entry.status is Status.OK]
        willing.sort(key=lambda e: (max(e.indices.input_ratio, e.indices.output_ratio), e.broker))
        self.mediator.ask(
            [BrokerAction(entry.broker, Action.INPUT, 0.0) for entry in willing], "drain", now
        )

    def drained(self) -> dict[str, Any]:
        """How far that is."""
        around = self._around
        here = [c for c, subscriptions in around.clients().items() if subscriptions]
        here += [c for c in around.publishers() if c not in here]
        return {
            "draining": self.is_draining,
            "clients": len(here),
            "durable": [] if not here else sorted(self._staying(here)),
            "may_stop": self.is_draining and not here,
        }

    def _staying(self, clients: list[str]) -> list[str]:
        """Those of them that no redirection moves: who is leaving was redirected."""
        movable = self._around.movable()
        return [c for c in clients if c not in movable and not self.mediator.is_going(c)]

    # --- time -----------------------------------------------------------------------------------------

    def timer(self, name: str, now: float) -> bool:
        """Whether it was one of these."""
        if name == PERIOD:
            self._around.set_timer(PERIOD, self._config.local_pie_period_s)
            for cluster in [c for c, until in self._engaged.items() if until <= now]:
                self.disengage(cluster)
            self._publish(now)
        elif name == DETECT:
            self.detect(now)
        elif name == DRAIN:
            self._drain(now)
        else:
            return self.mediator.timer(name, now)
        return True

    def evidence(self, now: float) -> dict[str, Any]:
        """What an operator sees."""
        return {
            "status": self.status(now).value,
            "cluster": self.cluster,
            "engaged": sorted(self._engaged),
            "known": {b: e.status.value for b, e in self.table.entries(now).items()},
        }
