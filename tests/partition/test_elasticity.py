"""Matchers come and go as the load does (004 section IV.E): judged, provided, simulated."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from roost.errors import UserError
from roost.experiments.partition.cell import cell
from roost.partition.elasticity import is_behind, keeps_growing, order, slope, spare
from roost.partition.provisioning import Bounds, Provisioner, Step
from roost.partition.pulse import Patience, Pulse

PATIENCE = Patience(watch_s=4, bearable_s=2.0, idle_s=3, busy_max=0.6)


# --- judging --------------------------------------------------------------------------------------


def test_figure_5_above_saturation_grows_and_below_does_not() -> None:
    """IV.B: constant below the saturation rate, growing linearly above it."""
    r = Random(1)
    below = [0.03 + r.uniform(-0.01, 0.01) for _ in range(8)]
    above = [0.03 + 0.32 * second + r.uniform(-0.01, 0.01) for second in range(8)]
    assert not keeps_growing(below)
    assert keeps_growing(above)
    assert not keeps_growing(above[::-1])


def test_one_slow_second_is_no_growth() -> None:
    assert not keeps_growing([0.1, 0.1, 0.1, 5.0, 0.1, 0.1, 0.1, 0.1])
    assert not keeps_growing([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 5.0])


def test_noise_rarely_looks_like_growth() -> None:
    r = Random(2)
    alarms = sum(keeps_growing([r.expovariate(10.0) for _ in range(8)]) for _ in range(1_000))
    assert alarms < 20


@given(some.lists(some.floats(0, 100), min_size=2, max_size=10), some.floats(0, 10))
def test_growth_does_not_depend_on_where_it_begins(times: list[float], more: float) -> None:
    assert slope([t + more for t in times]) == pytest.approx(slope(times), abs=1e-9)
    assert -1 <= order(times) <= 1
    assert order(sorted(times)) >= 0 >= order(sorted(times, reverse=True))


def test_what_stays_long_is_behind_unless_it_falls_fast() -> None:
    assert is_behind([3.0, 3.0, 3.0, 3.0], 2.0)
    assert is_behind([3.03, 3.02, 3.01, 3.0], 2.0)  # 300 s until it is over
    assert not is_behind([9.0, 7.0, 5.0, 3.0], 2.0)
    assert not is_behind([3.0, 3.0, 3.0, 1.0], 2.0)


def test_who_could_go() -> None:
    assert spare({"M0": 0.3, "M1": 0.2, "M2": 0.25}, 0.6) == "M1"
    assert spare({"M0": 0.5, "M1": 0.4, "M2": 0.45}, 0.6) == ""  # 0.45 x 9/4 is too much
    assert spare({"M0": 0.0}, 0.6) == ""


# --- one dispatcher -------------------------------------------------------------------------------


def second(pulse: Pulse, took_s: float, busy: float = 0.9) -> str:
    pulse.answered(1, took_s)
    return pulse.look(0.0, {"M0": busy, "M1": busy})


def test_it_wishes_for_more_after_a_while_and_again_after_a_change_only() -> None:
    pulse = Pulse(PATIENCE)
    assert [second(pulse, 0.1 * n) for n in range(5)] == ["", "", "", "more", "more"]
    pulse.begin_anew()
    assert [second(pulse, 0.5 + 0.1 * n) for n in range(4)] == ["", "", "", "more"]


def test_what_grows_while_all_matchers_rest_is_not_their_queues() -> None:
    pulse = Pulse(PATIENCE)
    assert [second(pulse, 0.1 * n, 0.5) for n in range(5)] == [""] * 5


def test_if_nothing_is_answered_what_waits_counts() -> None:
    pulse = Pulse(PATIENCE)
    wishes = [pulse.look(float(waits), {"M0": 1.0}) for waits in range(5)]
    assert wishes[-1] == "more"


def test_publishers_that_are_stopped_are_saturation_though_nothing_grows() -> None:
    pulse = Pulse(PATIENCE)
    for _ in range(3):
        second(pulse, 0.1)
    pulse.is_full = True
    assert second(pulse, 0.1) == "more"
    assert [second(pulse, 0.1) for _ in range(4)] == ["more", "more", "more", ""]


def test_it_wishes_for_fewer_after_lasting_idleness() -> None:
    pulse = Pulse(PATIENCE)
    assert [second(pulse, 0.1, 0.1) for _ in range(3)] == ["", "", "fewer"]
    assert pulse.spare == "M0"
    assert second(pulse, 0.1, 0.9) == ""
    assert [second(pulse, 0.1, 0.1) for _ in range(3)] == ["", "", "fewer"]


# --- providing ------------------------------------------------------------------------------------


def says(wish: str, matchers: list[str], *, settled: bool = True) -> dict[str, object]:
    return {"wish": wish, "spare": "M1", "matchers": matchers, "settled": settled}


def test_one_matcher_at_a_time() -> None:
    provisioner, two = Provisioner(Bounds(matchers_max=4)), ["M0", "M1"]
    wishing = {"D0": says("", two), "D1": says("more", two)}
    assert provisioner.look(wishing, 1.0) == Step("start", "M2", "D1: saturated")
    assert provisioner.look(wishing, 2.0) is None
    three = [*two, "M2"]
    half = {"D0": says("more", three), "D1": says("more", two)}
    assert provisioner.look(half, 3.0) is None
    assert provisioner.look(dict.fromkeys(("D0", "D1"), says("more", three)), 4.0) is None
    step = provisioner.look(dict.fromkeys(("D0", "D1"), says("more", three)), 5.0)
    assert step is not None
    assert step.matcher == "M3"


def test_not_beyond_the_bounds_nor_amid_a_hand_over() -> None:
    two = ["M0", "M1"]
    full = Provisioner(Bounds(matchers_min=2, matchers_max=2))
    assert full.look({"D0": says("more", two)}, 1.0) is None
    assert full.look({"D0": says("fewer", two)}, 1.0) is None
    assert Provisioner(Bounds()).look({"D0": says("more", two, settled=False)}, 1.0) is None
    assert Provisioner(Bounds()).look({}, 1.0) is None


def test_one_leaves_when_all_agree_and_ends_when_nobody_needs_it() -> None:
    provisioner, two = Provisioner(Bounds()), ["M0", "M1"]
    assert provisioner.look({"D0": says("fewer", two), "D1": says("", two)}, 1.0) is None
    all_wish = dict.fromkeys(("D0", "D1"), says("fewer", two))
    step = provisioner.look(all_wish, 2.0)
    assert step is not None
    assert (step.what, step.matcher) == ("leave", "M1")
    assert provisioner.look(all_wish, 3.0) is None
    step = provisioner.look(dict.fromkeys(("D0", "D1"), says("", ["M0"])), 4.0)
    assert step is not None
    assert (step.what, step.matcher) == ("end", "M1")


def test_one_that_never_joins_is_ended_and_its_name_is_not_used_again() -> None:
    provisioner = Provisioner(Bounds(joins_s=10))
    wishing = {"D0": says("more", ["M0"])}
    assert provisioner.look(wishing, 0.0) == Step("start", "M1", "D0: saturated")
    assert provisioner.look(wishing, 9.0) is None
    assert provisioner.look(wishing, 10.0) == Step("end", "M1", "it has not joined")
    assert provisioner.look(wishing, 11.0) == Step("start", "M2", "D0: saturated")


def test_bounds_that_are_wrong() -> None:
    with pytest.raises(UserError, match="expected at least one"):
        Provisioner(Bounds(matchers_min=0))
    with pytest.raises(UserError, match="the most not below the fewest"):
        Provisioner(Bounds(matchers_min=3, matchers_max=2))


# --- simulated ------------------------------------------------------------------------------------


def test_a_service_grows_with_its_rate_and_shrinks_again() -> None:
    row = cell(
        {
            "what": "ramp",
            "matchers": 3,
            "matchers_max": 6,
            "subscriptions": 100,
            "best_per_s": 15,
            "steps": 2,
            "step_s": 20,
            "rest_s": 20,
            "idle_s": 10,
        },
        1,
    )
    assert row["violations"] == 0
    assert row["rested"]
    assert float(row["matchers_most"] or 0) >= 4
    assert float(row["ended"] or 0) >= 1
    assert float(row["saturated_s_longest"] or 0) <= 30


@pytest.mark.parametrize("at_once", [1, 3])
def test_matchers_crash_and_nothing_is_lost(at_once: int) -> None:
    row = cell(
        {
            "what": "crashes",
            "matchers": 6,
            "left": 3,
            "at_once": at_once,
            "subscriptions": 150,
            "best_per_s": 60,
            "gap_s": 10,
        },
        1,
    )
    assert row["violations"] == 0
    assert row["rested"]
    assert float(row["noticed_s_max"] or 9) < 5
