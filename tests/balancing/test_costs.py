"""What a broker learns of its own samples (001 sections 4.1.2 and 4.1.5)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.balancing import Action, BalancingConfig, OwnLoad, futile_actions, indices_of
from roost.balancing.costs import Slope
from roost.broker.events import LoadIndices

PROPORTIONAL = BalancingConfig(costs="proportional")
SAMPLED = BalancingConfig(costs="sampled", slope_subscriptions=50)
FITTED = BalancingConfig(costs="fitted")


def sample(
    *,
    subscriptions: int,
    input_rate: float,
    output_rate: float,
    publication_s: float = 0.0,
    delivery_s: float = 0.0,
    subscription_s: float = 0.0,
    idle: float = 0.0,
) -> LoadIndices:
    """What a broker would measure that takes so much."""
    busy = input_rate * (publication_s + subscription_s * subscriptions)
    busy += delivery_s * output_rate + idle
    return LoadIndices(
        input_utilisation=busy,
        matching_delay_s=busy / input_rate if input_rate else 0.0,
        output_utilisation=output_rate * 300 / 1e6,
        input_rate=input_rate,
        output_rate=output_rate,
        output_bytes_per_s=output_rate * 300.0,
        input_queue=2,
        output_queue=3,
        input_queueing_delay_s=0.0,
        output_queueing_delay_s=0.0,
        cpu_utilisation=min(1.0, busy),
        memory_bytes=5e6 + 1_000.0 * subscriptions + 5 * 300.0,
        memory_total_bytes=1e9,
        subscriptions=subscriptions,
    )


def learned(config: BalancingConfig, samples: list[LoadIndices]) -> OwnLoad:
    own = OwnLoad(config)
    for each in samples:
        own.sampled(each)
    return own


def held(samples: list[LoadIndices]) -> list[LoadIndices]:
    """Each for two periods: in the second nobody comes or goes."""
    return [each for each in samples for _ in range(2)]


def test_in_proportion() -> None:
    """(4.7)."""
    load = sample(subscriptions=200, input_rate=10, output_rate=20, subscription_s=1e-4)
    report = learned(PROPORTIONAL, [load]).report(load)
    assert report.matching_slope_s == pytest.approx(1e-4)
    assert report.delivery_s == 0


def test_the_eleven_items_of_a_reply() -> None:
    """3.4.1."""
    load = sample(subscriptions=200, input_rate=10, output_rate=20, subscription_s=1e-4)
    report = learned(PROPORTIONAL, [load]).report(load, ("a > 1",), message_bytes=100.0)
    assert report.css == ("a > 1",)
    assert report.cpu_ratio == load.cpu_utilisation
    assert report.input_bytes_per_s == 1_000
    assert report.input_queue_bytes == 200
    assert report.input_rate == 10
    assert report.memory_total_bytes == 1e9
    assert report.output_total_bytes_per_s == pytest.approx(1e6)
    assert report.subscriptions == 200
    assert report.output_bytes_per_s == 6_000
    assert report.output_queue_bytes == 300


def test_the_bandwidth_is_remembered_while_nothing_is_sent() -> None:
    load = sample(subscriptions=5, input_rate=1, output_rate=1, subscription_s=1e-4)
    silent = replace(load, output_rate=0.0, output_bytes_per_s=0.0, output_utilisation=0.0)
    assert learned(PROPORTIONAL, [load, silent]).report(silent).output_total_bytes_per_s == (
        pytest.approx(1e6)
    )


def test_a_slope_is_taken_anew_every_s_subscriptions() -> None:
    """4.1.2: between readings that are S apart, whether more or fewer."""
    slope = Slope(50)
    assert slope.at(10, 1.0) == pytest.approx(0.1)  # in proportion, as there is none yet
    slope.read(100, 1.0)
    slope.read(149, 9.0)  # not yet
    slope.read(150, 2.0)
    assert slope.at(150, 2.0) == pytest.approx(2 / 150)  # never steeper than in proportion
    slope.read(100, 1.9)
    assert slope.at(100, 1.9) == pytest.approx(0.1 / 50)
    slope.read(50, 2.5)
    assert slope.at(50, 2.5) == 0  # nor does it fall


def test_memory_follows_a_slope_and_not_all_of_it_is_subscriptions() -> None:
    """4.1.5: what a broker holds anyway is not in proportion."""
    samples = [
        sample(subscriptions=n, input_rate=10, output_rate=20, subscription_s=1e-4)
        for n in range(0, 400, 10)
    ]
    report = learned(SAMPLED, samples).report(samples[-1])
    assert report.memory_slope_bytes == pytest.approx(1_000.0)
    assert report.matching_memory_bytes == pytest.approx(5e6 + 390_000)
    assert report.matching_slope_s == pytest.approx(1e-4)


@settings(max_examples=25)
@given(
    st.floats(0, 1e-3),
    st.floats(0, 1e-3),
    st.floats(1e-6, 1e-4),
    st.floats(0, 0.05),
    st.integers(0, 99),
)
def test_fitted_costs_are_found(
    publication_s: float, delivery_s: float, subscription_s: float, idle: float, seed: int
) -> None:
    """From samples with many numbers of subscriptions and rates, whatever a broker takes."""
    draw = Random(seed).uniform
    samples = [
        sample(
            subscriptions=round(draw(10, 2_000)),
            input_rate=draw(1, 100),
            output_rate=draw(1, 500),
            publication_s=publication_s,
            delivery_s=delivery_s,
            subscription_s=subscription_s,
            idle=idle,
        )
        for _ in range(100)
    ]
    # What is found is scaled to the last sample, which is a usual one here.
    last = sample(
        subscriptions=1_000,
        input_rate=50,
        output_rate=250,
        publication_s=publication_s,
        delivery_s=delivery_s,
        subscription_s=subscription_s,
        idle=idle,
    )
    samples.append(last)
    report = learned(FITTED, held(samples)).report(last)
    # To an eighth of what 50 publications, for 1,000 subscriptions, and 250 messages take.
    usual = idle + 50 * (publication_s + subscription_s * 1_000) + delivery_s * 250
    assert report.matching_slope_s * 50_000 == pytest.approx(subscription_s * 50_000, abs=usual / 8)
    assert report.delivery_s * 250 == pytest.approx(delivery_s * 250, abs=usual / 8)


def test_what_samples_do_not_tell_apart_is_in_proportion() -> None:
    """The same sample again and again."""
    load = sample(subscriptions=100, input_rate=10, output_rate=0, publication_s=0.01)
    report = learned(FITTED, [load] * 5).report(load)
    assert report.matching_slope_s == pytest.approx(0.01 / 100)


def test_an_idle_live_broker_is_not_sure() -> None:
    """It has seen a few control messages, and its processor does other things."""
    draw = Random(3).uniform
    samples = [live(7, draw(2, 6), idle=draw(0.01, 0.2)) for _ in range(100)]
    report = learned(FITTED, samples).report(samples[-1])
    assert not report.is_sure
    assert not learned(FITTED, []).report(samples[-1]).is_sure


def test_a_busy_live_broker_is_sure_and_knows_what_it_does_anyway() -> None:
    draw = Random(3).uniform
    samples = [
        live(round(draw(100, 900)), draw(10, 3_000), draw(1, 9), idle=draw(0.018, 0.022))
        for _ in range(300)
    ]
    report = learned(FITTED, held(samples)).report(samples[-1])
    assert report.is_sure
    assert report.publication_s == pytest.approx(4e-5, rel=0.1)
    assert report.delivery_s == pytest.approx(1e-5, rel=0.1)
    assert report.base == pytest.approx(0.02, abs=0.004)


def test_a_simulated_broker_is_sure_as_soon_as_its_table_has_grown() -> None:
    samples = [
        sample(subscriptions=n, input_rate=0.3, output_rate=0.2, subscription_s=1e-4)
        for n in (1, 2, 4, 5, 5, 5)
    ]
    report = learned(FITTED, samples).report(samples[-1])
    assert report.is_sure
    assert report.matching_slope_s == pytest.approx(1e-4, rel=0.02)


def test_a_broker_that_was_emptied_remembers_what_it_learned() -> None:
    """It was overloaded, and its samples were rough; now that nothing comes it is as slow as it was."""
    draw = Random(3).uniform
    samples = [
        sample(
            subscriptions=n,
            input_rate=draw(5, 20),
            output_rate=30,
            subscription_s=1.67e-4 * draw(0.93, 1.07),
        )
        for n in range(10, 600, 5)
    ]
    idle = sample(subscriptions=7, input_rate=0.3, output_rate=0.2, subscription_s=1.67e-4)
    report = learned(FITTED, [*samples, idle, idle, idle]).report(idle)
    assert report.is_sure
    assert report.matching_slope_s == pytest.approx(1.67e-4, rel=0.2)


def test_a_sample_in_which_many_have_left_is_left_out() -> None:
    """Its delay is that of the time when they were there; the slope would be half of what it is."""
    draw = Random(3).uniform
    slope_s, samples, n = 1.67e-4, [], 10
    for k in range(100):
        before, n = n, n + 20 if k % 10 else max(10, n - 160)
        mean = (before + n) / 2
        load = sample(
            subscriptions=round(mean),
            input_rate=draw(5, 20),
            output_rate=30,
            subscription_s=slope_s,
        )
        samples.append(replace(load, subscriptions=n))
    idle = sample(subscriptions=10, input_rate=0.3, output_rate=0.2, subscription_s=slope_s)
    report = learned(FITTED, [*samples, idle, idle]).report(idle)
    assert report.matching_slope_s == pytest.approx(slope_s, rel=0.1)


# --- an index that a move can't lower -----------------------------------------------------------------


def live(subscriptions: int, input_rate: float, fan_out: float = 5.0, **more: float) -> LoadIndices:
    """A broker whose matcher hardly slows down."""
    given = {"publication_s": 4e-5, "delivery_s": 1e-5, "subscription_s": 1e-10} | more
    return sample(
        subscriptions=subscriptions,
        input_rate=input_rate,
        output_rate=input_rate * fan_out,
        **given,
    )


def test_a_matching_delay_that_is_not_the_subscriptions_is_not_balanced() -> None:
    """Little comes in, and what a broker does anyway makes the delay high."""
    samples = [live(n, 100.0 + n % 700, idle=0.02) for n in range(100, 5_000, 37)]
    now = live(5_000, 0.5, idle=0.02)
    own = learned(FITTED, held(samples))
    assert now.matching_delay_s > 0.03
    assert futile_actions(own.report(now), indices_of(now), FITTED) == (Action.MATCH,)


def test_a_processor_that_is_busy_with_deliveries_is_not_relieved_by_match() -> None:
    samples = [live(n, 3_000.0 + 7 * n) for n in range(100, 1_000, 9)]
    now = live(1_000, 10_800.0)
    own = learned(FITTED, held(samples))
    assert now.cpu_utilisation > FITTED.overload_high
    assert futile_actions(own.report(now), indices_of(now), FITTED) == (Action.MATCH,)


def test_the_thesis_broker_is_relieved_by_match() -> None:
    samples = [
        sample(subscriptions=n, input_rate=10, output_rate=20, subscription_s=1e-3)
        for n in range(10, 100, 3)
    ]
    own = learned(FITTED, held(samples))
    now = sample(subscriptions=100, input_rate=10, output_rate=20, subscription_s=1e-3)
    assert futile_actions(own.report(now), indices_of(now), FITTED) == ()
    thesis = BalancingConfig(profile="thesis")
    assert futile_actions(learned(thesis, held(samples)).report(now), indices_of(now), thesis) == ()


def test_memory_that_is_not_the_subscriptions_is_not_relieved() -> None:
    samples = [
        sample(subscriptions=n, input_rate=10, output_rate=20, subscription_s=1e-5)
        for n in range(10, 1_000, 30)
    ]
    now = replace(samples[-1], memory_bytes=0.97e9)
    own = learned(FITTED, held(samples))
    assert futile_actions(own.report(now), indices_of(now), FITTED) == (Action.MATCH,)
