"""Optimisers that agree: leases, rests, objections, and that all of it is recorded (DESIGN, "One verb")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker import events as ev
from roost.broker.arbiter import URGENCIES, Arbiter, Proposal
from roost.broker.config import Leases
from roost.broker.errors import InvariantError
from roost.broker.module import Module, Surroundings
from roost.broker.names import Address
from tests.broker.kit import Federation
from tests.broker.test_modules import LOAD


def proposal(module: str = "m", urgency: str = "relocation", *subjects: str) -> Proposal:
    return Proposal(module, urgency, "move", subjects or ("c",), "B2")


def test_one_at_a_time() -> None:
    arbiter = Arbiter(lease_s=60, rest_s=10)
    arbiter.grant(proposal("first"), "first/1", 0.0)
    assert "under a lease of first (first/1)" in arbiter.objection_to(proposal("second"), 1.0)
    assert "under a lease" in arbiter.objection_to(proposal("second", "overload"), 1.0)
    assert not arbiter.objection_to(proposal("second", "overload", "other"), 1.0)
    assert arbiter.holds("first", "c")
    assert not arbiter.holds("second", "c")


def test_it_rests_unless_something_is_more_urgent() -> None:
    arbiter = Arbiter(lease_s=60, rest_s=10)
    arbiter.grant(proposal("first"), "first/1", 0.0)
    lease = arbiter.over("c", 5.0)
    assert lease is not None
    assert lease.cause == "first/1"
    assert arbiter.objection_to(proposal(), 6.0) == "c rests for 9.0 s more"
    assert arbiter.objection_to(proposal("m", "evening out"), 14.9)
    assert not arbiter.objection_to(proposal("m", "rewiring"), 6.0)
    assert not arbiter.objection_to(proposal(), 15.0)


def test_what_takes_too_long_is_abandoned_and_rests() -> None:
    arbiter = Arbiter(lease_s=60, rest_s=10)
    arbiter.grant(proposal("m", "drain", "c", "d"), "m/1", 0.0)
    assert arbiter.expired(59.9) == []
    assert [subject for subject, _ in arbiter.expired(60.0)] == ["c", "d"]
    assert not arbiter.leases
    assert "rests" in arbiter.objection_to(proposal(), 61.0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["propose", "over", "arrived", "wait"]),
            st.sampled_from(["a", "b"]),
            st.sampled_from(["m", "n"]),
            st.sampled_from(URGENCIES),
        ),
        max_size=30,
    )
)
def test_no_subject_is_ever_under_two_leases(steps: list[tuple[str, str, str, str]]) -> None:
    """Against the obvious: who has it, and since when it rests from what."""
    arbiter, now = Arbiter(lease_s=5, rest_s=3), 0.0
    held: dict[str, tuple[str, str, float]] = {}
    rests: dict[str, tuple[str, float]] = {}
    for what, subject, module, urgency in steps:
        for late in [s for s, (_, _, since) in held.items() if since + 5 <= now]:
            rests[late] = (held.pop(late)[1], now)
        arbiter.expired(now)
        if what == "propose":
            wanted = proposal(module, urgency, subject)
            of, since = rests.get(subject, (urgency, -9.0))
            free = subject not in held and (
                now >= since + 3 or URGENCIES.index(urgency) < URGENCIES.index(of)
            )
            assert (not arbiter.objection_to(wanted, now)) == free
            if free:
                arbiter.grant(wanted, "cause", now)
                held[subject] = (module, urgency, now)
        elif what == "over":
            assert (arbiter.over(subject, now) is not None) == (subject in held)
            if subject in held:
                rests[subject] = (held.pop(subject)[1], now)
        elif what == "arrived":
            arbiter.arrived(subject, now)
            rests[subject] = (URGENCIES[0], now)
        else:
            now += 1.0
        for one in ("a", "b"):
            assert arbiter.holds("m", one) == (one in held and held[one][0] == "m")


# --- in a broker ------------------------------------------------------------------------------------


class Mover(Module):
    """Does what a test tells it to."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.objects = ""
        self.todo: Callable[[Mover], None] | None = None
        self.told_of: list[tuple[str, str]] = []

    def started(self, around: Surroundings, now: float) -> None:  # noqa: ARG002
        self.around = around

    def sampled(self, load: ev.LoadIndices, now: float) -> None:  # noqa: ARG002
        if self.todo is not None:
            self.todo(self)

    def objection_to(self, proposal: Proposal, now: float) -> str:  # noqa: ARG002
        return self.objects

    def left(self, client: str, now: float) -> None:  # noqa: ARG002
        self.told_of.append(("left", client))

    def arrived(self, client: str, now: float) -> None:  # noqa: ARG002
        self.told_of.append(("arrived", client))

    def move(self, client: str, to: str) -> None:
        cause = self.around.propose(
            "relocation", "move", client, to, subjects=[client], evidence={}, predicted={}
        )
        if cause is not None:
            self.around.redirect(client, Address(to), cause)


