"""POP on-line, over broker machines: 000 section 3."""

from __future__ import annotations

from typing import Any, cast

import pytest

from roost.broker import events as ev
from roost.broker.messages import Note, Publication
from roost.broker.module import Surroundings
from roost.language import Event
from roost.relocation import Pop, PopConfig, Terms
from roost.relocation.notes import RelocationAnswer, RelocationRequest, TraceResult, body_of
from roost.relocation.pop import Profile
from roost.relocation.pop_module import PUBLISHERS_MAX
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

# As the paper moves: whenever another broker is better.
ALWAYS = Terms(margin=0.0, share_min=0.0, rest_s=0.0)


def figure_1(**config: Any) -> Federation:
    return federation_of(FIGURE_1, AUDIENCE_1, lambda: Pop(PopConfig(terms=ALWAYS, **config)))


def profile(federation: Federation, broker: str) -> Profile:
    found: Profile = module_at(federation, broker)._publishers["P"].profile
    return found


def tagged(federation: Federation) -> list[int]:
    """Sequence numbers of the events that P's broker has traced."""
    return sorted(
        {
            said.message.sequence
            for said in federation.said
            if said.who == "B1" and isinstance(said.message, Publication) and said.message.traced
        }
    )


def test_figure_1_the_profile_tables_after_one_trace() -> None:
    """000 section 3.1: each broker knows how many subscribers are at and behind each neighbour."""
    federation = figure_1()
    publish(federation, 1)
    assert profile(federation, "B1") == Profile(1, 1.0, {"B2": 6.0, "B4": 3.0, "B5": 15.0})
    assert profile(federation, "B2") == Profile(1, 4.0, {"B3": 2.0})
    assert profile(federation, "B5") == Profile(1, 0.0, {"B6": 15.0})
    assert profile(federation, "B6") == Profile(1, 4.0, {"B7": 6.0, "B8": 5.0})
    assert profile(federation, "B7") == Profile(1, 6.0, {})
    # One result a link, added up on the way: 7 links, whatever the number of subscribers.
    results = notes(federation, TraceResult)
    assert {(who, to): note.subscribers for who, to, note in results} == {
        ("B2", "B1"): 6,
        ("B3", "B2"): 2,
        ("B4", "B1"): 3,
        ("B5", "B1"): 15,
        ("B6", "B5"): 15,
        ("B7", "B6"): 6,
        ("B8", "B6"): 5,
    }
    assert len(results) == len(FIGURE_1)


def test_figure_1_end_to_end() -> None:
    """000 sections 3.2 and 3.3: the request goes B1 -> B5 -> B6 with [B5, B1], and P moves to B6."""
    federation = figure_1(traces=3)
    publish(federation, 3)
    requests = [(who, to, note.request) for who, to, note in notes(federation, RelocationRequest)]
    assert [(who, to, r.path, r.subscribers) for who, to, r in requests] == [
        ("B1", "B5", ("B1",), 10.0),  # 15 against 6 + 3 + 1
        ("B5", "B6", ("B5", "B1"), 10.0),  # 15 against 10
    ]
    answers = [
        (who, to, note.request.path) for who, to, note in notes(federation, RelocationAnswer)
    ]
    assert answers == [("B6", "B5", ("B6", "B5", "B1")), ("B5", "B1", ("B6", "B5", "B1"))]
    decision, done = federation.decisions
    assert (decision.kind, decision.subject, decision.choice) == ("move", "P", "B6")
    assert (done.kind, done.evidence["decision"]) == ("carried out", decision.cause)
    assert decision.evidence["downstream"] == {"B2": 6.0, "B4": 3.0, "B5": 15.0}
    assert decision.evidence["path"] == ("B1", "B5", "B6")
    assert federation.clients["P"].address == "B6"
    # Operation 1: the advertisement comes from the other side.
    (advertisement,) = federation.table("B6", "advertisements")
    last_hops = {b: federation.table(b, "advertisements")[advertisement] for b in AUDIENCE_1}
    assert last_hops == {
        "B6": "P",
        "B5": "B6",
        "B1": "B5",
        "B2": "B1",
        "B4": "B1",
        "B3": "B2",
        "B7": "B6",
        "B8": "B6",
    }
    federation.check_tables()  # operations 2 and 3, and no broker's table has anything else
    publish(federation, 2)
    check_delivered(federation)


def test_the_outcome_is_recorded_where_the_publisher_has_gone() -> None:
    federation = figure_1(traces=3, seed=1)
    publish(federation, 8)
    kinds = [decision.kind for decision in federation.decisions]
    assert kinds[:4] == ["move", "carried out", "outcome", "stay"]
    move, _, outcome = federation.decisions[:3]
    assert outcome.evidence["decision"] == move.cause
    # From B1: 6 at B2 (4 + 2 * 2), 3 at B4, 15 behind B5 (4 * 2 + 11 * 3). From B6, 10 less.
    assert move.evidence["worth"]["saving"] > 0
    assert outcome.predicted == {"subscriber_links": 8 + 3 + 41 - 10.0}
    assert outcome.evidence["measured"] == outcome.predicted


def test_results_on_the_way_hold_a_request_back() -> None:
    """000 section 3.2: no outstanding traces."""
    federation = figure_1(traces=2)
    federation.hold_data.add(("B6", "B7"))
    publish(federation, 3)
    assert not notes(federation, RelocationRequest)
    federation.hold_data.clear()
    federation.settle()
    assert notes(federation, RelocationRequest)


