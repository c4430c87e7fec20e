"""PIE: what brokers, and clusters, tell each other of their load (001 section 3.3.1).

A *local* PIE is an event of an edge-broker, for its cluster; a *global* one is of a cluster-head, with the
means over its edge-brokers, for the clusters one hop away:

    [class,'LOCAL_PIE'],[clusterID,'B0'],[brokerID,'B1'],[status,'OK'],[balanced,'B2,B3'],[matchingDelay,0.02],...
    [class,'GLOBAL_PIE'],[clusterID,'B10'],[brokerID,'B10'],[via,'B10'],[status,'OK'],...

Each broker subscribes to the local PIEs of its cluster, and each head to the global ones that come *via*
its neighbouring heads. A cluster that is N/A is no barrier: its head passes on what it hears, via itself.

**What is published.** An index that differs from what was last published of it by no more than a threshold
is left out. A PIE is generated every period, and whenever the status changes, and is published if

    the status is another than the last published       at once
    it is OK, and an index has passed its threshold     at the next period
    the set of balanced brokers is another, while it is watched by cluster-heads
    the last one was two periods ago                    with all indices (`refresh_periods`)

The thesis asks for a passed threshold in all cases, and lets entries expire after three periods, so that
brokers at rest would forget each other; it also says that a broker has to publish every other period. The
last line is that. It also serves those who have missed what was left out since.

**What is kept.** The last values of each, until three periods have passed without a word of them. Who is
known only in part, as indices were left out before one listened, is no candidate until the rest is heard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from roost.balancing.detection import PieEntry
from roost.balancing.indices import Indices
from roost.balancing.settings import BalancingConfig
from roost.balancing.states import Status
from roost.broker.errors import RemoteProtocolError
from roost.language import Value

LOCAL_PIE = "LOCAL_PIE"
GLOBAL_PIE = "GLOBAL_PIE"
# As an event calls the indices.
ATTRIBUTES = {
    "matchingDelay": "matching_delay_s",
    "inputUtilization": "input_ratio",
    "outputUtilization": "output_ratio",
}
SEPARATOR = ","


class Pie(Struct, frozen=True):
    """One message. An index that is None was left out."""

    broker: str
    cluster: str
    status: Status
    balanced: tuple[str, ...] = ()
    matching_delay_s: float | None = None
    input_ratio: float | None = None
    output_ratio: float | None = None
    via: str = ""  # of a global one: the cluster-head that passed it on last

    def attributes(self) -> dict[str, Value]:
        """As an event."""
        event: dict[str, Value] = {
            "class": GLOBAL_PIE if self.via else LOCAL_PIE,
            "clusterID": self.cluster,
            "brokerID": self.broker,
            "status": self.status.value,
            "balanced": SEPARATOR.join(self.balanced),
        }
        if self.via:
            event["via"] = self.via
        for attribute, name in ATTRIBUTES.items():
            value = getattr(self, name)
            if value is not None:
                event[attribute] = value
        return event


def pie_of(event: Mapping[str, Value]) -> Pie:
    """What an event says; RemoteProtocolError if it is none."""
    try:
        return Pie(
            broker=str(event["brokerID"]),
            cluster=str(event["clusterID"]),
            status=Status(str(event["status"])),
            balanced=tuple(filter(None, str(event["balanced"]).split(SEPARATOR))),
            via=str(event.get("via", "")),
            **{name: float(event[a]) for a, name in ATTRIBUTES.items() if a in event},
        )
    except (KeyError, ValueError) as error:
        raise RemoteProtocolError(f"a PIE that says {dict(event)}: {error}") from None


class PieRecord(PieEntry, frozen=True):
    """What is known of a broker, or a cluster, and how long it counts."""

    cluster: str
    balanced: tuple[str, ...]
    until: float


class PieTable:
    """What one broker has heard: entries by broker, for three periods each."""

    def __init__(self, config: BalancingConfig, period_s: float) -> None:
        self._lasts_s = config.pie_expiry_periods * period_s
        self._latest: dict[str, tuple[Pie, float]] = {}  # with all that was ever said; until when

    def heard(self, pie: Pie, now: float) -> None:
        known = self._latest.pop(pie.broker, None)
        if known is not None and known[1] > now and known[0].cluster == pie.cluster:
            before = known[0]
            left_out = [name for name in ATTRIBUTES.values() if getattr(pie, name) is None]
            pie = replace(pie, **{name: getattr(before, name) for name in left_out})
        self._latest[pie.broker] = (pie, now + self._lasts_s)

    def forget_cluster(self, cluster: str) -> None:
        self._latest = {
            b: known for b, known in self._latest.items() if known[0].cluster != cluster
        }

    def __contains__(self, broker: str) -> bool:
        return broker in self._latest

    def entries(self, now: float) -> dict[str, PieRecord]:
        """Those that are known in full and not forgotten, by broker."""
        return {entry.broker: entry for entry in self._entries(now)}

    def get(self, broker: str, now: float) -> PieRecord | None:
        return self.entries(now).get(broker)

    def _entries(self, now: float) -> Iterator[PieRecord]:
        for broker, (pie, until) in list(self._latest.items()):
            if until <= now:
                del self._latest[broker]
                continue
            values = (pie.input_ratio, pie.matching_delay_s, pie.output_ratio)
            input_ratio, delay_s, output_ratio = values
            if input_ratio is not None and delay_s is not None and output_ratio is not None:
                indices = Indices(
                    input_ratio=input_ratio, matching_delay_s=delay_s, output_ratio=output_ratio
                )
                yield PieRecord(broker, pie.status, indices, pie.cluster, pie.balanced, until)


class PieSource:
    """What one broker, or cluster, tells of itself, and when."""

    def __init__(self, config: BalancingConfig, period_s: float) -> None:
        self._config = config
        self._period_s = period_s
        self.told: Pie | None = None  # with all values that count as known
        self._told_at = 0.0
        self._whole_at = 0.0  # when all indices were told together

    def begin_anew(self) -> None:
        """Nobody has heard anything yet."""
        self.told = None

    def next(
        self,
        now: float,
        pie: Pie,
        *,
        watched: bool = False,
    ) -> Pie | None:
        """What is to be published of a PIE with all values; None: nothing.

        `watched`: cluster-heads wait for a change of the balanced set.
        """
        told = self.told
        # Half a period of slack: a generation that comes a moment early need not wait for the next.
        refresh = self._config.rules.refresh_periods
        old_s = (refresh - 0.5) * self._period_s
        if told is None or (refresh and now - self._told_at >= old_s):
            return self._tell_all(pie, now)
        config = self._config
        passed = {
            "input_ratio": config.pie_ratio_threshold,
            "output_ratio": config.pie_ratio_threshold,
            "matching_delay_s": config.pie_delay_threshold * config.delay_normalisation_s,
        }
        left_out = {
            name: None
            for name, threshold in passed.items()
            if abs(getattr(pie, name) - getattr(told, name)) <= threshold
        }
        anew = pie.status is not told.status or pie.cluster != told.cluster
        moved = len(left_out) < len(passed) and pie.status is Status.OK
        if not (anew or moved or (watched and pie.balanced != told.balanced)):
            return None
        if refresh and now - self._whole_at >= old_s:
            return self._tell_all(pie, now)
        kept = {name: getattr(told, name) for name in left_out}
        self.told, self._told_at = replace(pie, **kept), now
        return replace(pie, **left_out)

    def _tell_all(self, pie: Pie, now: float) -> Pie:
        self.told, self._told_at, self._whole_at = pie, now, now
        return pie
