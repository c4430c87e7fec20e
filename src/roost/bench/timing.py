"""Measuring: rates, percentiles, and telling a person how far it is."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from rich.console import Console

Say = Callable[[str], None]
T = TypeVar("T")

BUDGET_S = 2.0
ENOUGH_S = 0.5  # of the budget, if there were also enough rounds
ROUNDS = 3
# A first guess of how many items to take grows by this until it takes long enough.
GROWTH = 4


def elapsed_s(work: Callable[[], object]) -> float:
    """How long `work` takes, once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rate(
    step: Callable[[T], object],
    items: Sequence[T],
    amount: Callable[[T], int] | None = None,
    budget_s: float = BUDGET_S,
) -> float:
    """Items a second (or what `amount` says of them), in the best of several rounds.

    A round goes through all items, or through as many of the first as keep it in the budget.
    """

    def run(n: int) -> float:
        start = time.perf_counter()
        for item in items[:n]:
            step(item)
        return time.perf_counter() - start

    n = 1
    took = spent = run(n)
    while n < len(items) and took * (GROWTH + 1) < budget_s:
        n = min(len(items), GROWTH * n)
        took = run(n)
        spent += took
    best, rounds = took, 1
    while spent < budget_s and (rounds < ROUNDS or spent < ENOUGH_S):
        took = run(n)
        best, rounds, spent = min(best, took), rounds + 1, spent + took
    done = n if amount is None else sum(map(amount, items[:n]))
    return done / best


def durations_us(step: Callable[[T], object], items: Sequence[T]) -> list[float]:
    """How long each single step takes."""
    clock = time.perf_counter_ns
    found = []
    for item in items:
        start = clock()
        step(item)
        found.append((clock() - start) / 1_000)
    return found


def percentile(durations: Sequence[float], q: float) -> float:
    """The duration that `q` % of them do not exceed."""
    return float(np.percentile(np.array(durations), q))


@contextmanager
def steady_memory() -> Iterator[None]:
    """Keeps the garbage collector off what exists: a million filters are no one's cost."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def silent(_: str) -> None:
    """Says nothing."""


@contextmanager
def progress() -> Iterator[Say]:
    """Shows on stderr what is being done, if a person is looking."""
    if not sys.stderr.isatty():
        yield silent
        return
    with Console(stderr=True, markup=False, highlight=False).status("...") as status:
        yield status.update
