"""The policies of 004 section III.B: figure 4, and each against its formula."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from roost.partition.forwarding import POLICIES, Pace, Sight, choose, processing_s, queue_now

MU = 100.0  # both matchers of figure 4
RATE = 190.0
STEP_S = 0.001


def processing_times(
    policy: str, seconds: float = 12.0, window_s: float = 1.0
) -> list[tuple[float, float]]:
    """Figure 4: matchers A and B of the same speed, B's queue longer at the beginning, updates every second.

    Returns the processing times of both, every hundredth of a second.
    """
    random = Random(1)
    queues = [5.0, 60.0]
    arrived: list[deque[float]] = [deque(), deque()]
    reports = [Pace(1, RATE, MU, 5, 1 / MU), Pace(1, 0.0, MU, 60, 1 / MU)]
    reported_at, sent = 0.0, [0, 0]
    times, owed = [], 0.0
    for tick in range(int(seconds / STEP_S)):
        now = tick * STEP_S
        if now - reported_at >= 1.0:
            for here in (0, 1):
                while arrived[here] and arrived[here][0] < now - window_s:
                    arrived[here].popleft()
                reports[here] = Pace(
                    1, len(arrived[here]) / window_s, MU, round(queues[here]), 1 / MU
                )
            reported_at, sent = now, [0, 0]
        queues = [max(0.0, queue - MU * STEP_S) for queue in queues]
        owed += RATE * STEP_S
        while owed >= 1.0:
            owed -= 1.0
            age_s = now - reported_at
            sights = [
                Sight(pace, age_s, max(0.0, (pace.queue + sent[n]) / MU - age_s))
                for n, pace in enumerate(reports)
            ]
            chosen = choose(POLICIES[policy], sights, random.random)
            queues[chosen] += 1
            arrived[chosen].append(now)
            sent[chosen] += 1
        if tick % 10 == 0:
            times.append(((queues[0] + 1) / MU, (queues[1] + 1) / MU))
    return times


def test_figure_4() -> None:
    """With extrapolation the dispatcher turns to B before the next update; without, A's queue grows on."""
    until_update = {
        p: [a - b for a, b in processing_times(p)[:100]] for p in ("response", "adaptive")
    }
    assert max(until_update["response"]) > 0.75  # A alone for the whole second
    assert max(until_update["adaptive"]) < 0.01  # it turned when the two were equal


def test_the_formula_alone_oscillates() -> None:
    """What figure 4 does not show: lambda is of the past, so that after the turn all goes to B until the
    update.

    Then it is A's turn, and so on: the two are as far apart as without. Counting what one sends oneself
    ends that.
    """
    apart = {
        policy: sum(abs(a - b) for a, b in processing_times(policy)[200:]) / 1000
        for policy in ("response", "adaptive", "counting", "drift")
    }
    assert apart["adaptive"] == pytest.approx(apart["response"], rel=0.1)
    assert apart["counting"] < 0.05 * apart["response"]
    assert apart["drift"] < 0.05 * apart["response"]


def test_the_formulas() -> None:
    """q_t = q + (lambda - mu)(t - t'), then (q_t + 1) / mu."""
    pace = Pace(size=7, arrivals_per_s=30.0, matches_per_s=20.0, queue=10)
    assert queue_now(pace, 2.0) == 30.0
    assert POLICIES["adaptive"](Sight(pace, 2.0), 0.5) == pytest.approx(31 / 20)
    assert POLICIES["response"](Sight(pace, 2.0), 0.5) == pytest.approx(11 / 20)
    here = Sight(Pace(7, 30.0, 20.0, 10, search_s=0.5), 2.0, work_s=3.0)
    assert POLICIES["counting"](here, 0.5) == pytest.approx(3.5)
    assert POLICIES["drift"](here, 0.5) == pytest.approx(3.5 * 0.5)
    assert POLICIES["amount"](Sight(pace, 2.0), 0.5) == 7
    assert POLICIES["random"](Sight(pace, 2.0), 0.5) == 0.5
    assert queue_now(Pace(1, 0.0, 20.0, 10), 60.0) == 0.0
    assert processing_s(3, Pace()) > 1e8


def test_who_is_unheard_is_tried_and_ties_are_drawn() -> None:
    random = Random(3)
    slow = Sight(Pace(9, 0.0, 1.0, 0, 1.0))
    for policy in ("amount", "response", "adaptive", "counting", "drift"):
        assert choose(POLICIES[policy], [slow, Sight()], random.random) == 1
        drawn = {choose(POLICIES[policy], [slow, slow], random.random) for _ in range(50)}
        assert drawn == {0, 1}
    chosen = [choose(POLICIES["random"], [slow, Sight()], random.random) for _ in range(1000)]
    assert 400 < sum(chosen) < 600


def test_a_report_is_due_when_a_tenth_has_changed() -> None:
    """IV.C: pushed every second if the load changes by more than 10 %."""
    pace = Pace(100, 50.0, 200.0, 10)
    assert not Pace(105, 50.0, 200.0, 10).has_changed(pace)
    assert Pace(100, 56.0, 200.0, 10).has_changed(pace)
    assert Pace(100, 50.0, 200.0, 12).has_changed(pace)
    assert not pace.has_changed(pace)
    assert pace.has_changed(Pace())
