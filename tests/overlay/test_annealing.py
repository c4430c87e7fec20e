"""Thresholds and trainings that adapt, what repays, which moves for nothing are worth it (002 section 7)."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from roost.errors import UserError
from roost.optimising.goal import Goal
from roost.overlay.rewiring.annealing import (
    AnnealingTerms,
    Climate,
    after_neighbour,
    after_outcome,
    after_training,
    has_changed,
    is_significant,
    noise,
    start,
)
from roost.overlay.rewiring.counters import LOCAL, Passages, Rewiring, Training
from roost.overlay.rewiring.deciding import decide_ocbr, decide_paper, decide_roost, offers_roost
from roost.overlay.rewiring.gathering import second_values
from roost.overlay.rewiring.repaying import RewiringTerms, cost_of, price, promise_of, repays

TERMS = AnnealingTerms(training_min=100, training_max=400)


# --- the climate --------------------------------------------------------------------------------------


def test_training_doubles_while_nothing_is_found_and_then_the_broker_is_cold() -> None:
    climate = start(TERMS)
    seen = []
    for _ in range(4):
        climate = after_training(climate, None, 3, TERMS)
        seen.append((climate.training, climate.warm))
    assert seen == [(200, True), (400, True), (400, False), (400, False)]
    assert climate.threshold(price=7.0) == 7.0
    assert start(TERMS).threshold(price=7.0) == 0.0


def test_investments_end_when_they_bring_nothing() -> None:
    climate = start(TERMS)
    for spent, degree in ((1, 3), (2, 2), (3, 1)):  # each one takes a link away
        assert climate.warm
        climate = after_training(climate, 0.0, degree, TERMS)
        assert climate.spent == spent
    assert not climate.warm
    saved = after_training(Climate(spent=2, links=3), 5.0, 3, TERMS)
    assert (saved.spent, saved.links) == (0, 0)


def test_a_change_of_traffic_warms_and_a_moved_link_warms_who_has_not_spent_all() -> None:
    cold = Climate(warm=False, training=400, spent=3, links=3)
    assert start(TERMS) == Climate(warm=True, training=100, spent=0)
    assert after_neighbour(cold, 3, TERMS) == Climate(warm=False, training=100, spent=3, links=3)
    assert after_neighbour(cold, 4, TERMS) == Climate(warm=True, training=100, spent=3, links=3)


def test_a_prediction_that_did_not_come_true_makes_training_longer() -> None:
    climate = Climate(training=100)
    assert after_outcome(climate, 10, 9, TERMS) == climate
    assert after_outcome(climate, 10, 4, TERMS).training == 200
    assert after_outcome(climate, 0, -4, TERMS) == climate


def test_traffic_has_changed_if_more_than_chance_says_so() -> None:
    before = {"B1": 500, "B2": 500}
    assert not has_changed(before, {"B1": 530, "B2": 470}, TERMS)
    assert has_changed(before, {"B1": 900, "B2": 100}, TERMS)
    assert has_changed(before, {"B3": 1000}, TERMS)
    assert not has_changed({"B1": 2, "B2": 1}, {"B1": 1, "B2": 2}, TERMS)
    assert not has_changed({}, before, TERMS)


def test_a_saving_is_significant_beyond_twice_the_root_of_what_crosses_the_link() -> None:
    assert is_significant(20, 100, TERMS)
    assert not is_significant(19, 100, TERMS)
    assert is_significant(0, 100, TERMS)


def test_noise_cools_and_is_drawn() -> None:
    """Section 5.1, with chance in place of a threshold below 0."""
    terms = AnnealingTerms(noise=0.1, cooling=0.5)
    climate = start(terms)
    seen = []
    for _ in range(8):
        seen.append(climate.temperature)
        climate = after_training(climate, 1.0, 3, terms)
    assert seen == [0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125, 0.0015625, 0.0]
    assert noise(2, 0.0, 100, Random(1)) is None
    found = noise(40, 0.1, 100, Random(1))
    assert found is not None
    assert abs(found.mean()) < 1
    assert found.std() == pytest.approx(
        10 * np.pi / np.sqrt(3), rel=0.1
    )  # of the logistic distribution
    choices = {
        decide_roost(
            "B0", ["B1", "B2", "B3"], talking(), 0, temperature=9.0, random=Random(n)
        ).rewiring
        for n in range(30)
    }
    assert len(choices) > 3


def test_terms_that_make_no_sense() -> None:
    with pytest.raises(UserError, match="the least first"):
        AnnealingTerms(training_min=10, training_max=9)
    with pytest.raises(UserError, match="change -1"):
        AnnealingTerms(change=-1)
    with pytest.raises(UserError, match="cooling 1"):
        AnnealingTerms(cooling=1)
    with pytest.raises(UserError, match="margin -1"):
        RewiringTerms(margin=-1)


# --- what repays --------------------------------------------------------------------------------------


def test_a_rewiring_has_to_save_more_than_moving_the_tables_costs() -> None:
    terms = RewiringTerms(horizon_s=100, messages=10, messages_per_entry=1, margin=2)
    assert cost_of(15, terms) == 25
    assert price(15, training_s=10, terms=terms) == 5
    assert repays(5.1, 0, 10, 15, terms).pays
    verdict = repays(5, 0, 10, 15, terms)
    assert not verdict.pays
    assert verdict.reason == "saves 50 messages in 100 s and costs 25, which is not 2 times less"
    # Nothing by itself, but one of some that make a relay a leaf.
    assert repays(0, 6, 10, 15, terms).pays
    assert not repays(0, 4, 10, 15, terms).pays
    assert not repays(-3, 6, 10, 15, terms).pays


def test_a_relay_promises_what_it_relays_shared_among_its_links() -> None:
    passages = Passages()
    for _ in range(12):
        passages.passed("B1", {"B2": 1})
    passages.passed("B1", {"B2": 1, LOCAL: 1})
    passages.passed(LOCAL, {"B2": 1})
    assert promise_of(passages.kinds, 4) == 4
    assert promise_of(passages.kinds, 1) == 0


# --- gathering ----------------------------------------------------------------------------------------


def test_without_a_limit_shorter_ways_decide() -> None:
    shorter = np.array([[0, 3], [-2, 0]])
    assert second_values(shorter, [5, 1], None) is shorter


def test_only_leaves_go_to_a_broker_that_is_nearly_full() -> None:
    shorter = np.full((3, 3), 4)
    found = second_values(shorter, [1, 2, 8], degree_max=10)
    assert found[0].tolist() == [4, 4, 4]
    assert found[1].tolist() == [4, 4, 0]


def test_a_broker_that_is_nearly_full_moves_small_relays_to_larger_ones() -> None:
    found = second_values(np.full((4, 4), -9), [1, 2, 3, 6], degree_max=6)
    assert found[0].tolist() == [-1, -1, -1, -1]  # leaves stay
    assert found[1].tolist() == [-1, 2, 3, -1]  # to the larger relay, not to the full one
    assert found[2].tolist() == [-1, -1, 3, -1]  # not to the smaller one


# --- all together -------------------------------------------------------------------------------------


def talking(times: int = 10) -> Passages:
    """B1 and B2 talk through here; the clients here listen to what B3 says."""
    passages = Passages()
    for _ in range(times):
        passages.passed("B1", {"B2": 2})
        passages.passed("B3", {LOCAL: 1})
    return passages


def test_all_variants_link_two_neighbours_that_talk() -> None:
    training = Training()
    for _ in range(10):
        training.passed("B1", ["B2"], ["a"])
    near = ["B3", "B2", "B1"]
    expected = {Rewiring("B0", "B1", "B2"), Rewiring("B0", "B2", "B1")}
    assert decide_paper("B0", near, training, 0).rewiring in expected
    assert decide_ocbr("B0", near, talking(), gated=True).rewiring in expected
    assert decide_ocbr("B0", near, talking(), gated=False).rewiring in expected
    choice = decide_roost("B0", near, talking(), 0)
    assert choice.rewiring in expected
    assert choice.utility == 10
    assert decide_roost("B0", near, talking(), 10).rewiring == Rewiring("B0", "B1", "B2")
    assert decide_roost("B0", near, talking(), 10.5).rewiring is None


def test_the_papers_weights_turn_a_choice_round() -> None:
    """Section 5.2: a link that is dear is not worth it."""
    training = Training()
    for _ in range(10):
        training.passed("B1", ["B2"], ["a"])
    dear = {("B1", "B2"), ("B2", "B1")}
    weight = lambda a, b: 5.0 if (a, b) in dear else 1.0  # noqa: E731
    assert decide_paper("B0", ["B1", "B2"], training, 0, weight=weight).rewiring is None
    assert decide_paper("B0", ["B1", "B2"], training, 0, weight=lambda _a, _b: 1.0).rewiring


def test_gated_ocbr_says_why_not() -> None:
    passages = Passages()
    for _ in range(3):
        passages.passed("B1", {"B2": 1, LOCAL: 1})
        passages.passed("B1", {LOCAL: 1})
        passages.passed(LOCAL, {"B2": 1})
    assert decide_ocbr("B0", ["B1", "B2"], passages, gated=False).rewiring is not None
    choice = decide_ocbr("B0", ["B1", "B2"], passages, gated=True)
    assert choice.rewiring is None
    assert "not less than what is forwarded" in choice.evidence[0].outcome


def test_a_goal_counts_messages_and_links_on_the_way() -> None:
    saved, shorter = np.array([[0, 8], [-4, 0]]), np.array([[0, -8], [12, 0]])
    assert offers_roost(saved, shorter, Goal("load", 100), [1, 1], None).values is saved
    assert offers_roost(saved, shorter, Goal("delay", 100), [1, 1], None).values is shorter
    assert offers_roost(saved, shorter, Goal("delay", 0), [1, 1], None).values is saved
    mixed = offers_roost(saved, shorter, Goal("load", 75), [1, 1], None)
    assert mixed.values.tolist() == [[0, 4], [0, 0]]
    assert mixed.second is None
