"""Small random worlds: a tree of brokers, delays in whole milliseconds, and who was delivered what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from roost.optimising.bitvector import BitVector
from roost.relocation.statistics import Answer, Neighbour

MS = st.integers(0, 9).map(lambda ms: ms / 1000)
PUBLICATIONS = 70  # more than a word has bits


def bits(row: Sequence[int]) -> bytes:
    return BitVector(i for i, clients in enumerate(row) if clients).to_bytes()


@dataclass(frozen=True)
class World:
    answers: tuple[Answer, ...]
    deliveries: Mapping[
        str, Sequence[int]
    ]  # of each broker: clients that got publication 0, 1, ...

    @property
    def names(self) -> list[str]:
        return [answer.broker for answer in self.answers]


@st.composite
def rows(draw: st.DrawFn, most: int = 2) -> list[int]:
    """How many clients got each publication, mostly none."""
    row = [0] * PUBLICATIONS
    for position in draw(st.lists(st.integers(0, PUBLICATIONS - 1), max_size=5)):
        row[position] = draw(st.integers(1, most))
    return row


@st.composite
def worlds(draw: st.DrawFn, most: int = 9) -> World:
    """Named so that neither the layout nor the order of answers is the order of names."""
    n = draw(st.integers(1, most))
    names = draw(st.permutations([f"B{i}" for i in range(n)]))
    near: dict[str, list[str]] = {name: [] for name in names}
    for i in range(1, n):
        other = names[draw(st.integers(0, i - 1))]
        near[names[i]].append(other)
        near[other].append(names[i])
    deliveries = {
        name: draw(rows()) if draw(st.booleans()) else [0] * PUBLICATIONS for name in names
    }
    answers = [
        Answer(
            broker=name,
            neighbours=tuple(Neighbour(other, draw(MS), draw(MS)) for other in near[name]),
            bits=bits(deliveries[name]),
            deliveries=sum(deliveries[name]),
            input_queueing_s=draw(MS),
            matching_s=draw(MS),
            output_queueing_s=draw(MS),
        )
        for name in draw(st.permutations(names))
    ]
    return World(tuple(answers), deliveries)
