"""GRAPE for subscribers, on-line: 000 section 6, its future work."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from roost.broker import events as ev
from roost.broker.newcomers import Newcomer
from roost.relocation import Goal, Grape, GrapeConfig, Terms
from roost.relocation.collecting import NO_LOAD
from roost.relocation.notes import SessionAnswer, SessionRequest
from tests.broker.kit import Federation
from tests.relocation.federation import EVERYTHING, FIGURE_1, notes

PERIOD_S = 20.0


def federation(
    audience: dict[str, int], goal: Goal = Goal("load", 100.0), terms: Terms | None = None
) -> Federation:
    """Figure 1's overlay, P at B1, and so many subscribers to everything at each broker."""
    config = GrapeConfig(
        goal=goal,
        session=4,
        terms=terms or Terms(margin=0.0, share_min=0.0, rest_s=0.0),
        subscribers=True,
        group_period_s=PERIOD_S,
    )
    made = Federation(*FIGURE_1, modules=lambda _: [Anchored(config)])
    for broker, subscribers in audience.items():
        for number in range(subscribers):
            made.client(f"S{broker}.{number}", broker)
            made.subscribe(f"S{broker}.{number}", EVERYTHING)
    made.client("P", "B1")
    made.advertise("P", EVERYTHING)
    made.settle()
    return made


class Anchored(Grape):
    """Decides for subscribers only."""

    def _decide(self, *_: Any) -> None:
        """The publisher stays where it is."""


def publish_for(made: Federation, seconds: int, **attributes: Any) -> None:
    for _ in range(seconds):
        made.publish("P", **{"class": "STOCK"}, **attributes)
        made.advance(1.0)


def decisions(made: Federation, kind: str) -> list[Any]:
    return [decision for decision in made.decisions if decision.kind == kind]


def check_all(made: Federation) -> None:
    everything = [f"P:{n}" for n in range(1, made.clients["P"].published + 1)]
    for name in made.clients:
        if name.startswith("S"):
            assert made.got(name) == everything, name
    made.check_tables()


def test_a_group_moves_to_its_publisher_and_misses_nothing() -> None:
    made = federation({"B7": 3})
    publish_for(made, 60)
    (move,) = decisions(made, "move")
    assert move.subject == "3 subscribers to class = 'STOCK'"
    assert move.choice == "B1"
    assert move.evidence["publishers"] == ["P"]
    assert {made.clients[f"SB7.{n}"].address for n in range(3)} == {"B1"}
    # Four brokers received each event before, and one does after.
    assert move.evidence["present"]["load_per_s"] == 4 * move.predicted["load_per_s"]
    check_all(made)
    outcome = decisions(made, "outcome")[0]
    assert outcome.evidence["decision"] == move.cause


def test_a_group_rests_as_long_as_any_of_it_does() -> None:
    """One has been at its broker for long, the other has just come."""
    made = federation({"B7": 2}, terms=Terms(margin=0.0, share_min=0.0, rest_s=80.0))
    newcomers = made.brokers["B7"].modules._at.newcomers
    for client, now in (("SB7.0", 0.0), ("SB7.1", 60.0)):
        newcomers.expect(client, Newcomer("another", now, "", {}, 0.0))
    publish_for(made, 130)
    assert not decisions(made, "move")
    stays = [stay.evidence["worth"]["reason"] for stay in decisions(made, "stay")]
    assert stays
    assert all("rests for 80 s" in reason for reason in stays)
    publish_for(made, 60)
    assert {made.clients[f"SB7.{n}"].address for n in range(2)} == {"B1"}


def test_the_request_goes_the_way_that_events_came() -> None:
    made = federation({"B7": 1})
    publish_for(made, 30)
    asked = [(who, to, note.path) for who, to, note in notes(made, SessionRequest)]
    assert asked[:3] == [
        ("B7", "B6", ("B7",)),
        ("B6", "B5", ("B6", "B7")),
        ("B5", "B1", ("B5", "B6", "B7")),
    ]
    told = [(who, to) for who, to, _ in notes(made, SessionAnswer)]
    assert told[:3] == [("B1", "B5"), ("B5", "B6"), ("B6", "B7")]


def test_two_groups_of_one_broker_are_decided_for_in_turn() -> None:
    made = federation({"B7": 1})
    made.client("T", "B7")
    made.subscribe("T", "class = 'STOCK' and volume > 3")
    made.settle()
    for volume in 50 * [1, 7]:
        publish_for(made, 1, volume=volume)
    assert made.clients["SB7.0"].address == "B1"
    assert made.clients["T"].address == "B1"
    assert [d.subject for d in decisions(made, "move")] == ["SB7.0", "T"]


def test_a_subscriber_stays_with_others_who_want_the_same() -> None:
    """Nothing is saved by moving one of two groups that both want everything."""
    made = federation({"B7": 1}, terms=Terms(margin=1.0, share_min=0.0, rest_s=0.0))
    made.client("T", "B7")
    made.subscribe("T", "class = 'STOCK' or class = 'other'")
    made.settle()
    publish_for(made, 100)
    assert made.clients["SB7.0"].address == "B7"
    assert not decisions(made, "move")


def test_never_onto_a_broker_that_would_be_too_busy() -> None:
    made = federation({"B7": 2})
    busy = replace(NO_LOAD, input_utilisation=0.95)
    for broker in made.brokers:
        made.handle(broker, ev.LoadSampled(busy if broker in ("B1", "B5") else NO_LOAD))
    publish_for(made, 30)
    (move,) = decisions(made, "move")
    assert move.choice == "B6"
    others = {other["broker"]: other["outcome"] for other in move.evidence["others"]}
    assert "above 0.9" in others.get("B1", "above 0.9")
    check_all(made)


def test_publishers_and_durable_sessions_are_no_members() -> None:
    made = federation({})
    made.client("D", "B7", durable=True, process="1", session="D")
    made.subscribe("D", EVERYTHING)
    made.client("Q", "B7")
    made.subscribe("Q", EVERYTHING)
    made.advertise("Q", "class = 'OTHER'")
    made.settle()
    for _ in range(60):
        made.publish("P", **{"class": "STOCK"})
        made.publish("Q", **{"class": "OTHER"})
        made.advance(1.0)
    assert made.clients["D"].address == made.clients["Q"].address == "B7"
    assert not decisions(made, "move")
