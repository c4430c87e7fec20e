"""Single rules of the offload algorithms (001 section 4.2), on cases that a reader can follow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from roost.balancing import (
    Action,
    BalancingConfig,
    LoadReport,
    Offload,
    Spectrum,
    SubscriptionLoad,
    choose,
)
from roost.balancing.offload.relations import SubscriptionPoset, covered_by
from roost.balancing.offload.run import EXHAUSTED, FULL, NO_GAIN
from roost.language import parse_subscription
from roost.optimising.bitvector import BitVector
from tests.balancing.worlds import report

THESIS = BalancingConfig(profile="thesis")


def load(
    text: str, bits: Sequence[int], clients: int = 1, *, size: float = 100.0, kept: int = 0
) -> SubscriptionLoad:
    """A subscription, the samples that it matched, and its clients."""
    return SubscriptionLoad(
        tuple(f"{text}#{k}" for k in range(clients)),
        tuple(parse_subscription(each) for each in text.split(" or ")),
        BitVector(bits).to_bytes(),
        size,
        kept,
    )


def spectrum(*loads: SubscriptionLoad, css: Sequence[int] = ()) -> Spectrum:
    """Ten samples, at ten a second."""
    return Spectrum(10, 10.0, loads, BitVector(css).to_bytes())


def broker(input_ratio: float, output_ratio: float, **more: object) -> LoadReport:
    """A broker that gets ten publications a second, and has fifty subscriptions."""
    given: dict[str, object] = {
        "input_rate": 10.0,
        "subscriptions": 50,
        "slope_s": input_ratio / 10.0 / 50,
        "output_bytes_per_s": 3_000.0 * output_ratio,
        "output_total_bytes_per_s": 3_000.0,
        "memory_total_bytes": 1e9,
    }
    return report(**(given | more))  # type: ignore[arg-type]


def texts(offload: Offload) -> list[str]:
    """The subscriptions of those who move, in the order of choice."""
    return list(dict.fromkeys(client.rpartition("#")[0] for client in offload.clients))


# --- tables 4.2 to 4.5: input and output must not send the same subscription back and forth ------------


# Attracts four of ten publications, and needs a fifth of the output.
HEAVY = load("class = 'STOCK'", range(4), size=150.0)
LIGHT = load("class = 'SPORTS'", range(4, 10), 2, size=1.0)


def test_input_balancing_leads_from_table_4_2_to_table_4_3() -> None:
    """B1 has 0.8 and 0.5, B2 0.2 and 0.5: one subscription moves, and outputs are not balanced any more."""
    b1 = broker(0.8, 0.5)
    b2 = report(
        input_rate=8 / 3,
        subscriptions=50,
        slope_s=0.2 * 3 / 8 / 50,
        output_bytes_per_s=1_500.0,
        output_total_bytes_per_s=3_000.0,
        memory_total_bytes=1e9,
    )
    offload = choose(Action.INPUT, b1, b2, spectrum(HEAVY, LIGHT, css=range(4, 10)), THESIS)
    assert texts(offload)[0] == "class = 'STOCK'"
    own, other = offload.own_predicted, offload.other_predicted
    assert own.input_ratio == pytest.approx(0.5, abs=0.03)
    assert other.input_ratio == pytest.approx(0.5, abs=0.03)
    assert own.output_ratio == pytest.approx(0.3)
    assert other.output_ratio == pytest.approx(0.7)


def test_output_balancing_does_not_lead_from_table_4_3_to_table_4_5() -> None:
    """B2 has 0.5 and 0.7 now: what it got would balance the outputs, and undo the inputs. It stays."""
    given = spectrum(HEAVY, LIGHT, css=range(4, 10))
    offload = choose(Action.OUTPUT, broker(0.5, 0.7), broker(0.5, 0.3), given, THESIS)
    assert texts(offload) == ["class = 'SPORTS'"]  # all that may go, and it changes next to nothing
    assert offload.other_predicted.input_ratio - offload.own_predicted.input_ratio <= 0.1
    assert offload.own_predicted.output_ratio > 0.69


def test_with_the_guard_as_printed_it_does() -> None:
    """Figure 4.8 compares the output ratios, which such a move balances."""
    printed = BalancingConfig(profile="thesis", guard="output")
    given = spectrum(HEAVY, LIGHT, css=range(4, 10))
    offload = choose(Action.OUTPUT, broker(0.5, 0.7), broker(0.5, 0.3), given, printed)
    assert "class = 'STOCK'" in texts(offload)
    assert offload.other_predicted.input_ratio > offload.own_predicted.input_ratio + 0.4


def test_output_balancing_leads_to_table_4_4_where_something_is_covered() -> None:
    """The favourable case: subscriptions that B1 covers anyway balance the outputs, and nothing else."""
    covered = load("class = 'SPORTS'", range(4, 10), 4, size=50.0)
    other = broker(0.5, 0.3, css=("class = 'SPORTS'",))
    given = spectrum(HEAVY, covered, css=range(4, 10))
    offload = choose(Action.OUTPUT, broker(0.5, 0.7), other, given, THESIS)
    assert texts(offload) == ["class = 'SPORTS'"]
    assert all(card.is_covered for card in offload.cards)
    assert offload.own_predicted.output_ratio < 0.7 - 0.1
    assert offload.other_predicted.input_ratio == pytest.approx(0.5, abs=0.05)


def test_an_overloaded_output_is_lowered_all_the_same_but_not_below_the_threshold() -> None:
    """4.2.3: the exception. At the lower threshold the broker stays N/A, and nothing is sent back to it."""
    heavy = load("class = 'STOCK'", range(6), 3, size=15.0)
    given = spectrum(heavy)
    own, other = broker(0.5, 0.97), broker(0.5, 0.3)
    assert not choose(Action.OUTPUT, own, other, given, THESIS).clients
    offload = choose(Action.OUTPUT, own, other, given, THESIS, is_overloaded=True)
    # Each takes 0.03: with the third it would be below 0.9.
    assert len(offload.clients) == 2
    assert offload.own_predicted.output_ratio == pytest.approx(0.91)


# --- input ----------------------------------------------------------------------------------------------


def test_only_the_covering_set_is_offered_by_input_and_what_it_uncovers() -> None:
    """4.2.1: the example with [class,eq,'STOCK'] over all others."""
    all_, ibm, yahoo = (
        load("class = 'STOCK'", range(10)),
        load("class = 'STOCK' and symbol = 'IBM'", [0, 1]),
        load("class = 'STOCK' and symbol = 'YHOO'", [2]),
    )
    own, other = broker(0.9, 0.1), broker(0.0, 0.0, input_rate=0.0, subscriptions=1, slope_s=1e-4)
    offload = choose(Action.INPUT, own, other, spectrum(all_, ibm, yahoo), THESIS)
    assert texts(offload)[0] == "class = 'STOCK'"
    # The two that it covered attract three of the ten; until now nothing came in less for them.
    assert offload.cards[0].reduced_rate == pytest.approx(7.0)
    tight = BalancingConfig(profile="thesis", accept_limit=0.01)
    nothing = choose(Action.INPUT, own, other, spectrum(all_, ibm, yahoo), tight)
    assert nothing.ended == FULL
    assert nothing.considered == 1  # the others are covered


def test_a_subscription_of_which_some_stay_goes_on_to_cover_the_others() -> None:
    """Roost's reading: part of its subscribers moved, and its publications still come."""
    wide = load("class = 'STOCK'", range(10), 20, size=1.0, kept=1)
    narrow = load("class = 'STOCK' and symbol = 'IBM'", [0, 1], 5)
    own, other = broker(0.9, 0.1), broker(0.1, 0.0)
    offload = choose(Action.INPUT, own, other, spectrum(wide, narrow, css=range(10)), THESIS)
    assert texts(offload) == ["class = 'STOCK'"]
    assert len(offload.clients) == 20
    assert offload.ended == EXHAUSTED
    assert offload.cards[0].reduced_rate == 0


