"""The match benchmark: the index against a NumPy scan and against the obvious loop.

All three answer the same questions, and their answers are compared before anything is measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from roost.bench.churn import churn as run_churn
from roost.bench.fresh import resident_growth, start_up_s
from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table, run_name
from roost.bench.scan import Scan
from roost.bench.sizes import BATCH
from roost.bench.timing import (
    BUDGET_S,
    Say,
    durations_us,
    elapsed_s,
    percentile,
    rate,
    silent,
    steady_memory,
)
from roost.bench.workloads import Workload, workload_of
from roost.language import Event, Filter
from roost.matching import Ids, Index, Matcher, Naive

REMOVALS_MAX = 100_000
COMPARED_EVENTS = 64
# The obvious loop is compared on fewer events: this many comparisons of a filter with an event.
COMPARED_NAIVE = 2_000_000
NEWCOMERS_MAX = 20_000
WARM_UP = 2_000
RECENT_EVENTS = 1_024


class DisagreementError(Exception):
    """Two matchers gave different answers: no figure is worth anything then."""


def run(
    workload: str,
    subscriptions: int,
    events: int,
    seed: int,
    churn: float = 0,
    say: Say = silent,
    budget_s: float = BUDGET_S,
) -> Result:
    """Measure one workload at one size; each rate of matching for about `budget_s` at most.

    `churn` are the subscriptions to be replaced a second, in a part of its own; 0 leaves it out.
    """
    say(f"{workload}: generating {subscriptions:,} subscriptions and {events:,} events")
    load = workload_of(workload, seed, subscriptions, events)
    figures = _of_fresh_processes(load, seed, say)
    filters, event_list = load.filters(), load.events()
    with steady_memory():
        index, scan, naive, loading = _loaded(load, filters, say)
        figures |= loading
        figures["matches_per_event"] = _compare(load, index, scan, naive, event_list, say)
        figures |= _rates(load, index, scan, naive, event_list, budget_s, say)
        figures |= _removals(index, naive, say)
        if churn:
            del naive, scan
            figures |= _churned(load, filters, event_list, churn, seed, budget_s, say)
    return {
        "bench": "match",
        "config": {
            "workload": workload,
            "subscriptions": subscriptions,
            "events": events,
            "batch": BATCH,
            "churn": churn,
            "seed": seed,
            "commit": commit(),
            "machine": machine(),
        },
        "results": figures,
        "ratios": _ratios(figures),
    }


def _of_fresh_processes(load: Workload, seed: int, say: Say) -> dict[str, float]:
    say("starting fresh processes, for their start-up and their memory")
    figures = {"start_up_s": start_up_s()}
    growth = resident_growth(load.name, load.subscription_count, seed)
    if growth is not None:
        figures["index_resident_bytes_per_subscription"] = growth / load.subscription_count
    return figures


def _loaded(
    load: Workload, filters: Sequence[Filter], say: Say
) -> tuple[Index, Scan, Naive, dict[str, float]]:
    """The three with all subscriptions, and how quick loading was."""
    n = len(filters)
    _warm_up(load)

    def in_bulk() -> None:
        for ids, predicates in load.templates:
            bulk.add_columns(ids, predicates)

    def one_by_one(matcher: Matcher) -> None:
        for id_, filter_ in enumerate(filters):
            matcher.add(id_, filter_)

    say(f"loading {n:,} subscriptions from columns")
    bulk, index, naive = Index(), Index(), Naive()
    figures = {"index_bulk_add_per_s": n / elapsed_s(in_bulk)}
    figures["index_bytes_per_subscription"] = bulk.memory_bytes() / n
    figures["scan_bulk_add_per_s"] = n / elapsed_s(lambda: Scan(load.templates))
    say(f"adding {n:,} subscriptions one by one")
    figures["index_add_per_s"] = n / elapsed_s(lambda: one_by_one(index))
    figures["naive_add_per_s"] = n / elapsed_s(lambda: one_by_one(naive))
    return bulk, Scan(load.templates), naive, figures


def _warm_up(load: Workload) -> None:
    """Loads the kernels, so that no figure has to."""
    small = workload_of(load.name, 0, WARM_UP, 10)
    index = Index()
    for ids, predicates in small.templates:
        index.add_columns(ids, predicates)
    for id_ in range(WARM_UP):
        index.remove(id_)
    for id_, filter_ in enumerate(small.filters()):
        index.add(id_, filter_)
    for event in small.events():
        index.match(event)
    for batch in small.batches():
        index.match_batch(batch)
    for id_ in range(WARM_UP):
        index.remove(id_)


def _compare(
    load: Workload, index: Index, scan: Scan, naive: Naive, events: Sequence[Event], say: Say
) -> float:
    """Holds the three to each other; how many subscriptions an event matches on average."""
    say("comparing the answers")
    first = next(load.batches(COMPARED_EVENTS))
    answers = _answers(*index.match_batch(first))
    tried_by_naive = max(1, COMPARED_NAIVE // max(1, len(naive)))
    for i, event in enumerate(events[: len(answers)]):
        _hold("index, one at a time", i, answers[i], index.match(event))
        octets = msgspec.msgpack.encode(event.attributes)
        _hold("index, from bytes", i, answers[i], index.match_bytes(octets))
        _hold("scan", i, answers[i], scan.match(event))
        if i < tried_by_naive:
            _hold("naive", i, answers[i], naive.match(event))
    for i, ids in enumerate(_answers(*scan.match_batch(first))):
        _hold("scan, in a batch", i, answers[i], ids)
    return sum(int(index.match_batch(batch)[0][-1]) for batch in load.batches()) / len(events)


def _answers(offsets: Ids, ids: Ids) -> list[Ids]:
    return [np.sort(ids[start:end]) for start, end in pairwise(offsets.tolist())]


def _hold(who: str, event: int, expected: Ids, found: Ids) -> None:
    if not np.array_equal(expected, np.sort(found)):
        odd = np.setxor1d(expected, found)
        raise DisagreementError(
            f"event {event}: index, in a batch, and {who} differ in {len(odd):,} subscriptions,"
            f" for instance {odd[:3].tolist()}"
        )


def _rates(
    load: Workload,
    index: Index,
    scan: Scan,
    naive: Naive,
    events: list[Event],
    budget_s: float,
    say: Say,
) -> dict[str, float]:
    """Events a second, alone and in batches. The slow ones get as few as the budget allows."""
    figures = {}
    # Few enough to stay in the cache, as an event is when a broker has just decoded it.
    recent = events[:RECENT_EVENTS]
    for who, match in (("index", index.match), ("scan", scan.match), ("naive", naive.match)):
        say(f"matching one at a time: {who}")
        figures[f"{who}_single_events_per_s"] = rate(match, recent, None, budget_s)
    say("matching one at a time from MessagePack: index")
    octets = [msgspec.msgpack.encode(event.attributes) for event in events]
    index.match_bytes(octets[0])
    recent_octets = octets[:RECENT_EVENTS]
    figures["index_bytes_events_per_s"] = rate(index.match_bytes, recent_octets, None, budget_s)
    each = durations_us(index.match, events)
    figures["index_match_us_p50"] = percentile(each, 50)
    figures["index_match_us_p99"] = percentile(each, 99)

    def size(batch: dict[str, Any]) -> int:
        return len(next(iter(batch.values())))

    def few(who: str) -> int:
        return max(1, min(BATCH, int(figures[f"{who}_single_events_per_s"] * budget_s)))

    say(f"matching in batches of {BATCH:,}")
    # As a Spark task gets them: strings as Arrow has them, not dictionary-encoded.
    arrow = [{name: pa.array(c) for name, c in batch.items()} for batch in load.batches()]
    part = [next(load.batches(few("scan")))]
    spans = [_span(octets[at : at + BATCH]) for at in range(0, len(octets), BATCH)]
    figures["index_spans_events_per_s"] = rate(
        lambda span: index.match_spans(*span), spans, lambda span: len(span[1]) - 1, budget_s
    )
    figures["index_batch_events_per_s"] = rate(index.match_batch, arrow, size, budget_s)
    figures["index_parts_events_per_s"] = rate(
        lambda batch: deque(index.match_parts(batch), maxlen=0), arrow, size, budget_s
    )
    figures["scan_batch_events_per_s"] = rate(scan.match_batch, part, size, budget_s)
    figures["naive_batch_events_per_s"] = rate(
        naive.match_batch, [events[: few("naive")]], len, budget_s
    )
    return figures


def _span(octets: list[bytes]) -> tuple[bytes, Ids]:
    """Events that follow each other, and where each begins."""
    return b"".join(octets), np.cumsum([0, *map(len, octets)], dtype=np.int64)


def _removals(index: Index, naive: Naive, say: Say) -> dict[str, float]:
    say("removing subscriptions")
    leaving = np.random.default_rng(0).permutation(len(index))[:REMOVALS_MAX].tolist()

    def remove_from(matcher: Matcher) -> None:
        for id_ in leaving:
            matcher.remove(id_)

    return {
        "index_remove_per_s": len(leaving) / elapsed_s(lambda: remove_from(index)),
        "naive_remove_per_s": len(leaving) / elapsed_s(lambda: remove_from(naive)),
    }


def _churned(
    load: Workload,
    filters: Sequence[Filter],
    events: Sequence[Event],
    per_s: float,
    seed: int,
    budget_s: float,
    say: Say,
) -> dict[str, float]:
    say(f"matching while {per_s:,.0f} subscriptions a second are replaced")
    index = Index()
    for ids, predicates in load.templates:
        index.add_columns(ids, predicates)
    live = dict(enumerate(filters))
    newcomers = workload_of(load.name, seed + 1, min(len(filters), NEWCOMERS_MAX), 1).filters()
    quiet = run_churn(index, live, newcomers, events, 0, budget_s)
    busy = run_churn(index, live, newcomers, events, per_s, budget_s)
    # Matching went on while the index changed: does it still know what it holds?
    tried = max(1, COMPARED_NAIVE // len(filters))
    for i, event in enumerate(events[:tried]):
        expected = [id_ for id_, filter_ in busy.live.items() if filter_.matches(event)]
        _hold(
            "the subscriptions after the churn", i, np.sort(index.match(event)), np.array(expected)
        )
    return {
        "churn_events_per_s": busy.events_per_s,
        "churn_quiet_events_per_s": quiet.events_per_s,
        "churn_replaced_per_s": busy.replaced_per_s,
        "churn_stall_ms_max": busy.stall_ms_max,
        "churn_quiet_stall_ms_max": quiet.stall_ms_max,
    }


def _ratios(figures: dict[str, float]) -> dict[str, float]:
    ratios = {
        f"{how}_index_over_{other}": figures[f"index_{how}_events_per_s"]
        / figures[f"{other}_{how}_events_per_s"]
        for other in ("scan", "naive")
        for how in ("single", "batch")
    }
    if "churn_events_per_s" in figures:
        quiet = figures["churn_quiet_events_per_s"]
        ratios["churn_over_quiet"] = figures["churn_events_per_s"] / quiet
    return ratios


# --- for people -----------------------------------------------------------------------------------

_ROWS = (
    ("events/s, one at a time", "single_events_per_s"),
    ("events/s, one at a time, from MessagePack", "bytes_events_per_s"),
    (f"events/s, in batches of {BATCH:,}", "batch_events_per_s"),
    (f"events/s, in batches of {BATCH:,}, looked at in parts", "parts_events_per_s"),
    (f"events/s, in batches of {BATCH:,}, from MessagePack", "spans_events_per_s"),
    ("added/s, one by one", "add_per_s"),
    ("added/s, from columns", "bulk_add_per_s"),
    ("removed/s", "remove_per_s"),
    ("bytes a subscription, by its own account", "bytes_per_subscription"),
    ("bytes a subscription, growth of a fresh process", "resident_bytes_per_subscription"),
    ("one match, median, µs", "match_us_p50"),
    ("one match, 99th percentile, µs", "match_us_p99"),
)


def table(result: Result) -> Table:
    """The result for people: a column a matcher."""
    config, figures, ratios = result["config"], result["results"], result["ratios"]
    rows = [
        [label, *(_shown(figures.get(f"{who}_{figure}")) for who in ("index", "scan", "naive"))]
        for label, figure in _ROWS
    ]
    for how, label in (("single", "one at a time"), ("batch", "in batches")):
        times = [f"{ratios[f'{how}_index_over_{other}']:,.1f}" for other in ("scan", "naive")]
        rows.append([f"the index is so many times as fast, {label}", "", *times])
    return Table(
        run_name(result),
        f"Match: {config['workload']}, {config['subscriptions']:,} subscriptions",
        ["", "index", "scan", "naive"],
        rows,
        _notes(config, figures),
    )


def _notes(config: dict[str, Any], figures: dict[str, float]) -> list[str]:
    notes = [
        f"An event matches {_shown(figures['matches_per_event'])} subscriptions on average"
        f" ({config['events']:,} events).",
        f"A new process has its first answer after {figures['start_up_s']:.2f} s.",
    ]
    if "churn_events_per_s" in figures:
        notes.append(
            f"With {_shown(figures['churn_replaced_per_s'])} subscriptions replaced a second:"
            f" {_shown(figures['churn_events_per_s'])} events/s one at a time"
            f" ({_shown(figures['churn_quiet_events_per_s'])} without);"
            f" the longest single call took {figures['churn_stall_ms_max']:.2f} ms"
            f" ({figures['churn_quiet_stall_ms_max']:.2f} ms without)."
        )
    return notes


def _shown(figure: float | None) -> str:
    if figure is None:
        return ""
    return f"{figure:,.1f}" if figure < 100 else f"{figure:,.0f}"
