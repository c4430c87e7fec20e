"""Who is to move (001 section 4.2): the fast choice against the figures as printed, both against counting."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.balancing import (
    Action,
    BalancingConfig,
    BrokerIndices,
    Offload,
    SubscriptionPoset,
    choose,
)
from roost.balancing.estimation import BrokerModel, aggregated, like, model_of
from roost.balancing.indices import difference as difference_of
from roost.balancing.offload.literal import LiteralOffload, choose_literally
from roost.balancing.offload.run import BALANCED, RELIEVED
from roost.balancing.offload.scales import during
from roost.optimising.bitvector import BitVector
from tests.balancing.worlds import World, worlds

THESIS = BalancingConfig(profile="thesis")
ROOST = BalancingConfig(profile="roost")
FILLED_LESS = BalancingConfig(profile="roost", stability="difference", input_goes_on="overloaded")
COARSE = BalancingConfig(profile="thesis", balance_percentage=0.05)
CONFIGS = st.sampled_from([THESIS, FILLED_LESS, COARSE])
ACTIONS = st.sampled_from(list(Action))


def gone_of(world: World, offload: Offload) -> list[int]:
    """How many clients of each subscription are to move."""
    gone = [0] * len(world.spectrum.loads)
    for card in offload.cards:
        gone[card.subscription] += card.subscribers
    return gone


def difference(offload: Offload, action: Action, config: BalancingConfig) -> float:
    by = offload.own_predicted.of(action) - offload.other_predicted.of(action)
    return by / config.delay_normalisation_s if action is Action.MATCH else by


# --- against the figures ------------------------------------------------------------------------------


@settings(max_examples=100)
@given(worlds(), ACTIONS, CONFIGS, st.booleans())
def test_the_choice_is_that_of_the_figures(
    world: World, action: Action, config: BalancingConfig, is_overloaded: bool
) -> None:
    """Figures 4.1 to 4.10, card by card."""
    ours = choose(action, *world, config, is_overloaded=is_overloaded)
    theirs = choose_literally(action, *world, config, is_overloaded=is_overloaded)
    assert len(ours.cards) == len(theirs.cards)
    for mine, printed in zip(ours.cards, theirs.cards, strict=True):
        assert (mine.subscription, mine.subscribers) == (printed.subscription, printed.subscribers)
        for name in ("difference", "reduced_rate", "reducible_rate", "extra_rate", "output_rate"):
            assert getattr(mine, name) == pytest.approx(getattr(printed, name), abs=1e-9)
        assert mine.is_covered == printed.is_covered
    assert ours.own_predicted.input_ratio == pytest.approx(theirs.own.indices().input_ratio)
    assert ours.other_predicted.memory_ratio == pytest.approx(theirs.other.indices().memory_ratio)


@settings(max_examples=40)
@given(worlds(with_deliveries=True), st.booleans())
def test_it_is_where_deliveries_take_time_as_well(world: World, is_overloaded: bool) -> None:
    for action in (Action.INPUT, Action.OUTPUT):
        ours = choose(action, *world, THESIS, is_overloaded=is_overloaded)
        theirs = choose_literally(action, *world, THESIS, is_overloaded=is_overloaded)
        assert [(c.subscription, c.subscribers) for c in ours.cards] == [
            (c.subscription, c.subscribers) for c in theirs.cards
        ]


# --- against counting ---------------------------------------------------------------------------------


@given(worlds(), ACTIONS, CONFIGS, st.booleans())
def test_predictions_are_what_counting_gives(
    world: World, action: Action, config: BalancingConfig, is_overloaded: bool
) -> None:
    """4.1: the samples that still come, and those that come over there, counted from scratch."""
    own, other, spectrum = world
    offload = choose(action, own, other, spectrum, config, is_overloaded=is_overloaded)
    gone = gone_of(world, offload)
    bits = [BitVector.from_bytes(load.bits) for load in spectrum.loads]
    kept = BitVector.from_bytes(spectrum.kept_bits)
    stay = [
        b
        for b, load, n in zip(bits, spectrum.loads, gone, strict=True)
        if n < len(load.clients) or load.kept
    ]
    lost = (aggregated([*bits, kept]) - aggregated([*stay, kept])).count()
    css = BitVector.from_bytes(spectrum.css_bits)
    new = (aggregated(b for b, n in zip(bits, gone, strict=True) if n) - css).count()
    entries = sum(n * len(load.interests) for n, load in zip(gone, spectrum.loads, strict=True))
    a_sample = spectrum.input_rate / spectrum.samples
    sent = sum(
        n * b.count() * a_sample * load.message_bytes
        for n, b, load in zip(gone, bits, spectrum.loads, strict=True)
    )
    here = during(own, spectrum).changed(-entries, -lost * a_sample, 0.0, -sent)
    there = model_of(like(other, own)).changed(entries, new * a_sample, 0.0, sent)
    for predicted, counted in (
        (offload.own_predicted, here.indices()),
        (offload.other_predicted, there.indices()),
    ):
        for name in predicted.__struct_fields__:
            assert getattr(predicted, name) == pytest.approx(getattr(counted, name), abs=1e-9)


@given(worlds(), ACTIONS, CONFIGS, st.booleans())
def test_the_accepting_broker_is_protected(
    world: World, action: Action, config: BalancingConfig, is_overloaded: bool
) -> None:
    """The bound of 4.2.1, on the accepting broker."""
    offload = choose(action, *world, config, is_overloaded=is_overloaded)
    if offload.clients:
        after = offload.other_predicted
        limit = config.rules.accept_limit + 1e-9
        ratios = (after.input_ratio, after.output_ratio, after.cpu_ratio, after.memory_ratio)
        assert max(ratios) < limit


@given(worlds(), ACTIONS, CONFIGS)
def test_every_choice_brings_the_two_nearer(
    world: World, action: Action, config: BalancingConfig
) -> None:
    """4.2.1: all offloading actions result in lesser differences, unless the broker is overloaded."""
    offload = choose(action, *world, config)
    own, other = offload.own.of(action), offload.other.of(action)
    scale = config.delay_normalisation_s if action is Action.MATCH else 1.0
    now = abs(own - other) / scale
    for card in offload.cards:
        assert abs(card.difference) < now
        now = abs(card.difference)


@given(worlds(), ACTIONS, CONFIGS, st.booleans())
def test_it_ends_for_the_reason_that_it_gives(
    world: World, action: Action, config: BalancingConfig, is_overloaded: bool
) -> None:
    offload = choose(action, *world, config, is_overloaded=is_overloaded)
    by = difference(offload, action, config)
    if offload.ended == BALANCED:
        assert by < config.balance_percentage
        before = offload.own.of(action) - offload.other.of(action)
        if offload.cards and action is not Action.MATCH and not is_overloaded:
            assert abs(by) < abs(before)
    elif offload.ended == RELIEVED:
        after = offload.own_predicted
        assert max(after.cpu_ratio, after.memory_ratio, after.input_ratio) < config.overload_low
    elif "then match" not in offload.ended and not (is_overloaded and action is Action.MATCH):
        assert by >= config.balance_percentage


@given(worlds(), ACTIONS, st.booleans())
def test_clients_are_those_of_the_cards(world: World, action: Action, is_overloaded: bool) -> None:
    offload = choose(action, *world, THESIS, is_overloaded=is_overloaded)
    assert len(set(offload.clients)) == len(offload.clients)
    assert len(offload.clients) == sum(card.subscribers for card in offload.cards)
    subscriptions = [card.subscription for card in offload.cards]
    assert len(set(subscriptions)) == len(subscriptions)
    everyone = {client for load in world.spectrum.loads for client in load.clients}
    assert everyone.issuperset(offload.clients)


@given(worlds(), st.sampled_from([Action.INPUT, Action.OUTPUT]))
def test_the_number_of_subscribers_is_the_least_that_balances(world: World, action: Action) -> None:
    """Figures 4.1 and 4.8: all numbers are tried, and the least one that balances is it; or else the most."""
    run = LiteralOffload(*world, THESIS, is_overloaded=False)
    offload = choose(action, *world, THESIS)
    if not offload.cards:
        return
    card = offload.cards[0]
    i, most = card.subscription, run.max_possible(card.subscription)
    allowed = [
        n
        for n in range(1, most + 1)
        if action is Action.INPUT or not run.is_guarded(run.ours(i, n), run.theirs(i, n))
    ]
    balancing = [
        n
        for n in allowed
        if run.difference(run.ours(i, n), run.theirs(i, n), action) < THESIS.balance_percentage
    ]
    assert card.subscribers == (min(balancing) if balancing else max(allowed))


@settings(max_examples=40)
@given(worlds())
def test_no_other_number_of_any_subscription_is_nearer(world: World) -> None:
    """Figure 4.2: among all cards of the CSS, by trying each."""
    run = LiteralOffload(*world, THESIS, is_overloaded=False)
    offload = choose(Action.INPUT, *world, THESIS)
    now = run.difference(run.own, run.other, Action.INPUT)
    if now < THESIS.balance_percentage:
        assert not offload.cards
        return
    found = []
    for i in range(len(world.spectrum.loads)):
        n = run.count(i, run.within(Action.INPUT)) if run.covering.css[i] else 0
        if n:
            by = run.difference(run.ours(i, n), run.theirs(i, n), Action.INPUT)
            found.append(abs(by))
    if offload.cards:
        assert abs(offload.cards[0].difference) == pytest.approx(min(found))
    else:
        assert all(by >= abs(now) - 1e-9 for by in found)


@settings(max_examples=30)
@given(worlds(), ACTIONS)
def test_no_choice_of_clients_at_all_is_nearer_than_the_best(world: World, action: Action) -> None:
    """By searching all numbers of all subscriptions: the greedy choice is between the start and the best."""
    spectrum = replace(world.spectrum, loads=world.spectrum.loads[:3])
    world = World(world.own, world.other, spectrum)
    offload = choose(action, *world, THESIS)
    run = LiteralOffload(*world, THESIS, is_overloaded=False)
    start = run.difference(run.own, run.other, action)
    best = abs(start)
    ranges = [range(len(load.clients) + 1) for load in spectrum.loads]
    for numbers in itertools.product(*ranges):
        own, other = _moved(world, numbers)
        best = min(best, abs(run.difference(own, other, action)))
    ours = difference(offload, action, THESIS)
    assert best - 1e-9 <= abs(ours) <= abs(start) + 1e-9


def _moved(world: World, numbers: tuple[int, ...]) -> tuple[BrokerModel, BrokerModel]:
    """Both brokers with so many of each gone, counted anew."""
    run = LiteralOffload(*world, THESIS, is_overloaded=False)
    for i, n in enumerate(numbers):
        if n:
            run.take(run.card(i, n, Action.INPUT))
    return run.own, run.other


# --- profile roost --------------------------------------------------------------------------------------


@given(worlds(), ACTIONS)
def test_the_higher_of_the_two_falls_with_every_session(world: World, action: Action) -> None:
    """So that no sequence of sessions can go round in circles; and no other index is unbalanced by it."""
    offload = choose(action, *world, ROOST)
    if not offload.clients:
        return
    before = max(offload.own.of(action), offload.other.of(action))
    after = max(offload.own_predicted.of(action), offload.other_predicted.of(action))
    assert after < before
    before_all = beyond(offload.own, offload.other)
    assert beyond(offload.own_predicted, offload.other_predicted) <= before_all + 1e-9


def beyond(own: BrokerIndices, other: BrokerIndices) -> float:
    """The sum of the differences, of which only what is beyond the thresholds counts."""
    return sum(max(0.1, abs(difference_of(a, own, other, 0.1))) for a in Action)


@given(worlds(), ACTIONS)
def test_it_is_a_choice_that_the_thesis_would_allow(world: World, action: Action) -> None:
    offload = choose(action, *world, ROOST)
    run = LiteralOffload(*world, FILLED_LESS, is_overloaded=False)
    for card in offload.cards:
        assert 1 <= card.subscribers <= run.max_possible(card.subscription)
        now = abs(run.difference(run.own, run.other, action))
        run.take(run.card(card.subscription, card.subscribers, action))
        assert abs(run.difference(run.own, run.other, action)) < now


@settings(max_examples=20)
@given(st.lists(st.tuples(worlds(), ACTIONS), min_size=2, max_size=4))
def test_a_poset_that_is_kept_changes_nothing(courses: list[tuple[World, Action]]) -> None:
    """Whatever it was used for before: subscriptions come and go between two offloads."""
    kept = SubscriptionPoset()
    for world, action in courses:
        assert choose(action, *world, THESIS, poset=kept) == choose(action, *world, THESIS)
