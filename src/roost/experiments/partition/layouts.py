"""Spark's plan `partitioned` and mPartition, as two ways to divide one match (004 section III.A).

The plan divides by one attribute: a subscription goes to every bucket that it overlaps, an event to one. That
is P2P in the paper's words. mPartition would send subscriptions along several dimensions, and every event to
the smallest of its candidates' sets. Both by their own pure functions (`layout`, `partition.capacity`), on
the paper's workload: how many rows are moved, how often a subscription is copied, how much is searched, and
how large the largest part of that is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from roost.experiments.partition.setup import dimensions_of, points, ranges, subscription_texts
from roost.language import parse_filter
from roost.partition.capacity import Floats, set_sizes
from roost.partition.handover import first_table
from roost.pipeline.matching.layout import Sample, best_routing, layout_of, weights_by_bucket
from roost.pipeline.matching.loading import Flat
from roost.pipeline.parsed import to_arrow
from roost.pipeline.schemas import SCHEMAS
from roost.pipeline.sweeps.tasks import Parameters, Row

# What a subscription of four ranges weighs, about.
WEIGHT = 40
SAMPLE = 4_000


def layouts_row(parameters: Parameters, seed: int) -> Row:
    """`parts`: into how many the subscriptions have to be cut, at least, so that one fits into a task."""
    subscriptions, publications = int(parameters["subscriptions"]), int(parameters["publications"])
    parts, tasks = int(parameters["parts"]), int(parameters["tasks"])
    low, high = ranges(seed, subscriptions)
    where = points(seed, min(publications, SAMPLE))
    scale = publications / len(where)
    return {
        **_prefixed("plan", by_one_attribute(seed, subscriptions, publications, parts, tasks)),
        **_prefixed("mpartition", by_several(low, high, where, parts, scale)),
    }


def _prefixed(word: str, row: dict[str, float]) -> dict[str, float]:
    return {f"{word}_{name}": value for name, value in row.items()}


def by_one_attribute(
    seed: int, subscriptions: int, publications: int, parts: int, tasks: int
) -> dict[str, float]:
    """As `pipeline.matching.layout` divides it."""
    filters = [parse_filter(text) for text in subscription_texts(seed, subscriptions)]
    ids = pa.array(range(subscriptions), pa.int64())
    batch = pa.record_batch([ids, to_arrow(filters)], SCHEMAS["parsed"])
    where = points(seed, min(publications, SAMPLE))
    columns = {f"d{d}": pa.array(where[:, d]) for d in range(where.shape[1])}
    weights = np.full(subscriptions, WEIGHT)
    total = WEIGHT * subscriptions
    sample = Sample(
        Flat.of(batch),
        weights,
        total,
        subscriptions,
        publications,
        columns,
        np.arange(len(where)),
    )
    limit = total / parts
    routing = best_routing(sample, limit, tasks)
    places = routing.places(sample.flat)
    held = weights_by_bucket(places, routing.buckets, np.ones(subscriptions, np.int64))
    come = sample.buckets_of_publications(routing)
    layout = layout_of(routing, WEIGHT * held, limit, come, tasks)
    pieces, salts = np.array(layout.pieces), np.array(layout.salts)
    works = (held / pieces) * (come / salts)  # of a cell, of which there are pieces * salts
    cells = pieces * salts
    return {
        "cells": float(cells.sum()),
        "rows": float(np.dot(held, salts) + np.dot(come, pieces)),
        "copies": float(np.dot(held, salts)) / subscriptions,
        "searched": float(np.dot(works, cells)) / publications / subscriptions,
        "largest_set": float((held / pieces).max()) / subscriptions,
        "largest_part": float(works.max() / np.dot(works, cells)),
    }


def by_several(
    low: Floats, high: Floats, where: Floats, parts: int, scale: float
) -> dict[str, float]:
    """As matchers would have it: so many, a segment of every dimension each, sets apart."""
    table = first_table(dimensions_of(where.shape[1]), [f"M{n}" for n in range(parts)])
    sizes = set_sizes(table, low, high)
    found = np.empty(where.shape)
    cells = np.empty(where.shape, np.int64)
    for dimension, row in enumerate(table.segments):
        starts = np.array([segment.start for segment in row])
        place = np.searchsorted(starts, where[:, dimension], "right") - 1
        found[:, dimension] = sizes[dimension][place]
        cells[:, dimension] = dimension * parts + place
    chosen = found.argmin(axis=1)
    rows = np.arange(len(where))
    works = np.bincount(cells[rows, chosen], weights=found[rows, chosen])
    subscriptions, held = len(low), float(sum(row.sum() for row in sizes))
    return {
        "cells": float(parts * where.shape[1]),
        "rows": held + scale * len(where),
        "copies": held / subscriptions,
        "searched": float(works.sum()) / len(where) / subscriptions,
        "largest_set": float(max(row.max() for row in sizes)) / subscriptions,
        "largest_part": float(works.max() / works.sum()),
    }
