"""What a broker remembers of clients that modules have sent to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roost.broker.events import LoadIndices, LoadSampled
from roost.broker.module import Module, Surroundings
from roost.broker.newcomers import NEWCOMERS_MAX, SHOWN_AFTER_S, Newcomer, Newcomers
from tests.broker.kit import Federation
from tests.broker.test_modules import LOAD


def newcomer(at: float, per_s: float = 1.0, module: str = "grape") -> Newcomer:
    return Newcomer(module, at, f"decision at {at:g}", {"delay_s": 0.5}, per_s)


def test_since_when_a_client_is_here() -> None:
    newcomers = Newcomers()
    newcomers.expect("P", newcomer(10.0))
    assert newcomers.since_s("P", 25.0) == 15.0
    assert newcomers.since_s("Q", 25.0) is None


def test_the_outcome_is_asked_for_once_by_whoever_has_predicted() -> None:
    newcomers = Newcomers()
    newcomers.expect("P", newcomer(10.0))
    assert newcomers.awaits_outcome("P", "grape")
    assert not newcomers.awaits_outcome("P", "pop")
    assert newcomers.end_of_wait("P", "pop") is None
    assert newcomers.end_of_wait("P", "grape") == newcomer(10.0)
    assert newcomers.end_of_wait("P", "grape") is None
    assert newcomers.since_s("P", 11.0) == 1.0  # it still rests


def test_what_the_load_does_not_show_yet_whoever_has_sent_it() -> None:
    newcomers = Newcomers()
    newcomers.expect("P", newcomer(0.0, per_s=3.0))
    newcomers.expect("Q", newcomer(20.0, per_s=4.0, module="pop"))
    assert newcomers.expected_per_s(20.0) == 7.0
    assert newcomers.expected_per_s(SHOWN_AFTER_S + 1.0) == 4.0


def test_the_first_is_forgotten_first() -> None:
    newcomers = Newcomers()
    for number in range(NEWCOMERS_MAX + 1):
        newcomers.expect(f"P{number}", newcomer(float(number)))
    assert newcomers.since_s("P0", 0.0) is None
    assert newcomers.since_s("P1", 1.0) == 0.0


class Scripted(Module):
    """Does what its script says, a step at each sample of the load."""

    def __init__(self, name: str, *script: Callable[[Surroundings], None]) -> None:
        super().__init__()
        self.name = name
        self._script = list(script)

    def started(self, around: Surroundings, now: float) -> None:  # noqa: ARG002
        self._around = around

    def sampled(self, load: LoadIndices, now: float) -> None:  # noqa: ARG002
        self._script.pop(0)(self._around)


def test_what_one_module_announces_counts_for_another_and_the_outcome_is_its_own() -> None:
    seen = []

    def announce(around: Surroundings) -> None:
        around.expect("P", "B/one/decision 1", {"delay_s": 0.5}, publishes_per_s=3.0)

    def look(around: Surroundings) -> None:
        seen.append(
            (around.expected_per_s(), around.since_moved_s("P"), around.awaits_outcome("P"))
        )
        around.outcome("P", {"delay_s": 9.0})  # which is not for it to say

    def measure(around: Surroundings) -> None:
        assert around.awaits_outcome("P")
        for _ in range(2):
            around.outcome("P", {"delay_s": 0.4})

    def modules(broker: str) -> Sequence[Module]:
        one, other = Scripted("one", announce, measure), Scripted("other", look, look)
        return (one, other) if broker == "A" else ()

    federation = Federation(("A", "B"), modules=modules)
    for _ in range(2):
        federation.handle("A", LoadSampled(LOAD))
        federation.advance(2.0)
    assert seen == [(3.0, 0.0, False), (3.0, 2.0, False)]
    (outcome,) = federation.decisions
    assert (outcome.module, outcome.kind, outcome.subject, outcome.choice) == (
        "one",
        "outcome",
        "P",
        "A",
    )
    assert outcome.evidence == {"decision": "B/one/decision 1", "measured": {"delay_s": 0.4}}
    assert outcome.predicted == {"delay_s": 0.5}
