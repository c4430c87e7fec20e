"""One broker's self-organisation by itself: what it counts, and what it says to its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from roost.broker.messages import Publication
from roost.broker.module import Surroundings, Visit
from roost.overlay.organising import OverlaySettings, SelfOrganising
from roost.overlay.organising.counting import Counting, by_side, crossings
from roost.overlay.organising.module import PROMISE_S
from roost.overlay.organising.notes import (
    Degree,
    Found,
    OverlayNote,
    RoomAnswer,
    RoomRequest,
    RoomReturned,
    body_of,
    read_overlay_note,
)
from roost.overlay.rewiring.counters import LOCAL, Rewiring

SETTINGS = OverlaySettings(training_messages=10, training_s=0.0, degree_max=3)


class Stand:
    """What a module sees and does, where there is no broker."""

    broker = "B0"
    acting = True

    def __init__(self, *neighbours: str) -> None:
        self.neighbours: Sequence[str] = neighbours
        self.told: list[tuple[str, OverlayNote]] = []
        self.decided: list[tuple[str, str, Mapping[str, Any]]] = []
        self.rewires: list[tuple[str, str]] = []
        self.objections: dict[str, str] = {}  # of other modules, by middle

    def tell(self, neighbour: str, body: bytes, cause: str, *, behind: bool = False) -> None:  # noqa: ARG002
        self.told.append((neighbour, read_overlay_note(neighbour, body)))

    def decide(self, kind: str, subject: str, choice: str, **about: Any) -> str:  # noqa: ARG002
        self.decided.append((kind, subject, about["evidence"]))
        return "cause"

    def propose(
        self, urgency: str, kind: str, subject: str, choice: str, **about: Any
    ) -> str | None:
        assert urgency == "rewiring"
        cause = self.decide(kind, subject, choice, **about)
        return cause if self.acting else None

    def objection_to(self, urgency: str, kind: str, subjects: Sequence[str], choice: str) -> str:
        assert (urgency, kind) == ("rewiring", "anchor")
        assert choice not in self.neighbours
        (middle,) = subjects
        return self.objections.get(middle, "")

    def rewire(self, mover: str, anchor: str, cause: str) -> str:
        assert cause == "cause"
        self.rewires.append((mover, anchor))
        return ""

    def set_timer(self, name: str, delay_s: float) -> None: ...

    def cancel_timer(self, name: str) -> None: ...

    def clients(self) -> Mapping[str, Mapping[str, str]]:
        return {"c": {"c/1": "class = 'x'"}}

    def publishers(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def subscriptions_from(self, neighbour: str) -> Mapping[str, str]:
        return {f"{neighbour}/1": "class = 'x'", f"{neighbour}/2": "class = 'y'"}

    def advertisements_from(self, neighbour: str) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def notes(self, kind: type[OverlayNote]) -> list[tuple[str, OverlayNote]]:
        return [(name, note) for name, note in self.told if isinstance(note, kind)]


def organiser(stand: Stand, settings: OverlaySettings = SETTINGS) -> SelfOrganising:
    module = SelfOrganising(settings)
    module.started(cast(Surroundings, stand), 0.0)
    return module


def visit(
    source: str,
    *neighbours: str,
    local: bool = False,
    behind: Mapping[str, Sequence[str]] | None = None,
) -> Visit:
    """From a neighbour, or "" for a client here."""
    return Visit(
        publication=cast(Publication, None),
        hops=1,
        source=source or "c",
        from_client=not source,
        neighbours=neighbours,
        matches={"c": ("c/1",)} if local else {},
        behind=behind or {},
    )


# --- counting -----------------------------------------------------------------------------------------


def test_the_clients_here_are_a_side_like_any() -> None:
    """Section 4.2: a virtual node L is the source and the drain of local traffic."""
    counting = Counting(cast(Surroundings, Stand()), by_subscription=False, by_delivery=False)
    for each in (visit("B1", "B2", local=True), visit("", "B1", "B2"), visit("", "B2", "B1")):
        counting.passed(each)
    kinds = counting.passages().kinds
    assert kinds == {("B1", frozenset({"B2", LOCAL})): 1, (LOCAL, frozenset({"B1", "B2"})): 2}
    assert counting.messages == counting.passages().messages == 3
    come, gone = by_side(counting.passages())
    assert (come, gone) == ({"B1": 1, "L": 2}, {"B1": 2, "B2": 3, "L": 1})
    # The first crosses both links, and so do the other two.
    assert crossings(counting.passages(), Rewiring("B0", "B1", "B2")) == (3, 6)
    assert crossings(counting.passages(), Rewiring("B0", "B1", "B9")) == (3, 3)


def test_subscriptions_count_by_their_text_whoever_asks_for_them() -> None:
    counting = Counting(cast(Surroundings, Stand()), by_subscription=True, by_delivery=True)
    behind = {"B2": ("B2/1", "B2/2"), "B3": ("B3/1",)}
    counting.passed(visit("B1", "B2", "B3", local=True, behind=behind))
    counting.passed(visit("B1", "B2", behind={"B2": ("B2/7",)}))  # which is gone already
    training = counting.training
    assert training is not None
    assert training.incoming == {"B1": {"class = 'x'": 1, "class = 'y'": 1, "B2/7": 1}}
    assert training.outgoing["B3"] == {"class = 'x'": 1, "class = 'y'": 1}
    assert training.outgoing[LOCAL] == training.outgoing["B3"]
    assert counting.passages().deliveries == {
        ("B1", "B2"): 3,
        ("B1", "B3"): 1,
        ("B1", LOCAL): 1,
    }


def test_messages_within_a_second_are_not_enough() -> None:
    stand = Stand("B1", "B2")
    module = organiser(stand)
    for number in range(50):
        module.routed(visit("B1", "B2"), number / 100)
    assert not stand.notes(RoomRequest)
    module.routed(visit("B1", "B2"), 1.0)
    ((anchor, request),) = stand.notes(RoomRequest)
    assert isinstance(request, RoomRequest)
    assert {anchor, request.mover} == {"B1", "B2"}


# --- what neighbours say to each other ----------------------------------------------------------------


def asked(module: SelfOrganising, stand: Stand, mover: str, now: float) -> str:
    """What an anchor says to another neighbour of its neighbour B1."""
    module.told("B1", body_of(RoomRequest(7, mover)), now)
    neighbour, answer = stand.told[-1]
    assert neighbour == "B1"
    assert isinstance(answer, RoomAnswer)
    assert answer.number == 7
    return answer.objection


def test_an_anchor_gives_no_more_places_than_it_has() -> None:
    stand = Stand("B1", "B2")
    module = organiser(stand)
    full = "B0 has 3 neighbours, and may have 3"
    assert asked(module, stand, "M1", 1.0) == ""
    assert asked(module, stand, "M2", 1.0) == full
    assert asked(module, stand, "M1", 1.0) == ""  # which has its place
    module.told("B1", body_of(RoomReturned("M1")), 2.0)
    assert asked(module, stand, "M2", 2.0) == ""
    assert asked(module, stand, "M3", 2.0) == full
    assert asked(module, stand, "M3", 2.0 + PROMISE_S) == ""  # who has not come by then
    stand.neighbours = ("B1", "B2", "M3")
    module.neighbours_changed(25.0)
    assert asked(module, stand, "M4", 60.0) == full
    stand.neighbours = ("B1", "M3")
    module.neighbours_changed(61.0)
    assert asked(module, stand, "M4", 61.0) == ""


def test_other_modules_of_the_anchor_have_a_say() -> None:
    stand = Stand("B1", "B2")
    module = organiser(stand)
    stand.objections["B1"] = "B1 would become an edge-broker"
    assert asked(module, stand, "M1", 1.0) == "B1 would become an edge-broker"
    stand.objections.clear()
    # The place was not kept for it.
    assert asked(module, stand, "M2", 1.0) == ""


def test_neighbours_know_each_others_degrees() -> None:
    stand = Stand("B1", "B2")
    module = organiser(stand)
    module.told("B1", body_of(Degree(3)), 0.1)
    assert stand.told == [("B1", Degree(2))]  # as we did not know of it, it may not know of us
    module.told("B1", body_of(Degree(2)), 0.2)
    assert len(stand.told) == 1
    stand.neighbours = ("B1", "B2", "B3")
    module.neighbours_changed(0.3)
    assert stand.notes(Degree)[1:] == [(name, Degree(3)) for name in ("B1", "B2", "B3")]
    stand.told.clear()
    stand.neighbours = ("B1", "B2", "B4")
    module.neighbours_changed(0.4)
    assert stand.told == [("B4", Degree(3))]
    stand.told.clear()
    module.told("B4", body_of(Degree(1)), 0.5)
    stand.told.clear()
    for number in range(11):
        module.routed(visit("B1", "B4"), 0.5 + number / 5)
    # Whoever has not said anything may not have heard anything; who has no room is not asked.
    assert stand.notes(Degree) == [("B2", Degree(3))]
    ((anchor, _),) = stand.notes(RoomRequest)
    assert anchor in ("B1", "B4")


def rewired(stand: Stand, module: SelfOrganising, now: float) -> float:
    """A whole training, and the rewiring that follows."""
    for _ in range(2 * module._climate.training):
        now += 0.2
        module.routed(visit("B1", "B2"), now)
    anchor, request = stand.notes(RoomRequest)[-1]
    assert isinstance(request, RoomRequest)
    module.told(anchor, body_of(RoomAnswer(request.number, "")), now)
    assert stand.rewires[-1] == (request.mover, anchor)
    stand.neighbours = [name for name in stand.neighbours if name != request.mover]
    module.rewired(request.mover, anchor, "", now)
    module.neighbours_changed(now)
    return now


def test_a_disappointment_lengthens_the_training_and_what_others_move_shortens_it() -> None:
    """Section 7: a heuristic that finds the duration of each phase by itself."""
    stand = Stand("B1", "B2", "B3")
    module = organiser(stand, replace(SETTINGS, horizon_s=1e5))
    now = rewired(stand, module, 0.0)
    assert module._climate.training == 10
    module.told("B2", body_of(Found(10.0, 9.0)), now)
    assert module._climate.training == 10
    module.told("B2", body_of(Found(10.0, 1.0)), now)
    assert module._climate.training == 20
    stand.neighbours = ("B1", "B2", "B3")
    module._neighbours_are_others()
    now = rewired(stand, module, now)  # its own is no reason to look anew
    assert module._climate.training == 20
    stand.neighbours = ("B1", "B2", "B3")
    module.neighbours_changed(now)
    assert module._climate.training == 10


def test_an_answer_that_comes_late_is_nobodys() -> None:
    stand = Stand("B1", "B2")
    module = organiser(stand)
    for number in range(11):
        module.routed(visit("B1", "B2"), number / 5)
    ((anchor, request),) = stand.notes(RoomRequest)
    assert isinstance(request, RoomRequest)
    other = request.mover
    module.told(other, body_of(RoomAnswer(request.number, "")), 3.0)
    module.told(anchor, body_of(RoomAnswer(request.number + 1, "")), 3.0)
    assert not stand.rewires
    module.timer("asking", 7.0)
    module.told(anchor, body_of(RoomAnswer(request.number, "")), 8.0)
    # The next best has been asked meanwhile, and nothing is known of that.
    assert not stand.rewires
    assert [name for name, _ in stand.notes(RoomRequest)] == [anchor, other]


@pytest.mark.parametrize("state", [True, False])
def test_whoever_observes_asks_nobody(state: bool) -> None:
    stand = Stand("B1", "B2")
    stand.acting = state
    module = organiser(stand)
    for number in range(11):
        module.routed(visit("B1", "B2"), number / 5)
    assert bool(stand.notes(RoomRequest)) == state
    kinds = [kind for kind, *_ in stand.decided]
    assert kinds == ([] if state else ["rewire"])
    assert not stand.rewires
