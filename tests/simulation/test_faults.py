"""Faults hit what is there, one at a time, and are over in time; random scenarios with them hold."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from roost.errors import UserError
from roost.simulation import statements as st
from roost.simulation.faults import (
    NETWORK,
    PROFILES,
    Faults,
    broker,
    client,
    link,
    merged,
    stage_of,
    with_faults,
)
from roost.simulation.fuzz import Scenario, fuzz
from roost.simulation.settings import Settings
from roost.simulation.workload_check import check_workload
from roost.simulation.workload_file import Workload, parse_workload
from tests.simulation.workload_strategies import workloads

TEXT = """
0 broker add B0 1000 16 10
0 broker add B1 1000 16 10
0 broker add B2 1000 16 10
0 link add B0 B1
0 link add B1 B2
1 publisher add P1 - 0 B0 a > 0
1 subscriber add S1 B2 a > 5
100 end
"""
STARTS = {
    st.CrashBroker: st.RestartBroker,
    st.CutLink: st.HealLink,
    st.Partition: st.HealPartition,
    st.VanishClient: st.ReturnClient,
    st.FillStore: st.FreeStore,
}


def workload(extra: str = "", *, durability: bool = True) -> Workload:
    text = f"0 federation set durability {'on' if durability else 'off'}\n{TEXT}{extra}"
    return parse_workload(text, "mesh.txt", None)


def faults_of(statements: Sequence[st.Statement]) -> list[st.Statement]:
    return [s for s in statements if not s.line]


def kinds(statements: Sequence[st.Statement]) -> set[str]:
    return {type(s).__name__ for s in statements}


# --- profiles -------------------------------------------------------------------------------------


def test_every_profile_has_its_own_faults() -> None:
    network = {"CutLink", "HealLink", "Partition", "HealPartition", "DelayLink"}
    network |= {"VanishClient", "ReturnClient", "SlowBroker"}
    crash = {"CrashBroker", "RestartBroker"}
    full = {"FillStore", "FreeStore"}
    expected = {"none": set(), "network": network, "crash": crash, "all": network | crash | full}
    expected["edges"] = (network | crash | full) - {"DelayLink", "SlowBroker"}
    expected["rewirings"] = expected["all"]
    expected["standbys"] = network | crash | {"FailNode"}
    assert set(expected) == set(PROFILES)
    for profile, names in expected.items():
        found: set[str] = set()
        for seed in range(20):
            whole = with_faults(workload(), profile, seed, 100.0).statements
            found |= kinds(faults_of(whole)) if profile != "none" else set()
        assert found == names


@pytest.mark.parametrize("profile", ["crash", "all"])
@pytest.mark.parametrize("durability", [True, False])
def test_a_store_that_is_not_there_is_not_kept(profile: str, durability: bool) -> None:
    kept = [
        s.keep_store
        for seed in range(30)
        for s in with_faults(workload(durability=durability), profile, seed, 100.0).statements
        if isinstance(s, st.CrashBroker)
    ]
    assert (True in kept) == durability
    assert (False in kept) == (not durability or profile == "all")


def test_the_same_seed_gives_the_same_faults() -> None:
    once, again, other = (with_faults(workload(), "all", seed, 100.0) for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(UserError, match="is called 'some'; there are none, network, crash, all"):
        with_faults(workload(), "some", 0, 100.0)


# --- in time, and one at a time -------------------------------------------------------------------


@pytest.mark.parametrize("until", [0.5, 3.0, 100.0])
def test_all_is_healed_before_the_end(until: float) -> None:
    for seed in range(30):
        whole = with_faults(workload(), "all", seed, until).statements
        assert [s.at for s in whole] == sorted(s.at for s in whole)
        found = faults_of(whole)
        for start, end in STARTS.items():
            assert sum(isinstance(s, start) for s in found) == sum(
                isinstance(s, end) for s in found
            )
        slow = [s.factor for s in found if isinstance(s, st.SlowBroker)]
        assert slow.count(1.0) * 2 == len(slow)
        assert all(s.at < until for s in found)
        assert all(s.at + s.duration_s < until for s in found if isinstance(s, st.DelayLink))


def test_at_most_one_fault_of_a_thing_at_a_time() -> None:
    draws = random.Random(1)
    stage = stage_of(workload().statements)
    faults = Faults(draws, "all", stage, durability=True, end=100.0)
    for _ in range(500):
        at = draws.uniform(0, 90)
        faults.fault(at, at + draws.uniform(0.2, 9))
    assert {thing.kind for thing in stage.faults} == {"broker", "link", "client", "network"}
    for times in stage.faults.values():
        ordered = sorted(times)
        assert all(a[1] < b[0] for a, b in pairwise(ordered))


def test_what_the_workload_does_itself_is_left_alone() -> None:
    extra = """