def test_several_filters_of_a_client_are_one_subscription() -> None:
    """The OR counts, and each takes a place in the table."""
    both = load("symbol = 'A' or symbol = 'B'", [0, 1], 2)
    one = load("symbol = 'A'", [0], 1)
    offload = choose(
        Action.MATCH, broker(0.9, 0.1), broker(0.1, 0.1, slope_s=1e-5), spectrum(both, one), THESIS
    )
    assert texts(offload) == ["symbol = 'A'", "symbol = 'A' or symbol = 'B'"]
    slope_s = 0.9 / 10 / 50
    delay_s = offload.own.matching_delay_s - offload.own_predicted.matching_delay_s
    assert delay_s == pytest.approx(5 * slope_s)


def test_an_input_offload_of_an_overloaded_broker_falls_back_to_match() -> None:
    """4.2.1: the one subscription that attracts all is too much for the other; others make it faster."""
    everything = load("class = 'STOCK'", range(10))
    quiet = load("class = 'STOCK' and symbol = 'NIX'", [], 30)
    own, other = broker(1.2, 0.1), broker(0.0, 0.0, input_rate=0.1, slope_s=0.0085)
    given = spectrum(everything, quiet)
    calm = choose(Action.INPUT, own, other, given, THESIS)
    assert not calm.clients
    assert calm.ended == FULL
    offload = choose(Action.INPUT, own, other, given, THESIS, is_overloaded=True)
    assert texts(offload) == ["class = 'STOCK' and symbol = 'NIX'"]
    assert "then match" in offload.ended
    assert offload.own_predicted.input_ratio < THESIS.overload_low
    assert len(offload.clients) == 13  # with twelve it is 0.912


