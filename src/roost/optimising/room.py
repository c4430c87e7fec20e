"""Which brokers have no room for a client: those whose input or output would be too busy with it.

A broker matches what it receives and sends what matches; both take time, and a *utilisation* is how much of
its time that takes. Near 1 its queues grow, and beyond they never end. The paper moves publishers wherever
its estimates are best, takes the delays of brokers for given, and sees overloads in its experiments. Here
what a client would add is held against what there is: at the candidate itself, as brokers that would only
relay would have to be looked at for every candidate, O(N^2). To stay is always possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

UTILISATION_MAX = 0.9


class Busy(Protocol):
    """What a broker tells of its load."""

    @property
    def input_utilisation(self) -> float: ...
    @property
    def output_utilisation(self) -> float: ...
    @property
    def matching_s(self) -> float: ...  # that a publication keeps the input busy
    @property
    def sending_s(self) -> float: ...  # that a message keeps the output busy


def without_room(
    brokers: Sequence[Busy],
    more_in_per_s: NDArray[np.float64],
    more_out_per_s: NDArray[np.float64],
    limit: float,
) -> dict[int, str]:
    """The positions of brokers that have none, each with the reason; the first is where the client is."""
    inputs = np.array([a.input_utilisation for a in brokers]) + more_in_per_s * np.array(
        [a.matching_s for a in brokers]
    )
    outputs = np.array([a.output_utilisation for a in brokers]) + more_out_per_s * np.array(
        [a.sending_s for a in brokers]
    )
    full = {}
    for side, values in (("output", outputs), ("input", inputs)):
        for i in np.flatnonzero(values > limit).tolist():
            full[i] = f"its {side} utilisation would be {values[i]:.2f}, above {limit:g}"
    full.pop(0, None)
    return full
