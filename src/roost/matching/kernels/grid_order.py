"""An order in which points that are near each other stand together.

The points are split at the median of the dimension in which they are spread most, and so on within each
half (a k-d tree, of which only the order of the leaves is kept).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels.jit import kernel


@kernel
def near_order(points: NDArray[np.int64], leaf: int) -> NDArray[np.int64]:
    """The order of `points` (a row a dimension) in which each run of `leaf` is close together."""
    dimensions, n = points.shape
    order = np.arange(n)
    starts, stops = [0], [n]
    while len(starts) > 0:
        start, stop = starts.pop(), stops.pop()
        if stop - start <= leaf:
            continue
        widest, spread = 0, np.int64(-1)
        for d in range(dimensions):
            low = high = points[d, order[start]]
            for i in range(start + 1, stop):
                x = points[d, order[i]]
                low, high = min(low, x), max(high, x)
            if high - low > spread:
                widest, spread = d, high - low
        # Whole leaves on the left, about half of all.
        middle = start + max(1, (stop - start + leaf) // (2 * leaf)) * leaf
        _select(order, points[widest], start, stop - 1, middle)
        starts.append(start)
        stops.append(middle)
        starts.append(middle)
        stops.append(stop)
    return order


@kernel
def _select(order: NDArray[np.int64], x: NDArray[np.int64], low: int, high: int, k: int) -> None:
    """Arrange `order[low..high]` so that what stands before position k is not above what stands after."""
    while low < high:
        pivot = x[order[(low + high) >> 1]]
        i, j = low, high
        while i <= j:
            while x[order[i]] < pivot:
                i += 1
            while x[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            return
