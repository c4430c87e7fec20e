"""Whether a move pays for itself."""

from __future__ import annotations

import pytest

from roost.errors import UserError
from roost.optimising.goal import Goal
from roost.optimising.worth import Metric, Terms, Verdict
from roost.relocation.choosing import Candidate, Choice, worth

FREE = Terms(horizon_s=100.0, margin=1.0, share_min=0.0, rest_s=0.0)


def choice(
    decided_by: Metric | None,
    *,
    delay_s: tuple[float, float] = (0.5, 0.5),
    load: tuple[float, float] = (50.0, 50.0),
    deliveries_per_s: float = 20.0,
) -> Choice:
    """From the first of each pair to the second."""
    present, chosen = (
        Candidate(name, delay, rate, "")
        for name, delay, rate in zip(("here", "there"), delay_s, load, strict=True)
    )
    goal = Goal("load")
    return Choice(goal, chosen, present, decided_by, deliveries_per_s, 2, (chosen, present))


def test_load_in_messages() -> None:
    verdict = worth(choice("load", load=(50.0, 40.0)), 5, terms=FREE)
    assert verdict == Verdict(
        True, 1000.0, 30.0, "messages", "saves 1,000 messages in 100 s and costs 30"
    )


def test_delay_in_seconds_of_delivery() -> None:
    """20 deliveries/s that are 0.1 s faster; against 0.5 s of pause, of which 10 deliveries wait half."""
    verdict = worth(choice("delay", delay_s=(0.5, 0.4)), 5, terms=FREE)
    assert verdict.pays
    assert verdict.saving == pytest.approx(0.1 * 20 * 100)
    assert verdict.cost == pytest.approx(10 * 0.25)
    assert verdict.unit == "s of delivery"


def test_only_the_metric_that_decided_counts() -> None:
    worse = choice("load", load=(50.0, 40.0), delay_s=(0.1, 5.0))
    assert worth(worse, 5, terms=FREE).pays


@pytest.mark.parametrize(("horizon_s", "pays"), [(1.0, False), (3.0, False), (3.1, True)])
def test_the_horizon_decides(horizon_s: float, pays: bool) -> None:
    terms = Terms(horizon_s=horizon_s, margin=1.0, share_min=0.0)
    verdict = worth(choice("load", load=(50.0, 40.0)), 5, terms=terms)
    assert verdict.pays is pays
    assert verdict.saving == pytest.approx(10 * horizon_s)


def test_a_longer_path_costs_more() -> None:
    terms = Terms(horizon_s=10.0, margin=2.0, share_min=0.0)
    assert worth(choice("load", load=(50.0, 40.0)), 8, terms=terms).pays
    far = worth(choice("load", load=(50.0, 40.0)), 9, terms=terms)
    assert not far.pays
    assert far.reason == "saves 100 messages in 10 s and costs 54, which is not 2 times less"


def test_little_is_not_enough() -> None:
    verdict = worth(choice("load", load=(1000.0, 960.0)), 3)
    assert not verdict.pays
    assert verdict.reason == "saves 4 % of the load, less than 5 %"
    assert worth(choice("load", load=(1000.0, 940.0)), 3).pays


def test_it_rests_after_a_move() -> None:
    good = choice("load", load=(1000.0, 100.0))
    tired = worth(good, 3, since_move_s=59.0)
    assert not tired.pays
    assert tired.reason == "it moved 59 s ago and rests for 60 s"
    assert tired.saving == pytest.approx(900 * 600)
    assert worth(good, 3, since_move_s=60.0).pays
    assert worth(good, 3).pays


def test_who_is_at_the_best_place_stays() -> None:
    verdict = worth(choice(None), 1)
    assert verdict == Verdict(False, 0.0, 0.0, "messages", "no broker is better")


@pytest.mark.parametrize("name", Terms.__struct_fields__)
@pytest.mark.parametrize("bad", [-1.0, float("nan")])
def test_bad_terms(name: str, bad: float) -> None:
    with pytest.raises(UserError, match=f"{name} .*expected 0 or more"):
        Terms(**{name: bad})
