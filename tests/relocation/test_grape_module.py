"""GRAPE on-line, over broker machines: 000 section 4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.broker import events as ev
from roost.broker.client import Client
from roost.broker.messages import Note, Probe, Probed, Publication
from roost.broker.module import Visit
from roost.broker.newcomers import SHOWN_AFTER_S
from roost.language import Event
from roost.optimising.bitvector import BitVector
from roost.relocation import Goal, Grape, GrapeConfig, Terms
from roost.relocation.collecting import NO_LOAD
from roost.relocation.history import Past
from roost.relocation.notes import (
    Arriving,
    LinkPing,
    LinkPong,
    TraceInformationAnswer,
    TraceInformationRequest,
    body_of,
)
from roost.relocation.sessions import PUBLISHERS_MAX, TraceSessions
from tests.broker.kit import Federation
from tests.relocation.federation import (
    AUDIENCE_1,
    EVERYTHING,
    FIGURE_1,
    check_delivered,
    federation_of,
    module_at,
    notes,
    publish,
)

ALWAYS = Terms(margin=0.0, share_min=0.0, rest_s=0.0)
LOAD = Goal("load", 100.0)


def figure_1(goal: Goal = LOAD, terms: Terms = ALWAYS, **config: Any) -> Federation:
    config.setdefault("session", 4)
    return federation_of(
        FIGURE_1, AUDIENCE_1, lambda: Grape(GrapeConfig(goal=goal, terms=terms, **config))
    )


def visit(
    sequence: int,
    source: str = "P",
    neighbours: Sequence[str] = (),
    clients: Sequence[str] = (),
    from_client: bool = True,
) -> Visit:
    publication = Publication("P", sequence, Event({"class": "STOCK"}))
    return Visit(publication, 0, source, from_client, neighbours, dict.fromkeys(clients, ("s",)))


# --- sessions ---------------------------------------------------------------------------------------


def test_figure_3_bits_are_counted_from_the_first_publication_of_the_session() -> None:
    """000 section 4.1: the session that begins with M = 212 has bit d for publication 212 + d."""
    sessions = TraceSessions(211)  # of which the second begins at 212
    for sequence, clients in [(212, ["S"]), (213, ["S", "T"]), (214, []), (215, ["T"])]:
        sessions.visited(visit(sequence, "B2", clients=clients, from_client=False), 1.0)
    session = sessions.take("P", 212)
    assert session is not None
    assert session.bits == BitVector([0, 1, 3])
    assert session.deliveries == 4
    assert sessions.take("P", 212) is None  # what was told is cleared


def test_a_session_ends_at_the_publisher_s_broker_and_nowhere_else() -> None:
    here, there = TraceSessions(3), TraceSessions(3)
    ends = []
    for sequence in range(1, 8):
        ends.append(here.visited(visit(sequence, neighbours=["B2"]), float(sequence)))
        assert there.visited(visit(sequence, "B1", from_client=False), float(sequence)) is None
    firsts = [session and session.first for session in ends]
    assert firsts == [None, None, 1, None, None, 4, None]
    whole = ends[2]
    assert whole is not None
    assert (whole.began, whole.last, list(whole.neighbours)) == (1.0, 3.0, ["B2"])


def test_a_session_that_was_not_here_from_its_beginning_is_nobody_s() -> None:
    sessions = TraceSessions(3)
    ends = [sessions.visited(visit(sequence), 1.0) for sequence in range(2, 7)]
    assert [session and session.first for session in ends] == [None, None, None, None, 4]


def test_a_publisher_that_has_moved_begins_anew() -> None:
    sessions = TraceSessions(9)
    sessions.visited(visit(1, "B2", clients=["S"], from_client=False), 1.0)
    sessions.visited(visit(2, "B3", clients=["S"], from_client=False), 1.0)
    session = sessions.take("P", 1)
    assert session is not None
    assert session.bits == BitVector([1])


def test_durable_publishers_stay() -> None:
    """They have another name than their client."""
    sessions = TraceSessions(1)
    assert sessions.visited(visit(1, source="somebody"), 1.0) is None


def test_what_is_remembered_is_bounded() -> None:
    sessions = TraceSessions(100)
    for number in range(PUBLISHERS_MAX + 5):
        publication = Publication(f"P{number}", 1, Event({}))
        sessions.visited(Visit(publication, 0, "B2", False, (), {}), 1.0)
    assert len(sessions._sessions) == PUBLISHERS_MAX
    assert sessions.take("P4", 1) is None
    assert sessions.take("P5", 1) is not None


def test_rests_that_are_remembered_are_bounded_too() -> None:
    """Of very many publishers the one that began to rest first may be looked at again sooner."""
    sessions = TraceSessions(1, rest_s=60.0)
    for number in range(PUBLISHERS_MAX + 5):
        publication = Publication(f"P{number}", 1, Event({}))
        assert sessions.visited(Visit(publication, 0, f"P{number}", True, (), {}), 1.0)
    assert len(sessions._until) == PUBLISHERS_MAX
    assert not sessions._rests("P4", 2.0)
    assert sessions._rests("P5", 2.0)


# --- collecting -------------------------------------------------------------------------------------


def test_figure_1_the_statistics_of_all_brokers_come_back_in_one_answer_a_link() -> None:
    federation = figure_1()
    publish(federation, 4)
    asked = {(who, to) for who, to, _ in notes(federation, TraceInformationRequest)}
    assert asked == set(FIGURE_1)  # away from the publisher, each link once
    answers = {
        (who, to): [answer.broker for answer in note.answers]
        for who, to, note in notes(federation, TraceInformationAnswer)
    }
    assert answers == {
        ("B3", "B2"): ["B3"],
        ("B2", "B1"): ["B2", "B3"],
        ("B4", "B1"): ["B4"],
        ("B7", "B6"): ["B7"],
        ("B8", "B6"): ["B8"],
        ("B6", "B5"): ["B6", "B7", "B8"],
        ("B5", "B1"): ["B5", "B6", "B7", "B8"],
    }
    (_, _, last) = notes(federation, TraceInformationAnswer)[-1]
    (b5,) = (answer for answer in last.answers if answer.broker == "B5")
    assert b5.deliveries == 0
    assert [neighbour.broker for neighbour in b5.neighbours] == ["B1", "B6"]
    for broker in AUDIENCE_1:
        assert not module_at(federation, broker)._sessions._sessions  # cleared


def test_brokers_that_got_nothing_are_not_asked() -> None:
    federation = federation_of(
        FIGURE_1, {"B6": 1}, lambda: Grape(GrapeConfig(session=2, goal=LOAD, terms=ALWAYS))
    )
    publish(federation, 2)
    asked = {(who, to) for who, to, _ in notes(federation, TraceInformationRequest)}
    assert asked == {("B1", "B5"), ("B5", "B6")}


def test_with_nobody_to_ask_it_is_decided_at_once() -> None:
    """And the record says so, however long ago another broker has said anything."""
    federation = federation_of(
        FIGURE_1, {"B1": 1}, lambda: Grape(GrapeConfig(session=2, goal=LOAD))
    )
    publish(federation, 2)
    assert [decision.evidence["took_s"] for decision in federation.decisions] == [0.0]


def test_a_decision_is_made_from_the_last_six_sessions() -> None:
    federation = federation_of(
        FIGURE_1, {"B1": 1}, lambda: Grape(GrapeConfig(session=2, goal=LOAD))
    )
    publish(federation, 2 * 8)
    sessions = [decision.evidence["sessions"] for decision in federation.decisions]
    assert sessions == [1, 2, 3, 4, 5, 6, 6, 6]


def test_a_request_is_behind_the_last_publication_on_every_link() -> None:
    """So that what it asks for has arrived, and nothing of the next session has."""
    federation = figure_1()
    for _ in range(6):
        federation.publish("P", **{"class": "STOCK"})
    federation.settle()
    for edge in FIGURE_1:
        said = [m for m in federation.between(*edge, Publication, Note) if not _is_other(m)]
        places = [i for i, message in enumerate(said) if isinstance(message, Note)]
        assert places == [4]


def _is_other(message: Any) -> bool:
    return isinstance(message, Note) and not message.behind


def test_a_broker_that_does_not_answer_costs_this_session_only() -> None:
    federation = figure_1(collection_s=5.0)
    publish(federation, 3, every_s=0.1)
    federation.hold_data.add(("B6", "B7"))
    publish(federation, 1, every_s=0.1)
    federation.advance(6.0)
    assert not federation.decisions
    federation.hold_data.clear()
    publish(federation, 4)
    assert [decision.evidence["session"] for decision in federation.decisions] == [5]
    check_delivered(federation)


def test_nobody_is_asked_again_while_an_answer_is_on_its_way() -> None:
    """A request waits in long queues: a second one would come to nothing, as would the first."""
    federation = figure_1()
    federation.hold_data.add(("B6", "B7"))
    publish(federation, 12, every_s=0.1)
    assert not federation.decisions
    requests = [
        note.first for _, to, note in notes(federation, TraceInformationRequest) if to == "B5"
    ]
    assert requests == [1]
    federation.hold_data.clear()
    publish(federation, 4, every_s=0.1)
    assert [decision.evidence["session"] for decision in federation.decisions] == [1, 13]
    check_delivered(federation)


def test_brokers_that_count_otherwise_say_so() -> None:
    federation = Federation(
        ("B1", "B2"),
        modules=lambda name: [Grape(GrapeConfig(session=2 if name == "B1" else 3, goal=LOAD))],
    )
    federation.client("S", "B2")
    federation.subscribe("S", "class = 'STOCK'")
    federation.client("P", "B1")
    federation.advertise("P", "class = 'STOCK'")
    publish(federation, 2)
    (decision,) = federation.decisions
    assert decision.kind == "no decision"
    assert decision.evidence["why"] == "B2 traces 3 publications a session, B1 2"


def sample(federation: Federation) -> None:
    """Every broker samples its load."""
    for broker in federation.brokers:
        federation.handle(broker, ev.LoadSampled(NO_LOAD))


def test_a_link_is_measured_by_one_end_for_both() -> None:
    """Before a link is up nothing can be asked; with every sample of the load there is a chance."""
    federation = figure_1(link_period_s=60.0)
    assert not notes(federation, LinkPing)
    # Asked twice at first, so that the other end hears what was found; then once a period.
    for seconds, times in ((2.0, 1), (2.0, 2), (2.0, 2), (60.0, 3)):
        federation.advance(seconds)
        sample(federation)
        federation.now += 0.25  # what is on the way takes that long
        federation.settle()
        asked = [(who, to) for who, to, _ in notes(federation, LinkPing)]
        assert sorted(asked) == sorted(times * list(FIGURE_1))
    for a, b in FIGURE_1:
        for here, there in ((a, b), (b, a)):
            assert module_at(federation, here)._links.one_way_s(there) == 0.125
    assert module_at(federation, "B1")._links.one_way_s("nobody") == 0.0


def test_of_the_last_few_times_the_shortest_counts() -> None:
    federation = figure_1()
    links = module_at(federation, "B1")._links
    for seconds in (9.0, 4.0, 2.0, 6.0):
        links.answered("B2", LinkPong(federation.now - seconds), federation.now)
    assert links.one_way_s("B2") == 1.0
    for _ in range(4):
        links.answered("B2", LinkPong(federation.now - 5.0), federation.now)
    assert links.one_way_s("B2") == 2.5  # the shortest was long ago


# --- deciding ---------------------------------------------------------------------------------------


def test_load100_goes_where_all_of_it_is_wanted() -> None:
    """Everybody wants everything: each of the 8 brokers receives it, wherever the publisher is."""
    federation = figure_1()
    publish(federation, 8)
    decision = federation.decisions[0]
    # All candidates have the same load, so the delay decides; without times it is the same, too.
    assert (decision.kind, decision.choice) == ("stay", "B1")
    assert decision.predicted["load_per_s"] == pytest.approx(8.0)


def test_the_publisher_moves_next_to_its_audience_and_nobody_notices() -> None:
    federation = federation_of(
        FIGURE_1, {"B7": 2, "B8": 1}, lambda: Grape(GrapeConfig(session=4, goal=LOAD, terms=ALWAYS))
    )
    publish(federation, 12)
    move = federation.decisions[0]
    assert (move.kind, move.subject) == ("move", "P")
    assert move.choice in ("B6", "B7", "B8")  # 3 messages each, instead of 5
    assert move.predicted["load_per_s"] == pytest.approx(3.0)
    assert federation.clients["P"].address == move.choice
    check_delivered(federation)
    federation.check_tables()
    (moved,) = federation.heard("P", "moved")
    assert moved.about == move.choice


def test_the_outcome_stands_beside_the_prediction() -> None:
    federation = federation_of(
        FIGURE_1, {"B7": 2, "B8": 1}, lambda: Grape(GrapeConfig(session=4, goal=LOAD, terms=ALWAYS))
    )
    publish(federation, 12)
    move, outcome = (
        next(d for d in federation.decisions if d.kind == k) for k in ("move", "outcome")
    )
    arriving = notes(federation, Arriving)
    assert [note.client for _, _, note in arriving] == ["P"] * (len(move.evidence["path"]) - 1)
    assert outcome.evidence["decision"] == move.cause
    assert outcome.predicted == move.predicted
    assert outcome.evidence["measured"]["load_per_s"] == pytest.approx(move.predicted["load_per_s"])
    assert [d.kind for d in federation.decisions].count("outcome") == 1


def test_a_decision_is_made_from_the_last_sessions_which_move_along() -> None:
    """Two brokers are an audience in turn; in sum it is B7's, and nobody runs after the last spell."""
    federation = federation_of(
        FIGURE_1, {}, lambda: Grape(GrapeConfig(session=4, memory=3, goal=LOAD, terms=ALWAYS))
    )
    for name, broker, side in (("T", "B3", "left"), ("U", "B7", "right")):
        federation.client(name, broker)
        federation.subscribe(name, f"{EVERYTHING} and side = '{side}'")
    federation.settle()
    publish(federation, 4, side="right")
    assert federation.clients["P"].address == "B7"
    publish(federation, 4, side="right")  # which it spends moving, in part
    publish(federation, 4, side="right")
    publish(federation, 4, side="left")
    stay = federation.decisions[-1]
    assert (stay.kind, stay.evidence["sessions"]) == ("stay", 3)
    # Each of 8 is received by B7 alone, each of 4 by the 6 brokers on the way to B3.
    assert stay.evidence["present"]["load_per_s"] == pytest.approx((8 * 1 + 4 * 6) / 12)
    assert len(federation.got("U")) == 12
    publish(federation, 12, side="left")
    assert federation.clients["P"].address == "B3"
    assert len(federation.got("T")) == 16


