"""The load indices of a broker, and how two are compared (001 sections 3.3.1 and 3.3.2).

A broker has three indices, which are balanced: the input utilisation ratio I_r (3.1), the matching delay
(whose inverse is the maximum matching rate, 3.2), and the output utilisation ratio O_r (3.3). Two more
ratios, of processor and memory, are only kept from overload. An index is named after the *action* that
balances it.

Ratios are compared as they are. Delays are compared by their percentage difference (3.5): over a fixed
factor N_f, not over one of them, so that neither tiny nor huge delays are taken too seriously.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from roost.broker.events import LoadIndices


class Action(StrEnum):
    """What is balanced: the input ratio, the matching delay or the output ratio."""

    INPUT = "input"
    MATCH = "match"
    OUTPUT = "output"


class Indices(Struct, frozen=True, gc=False):
    """What brokers tell each other of their load."""

    input_ratio: float
    output_ratio: float
    matching_delay_s: float

    def of(self, action: Action) -> float:
        """The index that an action balances."""
        if action is Action.INPUT:
            return self.input_ratio
        return self.output_ratio if action is Action.OUTPUT else self.matching_delay_s


class BrokerIndices(Indices, frozen=True, gc=False):
    """What a broker knows of its own load: also what is only kept from overload."""

    cpu_ratio: float
    memory_ratio: float


def indices_of(load: LoadIndices) -> BrokerIndices:
    """The indices of a sample, simulated or live."""
    total = load.memory_total_bytes
    return BrokerIndices(
        input_ratio=load.input_utilisation,
        output_ratio=load.output_utilisation,
        matching_delay_s=load.matching_delay_s,
        cpu_ratio=load.cpu_utilisation,
        memory_ratio=load.memory_bytes / total if total else 0.0,
    )


def smoothed(previous: BrokerIndices | None, current: BrokerIndices, alpha: float) -> BrokerIndices:
    """What detection works with (3.4): the current values, and some of what it worked with before."""
    if previous is None:
        return current
    return BrokerIndices(
        *(
            alpha * getattr(current, name) + (1 - alpha) * getattr(previous, name)
            for name in BrokerIndices.__struct_fields__
        )
    )


def mean_of(indices: list[Indices]) -> Indices:
    """The indices of a cluster: the mean of its edge-brokers' (3.3.1.2)."""
    n = len(indices)
    return Indices(
        *(sum(getattr(each, name) for each in indices) / n for name in Indices.__struct_fields__)
    )


def delay_difference(first_s: float, second_s: float, normalisation_s: float) -> float:
    """The percentage difference of two delays (3.5).

    >>> delay_difference(0.000002, 0.000001, 0.1)
    1e-05
    """
    return (first_s - second_s) / normalisation_s


def difference(action: Action, own: Indices, other: Indices, normalisation_s: float) -> float:
    """By how much the first is more loaded, in the index that an action balances."""
    first, second = own.of(action), other.of(action)
    if action is Action.MATCH:
        return delay_difference(first, second, normalisation_s)
    return first - second
