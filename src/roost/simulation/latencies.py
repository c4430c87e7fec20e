"""Latencies of links: constant, given with the link, or from a matrix of round-trip times.

A matrix is a `.npz` file (the array `rtt_ms`, or the only one that it holds) or a `.csv` file of
numbers, square, in milliseconds for the round trip. Brokers take its rows in the order in which they
are first asked for; more brokers than rows begin again at the first. What is missing (NaN, or a broker
to itself) is the median of the rest.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost.errors import UserError

ARRAY = "rtt_ms"
MS = 1e-3
MATRIX_DIMENSIONS = 2


class Latencies:
    """One-way latencies, in seconds."""

    def __init__(self, default_s: float) -> None:
        self._default_s = default_s
        self._one_way_s: NDArray[np.float64] | None = None
        self._rows: dict[str, int] = {}

    def read(self, path: str) -> None:
        self._one_way_s = read_matrix(Path(path)) * MS / 2
        self._rows.clear()

    def between(self, a: str, b: str, given_s: float | None) -> float:
        if given_s is not None:
            return given_s
        if self._one_way_s is None:
            return self._default_s
        size = len(self._one_way_s)
        row, column = (self._rows.setdefault(name, len(self._rows)) % size for name in (a, b))
        return float(self._one_way_s[row, column])


def read_matrix(path: Path) -> NDArray[np.float64]:
    """A square matrix of round-trip times in ms, without holes."""
    try:
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                name = ARRAY if ARRAY in arrays.files else arrays.files[0]
                matrix = np.asarray(arrays[name], dtype=np.float64)
        else:
            matrix = np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file of latencies") from None
    except (OSError, ValueError, IndexError) as error:
        raise UserError(f"{path}: no matrix of latencies: {error}") from None
    if matrix.ndim != MATRIX_DIMENSIONS or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise UserError(f"{path}: a square matrix was expected, not one of {matrix.shape}")
    known = np.isfinite(matrix) & ~np.eye(len(matrix), dtype=bool)
    if (matrix[known] < 0).any():
        raise UserError(f"{path}: a latency is negative")
    matrix[~known] = np.median(matrix[known]) if known.any() else 0.0
    return matrix