def test_several_that_are_about_to_come_are_counted_before_they_show() -> None:
    """All want the same place at the same time; the broker there has room for some of them."""
    federation = federation_of(
        (("B1", "B2"), ("B2", "B3")),
        {"B3": 1},
        lambda: Grape(GrapeConfig(session=4, goal=LOAD, terms=ALWAYS)),
    )
    busy = msgspec.structs.replace(NO_LOAD, input_utilisation=0.5, matching_delay_s=0.1)
    federation.handle("B3", ev.LoadSampled(busy))
    arriving = Arriving("Q", (), "a test", {}, (), 5.0)
    module_at(federation, "B3").told("B2", body_of(arriving), federation.now)
    publish(federation, 4)
    decision = federation.decisions[0]
    (lost,) = (c for c in decision.evidence["others"] if c["broker"] == "B3")
    assert decision.choice == "B2"
    # All that P publishes comes there already; what Q does, soon.
    assert lost["outcome"] == "its input utilisation would be 1.00, above 0.9"
    federation.advance(SHOWN_AFTER_S)
    publish(federation, 8)
    assert federation.clients["P"].address == "B3"


def test_what_is_known_of_a_publisher_goes_to_where_it_will_be() -> None:
    """Those on the way pass it on, and keep nothing of it."""
    federation = federation_of(
        (("B1", "B2"), ("B2", "B3")), {"B3": 1}, lambda: Grape(GrapeConfig())
    )
    past = (Past(1, ()),)
    arriving = Arriving("Q", ("B3",), "a test", {}, past, 5.0)
    module_at(federation, "B2").told("B1", body_of(arriving), federation.now)
    assert module_at(federation, "B2")._histories.take("Q") == ()
    arrived = msgspec.structs.replace(arriving, path=())
    module_at(federation, "B3").told("B2", body_of(arrived), federation.now)
    assert module_at(federation, "B3")._histories.take("Q") == past