2 broker crash B0 keep
90 broker restart B0
2 broker slow B1 3
90 broker slow B1 1
2 link cut B0 B1
90 link heal B0 B1
2 link delay B1 B2 50 90
2 client vanish S1
2 partition cut B2
95 partition heal
"""
    stage = stage_of(workload(extra).statements)
    for thing in (broker("B0"), broker("B1"), link("B1", "B0"), link("B1", "B2"), NETWORK):
        assert not stage.free(thing, 50, 60)
    assert stage.free(broker("B0"), 91, 92)
    assert stage.free(broker("B2"), 50, 60)
    assert not stage.free(client("S1"), 98, 99)
    assert stage.faults[client("S1")] == [(2, inf)]
    assert stage.heals == [95]
    assert stage.cuts == [(2, 90)]


def test_things_are_hit_only_while_they_are_there_and_stay_where_they_are() -> None:
    extra = """
10 broker add B3 1 1 1
10 link add B2 B3
20 client redirect S1 B1
30 subscriber remove S1
40 broker remove B3
50 link remove B0 B1
"""
    stage = stage_of(workload(extra).statements)
    assert not stage.free(broker("B3"), 9, 11)
    assert stage.free(broker("B3"), 11, 39)
    assert not stage.free(broker("B3"), 39, 41)
    assert stage.free(link("B3", "B2"), 11, 39)
    assert not stage.free(link("B3", "B2"), 39, 41)
    assert stage.free(client("S1"), 2, 19)
    assert not stage.free(client("S1"), 19, 21)
    assert stage.free(client("S1"), 21, 29)
    assert not stage.free(client("S1"), 29, 31)
    # A broker may be down when its links change.
    for name, at in (("B2", 10), ("B2", 40), ("B0", 50), ("B1", 50)):
        assert stage.free(broker(name), at - 1, at + 1)


def test_nothing_is_cut_when_a_partition_heals() -> None:
    """It would heal every cut, and the link could not be healed any more."""
    for seed in range(50):
        draws = random.Random(seed)
        stage = stage_of(workload("60 partition heal\n").statements)
        faults = Faults(draws, "network", stage, durability=True, end=100.0)
        for _ in range(100):
            at = draws.uniform(0, 90)
            faults.fault(at, at + 5)
        check_workload(merged(workload().statements, faults.statements), "x")


@given(workloads(), some.integers(0, 100), some.sampled_from(["network", "crash", "all"]))
@settings(max_examples=25, deadline=None)
def test_a_workload_with_faults_makes_sense_if_it_did(
    statements: list[st.Statement], seed: int, profile: str
) -> None:
    told = tuple(s for s in statements if not isinstance(s, st.Set))
    until = max((s.at for s in told if s.at < 1e6), default=0.0) + 20
    whole = with_faults(Workload("x", Settings(), told), profile, seed, until)
    assert [s for s in whole.statements if s in told] == list(told)


def test_a_workload_without_anything_has_no_faults() -> None:
    empty = Workload("x", Settings(), ())
    assert with_faults(empty, "all", 1, 10.0) == empty


# --- random scenarios -----------------------------------------------------------------------------


def test_a_scenario_is_the_workload_that_its_text_says() -> None:
    said: set[str] = set()
    for seed in range(40):
        scenario = Scenario(seed)
        read = parse_workload(scenario.text(), "x", None)
        assert read.statements == tuple(scenario.statements)
        assert read.settings == scenario.settings
        assert scenario.statements == Scenario(seed).statements
        said |= kinds(scenario.statements)
    assert {"RemoveLink", "RemoveBroker", "CrashBroker", "Partition", "VanishClient"} <= said


def test_brokers_and_links_come_and_go() -> None:
    later = [s for seed in range(60) for s in Scenario(seed).statements if s.at > 0]
    assert sum(isinstance(s, st.AddBroker) for s in later) > 5
    assert sum(isinstance(s, st.RemoveBroker) for s in later) > 5
    relinked = [s for s in later if isinstance(s, st.RemoveLink)]
    joined = [s for s in later if isinstance(s, st.AddLink)]
    assert len(relinked) > 3
    assert {(s.a, s.b) for s in relinked} != {(s.a, s.b) for s in joined}


@pytest.mark.parametrize("profile", list(PROFILES))
def test_every_promise_holds(profile: str) -> None:
    for seed in range(8):
        checks = fuzz(seed, profile)[2]
        assert checks.clean, (seed, checks.violations)
        assert checks.rested