def test_at_most_n_in_a_window_and_the_first_for_certain() -> None:
    """000 section 3.1: P_trace = 1 - T / N."""
    federation = figure_1(traced_max=3, window_s=60.0, traces=100)
    publish(federation, 60, every_s=0.5)
    first = tagged(federation)
    assert first[0] == 1
    assert 2 <= len(first) <= 3
    federation.advance(40.0)
    publish(federation, 1)
    assert tagged(federation)[-1] == 61


def test_the_same_seed_traces_the_same() -> None:
    runs = []
    for seed in (1, 1, 2):
        federation = figure_1(traced_max=5, traces=100, seed=seed)
        publish(federation, 30, every_s=0.5)
        runs.append(tagged(federation))
    assert runs[0] == runs[1] != runs[2]


def test_a_trace_without_a_result_is_given_up() -> None:
    federation = figure_1(traces=3, timeout_s=5.0)
    for _ in range(2):  # each time anew
        federation.hold_data.add(("B6", "B7"))
        publish(federation, 1)
        federation.cut("B6", "B7")
        federation.severed.add(frozenset(("B6", "B7")))
        assert module_at(federation, "B1")._publishers["P"].pending
        federation.advance(6.0)
        assert not module_at(federation, "B1")._publishers["P"].pending
        federation.severed.clear()
        federation.hold_data.clear()
        federation.advance(60.0)
    publish(federation, 3)
    assert federation.clients["P"].address == "B6"
    check_delivered(federation)


def test_a_move_has_to_pay() -> None:
    dear = Terms(margin=1e9)
    federation = federation_of(FIGURE_1, AUDIENCE_1, lambda: Pop(PopConfig(traces=2, terms=dear)))
    publish(federation, 4)
    assert {decision.kind for decision in federation.decisions} == {"stay"}
    assert "not 1e+09 times less" in federation.decisions[0].evidence["why"]
    assert federation.clients["P"].address == "B1"


def test_a_move_is_judged_by_the_events_a_second_so_far() -> None:
    federation = figure_1(traces=3)
    federation.advance(100.0)
    publish(federation, 3, every_s=2.0)
    worth = federation.decisions[0].evidence["worth"]
    # Three events in four seconds, each on 10 links less.
    assert worth["saving"] == pytest.approx(10 * 3 / 4 * Terms().horizon_s)


def test_what_is_remembered_is_bounded() -> None:
    pop = Pop()
    pop.started(cast(Surroundings, None), 0.0)
    for number in range(PUBLISHERS_MAX + 5):
        pop.is_traced(Publication(f"P{number}", 1, Event({})), 0.0)
    assert len(pop._publishers) == PUBLISHERS_MAX
    assert "P4" not in pop._publishers
    assert "P5" in pop._publishers


def test_after_a_decision_averages_go_on_and_traces_are_counted_anew() -> None:
    """000 section 3.1: a quarter of the newest, three quarters of what it was."""
    dear = Terms(margin=1e9)
    federation = federation_of(
        (("B1", "B2"),), {"B2": 4}, lambda: Pop(PopConfig(traces=2, terms=dear))
    )
    publish(federation, 2)
    assert [decision.kind for decision in federation.decisions] == ["stay"]
    federation.unsubscribe("SB2.0", EVERYTHING)
    federation.settle()
    publish(federation, 1)
    assert len(federation.decisions) == 1
    assert profile(federation, "B1").downstream == {"B2": 0.75 * 4 + 0.25 * 3}
    publish(federation, 1)
    assert [decision.evidence["traces"] for decision in federation.decisions] == [2, 2]
    links = [decision.predicted["subscriber_links"] for decision in federation.decisions]
    assert links == [4.0, 0.75 * 3.75 + 0.25 * 3]


def test_observing_moves_nobody() -> None:
    federation = figure_1(traces=2)
    for broker in federation.brokers:
        federation.handle(broker, ev.ModuleSwitched("pop", "observing"))
    publish(federation, 4)
    assert federation.decisions
    assert not any(decision.acted for decision in federation.decisions)
    assert federation.clients["P"].address == "B1"


def test_clients_may_not_trace() -> None:
    federation = figure_1()
    session = next(s for s in federation.brokers["B1"].sessions.values() if s.client == "P")
    client = federation.clients["P"]
    client.numbering.last += 1
    forged = Publication("P", 1, Event({"class": "STOCK"}), traced=True)
    federation.handle("B1", ev.Received(session.connection or 0, (client.home.push(forged),)))
    federation.settle()
    (refusal,) = federation.heard("P", "refused")
    assert refusal.reason == "only brokers say what is traced"


@pytest.mark.parametrize("body", [b"", b"\xc1", body_of([99]), body_of([2, "P", "x", 1, 1])])
def test_a_note_that_can_not_be_read_ends_the_connection_and_nothing_else(body: bytes) -> None:
    federation = figure_1()
    link = federation.brokers["B2"].links["B1"]
    federation.brokers["B2"].node.work.commands = []
    federation.brokers["B2"].node.flow.tell(link, Note("pop", body, "mischief"))
    federation._execute("B2", federation.brokers["B2"].node.work.commands)
    federation.settle()
    assert any("a note of B2 can't be read" in why for _, why in federation.closed)