def test_a_move_that_changes_nothing_is_not_made() -> None:
    """Figure 4.2 goes on with a card of the same difference; here it ends."""
    silent = load("class = 'NEWS'", [], 4)
    own = broker(0.9, 0.1, slope_s=0.0, fixed_s=0.09)
    offload = choose(
        Action.INPUT, own, broker(0.1, 0.1, slope_s=0.0, fixed_s=0.01), spectrum(silent), THESIS
    )
    assert offload.ended == NO_GAIN
    assert not offload.clients


def test_with_the_bound_as_printed_a_broker_that_is_not_overloaded_moves_nobody() -> None:
    """4.2.1 bounds the offloading broker: one less than takes it below the threshold."""
    loads = spectrum(load("class = 'STOCK'", range(10), 3), css=range(10))
    printed = BalancingConfig(profile="thesis", bound="offloading")
    assert choose(Action.INPUT, broker(0.8, 0.1), broker(0.1, 0.1), loads, THESIS).clients
    assert not choose(Action.INPUT, broker(0.8, 0.1), broker(0.1, 0.1), loads, printed).clients
    assert choose(Action.INPUT, broker(0.99, 0.1), broker(0.1, 0.1), loads, printed).clients


def test_profile_roost_does_not_balance_by_making_the_other_worse() -> None:
    """The difference falls from 0.12 to -0.07, and all that has changed is that more comes in over there."""
    shared = load("class = 'STOCK'", range(4), kept=1, size=1.0)
    own, other = broker(0.61, 0.5), broker(0.49, 0.5)
    roost = BalancingConfig(profile="roost")
    thesis = choose(Action.INPUT, own, other, spectrum(shared), THESIS)
    assert thesis.other_predicted.input_ratio > own.input_ratio
    assert not choose(Action.INPUT, own, other, spectrum(shared), roost).clients


def test_profile_roost_does_not_heap_output_on_a_broker_to_balance_inputs() -> None:
    """Four subscribers more, and its output would be at 0.77: they would be sent back."""
    heavy = load("class = 'STOCK'", range(4), 4, size=75.0, kept=1)
    own, other = broker(0.5, 0.5), broker(0.4, 0.37)
    roost = BalancingConfig(profile="roost")
    given = spectrum(heavy, css=range(4))
    assert len(choose(Action.INPUT, own, other, given, THESIS).clients) == 4
    offload = choose(Action.INPUT, own, other, given, roost)
    assert len(offload.clients) == 1
    assert offload.other_predicted.output_ratio - offload.own_predicted.output_ratio <= 0.1 + 1e-9


# --- match ----------------------------------------------------------------------------------------------


def test_match_moves_those_with_the_least_traffic() -> None:
    """4.2.2: first what neither gets nor brings anything, then what brings less that is new."""
    quiet = load("class = 'NEWS'", [], 2)
    known = load("class = 'SPORTS'", [0])
    new = load("class = 'STOCK'", [1])
    busy = load("class = 'STOCK' and volume > 0", [1, 2, 3])
    own, other = broker(0.9, 0.1), broker(0.1, 0.1, slope_s=1e-6)
    offload = choose(Action.MATCH, own, other, spectrum(busy, new, known, quiet, css=[0]), THESIS)
    assert texts(offload)[:3] == ["class = 'NEWS'", "class = 'SPORTS'", "class = 'STOCK'"]


def test_match_stops_below_the_lower_threshold_or_never() -> None:
    """Figure 4.6 never returns 0 as printed."""
    quiet = [load(f"symbol = 'S{k}'", [], 3) for k in range(10)]
    own, other = broker(0.96, 0.1), broker(0.1, 0.1)
    stops = choose(Action.MATCH, own, other, spectrum(*quiet), THESIS, is_overloaded=True)
    assert len(stops.clients) == 4
    assert stops.own_predicted.input_ratio == pytest.approx(0.96 * 46 / 50)
    never = BalancingConfig(profile="thesis", match_stop="never")
    goes_on = choose(Action.MATCH, own, other, spectrum(*quiet), never, is_overloaded=True)
    # Three of the first, one of the second, and one of each of the others.
    assert len(goes_on.clients) == 12


