"""How a match is divided among tasks so that each stays within its memory.

A *cell* is what one task does: some subscriptions and some publications. First both are divided into
buckets (see `routing`): an event goes to one, and meets there every subscription that it matches. A bucket
with too many subscriptions is cut into *pieces* of them, each of which gets all of the bucket's
publications. A bucket with too many publications is cut by *salts*: each salt gets some of them, and all of
the subscriptions of its piece. So an event meets a subscription in one cell and no other, and the matches
need not be made distinct.

All decisions are pure functions of a sample and of counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roost.language import Value
from roost.matching import Ids
from roost.pipeline.matching.loading import Flat
from roost.pipeline.matching.routing import Places, Routing, mixed

# Cells that a task at a time should find, so that one that takes longer does no harm.
CELLS_A_TASK = 2
BUCKETS_MAX = 4_096
ATTRIBUTES_MAX = 16
# Pieces are made by a hash of the ids, so that some are a little larger than others.
FILL = 0.8
# A bucket is salted from so many publications on, and from so many times its fair share.
SALTED_ROWS = 20_000
SALTED_SHARE = 1.5

Values = Sequence[Value | None]


@dataclass(frozen=True)
class Layout:
    """A routing, and how many pieces and salts each bucket has."""

    routing: Routing
    pieces: tuple[int, ...]
    salts: tuple[int, ...]

    @property
    def cells(self) -> int:
        """How many there are."""
        return sum(p * s for p, s in zip(self.pieces, self.salts, strict=True))

    def cells_of_subscriptions(self, flat: Flat) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(rows, cells): where each goes, as often as there is a cell for it."""
        everywhere, rows, buckets = self.routing.places(flat)
        n = self.routing.buckets
        rows = np.concatenate([rows, np.repeat(everywhere, n)])
        buckets = np.concatenate([buckets, np.tile(np.arange(n), len(everywhere))])
        pieces, salts = np.array(self.pieces), np.array(self.salts)
        piece = self._part(flat.ids[rows], pieces[buckets])
        copies = salts[buckets]
        start = self._first()[buckets] + piece * copies
        return np.repeat(rows, copies), np.repeat(start, copies) + _counted(copies)

    def cells_of_publications(
        self, buckets: NDArray[np.int64], keys: Ids
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(rows, cells) of publications that go to these buckets."""
        pieces, salts = np.array(self.pieces)[buckets], np.array(self.salts)[buckets]
        start = self._first()[buckets] + self._part(keys, salts)
        steps = _counted(pieces) * np.repeat(salts, pieces)
        return np.repeat(np.arange(len(buckets)), pieces), np.repeat(start, pieces) + steps

    def _first(self) -> NDArray[np.int64]:
        sizes = np.array(self.pieces) * np.array(self.salts)
        first: NDArray[np.int64] = np.cumsum(sizes) - sizes
        return first

    def _part(self, keys: Ids, parts: NDArray[np.int64]) -> NDArray[np.int64]:
        # Mixed twice: the rest of one mixing may already have chosen the bucket.
        return (mixed(mixed(keys) + np.uint64(1)) % parts.astype(np.uint64)).astype(np.int64)


def _counted(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... up to each count, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


@dataclass(frozen=True)
class Sample:
    """What a routing is chosen by: a sample of both sides, and how many there are of each."""

    flat: Flat
    weights: NDArray[np.int64]
    weight: int  # of all subscriptions
    subscriptions: int
    publications: int
    columns: Mapping[
        str, Any
    ]  # of the sampled publications: an Arrow array, or values of any kinds
    keys: Ids

    def buckets_of_publications(self, routing: Routing) -> NDArray[np.float64]:
        """How many publications go to each bucket, about."""
        column = self.columns.get(str(routing.attribute))
        if isinstance(column, list):
            buckets = routing.of_values(column, self.keys)
        else:
            buckets = routing.of_column(column, self.keys)
        counts = np.bincount(buckets, minlength=routing.buckets)
        return counts.astype(np.float64) * (self.publications / max(1, len(self.keys)))


def best_routing(sample: Sample, weight_limit: float, tasks: int) -> Routing:
    """The routing by which the fewest rows have to be moved, if a cell takes `weight_limit` at most."""
    options = [Routing(), *_candidates(sample, weight_limit, tasks)]
    return min(options, key=lambda routing: rows_moved(sample, routing, weight_limit, tasks))


def _candidates(sample: Sample, weight_limit: float, tasks: int) -> Iterator[Routing]:
    least = max(CELLS_A_TASK * tasks, math.ceil(sample.weight / (FILL * weight_limit)))
    for name in _often_asked(sample.flat):
        ends = _ends(sample, name)
        for buckets in (least // 4, least // 2, least, 2 * least, 4 * least):
            if not 1 < buckets <= BUCKETS_MAX:
                continue
            yield Routing(name, buckets)
            if len(ends):
                shares = np.linspace(0, 1, buckets + 1)[1:-1]
                cuts = np.unique(np.quantile(ends, shares, method="lower"))
                yield Routing(name, len(cuts) + 1, tuple(cuts.tolist()))


def _often_asked(flat: Flat) -> list[str]:
    asked = Counter(flat.attributes.tolist())
    return [flat.names[code] for code, _ in asked.most_common(ATTRIBUTES_MAX)]


def _ends(sample: Sample, name: str) -> NDArray[np.float64]:
    """Bounds that subscriptions have on an attribute, and as many values of publications."""
    flat = sample.flat
    at = flat.attributes == flat.names.index(name)
    bounds = flat.numbers[at & flat.is_number]
    values = _numbers(sample.columns.get(name))
    both = np.concatenate([bounds, values[: len(bounds)]])
    ends: NDArray[np.float64] = both[np.isfinite(both)]
    return ends if len(bounds) else ends[:0]


def _numbers(column: Any) -> NDArray[np.float64]:
    if isinstance(column, list):
        found = [float(v) for v in column if isinstance(v, int | float) and not isinstance(v, bool)]
        return np.array(found, np.float64)
    if column is None or not (
        pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    ):
        return np.empty(0)
    numbers: NDArray[np.float64] = (
        column.drop_null().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    )
    return numbers


def rows_moved(sample: Sample, routing: Routing, weight_limit: float, tasks: int) -> float:
    """How many rows of both sides are sent to cells, about."""
    places = routing.places(sample.flat)
    scale = sample.weight / max(1, int(sample.weights.sum()))
    weights = scale * weights_by_bucket(places, routing.buckets, sample.weights)
    rows = (
        sample.subscriptions
        / max(1, len(sample.flat.ids))
        * weights_by_bucket(places, routing.buckets, np.ones(len(sample.flat.ids), np.int64))
    )
    publications = sample.buckets_of_publications(routing)
    layout = layout_of(routing, weights, weight_limit, publications, tasks)
    return float(np.dot(rows, layout.salts) + np.dot(publications, layout.pieces))


def weights_by_bucket(
    places: Places, buckets: int, weights: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What the subscriptions in each bucket weigh."""
    everywhere = weights[places.everywhere].sum()
    there = np.bincount(places.buckets, weights=weights[places.rows], minlength=buckets)
    return there.astype(np.float64) + float(everywhere)


def layout_of(
    routing: Routing,
    weights: NDArray[np.float64],
    weight_limit: float,
    publications: NDArray[np.float64],
    tasks: int,
) -> Layout:
    """Cells that stay within the limit, and of which none has far more publications than its share."""
    pieces = np.ceil(weights / (FILL * weight_limit)).astype(np.int64).clip(min=1)
    fair = float(np.dot(publications, pieces)) / (CELLS_A_TASK * tasks)
    hot = (publications > SALTED_SHARE * fair) & (publications > SALTED_ROWS)
    salts = np.where(hot, np.ceil(publications / max(1.0, fair)), 1).astype(np.int64)
    return Layout(routing, tuple(pieces.tolist()), tuple(salts.tolist()))
