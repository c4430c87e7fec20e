"""A recorded run becomes a workload that delivers all that was delivered; and with a what-if another one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from roost.cli.plan import rules_of
from roost.cli.sim.run import Plan as SimPlan
from roost.cli.sim.run import Result, carry_out
from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.plans.effect import Weights
from roost.pipeline.plans.placement import in_order
from roost.pipeline.plans.plan import Limits
from roost.pipeline.plans.planning import plan_of
from roost.pipeline.plans.replaying import (
    AS_IT_WAS,
    PLANNED,
    read_scene,
    replayed,
    variants,
    workload_text,
)
from roost.pipeline.plans.scene import Scene
from roost.pipeline.plans.what_if import what_if
from roost.traces import read_table
from tests.pipeline.plans.obvious import recorded_plainly, rows_of

CHAIN = """\
0.0 federation set payload_bytes 100
0.0 broker add B0 3000 128 10
0.0 broker add B1 1000 64 10
0.0 broker add B2 3000 128 10
0.0 broker add B3 3000 128 5
0.0 link add B0 B1 5
0.0 link add B1 B2 7
0.0 link add B2 B3 2
1.0 publisher add P1 YHOO 120 B0
1.0 publisher add P2 - 0 B3 a > 0
2.0 subscriber add S1 B3 symbol = 'YHOO'
2.0 subscriber add S2 B2 symbol = 'YHOO' and volume > 0
2.5 subscriber add S3 B0 a > 10
"""
LIVELY = """\
20.0 subscriber subscribe S3 more symbol = 'YHOO'
31.0 client redirect S1 B0
33.0 link move B3 B2 B1
41.0 subscriber unsubscribe S3 main
44.0 subscriber remove S2
52.0 client redirect P1 B2
"""
EVENTS = "".join(
    f"{4 + n * 0.7:.2f} publisher publish P2 [a,{n}],[s,'it''s #{n}']\n" for n in range(80)
)


def run_of(
    folder: Path, text: str, *, content: bool = True, faults: str = "none", seed: int = 3
) -> Result:
    path = folder / "some.workload"
    path.write_text(text)
    plan = SimPlan(
        path, seed, None, folder / "lake", faults, rest=True, stories=False, content=content
    )
    return carry_out(plan)


Order = dict[tuple[str, str], list[tuple[Any, ...]]]


def delivered(folder: Path, run: str) -> Order:
    """What each client got of each publisher, in the order of the publisher: events, not numbers."""
    lake = Lake(folder)
    events = {
        (row["publisher"], row["sequence"]): row["event"] for row in rows_of(lake, "events", run)
    }
    got: dict[tuple[str, str], dict[int, str]] = {}
    for row in rows_of(lake, "deliveries", run):
        for each in row["clients"]:
            key = (row["publisher"], each["client"].removesuffix(".in"))
            number = row["sequence"]
            got.setdefault(key, {})[number] = events[row["publisher"], number]
    return {key: [(found[n],) for n in sorted(found)] for key, found in got.items()}


def is_within(wanted: list[tuple[Any, ...]], there: list[tuple[Any, ...]]) -> bool:
    """Whether all of it is there, in that order."""
    rest = iter(there)
    return all(each in rest for each in wanted)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (CHAIN + EVENTS + LIVELY, "none"),
        ("0.0 federation set durability on\n" + CHAIN + EVENTS + LIVELY, "network"),
    ],
    ids=["moves", "faults"],
)
def test_a_replay_delivers_all_that_was_delivered(text: str, faults: str, tmp_path: Path) -> None:
    original = run_of(tmp_path, text + "75.0 end\n", faults=faults)
    assert original.checks.clean
    scene = read_scene(Lake(tmp_path / "lake"), original.run)
    again = tmp_path / "again"
    again.mkdir()
    replay = run_of(again, workload_text(scene))
    assert replay.checks.clean, replay.checks.violations
    before = delivered(tmp_path / "lake", original.run)
    after = delivered(again / "lake", replay.run)
    assert len(before) >= 4
    for key, events in before.items():
        assert is_within(events, after[key]), key
    more = sum(map(len, after.values())) - sum(map(len, before.values()))
    assert 0 <= more <= 3 * scene.unsure


def test_machines_links_and_sizes_are_those_of_the_run(tmp_path: Path) -> None:
    original = run_of(tmp_path, CHAIN + EVENTS + LIVELY + "75.0 end\n")
    scene = read_scene(Lake(tmp_path / "lake"), original.run)
    assert scene.brokers["B1"] == (1000.0, 64.0, 10.0)
    assert scene.settings == {"payload_bytes": "100"}
    ends = {in_order(a, b): latency for a, b, latency in scene.links}
    assert ends == {("B0", "B1"): 5.0, ("B1", "B2"): 7.0, ("B1", "B3"): 0.0}  # which has moved
    assert scene.clients["S1"] == "B0"
    assert scene.clients["P1"] == "B2"
    again = tmp_path / "again"
    again.mkdir()
    replay = run_of(again, workload_text(scene))
    assert sizes(again / "lake", replay.run) == sizes(tmp_path / "lake", original.run)


def sizes(folder: Path, run: str) -> set[int]:
    return {
        row["bytes"] for row in rows_of(Lake(folder), "events", run) if row["publisher"] == "P2"
    }


def test_without_content_there_is_nothing_to_replay(tmp_path: Path) -> None:
    original = run_of(tmp_path, CHAIN + "20.0 end\n", content=False)
    with pytest.raises(UserError, match="its events were not recorded; expected `roost trace on"):
        read_scene(Lake(tmp_path / "lake"), original.run)


# --- what-ifs -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("recorded")
    run_of(where, CHAIN + EVENTS + "75.0 end\n")
    return where


@pytest.fixture(scope="module")
def scene(folder: Path) -> Scene:
    return read_scene(Lake(folder / "lake"), "some-3")


def test_a_rate_is_doubled(scene: Scene) -> None:
    twice = what_if(scene, "double the rate of P2")
    count = {p: sum(e.publisher == p for e in scene.events) for p in scene.publishers}
    then = {p: sum(e.publisher == p for e in twice.events) for p in scene.publishers}
    assert then == {"P1": count["P1"], "P2": 2 * count["P2"]}
    assert max(e.at for e in twice.events) == pytest.approx(max(e.at for e in scene.events))
    thrice = what_if(scene, "multiply the rate of everybody by 3")
    assert len(thrice.events) == 3 * len(scene.events)


def test_a_broker_is_lost_and_another_one_added(scene: Scene) -> None:
    lost = what_if(scene, "lose B1")
    assert sorted(lost.brokers) == ["B0", "B2", "B3"]
    assert {in_order(a, b): ms for a, b, ms in lost.links} == {
        ("B0", "B2"): 12.0,
        ("B2", "B3"): 2.0,
    }
    added = what_if(scene, "move S2 to B3 and add B9 to B3")
    assert added.brokers["B9"] == scene.brokers["B3"]
    assert sorted(c for c, b in added.clients.items() if b == "B9") == ["S2"]
    slow = what_if(scene, "slow B0 by 4")
    assert slow.brokers["B0"].cpu_mhz == scene.brokers["B0"].cpu_mhz / 4
    linked = what_if(scene, "link B2 to B0 instead of B1")
    assert {in_order(a, b) for a, b, _ in linked.links} == {
        ("B0", "B1"),
        ("B0", "B2"),
        ("B2", "B3"),
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("fly to the moon", "what if 'fly to the moon'? expected such as `double the rate of P7`"),
        ("lose B7", "there is no B7; expected one of B0, B1, B2, B3"),
        ("double the rate of S1", "there is no S1; expected one of P1, P2"),
        ("add B0 to B1", "there is one of that name"),
        ("link B3 to B0 instead of B2", "B0 is no neighbour of B2"),
        ("multiply the rate of P1 by 0", "expected 1 to 100"),
        ("lose B0 and move S3 to B0", "there is no B0"),
    ],
)
def test_what_makes_no_sense_is_refused(words: str, why: str, scene: Scene) -> None:
    with pytest.raises(UserError, match=why.replace("?", r"\?")):
        what_if(scene, words)


def test_a_plan_is_replayed_before_and_after(folder: Path, scene: Scene, tmp_path: Path) -> None:
    run = recorded_plainly(folder / "lake", "some-3")
    weights, limits = Weights(0.5, 0.5, 0.0), Limits(moves=2, degree_max=16)
    plan = plan_of(run, weights, rules_of(weights, limits), limits)
    assert plan.steps
    found = replayed(variants(scene, plan, ["lose B1"]), tmp_path)
    assert [name for name, row in found.items() if not row["violations"]] == list(found)
    assert list(found) == [AS_IT_WAS, PLANNED, "lose B1"]
    check_close(found[AS_IT_WAS], plan.before.load_per_s, plan.before.delay_s)
    check_close(found[PLANNED], plan.after.load_per_s, plan.after.delay_s)
    assert found[AS_IT_WAS]["delivered"] == found["lose B1"]["delivered"]


def check_close(row: Mapping[str, Any], load_per_s: float, delay_s: float) -> None:
    """What plans have to meet: a tenth of the message rate, a fifth of the delay."""
    assert row["load_per_s"] == pytest.approx(load_per_s, rel=0.1)
    assert row["delay_s"] == pytest.approx(delay_s, rel=0.2)


def test_the_trace_of_a_run_says_its_machines(folder: Path) -> None:
    (path,) = Lake(folder / "lake").files("runs", "some-3")
    assert '"brokers"' in read_table(path)["config"][0].as_py()