def test_a_processor_that_works_off_a_queue_is_relieved_by_a_tenth() -> None:
    """5.2.1.1: B1's input ratio is 0.5 after 1,010 s, and its processor at 1: match goes on."""
    quiet = load("symbol = 'S'", [], 40)
    own = broker(0.5, 0.1, cpu_ratio=0.99)
    offload = choose(
        Action.MATCH, own, broker(0.1, 0.1), spectrum(quiet), THESIS, is_overloaded=True
    )
    assert len(offload.clients) == 5
    assert offload.own_predicted.cpu_ratio == pytest.approx(0.891)


# --- output ---------------------------------------------------------------------------------------------


def test_output_takes_types_one_two_and_three_in_this_order() -> None:
    """4.2.3: first what takes publications along, however much nearer others are."""
    brings = load("symbol = 'A'", [0, 1], size=75.0)  # type I: 150 bytes/s
    shared = load("symbol = 'B'", [2], 2, size=1_500.0)  # type II: one of two is as much as can be
    plain = load("symbol = 'A' and volume > 1", [0], size=300.0, kept=1)  # type III
    css = ("symbol = 'A'", "symbol = 'B'")
    own, other = broker(0.5, 0.8), broker(0.4, 0.05, css=css)
    given = spectrum(brings, shared, plain, css=[0, 1, 2])
    offload = choose(Action.OUTPUT, own, other, given, THESIS)
    assert texts(offload) == ["symbol = 'A'", "symbol = 'B'"]
    assert offload.cards[0].reduced_rate == pytest.approx(1.0)
    assert offload.cards[1].reduced_rate == 0
    assert offload.cards[1].reducible_rate == pytest.approx(1.0)


def test_phase_two_makes_way_for_what_it_covers() -> None:
    """4.2.3: descendants of what moved are covered from then on, and go in Phase I."""
    wide = load("class = 'STOCK'", [0, 1, 2], size=100.0)
    child = load("class = 'STOCK' and symbol = 'A'", [0], 3, size=100.0)
    apart = load("class = 'SPORTS'", [3], 3, size=100.0)
    own, other = broker(0.5, 0.8), broker(0.2, 0.3)
    offload = choose(Action.OUTPUT, own, other, spectrum(wide, child, apart), THESIS)
    assert texts(offload)[:2] == ["class = 'STOCK'", "class = 'STOCK' and symbol = 'A'"]
    assert [card.is_covered for card in offload.cards][:2] == [False, True]
    assert offload.cards[1].extra_rate == 0


def test_of_equal_cards_phase_two_takes_the_highest_gamma() -> None:
    """(4.19): as much output for less new input."""
    new = load("class = 'STOCK'", [0, 1], size=50.0)
    half_known = load("class = 'SPORTS'", [2, 3], size=50.0, kept=1)
    own, other = broker(0.5, 0.8), broker(0.2, 0.3)
    offload = choose(Action.OUTPUT, own, other, spectrum(new, half_known, css=[2]), THESIS)
    assert texts(offload)[0] == "class = 'SPORTS'"


# --- profile roost: an input offload goes on ----------------------------------------------------------


def test_an_input_offload_goes_on_with_those_who_get_the_least() -> None:
    """One subscription covers all others, and its output is too much for the other: it is no end."""
    wide = load("class = 'STOCK'", range(10), size=60.0)
    idle = load("class = 'STOCK' and symbol = 'Z'", [], 40)
    own, other = broker(0.6, 0.3), broker(0.3, 0.4)
    given = spectrum(wide, idle, css=range(10))
    offload = choose(Action.INPUT, own, other, given, BalancingConfig(profile="roost"))
    assert texts(offload) == ["class = 'STOCK' and symbol = 'Z'"]
    balanced = offload.own_predicted.input_ratio - offload.other_predicted.input_ratio
    assert abs(balanced) < 0.02
    assert offload.other_predicted.output_ratio == offload.other.output_ratio
    only = BalancingConfig(profile="roost", input_goes_on="overloaded")
    assert not choose(Action.INPUT, own, other, given, only).clients


def test_it_does_not_where_subscriptions_cost_next_to_nothing() -> None:
    """As with a live matcher: hundreds would move, and nothing would change."""
    wide = load("class = 'STOCK'", range(10), size=60.0)
    idle = load("class = 'STOCK' and symbol = 'Z'", [], 40)
    own = broker(0.6, 0.3, slope_s=1e-6, fixed_s=0.06)
    other = broker(0.3, 0.4, slope_s=1e-6, fixed_s=0.03)
    given = spectrum(wide, idle, css=range(10))
    assert not choose(Action.INPUT, own, other, given, BalancingConfig(profile="roost")).clients


