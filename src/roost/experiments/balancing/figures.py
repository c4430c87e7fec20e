"""What the graphs of 001 section 5.2 show, from the trace of a run.

    converged_s                from when on all edge-brokers were within the local thresholds of each other,
                               in all three indices, for 120 s at least, after all had joined
    reconverged_s              the same after publishers have changed their rates, in seconds after that
    ..._deviation              standard deviation over the edge-brokers, mean over the steady periods
    overhead                   of all messages and deliveries, those that are no quotes, in %;
                               acknowledgements apart
    sessions...                in which an offload was decided on; _late: at rest, after the change;
                               _to_B2, ...: input sessions of the time of joining, by who accepted
    worsened                   sessions after which the higher of the two was higher than before in the index
                               that was balanced, by more than what counts as stable
    shuttled_late              subscribers that moved three times and more at rest, after the change
    input_error, output_error  predicted over measured, less 1, in %: of brokers that became stable;
                               ..._size: whatever its sign, ..._spread: standard deviation
    delivery_delay_s           until an event was matched where it was delivered, over the steady periods;
                               ..._before_s, ..._after_s: over that before the change and that after it
    peak_input, relieved_s     of the broker that all subscribers join: its highest input ratio, over a
                               minute, and when it was overloaded for the last time
    queue_empty_s              when an event last waited there for a second to be matched, before the change
    clusters_..._deviation     standard deviation over the clusters, mean over the steady periods
    subscribers_B1, ...        where subscribers are at the end

Differences are those of means over a minute: quotes come one by one, and a sample of 10 s has too few to
tell. A *steady period* begins when everything should have converged, and ends when publishers change, or
the run.

Between brokers all messages are counted by the brokers. A client that moves exchanges nine messages with
its two brokers (redirection, greeting and answer, subscription, settling and answer, hand-over and end,
arrival), which a trace does not have: they are counted with each move.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np

from roost.balancing import BalancingConfig
from roost.experiments.relocation.tables import Floats, Tables

HELD_S = 120.0
MEAN_S = 60.0
# From the end of the subscribers' joining on, and from a change of rates on: when a steady period begins, of
# one cluster (at 2,000 and 3,800 s) and of several (at 4,700 and 10,500 s).
STEADY_AFTER_S = (990.0, 800.0)
CLUSTERS_STEADY_AFTER_S = (3_690.0, 2_500.0)
MESSAGES_A_MOVE = 9
PERCENT = 100.0
INDICES = ("input_utilisation", "output_utilisation", "matching_delay_s")
# What is shown over time, too.
SHOWN = (*INDICES, "input_queueing_delay_s", "output_queueing_delay_s", "subscriptions")
WAITED_S = 1.0
SHUTTLES = 3
RATIOS = {"input": "input_ratio", "match": "matching_delay_s", "output": "output_ratio"}


class Course(NamedTuple):
    """What happens in a run, and when."""

    edges: Sequence[str]
    joined_s: float  # the last subscriber has come
    change_s: float  # publishers change their rates
    end_s: float
    crowded: str  # where subscribers join: what is predicted of it is disturbed until then
    steady_after_s: tuple[float, float] = STEADY_AFTER_S

    def steady(self) -> list[tuple[float, float]]:
        """The steady periods, as far as there are any."""
        after_joining, after_change = self.steady_after_s
        periods = [
            (self.joined_s + after_joining, min(self.change_s, self.end_s)),
            (self.change_s + after_change, self.end_s),
        ]
        return [(start, end) for start, end in periods if end > start]


def figures(tables: Tables, course: Course, config: BalancingConfig) -> dict[str, float]:
    """All of them."""
    apart = differences(tables, course.edges, config)
    converged = first_held(tables.loads.times, apart, course.joined_s, course.change_s)
    again = first_held(tables.loads.times, apart, course.change_s, course.end_s)
    found = {
        "converged_s": converged,
        "reconverged_s": again - course.change_s,
        "overhead": steady_overhead(tables, course),
    }
    for name in INDICES:
        found[f"{name}_deviation"] = deviation(tables, course, name)
    found["delivery_delay_s"] = delivery_delay(tables, course.steady())
    before = [period for period in course.steady() if period[1] <= course.change_s]
    after = [period for period in course.steady() if period[0] >= course.change_s]
    found["delivery_delay_before_s"] = delivery_delay(tables, before)
    found["delivery_delay_after_s"] = delivery_delay(tables, after)
    found |= crowding(tables, course, config)
    found |= _sessions(tables.decisions, course)
    found["worsened"] = float(worsened(tables.decisions, course, config))
    found["shuttled_late"] = float(_shuttled(tables.decisions, course))
    return found | _errors(tables.decisions, course)


# --- balance ----------------------------------------------------------------------------------------


def differences(tables: Tables, edges: Sequence[str], config: BalancingConfig) -> Floats:
    """Of each sample the widest difference of two brokers, over its threshold, in the worst index."""
    columns = [tables.brokers.index(name) for name in edges]
    delay_s = config.local_delay_threshold * config.delay_normalisation_s
    thresholds = (config.local_ratio_threshold, config.local_ratio_threshold, delay_s)
    widest = np.zeros(len(tables.loads.times))
    for name, threshold in zip(INDICES, thresholds, strict=True):
        values = smooth(tables.loads.times, tables.loads.by_name[name][:, columns])
        widest = np.maximum(widest, (values.max(axis=1) - values.min(axis=1)) / threshold)
    return widest


def cluster_figures(
    tables: Tables,
    clusters: Mapping[str, Sequence[str]],
    neighbours: Sequence[tuple[str, str]],
    course: Course,
    config: BalancingConfig,
) -> dict[str, float]:
    """The same of clusters, which are their edge-brokers' means, each against the clusters next to it.

    And what each cluster's indices are before the change and at the end.
    """
    times, delay_s = (
        tables.loads.times,
        config.global_delay_threshold * config.delay_normalisation_s,
    )
    thresholds = (config.global_ratio_threshold, config.global_ratio_threshold, delay_s)
    widest = np.zeros(len(times))
    ends: dict[str, float] = {}
    rows = {
        "change": int(np.searchsorted(times, course.change_s, side="right")) - 1,
        "end": int(np.searchsorted(times, course.end_s, side="right")) - 1,
    }
    for name, threshold in zip(INDICES, thresholds, strict=True):
        values = smooth(times, tables.loads.by_name[name])
        means = {
            head: values[:, [tables.brokers.index(edge) for edge in edges]].mean(axis=1)
            for head, edges in clusters.items()
        }
        for one, other in neighbours:
            widest = np.maximum(widest, np.abs(means[one] - means[other]) / threshold)
        ends |= {
            f"{name}_{head}_{when}": float(mean[row])
            for head, mean in means.items()
            for when, row in rows.items()
        }
        spread = np.std(list(means.values()), axis=0)
        ends[f"clusters_{name}_deviation"] = _steady_mean(times, spread, course)
    return {
        "clusters_converged_s": first_held(times, widest, course.joined_s, course.change_s),
        "clusters_reconverged_s": first_held(times, widest, course.change_s, course.end_s)
        - course.change_s,
        **ends,
    }


def smooth(times: Floats, values: Floats) -> Floats:
    """Each sample and those of the minute before it, on average."""
    sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values, axis=0)])
    first = np.searchsorted(times, times - MEAN_S, side="right")
    last = np.arange(1, len(times) + 1)
    return np.asarray((sums[last] - sums[first]) / (last - first)[:, None], np.float64)


def first_held(times: Floats, apart: Floats, start: float, end: float) -> float:
    """When the differences were first within the thresholds for long enough; NaN if never."""
    since = nan
    for time, widest in zip(times.tolist(), apart.tolist(), strict=True):
        if time <= start or time > end:
            continue
        if widest > 1:
            since = nan
        elif np.isnan(since):
            since = time
        elif time - since >= HELD_S:
            return since
    return nan


def deviation(tables: Tables, course: Course, name: str) -> float:
    """Of an index over the edge-brokers, on average over the steady periods."""
    columns = [tables.brokers.index(edge) for edge in course.edges]
    values = [
        tables.loads.between(name, start, end)[:, columns].std(axis=1)
        for start, end in course.steady()
    ]
    return float(np.concatenate(values).mean()) if values else nan


def _steady_mean(times: Floats, values: Floats, course: Course) -> float:
    inside = [(times > start) & (times <= end) for start, end in course.steady()]
    return float(values[np.logical_or.reduce(inside)].mean()) if inside else nan


def crowding(tables: Tables, course: Course, config: BalancingConfig) -> dict[str, float]:
    """What became of the broker that all subscribers join."""
    times = tables.loads.times
    ratios = smooth(times, tables.loads.by_name[INDICES[0]])
    own = ratios[:, tables.brokers.index(course.crowded)]
    overloaded = times[own >= config.overload_high]
    waited_s = tables.loads.by_name["input_queueing_delay_s"]
    is_waiting = waited_s[:, tables.brokers.index(course.crowded)] > WAITED_S
    waiting = times[is_waiting & (times <= course.change_s)]
    return {
        "peak_input": float(own.max()),
        "relieved_s": float(overloaded[-1]) if len(overloaded) else 0.0,
        "queue_empty_s": float(waiting[-1]) if len(waiting) else 0.0,
    }


def delivery_delay(tables: Tables, periods: Sequence[tuple[float, float]]) -> float:
    """Of all deliveries of these periods, on average."""
    visits = tables.visits
    inside = [(visits.time > start) & (visits.time <= end) for start, end in periods]
    if not inside:
        return nan
    kept = visits.where(np.logical_or.reduce(inside))
    delivered = int(kept.local.sum())
    return float((kept.age_s * kept.local).sum()) / delivered if delivered else nan


# --- messages ---------------------------------------------------------------------------------------


def steady_overhead(tables: Tables, course: Course) -> float:
    """Over the steady periods, and what comes between them."""
    periods = course.steady()
    return overhead(tables, periods[0][0], periods[-1][1]) if periods else nan


def overhead(tables: Tables, start: float, end: float) -> float:
    """Of all messages and deliveries of a period, those that are no quotes, in %."""
    visits = tables.visits
    inside = (visits.time > start) & (visits.time <= end)
    quotes = int((inside & (visits.hop > 0)).sum())
    published = int((inside & (visits.hop == 0)).sum())
    delivered = int(visits.local[inside].sum())
    # At the edges a quote may have been received in it and matched behind it.
    other = max(0, tables.counters.received(start, end) - quotes)
    moved = sum(
        1
        for row in tables.decisions
        if row["kind"] == "carried out" and start < float(row["time"]) <= end
    )
    other += MESSAGES_A_MOVE * moved
    in_all = other + quotes + published + delivered
    return PERCENT * other / in_all if in_all else nan


# --- decisions --------------------------------------------------------------------------------------


def offloads(decisions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, str, dict[str, Any]]]:
    """(when, who, evidence) of each session in which somebody was to move, or nobody."""
    seen: dict[str, None] = {}
    for row in decisions:
        if row["module"] == "balancing" and row["kind"] in ("offload", "no offload"):
            evidence = json.loads(row["evidence"])
            if evidence["session"] not in seen:
                seen[evidence["session"]] = None
                yield float(row["time"]), str(row["broker"]), evidence


def _sessions(decisions: Sequence[Mapping[str, Any]], course: Course) -> dict[str, float]:
    found = list(offloads(decisions))
    early = [each for each in found if each[0] <= course.joined_s + 55]
    late = [each for each in found if each[0] > course.change_s + course.steady_after_s[1]]
    inputs = [each for each in early if each[2].get("index") == "input"]
    others = [
        each for each in inputs if course.crowded not in (each[1], each[2].get("partner", ""))
    ]
    return {
        "sessions": float(len(found)),
        "sessions_late": float(len(late)),
        "sessions_input_early": float(len(inputs)),
        "sessions_input_others": float(len(others)),
        **{
            f"sessions_to_{edge}": float(sum(each[2].get("partner") == edge for each in inputs))
            for edge in course.edges
        },
    }


def undisturbed(
    decisions: Sequence[Mapping[str, Any]], course: Course
) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """(row, evidence) of outcomes of brokers that became stable, and that nobody joined meanwhile."""
    began = {evidence["session"]: time for time, _, evidence in offloads(decisions)}
    for row in decisions:
        if row["module"] != "balancing" or row["kind"] != "outcome":
            continue
        evidence = json.loads(row["evidence"])
        time = began.get(str(row["subject"]), float(row["time"]) - MEAN_S)
        joining = row["broker"] == course.crowded and time <= course.joined_s
        if evidence["stable"] and not joining:
            yield row, evidence


def worsened(
    decisions: Sequence[Mapping[str, Any]], course: Course, config: BalancingConfig
) -> int:
    """Sessions that made the higher of the two brokers higher, in the index that was to be balanced.

    Both became stable, and neither was disturbed: else it was not the session that did it.
    """
    after: dict[str, dict[str, dict[str, float]]] = {}
    for row, evidence in undisturbed(decisions, course):
        after.setdefault(str(row["subject"]), {})[str(row["broker"])] = evidence["measured"]
    norms = {"match": config.delay_normalisation_s}
    count = 0
    for _, _, evidence in offloads(decisions):
        measured, index = after.get(evidence["session"], {}), evidence.get("index", "")
        if len(measured) == 2 and index in RATIOS:
            name = RATIOS[index]
            before = max(evidence["own"][name], evidence["other"][name])
            by = max(each[name] for each in measured.values()) - before
            count += by / norms.get(index, 1.0) > config.stabilise_percentage
    return count


def _shuttled(decisions: Sequence[Mapping[str, Any]], course: Course) -> int:
    """Subscribers that moved again and again when all should be at rest."""
    start = course.change_s + course.steady_after_s[1]
    moves = Counter(
        row["subject"]
        for row in decisions
        if row["kind"] == "carried out" and float(row["time"]) > start
    )
    return sum(count >= SHUTTLES for count in moves.values())


ERRORS: dict[str, Callable[[list[float]], Any]] = {
    "": np.mean,
    "_size": lambda found: np.mean(np.abs(found)),
    "_spread": np.std,
}


def _errors(decisions: Sequence[Mapping[str, Any]], course: Course) -> dict[str, float]:
    """By how much predictions were off, on average; brokers that were disturbed are left out."""
    errors: dict[str, list[float]] = {"input": [], "output": []}
    for row, evidence in undisturbed(decisions, course):
        predicted = json.loads(row["predicted"])
        for name, found in errors.items():
            measured = evidence["measured"][f"{name}_ratio"]
            if measured > 0:
                found.append(predicted[f"{name}_ratio"] / measured - 1)
    return {
        f"{name}_error{kind}": PERCENT * float(of(found)) if found else nan
        for name, found in errors.items()
        for kind, of in ERRORS.items()
    }


# --- over time --------------------------------------------------------------------------------------


def over_time(tables: Tables, course: Course, every_s: float) -> dict[str, float]:
    """Indices of each edge-broker, as figures called INDEX_BROKER_at_TIME, and how they deviate; and of the
    whole, over the time since the last, the overhead and the delivery delay."""
    found: dict[str, float] = {}
    loads = tables.loads
    values = {name: smooth(loads.times, loads.by_name[name]) for name in SHOWN}
    columns = [tables.brokers.index(edge) for edge in course.edges]
    for time in np.arange(every_s, course.end_s + 1, every_s).tolist():
        row = int(np.searchsorted(loads.times, time, side="right")) - 1
        if row < 0:
            continue
        at, period = f"at_{time:g}", (time - every_s, time)
        for name in SHOWN:
            of_edges = values[name][row, columns]
            found |= {
                f"{name}_{e}_{at}": float(v) for e, v in zip(course.edges, of_edges, strict=True)
            }
            found[f"{name}_deviation_{at}"] = float(of_edges.std())
        found[f"overhead_{at}"] = overhead(tables, *period)
        found[f"delivery_delay_s_{at}"] = delivery_delay(tables, [period])
    return found
