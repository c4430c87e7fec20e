"""What more or fewer subscriptions do to a broker (001 section 4.1), with the worked example of table 4.1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.balancing.estimation import (
    additional_rate,
    aggregated,
    memory_ratio,
    model_of,
    publication_rate,
)
from roost.language import Event, parse_subscription
from roost.optimising.bitvector import BitVector
from tests.balancing.worlds import bits_of, report

# The publications of section 4.1.1, in order of arrival.
PUBLICATIONS = [
    Event({"class": "STOCK", "volume": 0}),
    Event({"class": "STOCK", "volume": 10}),
    Event({"class": "STOCK", "volume": 20}),
    Event({"class": "SPORTS", "type": "racing"}),
    Event({"class": "STOCK", "volume": 100}),
    Event({"class": "STOCK", "volume": 500}),
]
RATE = 3.0


def vector(bits: str) -> BitVector:
    """As printed: the first publication is the bit at the right."""
    return BitVector(k for k, bit in enumerate(reversed(bits)) if bit == "1")


CANDIDATES = {
    "[class,eq,'STOCK']": "110111",
    "[class,eq,'STOCK'],[volume,>,15]": "110100",
    "[class,eq,'STOCK'],[volume,>,150]": "100000",
    "[class,eq,'SPORTS']": "001000",
}
CSS = {
    "[class,eq,'STOCK'],[volume,>,50]": "110000",
    "[class,eq,'STOCK'],[volume,<,5]": "000001",
    "[class,eq,'MOVIES']": "000000",
}
CSS_BITS = aggregated(map(vector, CSS.values()))


@pytest.mark.parametrize(("text", "bits"), [*CANDIDATES.items(), *CSS.items()])
def test_table_4_1(text: str, bits: str) -> None:
    assert bits_of([parse_subscription(text)], PUBLICATIONS) == vector(bits)


def test_equations_4_1_and_4_2() -> None:
    """Five of six bits, at 3 publications a second."""
    assert publication_rate(vector("110111"), 6, RATE) == pytest.approx(2.5)


def test_equation_4_3() -> None:
    assert vector("110001") == CSS_BITS


def test_equations_4_4_and_4_5() -> None:
    assert vector("110111") - CSS_BITS == vector("000110")
    assert additional_rate(vector("110111"), CSS_BITS, 6, RATE) == pytest.approx(1.0)


def test_equation_4_6() -> None:
    """Printed with seven bits, 1101111; the vectors have six."""
    assert vector("110111") | CSS_BITS == vector("110111")


def test_no_samples_are_no_rate() -> None:
    assert publication_rate(BitVector(), 0, RATE) == 0


# --- a broker -----------------------------------------------------------------------------------------

BROKER = report(
    input_rate=20.0,
    subscriptions=120,
    slope_s=1 / 60 / 100,
    output_rate=50.0,
    output_bytes_per_s=15_000.0,
    output_total_bytes_per_s=62_500.0,
    memory_total_bytes=16e6,
    queues_bytes=30_000.0,
)


def test_a_model_reproduces_what_was_reported() -> None:
    now = model_of(BROKER).indices()
    assert now.input_ratio == pytest.approx(BROKER.input_ratio)
    assert now.matching_delay_s == pytest.approx(BROKER.matching_delay_s)
    assert now.cpu_ratio == pytest.approx(BROKER.cpu_ratio)
    assert now.output_ratio == pytest.approx(15_000 / 62_500)
    assert now.memory_ratio == pytest.approx((120_000 + 60_000) / 16e6)


@given(st.integers(-119, 500), st.floats(-19, 40), st.floats(-14_000, 40_000))
def test_equations_4_7_to_4_16(more: int, more_rate: float, more_bytes: float) -> None:
    """As printed, one after the other, for a broker whose matching is in proportion."""
    after = model_of(BROKER).changed(more, more_rate, 0.0, more_bytes).indices()
    n, d_m, i_r, o_u = 120, BROKER.matching_delay_s, 20.0, 15_000.0
    delay = (n + more) / n * d_m  # 4.7
    assert after.matching_delay_s == pytest.approx(delay)
    assert after.input_ratio == pytest.approx((i_r + more_rate) * delay)  # 4.8
    assert after.output_ratio == pytest.approx((o_u + more_bytes) / 62_500)  # 4.9, 4.10
    m_i = (i_r + more_rate) / i_r * (n + more) / n * 30_000  # 4.13
    m_o = (o_u + more_bytes) / o_u * 30_000  # 4.14
    m_m = (n + more) / n * 120_000  # 4.15
    assert after.memory_ratio == pytest.approx((m_i + m_o + m_m) / 16e6)  # 4.12, 4.16


def test_nothing_falls_below_nothing() -> None:
    after = model_of(BROKER).changed(-500, -500, -500, -1e9).indices()
    assert after.input_ratio == after.output_ratio == 0


def test_deliveries_take_their_part_of_the_work() -> None:
    """Half of the messages gone, and nothing else: only their time."""
    busy = report(
        input_rate=10.0, subscriptions=100, slope_s=1e-5, delivery_s=1e-3, output_rate=400.0
    )
    model = model_of(busy)
    assert model.indices().input_ratio == pytest.approx(10 * 1e-3 + 0.4)
    assert model.changed(0, 0, -200.0, 0).indices().input_ratio == pytest.approx(0.01 + 0.2)
    assert model.changed(-50, 0, 0, 0).indices().input_ratio == pytest.approx(0.005 + 0.4)


def test_a_processor_of_which_only_a_part_is_allowed() -> None:
    """A live broker's I_r is its time over its part of the processor; both follow the work."""
    half = replace(BROKER, input_ratio=BROKER.input_ratio * 2)
    after = model_of(half).changed(-60, 0, 0, 0).indices()
    assert after.input_ratio == pytest.approx(BROKER.input_ratio)
    assert after.cpu_ratio == pytest.approx(BROKER.cpu_ratio / 2)


def test_what_is_not_known_is_not_estimated() -> None:
    unknown = report(
        input_rate=1.0,
        subscriptions=1,
        slope_s=1e-3,
        output_bytes_per_s=100.0,
        output_total_bytes_per_s=0.0,
        memory_total_bytes=0.0,
    )
    after = model_of(unknown).changed(1_000, 0, 0, 1e9).indices()
    assert after.output_ratio == after.memory_ratio == 0
    assert memory_ratio(model_of(unknown), 5.0, np.ones(3), 0.0).tolist() == [0, 0, 0]
