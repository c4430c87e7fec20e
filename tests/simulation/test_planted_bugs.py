"""Who checks the checkers: bugs are planted, and the fuzzer has to find each of them.

A bug is caught at a seed if the scenario of that seed fails with it and holds without it; to fall over
is to fail. Every bug has 300 seeds. SEEDS only says where it was caught before, which is tried first.
That scenarios hold without any bug is tested in tests/faults/test_random_scenarios.py.

Some bugs need a coincidence that random scenarios do not often come by. They have a workload each besides
that brings it about.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from roost.simulation.fuzz import fuzz
from roost.simulation.run import Checks, check, rest, run
from roost.simulation.scenario_settings import EDGES, REWIRINGS
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from tests.scenarios.transcript import steps_of
from tests.simulation.planted import AT_THE_EDGES, BUGS
from tests.simulation.planted_rewirings import REWIRING_BUGS

SEEDS_MAX = 300

SEEDS: dict[str, int] = {
    "withdraws_before_it_announces": 32,
    "forgets_to_uncover": 2,
    "forgets_to_withdraw_the_covered": 1,
    "unadvertises_ahead_of_events": 2,
    "takes_any_withdrawal": 15,
    "leaves_subscriptions_behind": 2,
    "forgets_what_waited": 28,
    "takes_what_came_before": 2,
    "acknowledges_before_it_is_safe": 33,
    "speaks_before_it_is_safe": 29,
    "restores_no_outbox": 8,
    "restores_nothing_told": 8,
    "restores_no_numbers_received": 1,
    "keeps_what_a_lost_neighbour_said": 2,
    "forgets_to_unsubscribe_for_the_lost": 14,
    "moves_without_a_drain": 4,
    "migrates_ahead_of_events": 43,
    "hands_out_what_is_held": 7,
    "tells_the_target_nothing": 3,
    "loses_what_it_kept_back": 84,
    "settles_without_the_absent": 7,
    "keeps_nothing_for_the_absent": 2,
    "tells_nobody_who_is_away": 2,
    "presumes_nothing": 14,
    "greets_and_is_present": 16,
    "answers_at_once": 60,
    "forgets_the_outbox_of_the_absent": 10,
    "takes_over_an_empty_session": 12,
    "takes_over_without_its_numbers": 1,
    "loses_events_in_a_full_store": 5,
    "narrows_in_silence": 7,
    "switches_ahead_of_events": 10,
    "switches_before_tables_are_known": 8,
    "forgets_the_standby": 8,
    "locks_twice": 1,
    "forgets_before_it_knows": 3,
    "withdraws_what_it_has_from_two_sides": 213,
    "cuts_the_drain_short": 10,
    "sends_both_ways": 7,
    "loses_its_new_neighbour": 61,
}

# B2 is so slow to speak that events pass B1 between the two things that it says.
SLOW_SPEAKER = """
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 0.001
0.0 broker add B3 1000 16 10
0.0 link add B1 B2 1
0.0 link add B2 B3 1
0.5 publisher add P - 0 B1 a > 1
0.5 subscriber add wide B3 a > 5
0.5 subscriber add narrow B3 a > 9
9.0 subscriber unsubscribe wide main
9.0 publisher publish P [a,12]
9.2 publisher publish P [a,12]
9.4 publisher publish P [a,12]
9.6 publisher publish P [a,12]
9.8 publisher publish P [a,12]
20.0 end
"""

# The publisher's last events at B1 are on a slow link to B3 when it moves to B4, behind B3. Where
# subscriptions flood, nothing migrates: B1 has to wait until all have passed.
SLOW_FAREWELL = """
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 broker add B3 1000 16 10
0.0 broker add B4 1000 16 10
0.0 link add B1 B2 1
0.0 link add B1 B3 500
0.0 link add B3 B4 1
0.5 publisher add P - 0 B1 a > 1
0.5 subscriber add S B4 a > 1
9.0 publisher publish P [a,12]
9.1 client redirect P B4
9.9 publisher publish P [a,12]
10.0 publisher publish P [a,12]
10.2 publisher publish P [a,12]
10.3 publisher publish P [a,12]
20.0 end
0.0 federation set routing flooding
"""

# B2, between the publisher and where it goes, is too slow to match its events as they come.
QUEUE_ON_THE_PATH = """
0.0 broker add B1 1000 16 10
0.0 broker add B2 0.1 16 10
0.0 broker add B3 1000 16 10
0.0 link add B1 B2 1
0.0 link add B2 B3 1
0.5 publisher add P - 0 B1 a > 1
0.5 subscriber add S B3 a > 1
9.0 publisher publish P [a,12]
9.0 publisher publish P [a,13]
9.0 publisher publish P [a,14]
9.0 publisher publish P [a,15]
9.0 publisher publish P [a,16]
9.01 client redirect P B3
9.2 publisher publish P [a,17]
9.3 publisher publish P [a,18]
20.0 end
"""

# Events for the subscriber wait at B2 for the link to B1, which is too slow to match them as they come once
# it is healed.
QUEUE_FOR_THE_MOVER = """
0.0 broker add B1 0.1 16 10
0.0 broker add B2 1000 16 10
0.0 broker add B3 1000 16 10
0.0 link add B1 B2 1
0.0 link add B2 B3 1
0.5 publisher add P - 0 B2 a > 1
0.5 subscriber add S B1 a > 1
9.0 link cut B1 B2
9.1 publisher publish P [a,12]
9.1 publisher publish P [a,13]
9.1 publisher publish P [a,14]
9.2 client redirect S B3
12.0 link heal B1 B2
20.0 end
"""

# The way to the old broker is longer than that to the new one.
LONG_OLD_WAY = """
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 broker add B3 1000 16 10
0.0 link add B1 B2 400
0.0 link add B2 B3 1
0.5 publisher add P - 0 B2 a > 1
0.5 subscriber add S B1 a > 1
9.0 publisher publish P [a,12]
9.0 client redirect S B3
9.1 publisher publish P [a,13]
9.2 publisher publish P [a,14]
20.0 end
"""

# B0 hears of the subscription from B2, its new neighbour, before B1 has withdrawn it, and crashes.
TWO_SIDES = """
0.0 federation set durability on
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 link add B0 B1 500
0.0 link add B1 B2 1
0.5 publisher add P - 0 B0 a > 1
0.5 subscriber add S B2 a > 1
9.0 link remove B1 B2
9.0 link add B0 B2 1
9.2 broker crash B0 keep
9.3 broker restart B0
20.0 publisher publish P [a,12]
30.0 end
"""

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def scenario(name: str) -> str:
    """The workload of a transcript."""
    steps = steps_of((SCENARIOS / f"{name}.txt").read_text("utf-8"))
    return "\n".join(line for step in steps for line in step.lines)


COINCIDENCES = {
    "unadvertises_ahead_of_events": scenario("unadvertise-behind-events"),
    "withdraws_before_it_announces": SLOW_SPEAKER,
    "moves_without_a_drain": SLOW_FAREWELL,
    "echoes_without_waiting": SLOW_FAREWELL,
    "loses_what_it_kept_back": SLOW_FAREWELL,
    "migrates_ahead_of_events": QUEUE_ON_THE_PATH,
    "drains_the_way_there_only": QUEUE_FOR_THE_MOVER,
    "hands_out_what_is_held": LONG_OLD_WAY,
    "restores_no_spare": TWO_SIDES,
}
# The rarest are found by their workloads only.
RARE = ("echoes_without_waiting", "drains_the_way_there_only", "restores_no_spare")
LEFT_TO_CHANCE = [name for name in BUGS if name not in RARE]


def of_seed(seed: int, profile: str) -> Checks:
    return fuzz(seed, profile)[2]


def of_text(text: str) -> Checks:
    workload = parse_workload(text, "workload", None)
    world = World(workload.settings, workload.statements)
    run(world, workload.statements[-1].at)
    return check(world, rested=rest(world), must_rest=True)


def caught(name: str, judge: Callable[[], Checks]) -> str:
    """What gives the bug away, if this run does."""
    with BUGS[name]():
        try:
            checks = judge()
        except Exception as error:  # whatever it is, nobody could overlook it
            found = f"{type(error).__name__}: {error}"
        else:
            found = "" if checks.clean else "; ".join(checks.violations[:1]) or "not clean"
    return found if found and judge().clean else ""


@pytest.mark.parametrize("name", LEFT_TO_CHANCE)
def test_a_planted_bug_is_caught(name: str) -> None:
    first = [SEEDS[name]] if name in SEEDS else []
    profile = EDGES if name in AT_THE_EDGES else REWIRINGS if name in REWIRING_BUGS else "all"
    for seed in chain(first, range(SEEDS_MAX)):
        if found := caught(name, partial(of_seed, seed, profile)):
            print(f"{name}: caught at seed {seed}: {found}")  # pytest -rP shows it
            return
    pytest.fail(f"{name}: not caught by {SEEDS_MAX} seeds")


@pytest.mark.parametrize("name", COINCIDENCES)
def test_a_planted_bug_is_caught_by_its_workload(name: str) -> None:
    text = COINCIDENCES[name]
    assert of_text(text).clean
    assert caught(name, partial(of_text, text))


def test_there_are_enough_bugs() -> None:
    assert len(LEFT_TO_CHANCE) >= 10
