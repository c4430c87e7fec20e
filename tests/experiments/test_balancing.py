"""The experiments of 001: figures from tables that are known, a small cell, and claims over seeds."""

from __future__ import annotations

import json
from math import isnan, nan
from typing import Any

import numpy as np
import pytest

from roost.balancing import BalancingConfig
from roost.errors import UserError
from roost.experiments import find_experiment
from roost.experiments.balancing.agreement import agreement
from roost.experiments.balancing.cell import CELL, config_of, simulated
from roost.experiments.balancing.common import below, is_near_zero, share, within
from roost.experiments.balancing.figures import (
    HELD_S,
    SHOWN,
    Course,
    differences,
    figures,
    first_held,
    smooth,
    worsened,
)
from roost.experiments.frame import Results
from roost.experiments.relocation.tables import Counters, Loads, Tables, Visits
from roost.pipeline.sweeps.folder import Result

BROKERS = ("B0", "B1", "B2")
COURSE = Course(("B1", "B2"), joined_s=100.0, change_s=2_000.0, end_s=4_000.0, crowded="B1")
CONFIG = BalancingConfig(profile="thesis")
TIMES = np.arange(10.0, 4_001.0, 10.0)


def tables(output: dict[str, float], decisions: list[dict[str, Any]] | None = None) -> Tables:
    """Brokers whose load never changes; a quote a second for B1, delivered to three clients."""
    flat = {
        name: np.tile([0.0, value, value], (len(TIMES), 1))
        for name, value in (("input_utilisation", 0.4), ("matching_delay_s", 0.02))
    }
    for name in SHOWN[3:]:
        flat[name] = np.zeros((len(TIMES), len(BROKERS)))
    flat["output_utilisation"] = np.tile([output.get(b, 0.0) for b in BROKERS], (len(TIMES), 1))
    times = np.repeat(np.arange(1.0, 4_001.0), 2)
    visits = Visits(
        time=times,
        publisher=np.zeros(len(times), np.int64),
        sequence=np.arange(len(times)),
        broker=np.tile([0, 1], len(times) // 2),
        hop=np.tile([0, 1], len(times) // 2),
        local=np.tile([0, 3], len(times) // 2),
        age_s=np.zeros(len(times)),
        publishers=("P",),
    )
    # Each second the quote, and every ten seconds one message more.
    seconds = np.arange(1.0, 4_001.0)
    step = np.ones(len(seconds), np.int64)
    step[9::10] += 1
    return Tables(BROKERS, visits, Loads(TIMES, flat), Counters(seconds, step), decisions or [])


def decision(
    kind: str, at: float, broker: str = "B1", subject: str = "S1", **evidence: Any
) -> dict[str, Any]:
    return {
        "module": "balancing",
        "kind": kind,
        "subject": subject,
        "time": at,
        "broker": broker,
        "evidence": json.dumps(evidence),
        "predicted": json.dumps({"input_ratio": 0.44, "output_ratio": 0.45}),
    }


def test_a_minute_is_averaged() -> None:
    times = np.arange(10.0, 131.0, 10.0)
    values = np.where(times[:, None] > 60, 1.0, 0.0)
    assert smooth(times, values)[:, 0].tolist() == pytest.approx(
        [0, 0, 0, 0, 0, 0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1, 1]
    )


def test_what_is_held_for_two_minutes_counts_from_its_beginning() -> None:
    apart = np.full(len(TIMES), 2.0)
    apart[10:15] = 0.5  # 110 to 150 s: too short
    apart[30:] = 1.0
    assert first_held(TIMES, apart, 0.0, 4_000.0) == 310.0
    assert first_held(TIMES, apart, 1_000.0, 4_000.0) == 1_010.0
    assert isnan(first_held(TIMES, apart, 0.0, 310.0 + HELD_S - 10))


def test_the_widest_difference_counts_over_its_threshold() -> None:
    found = differences(tables({"B1": 0.5, "B2": 0.35}), COURSE.edges, CONFIG)
    assert found == pytest.approx(np.full(len(TIMES), 1.5))


def test_figures_of_a_run_at_rest() -> None:
    found = figures(tables({"B1": 0.5, "B2": 0.44}), COURSE, CONFIG)
    assert (found["converged_s"], found["reconverged_s"]) == (110.0, 10.0)
    assert found["output_utilisation_deviation"] == pytest.approx(0.03)
    assert found["input_utilisation_deviation"] == 0.0
    # A quote that is published, received and delivered thrice; and a tenth of a message.
    assert found["overhead"] == pytest.approx(100 * 0.1 / 5.1, rel=1e-3)
    assert found["sessions"] == 0
    assert isnan(found["input_error"])


def test_a_run_that_never_converges_has_no_such_time() -> None:
    found = figures(tables({"B1": 0.9, "B2": 0.3}), COURSE, CONFIG)
    assert isnan(found["converged_s"])
    assert isnan(found["reconverged_s"])


def test_sessions_are_counted_once_and_moves_as_messages() -> None:
    rows = [
        decision("offload", 50.0, session="a", index="input", partner="B2"),
        decision("offload", 50.0, session="a"),  # clients were proposed one by one
        decision("no offload", 120.0, "B2", session="b", index="input", partner="B3"),
        decision("offload", 3_900.0, session="c", index="output", partner="B2"),
        *(decision("carried out", 3_900.0) for _ in range(10)),
    ]
    quiet = figures(tables({"B1": 0.5, "B2": 0.5}), COURSE, CONFIG)
    found = figures(tables({"B1": 0.5, "B2": 0.5}, rows), COURSE, CONFIG)
    assert (found["sessions"], found["sessions_late"]) == (3, 1)
    assert (found["sessions_input_early"], found["sessions_input_others"]) == (2, 1)
    assert found["overhead"] > quiet["overhead"]


def test_errors_are_those_of_brokers_that_became_stable_undisturbed() -> None:
    measured = {"input_ratio": 0.4, "output_ratio": 0.5}
    rows = [
        decision("outcome", 3_000.0, stable=True, measured=measured),
        decision("outcome", 3_000.0, stable=False, measured={"input_ratio": 9, "output_ratio": 9}),
        decision("outcome", 120.0, stable=True, measured={"input_ratio": 9, "output_ratio": 9}),
    ]
    found = figures(tables({"B1": 0.5, "B2": 0.5}, rows), COURSE, CONFIG)
    assert found["input_error"] == pytest.approx(10.0)
    assert found["output_error"] == pytest.approx(-10.0)


def test_a_session_worsens_if_the_higher_of_the_two_gets_higher() -> None:
    def session(higher: float, *, stable: bool = True) -> list[dict[str, Any]]:
        before: dict[str, Any] = {"own": {"input_ratio": 0.5}, "other": {"input_ratio": 0.3}}
        of = {"B1": 0.4, "B2": higher}
        return [
            decision("offload", 2_900.0, session="a", index="input", partner="B2", **before),
            *(
                decision("outcome", 3_000.0, b, "a", stable=stable, measured=_measured(ratio))
                for b, ratio in of.items()
            ),
        ]

    assert worsened(session(0.54), COURSE, CONFIG) == 0
    assert worsened(session(0.56), COURSE, CONFIG) == 1
    assert worsened(session(0.56, stable=False), COURSE, CONFIG) == 0
    assert worsened(session(0.56)[:-1], COURSE, CONFIG) == 0  # the other was never stable


def _measured(ratio: float) -> dict[str, float]:
    return {"input_ratio": ratio, "output_ratio": 0.5}


def test_who_moves_again_and_again_at_rest_is_counted() -> None:
    times = {"S1": (500.0, 2_900.0, 3_000.0), "S2": (2_900.0, 3_000.0, 3_100.0)}
    rows = [decision("carried out", at, subject=s) for s, all_ in times.items() for at in all_]
    assert figures(tables({}, rows), COURSE, CONFIG)["shuttled_late"] == 1


def test_a_cell_is_run_and_judged() -> None:
    row = simulated(
        1, publishers=4, subscribers=40, change_at_s=1_040.0, until_s=1_100.0, every_s=500.0
    )
    assert (row["violations"], row["lost"], row["first_violation"]) == (0, 0, None)
    assert sum(int(row[f"subscribers_B{n}"] or 0) for n in range(1, 5)) == 40
    assert {"converged_s", "sessions", "input_utilisation_B4_at_1000"} <= row.keys()
    assert {"overhead_at_1000", "subscriptions_B1_at_500", "delivery_delay_s_at_500"} <= row.keys()


def test_settings_are_those_of_the_module() -> None:
    assert config_of("roost", "press_samples=10,local_ratio_threshold=0.08").press_samples == 10
    with pytest.raises(UserError, match="no setting 'presses'"):
        config_of("thesis", "presses=3")
    with pytest.raises(UserError, match="expected more"):
        CELL.read({"until_s": "900"})


def test_with_faults_brokers_keep_what_they_accept_and_all_of_it_arrives() -> None:
    row = simulated(
        1, publishers=4, subscribers=40, change_at_s=1_040.0, until_s=1_100.0, faults="crash"
    )
    assert (row["violations"], row["first_violation"]) == (0, None)
    assert int(row["delivered"] or 0) > 1_000


# --- optimisers together ----------------------------------------------------------------------------


def moved(client: str, start: float, end: float, module: str = "balancing") -> dict[str, Any]:
    row = decision("carried out", end, subject=client, took_s=end - start)
    return row | {"module": module}


def test_moves_at_the_same_time_and_within_a_rest_are_counted() -> None:
    rows = [
        moved("S1", 10.0, 11.0),
        moved("S1", 71.0, 72.0, "grape"),  # it has rested
        moved("S2", 10.0, 11.0),
        moved("S2", 70.0, 72.0, "grape"),  # not quite
        moved("S3", 10.0, 20.0, "grape"),
        moved("S3", 15.0, 30.0),
        decision("refused", 50.0, by="balancing", why="B2 is overloaded"),
        decision("refused", 51.0, by="balancing", why=""),
    ]
    found = agreement(rows, rest_s=60.0)
    assert (found["two_leases"], found["within_rest"]) == (1, 2)
    assert (found["moves_balancing"], found["moves_grape"]) == (3, 3)
    assert (found["refused"], found["refused_silently"]) == (2, 1)


# --- claims -----------------------------------------------------------------------------------------


def result(seed: int, profile: str, **found: float) -> Result:
    return Result(
        cell=f"{profile} {seed}",
        status="done",
        parameters={"profile": profile},
        seed=seed,
        figures=dict(found),
        seconds=1.0,
        worker="w",
        tries=1,
        code="",
    )


def test_claims_are_shares_of_seeds() -> None:
    some = Results([result(n, "thesis", converged_s=1_000.0 * n, error=nan) for n in range(1, 5)])
    assert share(some, below("converged_s", 2_000.0)) == 50.0
    assert share(some, within("converged_s", 2_500.0, 0.25)) == 50.0
    assert share(some, is_near_zero("error", 1.0)) == 100.0
    assert share(some, below("nothing", 1.0)) == 0.0
    assert isnan(share(Results([]), below("converged_s", 1.0)))


@pytest.mark.parametrize(
    "name", ["balancing-local", "balancing-global", "balancing-micro", "balancing-together"]
)
def test_without_results_no_claim_holds_and_nothing_falls_over(name: str) -> None:
    experiment = find_experiment(name)
    nothing = Results([])
    assert not any(claim.holds for claim in experiment.claims(nothing))
    assert experiment.charts(nothing)
    assert not experiment.findings(nothing)
