"""Whether to balance load, what, and with whom (001 section 3.3.2, figures 3.4 and 3.5).

A broker that is not in a session looks at itself now and then, in this order:

    step 1     a ratio above the higher overload threshold: offload at once. The input goes first, else the
               highest; processor and memory are relieved by `match`. With whom: all that are not overloaded
               themselves, the least loaded first.
    inert      above the lower threshold: it accepts nothing, and does nothing else (or goes on, if the rules
               say so: a broker may stay there for good).
    stable     after a session nothing else is done until its effects are there (`is_stable`).
    priority   overloaded brokers go first: somebody else's N/A keeps an OK broker from asking (3.3.2.3), if
               that one would ask itself. Between the thresholds it does not, and everybody would wait for
               nothing.
    step 2     an index that is higher than another broker's by more than the threshold. With whom, and what:
               the largest differences first.

The result is a list of brokers and actions, which the mediator tries one after the other. If an overloaded
broker finds nobody, its cluster-head is asked for a session with another cluster. Clusters are compared the
same way, with thresholds of their own.

Everything here is a function of smoothed indices (3.4) and of what PIEs have said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from roost.balancing.indices import (
    Action,
    BrokerIndices,
    Indices,
    delay_difference,
    difference,
)
from roost.balancing.settings import BalancingConfig
from roost.balancing.states import Status

Resource = Literal["input", "output", "cpu", "memory"]

# How an overload is relieved: figure 3.5.
RELIEF: dict[Resource, Action] = {
    "input": Action.INPUT,
    "output": Action.OUTPUT,
    "cpu": Action.MATCH,
    "memory": Action.MATCH,
}


class PieEntry(Struct, frozen=True):
    """What is known of another broker, or of a cluster."""

    broker: str
    status: Status
    indices: Indices


class BrokerAction(Struct, frozen=True):
    """Whom to ask for what."""

    broker: str
    action: Action
    difference: float  # by how much the other is less loaded


class Overload(Struct, frozen=True):
    """What is overloaded, and what is done about it."""

    resource: Resource
    ratio: float
    action: Action


class Detection(Struct, frozen=True, kw_only=True):
    """What a look at itself has told a broker, or a cluster."""

    is_available: bool  # no ratio is above the lower threshold: else it is N/A
    overload: Overload | None = None  # above the higher one
    actions: tuple[BrokerAction, ...] = ()
    why: str  # what the list follows from, or why it is empty


# --- overload (figures 3.4 and 3.5) -----------------------------------------------------------------


def ratios_of(indices: BrokerIndices) -> dict[Resource, float]:
    """The four utilisation ratios that tell an overload."""
    return {
        "input": indices.input_ratio,
        "output": indices.output_ratio,
        "cpu": indices.cpu_ratio,
        "memory": indices.memory_ratio,
    }


def is_available(indices: BrokerIndices, config: BalancingConfig) -> bool:
    """Whether no ratio has passed the lower overload threshold."""
    return max(ratios_of(indices).values()) <= config.overload_low


def overload_of(indices: BrokerIndices, config: BalancingConfig) -> Overload | None:
    """What is overloaded, if anything: the input first, whatever else is, then the highest."""
    over = {
        resource: ratio
        for resource, ratio in ratios_of(indices).items()
        if ratio > config.overload_high
    }
    if not over:
        return None
    resource: Resource = "input" if "input" in over else max(over, key=lambda each: over[each])
    return Overload(resource, over[resource], RELIEF[resource])


# --- one broker -------------------------------------------------------------------------------------


def detect(
    own: BrokerIndices,
    status: Status,
    entries: Sequence[PieEntry],
    config: BalancingConfig,
    *,
    futile: Collection[Action] = (),
    resting: Collection[tuple[str, Action]] = (),
) -> Detection:
    """Whether a broker is to ask for a session, and whom (figure 3.5).

    `status` is what it was up to now: STABILIZING as long as it is not stable, whatever is overloaded.
    `futile` are actions by which nothing would be lowered here (`reach`), `resting` those that came to
    nothing with a broker not long ago (`back_off`).
    """
    available = is_available(own, config)
    if status is Status.BUSY:
        return Detection(is_available=available, why="in a session")
    overload = overload_of(own, config)
    if overload is not None:
        return _overloaded(own, overload, entries, config, futile, resting)
    if not available and config.rules.inert == "idle":
        return Detection(is_available=False, why="between the overload thresholds")
    if status is Status.STABILIZING:
        return Detection(is_available=available, why="stabilising")
    if available and any(_goes_first(entry, config) for entry in entries):
        return Detection(is_available=True, why="an overloaded broker goes first")
    pairs = (
        BrokerAction(entry.broker, action, difference)
        for entry in entries
        if entry.status is Status.OK and _has_room(entry, config)
        for action, difference in exceeding(own, entry.indices, Thresholds.local(config))
        if action not in futile and (entry.broker, action) not in resting
    )
    actions = _widest_first(pairs)
    why = "a difference" if actions else "balanced with all that can be asked"
    return Detection(is_available=available, actions=actions, why=why)


def _overloaded(
    own: BrokerIndices,
    overload: Overload,
    entries: Sequence[PieEntry],
    config: BalancingConfig,
    futile: Collection[Action],
    resting: Collection[tuple[str, Action]],
) -> Detection:
    action = overload.action
    if action in futile:
        # What a processor does beyond matching goes with what comes in.
        if overload.resource != "cpu" or Action.INPUT in futile:
            why = f"{overload.resource} is overloaded, and no move would lower it"
            return Detection(is_available=False, overload=overload, why=why)
        action = Action.INPUT
        overload = Overload(overload.resource, overload.ratio, action)
    willing = [
        entry
        for entry in entries
        if entry.status is not Status.NOT_AVAILABLE
        and _has_room(entry, config)
        and (entry.broker, action) not in resting
    ]
    willing.sort(key=lambda entry: (entry.indices.of(action), entry.broker))
    norm_s = config.delay_normalisation_s
    actions = tuple(
        BrokerAction(entry.broker, action, difference(action, own, entry.indices, norm_s))
        for entry in willing
    )
    why = f"{overload.resource} is overloaded" + ("" if actions else ", and nobody can accept")
    return Detection(is_available=False, overload=overload, actions=actions, why=why)


def _goes_first(entry: PieEntry, config: BalancingConfig) -> bool:
    """Whether a broker is overloaded, and would ask: one that is inert does not.

    Its processor and memory are in no PIE; if neither ratio tells why it is N/A, it is one of these.
    """
    if entry.status is not Status.NOT_AVAILABLE or config.rules.priority == "all":
        return entry.status is Status.NOT_AVAILABLE
    highest = max(entry.indices.input_ratio, entry.indices.output_ratio)
    is_inert = config.overload_low < highest <= config.overload_high
    return not is_inert or config.rules.inert == "offloads"


def _has_room(entry: PieEntry, config: BalancingConfig) -> bool:
    """Whether it could be given anything: none of its ratios is at the limit already."""
    limit = config.rules.accept_limit
    return entry.indices.input_ratio < limit and entry.indices.output_ratio < limit


def _widest_first(pairs: Iterable[BrokerAction]) -> tuple[BrokerAction, ...]:
    return tuple(sorted(pairs, key=lambda pair: (-pair.difference, pair.broker, pair.action)))


# --- differences ------------------------------------------------------------------------------------


class Thresholds(NamedTuple):
    """From which difference on two are not balanced."""

    ratio: float
    delay: float
    normalisation_s: float

    @classmethod
    def local(cls, config: BalancingConfig) -> Thresholds:
        """Between brokers."""
        return cls(
            config.local_ratio_threshold,
            config.local_delay_threshold,
            config.delay_normalisation_s,
        )

    @classmethod
    def between_clusters(cls, config: BalancingConfig) -> Thresholds:
        """Between clusters."""
        return cls(
            config.global_ratio_threshold,
            config.global_delay_threshold,
            config.delay_normalisation_s,
        )

    def of(self, action: Action) -> float:
        """That of the index that an action balances."""
        return self.delay if action is Action.MATCH else self.ratio


def exceeding(own: Indices, other: Indices, thresholds: Thresholds) -> list[tuple[Action, float]]:
    """The indices that are higher here by more than the threshold, and by how much."""
    found = ((a, difference(a, own, other, thresholds.normalisation_s)) for a in Action)
    return [(action, by) for action, by in found if by > thresholds.of(action)]


def are_balanced(one: Indices, other: Indices, thresholds: Thresholds) -> bool:
    """Whether neither is higher by more than a threshold in any index."""
    return not exceeding(one, other, thresholds) and not exceeding(other, one, thresholds)


def balanced_set(own: Indices, entries: Iterable[PieEntry], config: BalancingConfig) -> list[str]:
    """The brokers with which this one is balanced, in order: what a PIE says."""
    thresholds = Thresholds.local(config)
    return sorted(entry.broker for entry in entries if are_balanced(own, entry.indices, thresholds))


# --- stabilising ------------------------------------------------------------------------------------


class Moment(NamedTuple):
    """The indices at a time."""

    at: float
    indices: Indices


def is_stable(
    history: Sequence[Moment], ended_at: float, now: float, config: BalancingConfig
) -> bool:
    """Whether the effects of a session that ended then are there (3.3.2.1).

    It is over for as long as the stabilise duration, and none of the three indices has changed by more
    than the stabilise percentage since then, or over the last 60 s if that is shorter. What came before the
    session's end tells nothing: its effects are what is waited for.
    """
    if now - ended_at < config.stabilise_s:
        return False
    since = max(ended_at, now - config.stable_window_s)
    window = [moment.indices for moment in history if since <= moment.at <= now]
    if len(window) < 2:
        return False
    return all(abs(_change(a, window[0], window[-1], config)) < _limit(config) for a in Action)


def _limit(config: BalancingConfig) -> float:
    return config.stabilise_percentage


def _change(action: Action, first: Indices, last: Indices, config: BalancingConfig) -> float:
    before, now = first.of(action), last.of(action)
    if config.rules.stable_change == "relative":
        return (now - before) / before if before else now
    if action is Action.MATCH:
        return delay_difference(now, before, config.delay_normalisation_s)
    return now - before


# --- clusters (3.3.2.2) -----------------------------------------------------------------------------


def detect_global(
    own: Indices,
    status: Status,
    entries: Sequence[PieEntry],
    config: BalancingConfig,
    *,
    is_requested: bool = False,
) -> Detection:
    """Whether a cluster is to ask for a global session, and which clusters, the widest difference first.

    Each cluster stands once, with the index of its widest difference. A request of an overloaded
    edge-broker (`is_requested`) need not wait for a threshold: any cluster that is less loaded will do.
    """
    available = status is not Status.NOT_AVAILABLE
    if status is Status.BUSY:
        return Detection(is_available=available, why="in a session")
    thresholds = Thresholds.between_clusters(config)
    if status is Status.OK and _cluster_goes_first(own, entries, thresholds, config):
        return Detection(is_available=True, why="an overloaded cluster goes first")
    if is_requested:
        thresholds = thresholds._replace(ratio=0.0, delay=0.0)
    widest = []
    for entry in entries:
        found = exceeding(own, entry.indices, thresholds)
        if entry.status is Status.OK and found:
            action, by = max(found, key=lambda pair: pair[1])
            widest.append(BrokerAction(entry.broker, action, by))
    actions = _widest_first(widest)
    why = "a difference" if actions else "balanced with all that can be asked"
    return Detection(is_available=available, actions=actions, why=why)


def _cluster_goes_first(
    own: Indices, entries: Sequence[PieEntry], thresholds: Thresholds, config: BalancingConfig
) -> bool:
    """Whether one is overloaded, and would ask: this cluster, or another that is known here."""
    overloaded = [entry for entry in entries if entry.status is Status.NOT_AVAILABLE]
    if config.rules.priority == "all":
        return bool(overloaded)
    asked = [own, *(entry.indices for entry in entries if entry.status is Status.OK)]
    return any(exceeding(one.indices, other, thresholds) for one in overloaded for other in asked)


# --- newcomers (3.2) --------------------------------------------------------------------------------


def place_newcomer(entries: Sequence[PieEntry], config: BalancingConfig, draw: float) -> str | None:
    """The edge-broker for a subscriber that connects to a cluster-head; None if all are overloaded.

    Any that is not, by a draw from [0, 1); or the least loaded, by the higher of its two ratios.
    """
    able = sorted(
        (entry for entry in entries if entry.status is not Status.NOT_AVAILABLE),
        key=lambda entry: entry.broker,
    )
    if not able:
        return None
    if config.rules.newcomers == "random":
        return able[int(draw * len(able))].broker
    return min(able, key=lambda e: max(e.indices.input_ratio, e.indices.output_ratio)).broker