def test_round_trips_are_asked_of_the_client_and_count() -> None:
    """000 section 4.2: the publisher replies with ping times to each candidate."""
    federation = figure_1(goal=Goal("delay", 100.0))
    publish(federation, 4)
    (probe,) = federation.between("B1", "P", Probe)
    assert isinstance(probe, Probe)
    assert sorted(probe.brokers) == sorted(AUDIENCE_1)
    assert federation.decisions
    (answer,) = federation.between("P", "B1", Probed)
    assert isinstance(answer, Probed)
    assert sorted(answer.brokers) == sorted(AUDIENCE_1)


def test_a_broker_that_the_client_can_not_reach_is_no_candidate() -> None:
    federation = federation_of(
        FIGURE_1,
        {"B7": 2},
        lambda: Grape(GrapeConfig(session=4, goal=Goal("load", 99.0), terms=ALWAYS)),
    )
    federation.severed.add(frozenset(("P", "B7")))
    publish(federation, 4)
    decision = federation.decisions[0]
    assert decision.choice == "B6"  # the next best
    publish(federation, 1)
    check_delivered(federation)


def test_a_client_that_does_not_answer_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it says later is about another time; the next session asks again."""
    monkeypatch.setattr(Client, "_probe", lambda *_: None)
    federation = figure_1(goal=Goal("delay", 100.0), timeout_s=5.0)
    publish(federation, 4)
    assert len(federation.between("B1", "P", Probe)) == 1
    assert not federation.decisions

    def answer() -> None:
        broker = federation.brokers["B1"]
        broker.node.work.commands = []
        module_at(federation, "B1").probed("P", dict.fromkeys(AUDIENCE_1, 0.01), federation.now)
        federation._execute("B1", broker.node.work.commands)

    federation.advance(5.0)
    answer()
    assert not federation.decisions
    publish(federation, 4)
    assert len(federation.between("B1", "P", Probe)) == 2
    answer()
    assert len(federation.decisions) == 1
    federation.advance(5.0)  # nothing is left to run out
    assert len(federation.decisions) == 1


def test_load100_needs_no_round_trips() -> None:
    federation = figure_1()
    publish(federation, 4)
    assert not federation.between("B1", "P", Probe)
    assert federation.decisions


def test_a_move_has_to_pay_and_then_rests() -> None:
    dear = Terms(margin=1e9)
    federation = federation_of(
        FIGURE_1, {"B7": 2}, lambda: Grape(GrapeConfig(session=4, goal=LOAD, terms=dear))
    )
    publish(federation, 8)
    assert {decision.kind for decision in federation.decisions} == {"stay"}
    assert "not 1e+09 times less" in federation.decisions[0].evidence["worth"]["reason"]
    assert federation.clients["P"].address == "B1"


def test_a_publisher_rests_after_a_move() -> None:
    resting = Terms(margin=0.0, share_min=0.0, rest_s=1_000.0)
    federation = federation_of(
        FIGURE_1, {"B7": 1}, lambda: Grape(GrapeConfig(session=4, goal=LOAD, terms=resting))
    )
    publish(federation, 4)
    assert federation.clients["P"].address == "B7"
    # The audience goes elsewhere.
    federation.unsubscribe("SB7.0", "class = 'STOCK'")
    federation.client("T", "B3")
    federation.subscribe("T", "class = 'STOCK'")
    federation.settle()
    publish(federation, 12)
    assert federation.clients["P"].address == "B7"
    assert "rests for 1000 s" in federation.decisions[-1].evidence["worth"]["reason"]
    federation.advance(1_000.0)
    publish(federation, 8)
    assert federation.clients["P"].address == "B3"


def test_observing_decides_and_moves_nobody() -> None:
    federation = federation_of(
        FIGURE_1, {"B7": 1}, lambda: Grape(GrapeConfig(session=4, goal=LOAD, terms=ALWAYS))
    )
    for broker in federation.brokers:
        federation.handle(broker, ev.ModuleSwitched("grape", "observing"))
    publish(federation, 8)
    assert [(d.kind, d.choice, d.acted) for d in federation.decisions] == [
        ("move", "B7", False)
    ] * 2
    assert federation.clients["P"].address == "B1"


@settings(max_examples=15)
@given(
    audience=st.dictionaries(st.sampled_from(sorted(AUDIENCE_1)), st.integers(1, 3), min_size=1),
    at=st.sampled_from(sorted(AUDIENCE_1)),
    goal=st.builds(Goal, st.sampled_from(["delay", "load"]), st.sampled_from([1.0, 50.0, 100.0])),
    durable=st.booleans(),
)
def test_wherever_they_are_nothing_is_lost(
    audience: dict[str, int], at: str, goal: Goal, durable: bool
) -> None:
    federation = federation_of(
        FIGURE_1,
        audience,
        lambda: Grape(GrapeConfig(session=3, goal=goal, terms=ALWAYS)),
        at,
        durable=durable,
    )
    publish(federation, 13)
    check_delivered(federation)
    federation.check_tables()
    loads = [
        d.evidence["present"]["load_per_s"]
        for d in federation.decisions
        if d.kind in ("move", "stay")
    ]
    if goal == LOAD:
        # Everybody wants everything, so the load is the size of the tree between them all: never more than
        # at first.
        assert loads[-1] <= loads[0] + 1e-6
