"""What a module remembers of clients that were sent to its broker."""

from __future__ import annotations

from typing import Any, cast

from roost.broker.module import Surroundings
from roost.optimising.arrivals import ARRIVALS_MAX, SHOWN_AFTER_S, Arrival, Arrivals


class Around:
    """Of a module's surroundings, what is asked for here."""

    broker = "B1"

    def __init__(self) -> None:
        self.decisions: list[tuple[Any, ...]] = []

    def decide(self, kind: str, subject: str, choice: str, **more: Any) -> None:
        self.decisions.append((kind, subject, choice, more))


def made() -> tuple[Around, Arrivals]:
    around = Around()
    return around, Arrivals(cast(Surroundings, around))


def arrival(at: float, per_s: float = 1.0) -> Arrival:
    return Arrival(at, f"decision at {at:g}", {"delay_s": 0.5}, per_s)


def test_since_when_a_client_is_here() -> None:
    _, arrivals = made()
    arrivals.announced("P", arrival(10.0))
    assert arrivals.since_s("P", 25.0) == 15.0
    assert arrivals.since_s("Q", 25.0) is None


def test_the_outcome_is_recorded_once_next_to_the_prediction() -> None:
    around, arrivals = made()
    arrivals.announced("P", arrival(10.0))
    assert arrivals.awaits_outcome("P")
    for _ in range(2):
        arrivals.record("P", {"delay_s": 0.4})
    arrivals.record("Q", {"delay_s": 0.4})
    evidence = {"decision": "decision at 10", "measured": {"delay_s": 0.4}}
    more = {"evidence": evidence, "predicted": {"delay_s": 0.5}}
    assert around.decisions == [("outcome", "P", "B1", more)]
    assert arrivals.since_s("P", 11.0) == 1.0  # it still rests


def test_what_the_load_does_not_show_yet() -> None:
    _, arrivals = made()
    arrivals.announced("P", arrival(0.0, per_s=3.0))
    arrivals.announced("Q", arrival(20.0, per_s=4.0))
    assert arrivals.expected_per_s(20.0) == 7.0
    assert arrivals.expected_per_s(SHOWN_AFTER_S + 1.0) == 4.0


def test_the_first_is_forgotten_first() -> None:
    _, arrivals = made()
    for number in range(ARRIVALS_MAX + 1):
        arrivals.announced(f"P{number}", arrival(float(number)))
    assert arrivals.since_s("P0", 0.0) is None
    assert arrivals.since_s("P1", 1.0) == 0.0