class Two(Federation):
    """B1 - B2 - B3, two modules in each; a client at B1."""

    def __init__(self, **config: Any) -> None:
        self.movers: dict[str, list[Mover]] = {}
        leases = Leases(rest_s=30.0)
        super().__init__(("B1", "B2"), ("B2", "B3"), modules=self._two, leases=leases, **config)
        self.client("sub", "B1")
        self.subscribe("sub", "a > 0")
        self.settle()

    def _two(self, name: str) -> list[Module]:
        self.movers[name] = [Mover("one"), Mover("two")]
        return [*self.movers[name]]

    def have(self, broker: str, which: int, todo: Callable[[Mover], None]) -> None:
        self.movers[broker][which].todo = todo
        self.handle(broker, ev.LoadSampled(LOAD))
        self.movers[broker][which].todo = None

    def kinds(self) -> list[tuple[str, str]]:
        return [(decision.module, decision.kind) for decision in self.decisions]


def test_two_that_want_the_same_client() -> None:
    federation = Two()
    federation.have("B1", 0, lambda mover: mover.move("sub", "B3"))
    federation.have("B1", 1, lambda mover: mover.move("sub", "B2"))
    federation.settle()
    assert federation.clients["sub"].address == "B3"
    assert federation.kinds() == [("one", "move"), ("two", "refused"), ("one", "carried out")]
    refused = federation.decisions[1]
    assert refused.evidence["by"] == "arbiter"
    assert "under a lease of one" in refused.evidence["why"]
    assert not refused.acted
    # Where it has come to it is not sent back at once, by whomever.
    federation.have("B3", 1, lambda mover: mover.move("sub", "B1"))
    federation.settle()
    assert federation.kinds()[-1] == ("two", "refused")
    assert "rests" in federation.decisions[-1].evidence["why"]
    federation.advance(30.0)
    federation.have("B3", 1, lambda mover: mover.move("sub", "B1"))
    federation.settle()
    assert federation.clients["sub"].address == "B1"
    assert federation.movers["B1"][0].told_of == [("left", "sub"), ("arrived", "sub")]
    assert federation.movers["B3"][1].told_of == [("arrived", "sub"), ("left", "sub")]


def test_another_module_may_object() -> None:
    federation = Two()
    federation.movers["B1"][1].objects = "B3 is full"
    federation.have("B1", 0, lambda mover: mover.move("sub", "B3"))
    federation.settle()
    assert federation.clients["sub"].address == "B1"
    (refused,) = federation.decisions
    assert (refused.kind, refused.evidence["by"], refused.evidence["why"]) == (
        "refused",
        "two",
        "B3 is full",
    )
    # One that sleeps is not asked.
    federation.handle("B1", ev.ModuleSwitched("two", "off"))
    federation.have("B1", 0, lambda mover: mover.move("sub", "B3"))
    federation.settle()
    assert federation.clients["sub"].address == "B3"


def test_nobody_moves_what_was_not_granted() -> None:
    federation = Two()

    def force(mover: Mover) -> None:
        mover.around.redirect("sub", Address("B3"), "by force")

    with pytest.raises(InvariantError, match="which it was not granted"):
        federation.have("B1", 0, force)


def test_a_move_that_the_client_gives_up_is_recorded_and_may_be_made_again() -> None:
    federation = Two()
    federation.have("B1", 0, lambda mover: mover.move("sub", "B9"))
    federation.advance(61.0)
    federation.settle()
    assert federation.clients["sub"].address == "B1"
    assert federation.kinds() == [("one", "move"), ("one", "abandoned")]
    federation.advance(30.0)
    federation.have("B1", 1, lambda mover: mover.move("sub", "B3"))
    federation.settle()
    assert federation.clients["sub"].address == "B3"


def test_a_move_whose_end_nobody_hears_of_is_abandoned_and_may_be_made_again() -> None:
    """The client has lost its connection, and says neither that it went nor that it did not."""
    federation = Two(linger_s=1e6)
    federation.cut("B1", "sub", unnoticed_by="sub")
    federation.have("B1", 0, lambda mover: mover.move("sub", "B3"))
    federation.advance(Leases().lease_s)
    assert federation.kinds() == [("one", "move")]
    federation.have("B1", 1, lambda mover: mover.move("sub", "B2"))
    assert federation.kinds() == [("one", "move"), ("one", "abandoned"), ("two", "refused")]
    assert "rests" in federation.decisions[-1].evidence["why"]
    federation.advance(30.0)
    federation.have("B1", 1, lambda mover: mover.move("sub", "B2"))
    assert federation.kinds()[-1] == ("two", "move")
