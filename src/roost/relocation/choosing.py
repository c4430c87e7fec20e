"""Which of the candidates it is: two metrics, one of them first, and by how much (000 section 4.2).

The metric of *priority* is normalised over the candidates to 0 (the lowest) up to 100 (the highest), those
above 100 - weight are dropped, and of the rest the lowest by the other metric is chosen. So

- at weight 100 only the lowest by the metric of priority remain; the other one only decides between equals;
- at weight 0 all remain, and the metric of priority only decides between equals;
- in between a candidate may have up to (100 - weight) % of the way from the lowest to the highest.

The paper says "normalize" and no more. Dividing by the highest would leave nobody in most cases: if delays
are 80 to 100 ms, none is below 20 % of the highest. By lowest and highest, somebody always remains.

Equal by the other metric: the lower by the metric of priority; equal by both: where the client is now (to
move for nothing is a fault); else the first by name. Delays count in whole nanoseconds and loads in
billionths of a message a second, so that errors of rounding break no ties; a limit between two such units
is the upper one, so that rounding drops nobody who is exactly on it.

Whether to move there at all (`worth`) is judged in the metric by which the present broker lost, in which a
move saves something by definition; the other one may get worse, as the weight allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

import numpy as np
from msgspec import Struct

from roost.optimising.bitvector import Ints
from roost.optimising.goal import Goal
from roost.optimising.worth import (
    UNITS,
    Metric,
    Terms,
    Verdict,
    worth_of_delay,
    worth_of_messages,
)
from roost.relocation.tree import Floats

# Candidates shown for their rank; besides, where the client is and the best of each metric.
EVIDENCE_MAX = 8
RESOLUTION = 1e-9

_KEPT, _DROPPED, _EXCLUDED = 0, 1, 2


class Candidate(Struct, frozen=True):
    """What is predicted with the client at a broker, and what became of it, in words."""

    broker: str
    delay_s: float  # average from publishing to delivery
    load_per_s: float  # messages that all brokers together receive
    outcome: str


class Choice(Struct, frozen=True):
    """Where the client should be, and the evidence."""

    goal: Goal
    chosen: Candidate
    present: Candidate  # where it is now
    # By which metric the present broker lost; None if it is the chosen one, or was equal.
    decided_by: Metric | None
    deliveries_per_s: float  # that the delay is the average of
    candidates: int
    # Best first. Of many candidates only the first few, the present one and the best of each metric.
    evidence: tuple[Candidate, ...]

    @property
    def moves(self) -> bool:
        """Whether it is somewhere else."""
        return self.chosen.broker != self.present.broker


def choose(
    goal: Goal,
    names: Sequence[str],
    present: int,
    delays_s: Floats,
    loads_per_s: Floats,
    *,
    deliveries_per_s: float,
    excluded: Mapping[int, str],
) -> Choice:
    """The choice among `names`, with the predictions for each. Those `excluded` have their reason."""
    contest = _Contest(goal, names, present, delays_s, loads_per_s, excluded)
    winner = contest.winner()
    return Choice(
        goal=goal,
        chosen=contest.candidate(winner, winner),
        present=contest.candidate(present, winner),
        decided_by=contest.decided_by(present, winner),
        deliveries_per_s=deliveries_per_s,
        candidates=len(names) - len(excluded),
        evidence=tuple(contest.candidate(i, winner) for i in contest.shown(winner)),
    )


def worth(
    choice: Choice, path_brokers: int, since_move_s: float | None = None, terms: Terms | None = None
) -> Verdict:
    """Whether a choice pays for itself. `path_brokers` are those of the migration path, both ends included.

    `since_move_s` is how long ago the client moved last; None if it has not.
    """
    terms = terms or Terms()
    present, chosen = choice.present, choice.chosen
    if choice.decided_by is None:
        return Verdict(False, 0.0, 0.0, UNITS[choice.goal.priority], "no broker is better")
    if choice.decided_by == "load":
        now, then = present.load_per_s, chosen.load_per_s
        return worth_of_messages(now, then, path_brokers, since_move_s, terms)
    rate = choice.deliveries_per_s
    return worth_of_delay(present.delay_s, chosen.delay_s, rate, path_brokers, since_move_s, terms)


class _Contest:
    """Candidates by position, in whole units of both metrics."""

    def __init__(
        self,
        goal: Goal,
        names: Sequence[str],
        present: int,
        delays_s: Floats,
        loads_per_s: Floats,
        excluded: Mapping[int, str],
    ) -> None:
        self.goal, self.names, self.present, self.excluded = goal, names, present, excluded
        self.values = {"delay": delays_s, "load": loads_per_s}
        self.units = {name: _whole(values) for name, values in self.values.items()}
        first, second = self.units[goal.priority], self.units[goal.other]
        self.open = np.ones(len(names), bool)
        self.open[list(excluded)] = False
        low, high = int(first[self.open].min()), int(first[self.open].max())
        self.limit = low + ceil((high - low) * (100 - Fraction(goal.weight)) / 100)
        self.state = np.where(first <= self.limit, _KEPT, _DROPPED)
        self.state[~self.open] = _EXCLUDED
        kept = self.state == _KEPT
        # Whoever is dropped comes in the order in which it would have been kept.
        self.order: Ints = np.lexsort(
            (
                np.arange(len(names)) != present,
                np.where(kept, first, second),
                np.where(kept, second, first),
                self.state,
            )
        )

    def winner(self) -> int:
        """The chosen one."""
        best = int(self.order[0])
        if best == self.present:
            return best
        same = self.state == _KEPT
        for units in self.units.values():
            same &= units == units[best]
        return min((int(i) for i in np.nonzero(same)[0]), key=self.names.__getitem__)

    def decided_by(self, i: int, winner: int) -> Metric | None:
        """The metric by which a candidate lost."""
        if self.state[i] != _KEPT:
            return self.goal.priority
        for metric in (self.goal.other, self.goal.priority):
            if self.units[metric][i] != self.units[metric][winner]:
                return metric
        return None

    def shown(self, winner: int) -> list[int]:
        """The positions of the evidence."""
        among = np.nonzero(self.open)[0]
        best = [int(among[units[among].argmin()]) for units in self.units.values()]
        ranked = self.order[:EVIDENCE_MAX].tolist()
        return list(dict.fromkeys([winner, *ranked, *best, self.present]))

    def candidate(self, i: int, winner: int) -> Candidate:
        """With what became of it."""
        return Candidate(
            self.names[i],
            float(self.values["delay"][i]),
            float(self.values["load"][i]),
            "chosen" if i == winner else self._why_lost(i, winner),
        )

    def _why_lost(self, i: int, winner: int) -> str:
        if self.state[i] == _EXCLUDED:
            return self.excluded[i]
        goal, best = self.goal, self.names[winner]
        metric = self.decided_by(i, winner)
        if metric is None:
            reason = "where it is" if winner == self.present else "first by name"
            return f"equal to {best}, which is {reason}"
        here = f"a {metric} of {_text(metric, float(self.values[metric][i]))}"
        if self.state[i] == _DROPPED:
            limit = _text(metric, self.limit * RESOLUTION)
            return f"{here} is above {limit}, the limit at weight {goal.weight:g} %"
        equal = "" if metric == goal.other else f"the same {goal.other}, but "
        return (
            f"{equal}{here} is above {_text(metric, float(self.values[metric][winner]))} at {best}"
        )


def _whole(values: Floats) -> Ints:
    return np.rint(values / RESOLUTION).astype(np.int64)


def _text(metric: Metric, value: float) -> str:
    return f"{value * 1e3:.6g} ms" if metric == "delay" else f"{value:.6g} messages/s"
