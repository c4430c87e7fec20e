"""Hierarchies whose brokers change between tree and cluster: bugs that random scenarios have to find."""

from __future__ import annotations

import pytest

from roost.broker.hierarchy import Clustered, Complete, Upward
from roost.broker.hops import Link
from roost.simulation.fuzz import fuzz
from roost.simulation.scenario_settings import CLUSTERS

ask, asked, note_to = Clustered._ask, Clustered._asked, Clustered._note_to


def relies_on_what_it_was_not_told(self: Clustered, cause: str) -> None:
    ask(self, cause)
    self._is_told_all = self.way == "tree"


def answers_for_what_it_does_not_know(
    self: Clustered, link: Link, said: Upward, cause: str
) -> None:
    asked(self, link, said, cause)
    if said.wants and not self.is_complete:
        self._note_to(link, Complete(said.number, True), cause)


def keeps_quiet(self: Clustered, link: Link, what: Upward | Complete, cause: str) -> None:
    if isinstance(what, Upward) or what.is_so:
        note_to(self, link, what, cause)


@pytest.mark.parametrize(
    ("function", "bug", "seed"),
    [
        ("_ask", relies_on_what_it_was_not_told, 0),
        ("_asked", answers_for_what_it_does_not_know, 10),
        ("_note_to", keeps_quiet, 124),
    ],
)
def test_who_changes_its_way_wrongly_loses_events(
    monkeypatch: pytest.MonkeyPatch, function: str, bug: object, seed: int
) -> None:
    _, _, without = fuzz(seed, CLUSTERS)
    assert without.clean
    assert without.rested
    monkeypatch.setattr(Clustered, function, bug)
    _, _, checks = fuzz(seed, CLUSTERS)
    assert not checks.clean
