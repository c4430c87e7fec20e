"""What BlueDove should divide by, from recorded events: as a dispatcher decides of the same sample."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from roost.errors import UserError
from roost.language import parse_event, parse_subscription
from roost.partition import choose_dimensions
from roost.pipeline.profiles import event_sample, skew_by_dimension
from tests.pipeline.profiles.runs import rows
from tests.pipeline.test_comparison import table


def recorded(spark: SparkSession, numbers: range) -> DataFrame:
    told = [
        {"publisher": f"P{n % 3}", "sequence": n // 3, "event": f'{{"x":{n}}}'} for n in numbers
    ]
    return table(spark, "events", told)


def test_a_sample_is_the_same_in_whatever_parts_it_is_made(spark: SparkSession) -> None:
    profile = event_sample(20)
    whole = rows(profile.of(recorded(spark, range(300))))
    assert len({(row["publisher"], row["sequence"]) for row in whole}) == 20
    parts = [range(90), range(80, 200), range(200, 300)]  # some are in two of them
    sums = [profile.sums(recorded(spark, part)) for part in parts]
    again = rows(profile.merged(sums[0].unionByName(sums[1]).unionByName(sums[2])))
    assert again == whole
    assert len(rows(event_sample(500).of(recorded(spark, range(300))))) == 300
    with pytest.raises(UserError, match="a sample of 0 events"):
        event_sample(0)


@pytest.mark.parametrize("seed", range(5))
def test_as_a_dispatcher_decides(seed: int) -> None:
    """`x` is spread, `y` is asked for by all in the same way, `z` by few."""
    draws = np.random.default_rng(seed)
    subscriptions = []
    for _ in range(80):
        x = draws.uniform(0, 100)
        bound = " and z > 50" if draws.random() < 0.1 else ""
        subscriptions.append(
            parse_subscription(f"x > {x:.3f} and x < {x + 5:.3f} and y > 1{bound}")
        )
    events = [
        parse_event(f'{{"x": {draws.uniform(0, 100):.3f}, "y": 7, "z": {draws.integers(100)}}}')
        for _ in range(60)
    ]
    found = skew_by_dimension(subscriptions, events, most=2, matchers=10).to_pylist()
    choice = choose_dimensions(subscriptions, events, most=2, matchers=10)
    chosen = [row for row in found if row["chosen"] is not None]
    assert [row["attribute"] for row in chosen] == [d.attribute for d in choice.dimensions]
    assert [(row["low"], row["high"]) for row in chosen] == [
        (d.low, d.high) for d in choice.dimensions
    ]
    assert chosen[-1]["together"] == choice.searched
    shares = {row["attribute"]: (row["searched"], row["largest"]) for row in found}
    assert found[0]["attribute"] == "x"
    assert shares["x"][0] < 0.35
    assert shares["y"] == (1.0, 1.0)
    assert all(searched <= largest for searched, largest in shares.values())
