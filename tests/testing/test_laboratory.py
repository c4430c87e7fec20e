"""`simulate` and `fuzz`: what they find, and what they say of it."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from roost.broker.hops import Hop, Link
from roost.broker.module import Module
from roost.broker.router import Flooding
from roost.errors import UserError
from roost.language import Event
from roost.pipeline.lake import Lake
from roost.testing import federation, fuzz, fuzzing, laboratory, simulate
from roost.traces import read_table
from tests.example.crowd import Classed, Crowd

PAIR = """
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 link add B1 B2 10
1.0 publisher add P - 0 B1 a > 1
1.0 subscriber add S B2 a > 5
9.0 publisher publish P [a,7]
9.0 publisher publish P [a,8]
20.0 end
"""


class Mute(Flooding):
    """A router with a bug: it sends no event on to a neighbour."""

    def route(self, event: Event, source: Hop) -> tuple[list[Link], list[Hop]]:
        return [], super().route(event, source)[1]


class Fragile(Flooding):
    """One that falls over."""

    def route(self, event: Event, source: Hop) -> tuple[list[Link], list[Hop]]:  # noqa: ARG002
        raise KeyError("nothing there")


@pytest.mark.parametrize("module", [laboratory, fuzzing, federation])
def test_examples(module: object) -> None:
    assert not doctest.testmod(module).failed  # type: ignore[arg-type]


def test_a_trace_says_of_which_kind_it_is(tmp_path: Path) -> None:
    simulate(PAIR, seed=3, trace=tmp_path)
    simulate(PAIR, trace=tmp_path, run="again")
    first, second = sorted(Lake(tmp_path).runs(), key=lambda run: run.name, reverse=True)
    assert (first.name, first.kind, first.parts[0].seed) == ("workload-3", "simulated", 3)
    assert first.parts[0].config["script"] == Path(sys.argv[0]).name
    assert second.name == "again"
    table = read_table(tmp_path / "deliveries" / "run=again" / "part-0.parquet")
    assert table["broker"].to_pylist() == ["B1", "B1", "B2", "B2"]


def test_what_clients_got_and_what_was_said_about_it() -> None:
    ran = simulate(PAIR)
    ran.assert_clean()
    (first, second) = ran.received("S")
    assert (first.id, first.event, first.subscriptions) == ("P:1", Event({"a": 7}), ("main",))
    assert first.at <= second.at
    assert ran.received("P") == ()
    assert any("B1 -> B2" in line and "publish P:1" in line for line in ran.story("P:1"))
    assert not ran.unfinished


def test_a_file_and_settings(tmp_path: Path) -> None:
    path = tmp_path / "pair.workload"
    path.write_text(PAIR)
    ran = simulate(path, settings={"durability": "on", "covering": "off"}, until_s=5.0)
    assert ran.world.settings.durability
    assert not ran.world.settings.covering
    assert not ran.received("S")
    with pytest.raises(UserError, match="unknown setting 'durabilty'"):
        simulate(path, settings={"durabilty": "on"})


def test_the_same_faults_for_the_same_seed() -> None:
    runs = [simulate(PAIR, faults="all", seed=seed) for seed in (1, 1, 2)]
    faults = [run.workload.statements for run in runs]
    assert faults[0] == faults[1] != faults[2]
    for run in runs:
        run.assert_clean()
    with pytest.raises(UserError, match="no profile of faults"):
        simulate(PAIR, faults="most")


def test_a_workload_that_leaves_something_broken_says_so() -> None:
    ran = simulate(PAIR + "15.0 broker crash B2 keep\n")
    assert ran.unfinished == ("B2 is down",)


def test_modules_come_on_top_of_those_of_the_workload() -> None:
    named = "0.0 federation optimiser tests.example.crowd:Crowd observing limit=9\n"
    ran = simulate(named + PAIR, modules=lambda _: [Quiet()])
    assert [module.name for module in ran.world.hosts["B1"].modules] == ["crowd", "quiet"]


class Quiet(Module):
    name = "quiet"


def test_a_router_by_class_and_by_name() -> None:
    for router in (Classed, "tests.example.crowd:Classed"):
        ran = simulate(PAIR, router=router)
        assert not ran.received("S")  # its events have no class
        assert not ran.checks.clean


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(AssertionError) as failed:
        simulate(PAIR, router=Classed).assert_clean()
    assert "workload: 2 promises broken" in str(failed.value)
    assert "P:1 was refused (an event without a class), though it was offered" in str(failed.value)


def test_fuzzing_a_module_that_is_well() -> None:
    found = fuzz(3, modules=lambda _: [Crowd(Crowd.Config(limit=1))])
    found.assert_clean()
    assert found.seeds == (0, 1, 2)
    assert found.delivered > 0


def test_fuzzing_finds_a_router_that_loses_events() -> None:
    found = fuzz([4, 5], profile="none", router=Mute)
    with pytest.raises(AssertionError) as failed:
        found.assert_clean()
    failure = found.failures[0]
    text = str(failed.value)
    assert failure.story
    assert f"seed {failure.seed}: " in text
    assert f"run it again: fuzz([{failure.seed}], profile='none', ...)" in text
    again = fuzz([failure.seed], profile="none", router=Mute)
    assert again.failures == (failure,)


def test_a_profile_that_there_is_not() -> None:
    with pytest.raises(UserError, match="no profile of faults is called 'most'; there are none, "):
        fuzz(1, profile="most")


def test_it_needs_no_framework_for_tests() -> None:
    program = "import sys, roost.testing; assert not {'pytest', 'hypothesis', '_pytest'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_fuzzing_says_which_seed_fell_over() -> None:
    found = fuzz([2, 3], profile="none", router=Fragile)
    assert [failure.seed for failure in found.failures] == [2, 3]
    with pytest.raises(AssertionError, match="seed 2: KeyError: 'nothing there'") as failed:
        found.assert_clean()
    assert isinstance(failed.value.__cause__, KeyError)