# --- odd circumstances ----------------------------------------------------------------------------------


def test_nothing_to_move() -> None:
    for action in Action:
        offload = choose(action, broker(0.9, 0.9), broker(0.1, 0.1), spectrum(), THESIS)
        assert offload.clients == ()


def test_without_samples_only_numbers_count() -> None:
    given = Spectrum(0, 0.0, (load("class = 'STOCK'", [], 20),), b"")
    own, other = broker(0.9, 0.1), broker(0.1, 0.1)
    assert choose(Action.MATCH, own, other, given, THESIS).clients
    assert not choose(Action.OUTPUT, own, other, given, THESIS).clients


def test_a_broker_that_has_matched_nothing_is_taken_to_be_like_this_one() -> None:
    """A delay of 0 would make it seem infinitely fast."""
    idle = broker(0.0, 0.0, input_rate=0.0, subscriptions=0, slope_s=0.0, is_sure=False)
    given = spectrum(load("class = 'STOCK'", range(10), 40, size=1.0))
    offload = choose(Action.INPUT, broker(0.8, 0.1), idle, given, THESIS)
    assert offload.other_predicted.input_ratio == pytest.approx(0.4, abs=0.02)


def test_bandwidth_that_nobody_has_promised_does_not_bound() -> None:
    unknown = broker(0.1, 0.1, output_total_bytes_per_s=0.0)
    given = spectrum(load("class = 'STOCK'", range(10), 10), css=range(10))
    assert choose(Action.INPUT, broker(0.8, 0.1), unknown, given, THESIS).clients


# --- what covers what -----------------------------------------------------------------------------------


def test_the_covering_set_changes_as_subscriptions_go() -> None:
    covering = SubscriptionPoset().covering(
        [
            load(text, [])
            for text in ("a > 0", "a > 0", "a > 1", "a > 2", "b > 0", "a > 1 and b > 0")
        ]
    )
    assert covering.css.tolist() == [True, True, False, False, True, False]
    assert covering.below(0) == [0, 1, 2, 3, 5]
    covering.remove(2)  # from the middle: what it covered is covered still
    assert covering.css.tolist() == [True, True, False, False, True, False]
    assert covering.below(0) == [0, 1, 3, 5]
    covering.remove(0)
    assert not covering.css[3]  # an equal one is still there
    covering.remove(1)
    assert covering.css[3]
    assert not covering.css[5]
    covering.remove(4)
    assert covering.css[5]


def test_clients_that_ask_for_a_lot_stand_apart_and_move_all_the_same() -> None:
    """One subscription has 64 filters at most; a client may have more."""
    a_lot = load(" or ".join(f"symbol = 'S{k}'" for k in range(100)), range(10), size=1.0)
    one = load("symbol = 'S1'", [1], size=1.0)
    covering = SubscriptionPoset().covering([a_lot, one])
    assert covering.css.tolist() == [True, True]
    assert covering.below(0) == [0]
    offload = choose(Action.INPUT, broker(0.9, 0.1), broker(0.1, 0.1), spectrum(a_lot, one), THESIS)
    assert offload.clients
    assert covered_by(["symbol = 'S1'"], [a_lot, one]).tolist() == [False, True]


def test_an_idle_broker_is_not_taken_for_slow() -> None:
    """What it does anyway, over the few publications that it has seen, is a high delay, and no price."""
    own = broker(0.8, 0.1, slope_s=1e-6, fixed_s=0.08)
    idle = broker(0.12, 0.0, input_rate=4.0, subscriptions=7, slope_s=0.0, is_sure=False)
    idle = replace(idle, matching_delay_s=0.03, input_ratio=0.12, cpu_ratio=0.12)
    given = spectrum(load("class = 'STOCK'", range(5)), load("class = 'NEWS'", range(5, 10)))
    offload = choose(Action.INPUT, own, idle, given, THESIS)
    assert len(offload.clients) == 1
    # Five more a second, at the 0.03 s that they would take at most: what it does now would explain no more.
    assert offload.other.input_ratio == pytest.approx(0.12)
    assert offload.other_predicted.input_ratio == pytest.approx(0.12 + 5 * 0.03, abs=0.01)
    fast = replace(own, publication_s=1e-4, matching_delay_s=0.08, base=0.799)
    offload = choose(Action.INPUT, fast, idle, given, THESIS)
    assert offload.other_predicted.input_ratio == pytest.approx(0.12, abs=0.01)
