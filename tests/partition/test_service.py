"""Dispatchers and matchers in the laboratory, from outside: the oracle forgives nothing but lost stores."""

from __future__ import annotations

from random import Random

import pytest

from roost.broker.config import BrokerConfig
from roost.broker.machines import kind_of
from roost.errors import UserError
from roost.experiments.partition.cell import cell
from roost.partition.naming import DISPATCHER
from roost.pipeline.sweeps.tasks import Parameters
from roost.simulation.run import verdict
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from tests.partition.worlds import (
    dispatcher_of,
    joining,
    matcher_of,
    service,
    simulated,
)


def crowd(seed: int, *, until: float, dispatchers: int = 2, subscribers: int = 12) -> list[str]:
    """Publishers and subscribers of points and ranges in two dimensions, all through the run."""
    r = Random(seed)
    lines = [f"1.0 publisher add P{n} - 0 D{n % dispatchers}" for n in range(3)]
    for n in range(subscribers):
        x, y = r.uniform(0, 80), r.uniform(0, 80)
        ranges = [f"x >= {x:.2f} and x < {x + 30:.2f}", f"y >= {y:.2f} and y < {y + 30:.2f}"]
        text = r.choice([" and ".join(ranges), ranges[0], f"{ranges[0]} or y = 7", "x present"])
        kind = r.choice(["add", "durable"])
        lines.append(f"{1 + r.random() * 3:.3f} subscriber {kind} S{n} D{n % dispatchers} {text}")
    at = 2.0
    while at < until - 2:
        lines.append(
            f"{at:.3f} publisher publish P{r.randrange(3)} [x,{r.uniform(0, 110):.2f}],"
            f"[y,{r.choice([7, r.uniform(-5, 100)]):.2f}]"
        )
        at += r.expovariate(15.0)
    return lines


def test_it_delivers() -> None:
    world, checks, reasons = simulated([*service(4), *crowd(1, until=20)], 20.0)
    assert (checks.violations, reasons) == ((), [])
    assert checks.clean
    assert checks.rested
    assert checks.delivered > 500
    matched = [matcher_of(world, f"M{n}").traffic.routed for n in range(4)]
    assert sum(matched) >= world.oracle.published_count
    assert all(matched)
    # On each dimension every matcher has only its part: together less than a copy on each.
    for key in ((0,), (1,)):
        assert sum(matcher_of(world, f"M{n}").seats[""].wards.size(key) for n in range(4)) < 4 * 12


@pytest.mark.parametrize("seed", range(1, 4))
def test_it_keeps_its_promises_amid_faults(seed: int) -> None:
    """Crashes, cuts, silent links, partitions, full stores, clients that vanish."""
    _, checks, reasons = simulated(
        [*service(4), *crowd(seed, until=40)], 40.0, faults="edges", seed=seed
    )
    assert (checks.violations, reasons) == ((), [])
    assert checks.clean
    assert checks.rested


def test_a_matcher_joins_and_another_leaves() -> None:
    """III.C, IV.E: hand over, switch, forget; nothing is missed meanwhile."""
    fronts, backs = ["D0", "D1"], ["M0", "M1", "M2"]
    lines = [*service(3), *crowd(3, until=40)]
    lines += joining(10.0, "M3", [*fronts, *backs], fronts)
    lines += ["20.0 broker ask M1 leave", "30.0 broker remove M1"]
    world, checks, _ = simulated(lines, 40.0)
    assert checks.violations == ()
    assert checks.rested
    table = dispatcher_of(world, "D0").steward.table
    assert table == dispatcher_of(world, "D1").steward.table
    assert table.matchers() == ["M0", "M2", "M3"]
    assert not any(s.heir or s.former for row in table.segments for s in row)
    assert matcher_of(world, "M3").traffic.routed > 20


def test_one_that_dies_is_replaced() -> None:
    """Its neighbours take over in seconds, though it never comes back."""
    lines = [*service(4), *crowd(4, until=40), "12.0 broker crash M2 keep"]
    world, checks, reasons = simulated(lines, 40.0)
    assert reasons == ["M2 is down"]
    assert checks.lost == checks.doubled == checks.reordered == 0
    assert checks.delivered > 800
    for name in ("D0", "D1"):
        assert "M2" not in dispatcher_of(world, name).steward.table.matchers()
        assert len(dispatcher_of(world, name).holding) == 0


@pytest.mark.parametrize(
    "policy", ["amount", "response", "adaptive", "counting", "drift", "random"]
)
def test_every_policy_delivers(policy: str) -> None:
    lines = service(3, dispatcher_words=f"policy={policy}")
    _, checks, _ = simulated([*lines, *crowd(5, until=10)], 10.0)
    assert checks.clean
    assert checks.delivered > 100


def test_clients_move_between_dispatchers() -> None:
    lines = [*service(3), *crowd(6, until=30)]
    r = Random(1)
    for n in range(30):
        who = r.choice(["P0", "P1", "P2", "S0", "S3", "S5"])
        lines.append(f"{6 + n * 0.7:.2f} client redirect {who} D{r.randrange(2)}")
    _, checks, _ = simulated(lines, 30.0)
    assert checks.violations == ()
    assert checks.rested


def test_what_is_held_has_a_bound() -> None:
    """No matcher: publishers are read no further, and all comes when there is one."""
    lines = service(1, 1, dispatcher_words="held_max=10", settings=["asking on"])
    lines += ["1.0 subscriber add S D0 x present", "1.0 publisher add P - 0 D0"]
    lines += ["5.0 broker crash M0 keep", "30.0 broker restart M0"]
    lines += [f"{10 + n * 0.01:.2f} publisher publish P [x,{n % 90}]" for n in range(200)]
    text = "\n".join([*sorted(lines, key=lambda line: float(line.split()[0])), "60.0 end"])
    workload = parse_workload(text, "service", None)
    world = World(workload.settings, workload.statements)
    world.run(20.0)
    figures = dispatcher_of(world, "D0").figures()
    assert (figures["held"], figures["held_max"], figures["stopped"]) == (10, 10, 1)
    assert figures["unanswerable"] == 10
    world.run(60.0)
    checks, _ = verdict(world, workload)
    assert checks.clean
    assert checks.delivered == 200
    assert dispatcher_of(world, "D0").figures()["stopped"] == 0


def test_settings_that_are_wrong() -> None:
    base = f"{DISPATCHER} dispatchers=D matchers=M"
    config = BrokerConfig(broker="D", incarnation="i")
    with pytest.raises(UserError, match="expected NAME:LOW:HIGH"):
        kind_of(f"{base} dimensions=x").make(config)
    with pytest.raises(UserError, match="LOW below HIGH"):
        kind_of(f"{base} dimensions=x:3:1").make(config)
    with pytest.raises(UserError, match="expected one of amount"):
        kind_of(f"{base} dimensions=x:0:1 policy=best").make(config)
    with pytest.raises(UserError, match="expected one of each, one"):
        kind_of(f"{base} dimensions=x:0:1 join=all").make(config)


LOAD: Parameters = {
    "what": "simulated",
    "matchers": 5,
    "subscriptions": 400,
    "best_per_s": 150,
    "lasts_s": 12,
}


def test_it_bears_most_of_what_any_forwarding_could() -> None:
    """Below the best division of a fluid queues stay short, and all matchers are equally busy (IV.D)."""
    row = cell({**LOAD, "policy": "drift", "share": 0.85}, 1)
    assert row["bears"]
    assert float(row["held"] or 0) < 60
    assert float(row["load_deviation"] or 1) < 0.14
    assert row["violations"] == 0


def test_sizes_alone_leave_some_idle_while_others_are_behind() -> None:
    """004 section III.B.1: what waits is not reflected by the amount of subscriptions."""
    row = cell({**LOAD, "policy": "amount", "share": 0.9}, 1)
    assert not row["bears"]
    assert float(row["load_deviation"] or 0) > 0.14


@pytest.mark.parametrize("dispatchers", [1, 2])
def test_matchers_deliver_directly(dispatchers: int) -> None:
    """II.B, the paper's way: nothing is lost or doubled while nobody crashes, and nobody waits for order."""
    took_s = {}
    for delivery in ("ordered", "direct"):
        lines = service(
            4,
            dispatchers,
            settings=["asking on", "ack_delay_s 0"],
            dispatcher_words=f"delivery={delivery} policy=random",
            matcher_words="message_s=0.15",
        )
        lines += crowd(2, until=20, dispatchers=dispatchers)
        world, checks, _ = simulated(lines, 20.0)
        assert checks.violations == ()
        assert checks.delivered > 300
        assert (world.oracle.overtaken > 0) == (delivery == "direct")
        took_s[delivery] = world.delays.mean
    assert took_s["direct"] < took_s["ordered"]


def test_what_is_lost_with_a_matcher_that_delivers_directly_is_counted() -> None:
    """The paper loses what its matchers were asked about; and nothing comes twice."""
    lines = service(4, dispatcher_words="delivery=direct", matcher_words="message_s=0.1")
    lines += [*crowd(4, until=30), "12.0 broker crash M2 keep"]
    world, checks, _ = simulated(lines, 30.0)
    given_up = sum(dispatcher_of(world, name).figures()["given_up"] for name in ("D0", "D1"))
    assert 0 < given_up < 30
    assert checks.doubled == 0
    assert checks.lost > 0
    assert all(len(dispatcher_of(world, name).holding) == 0 for name in ("D0", "D1"))


@pytest.mark.parametrize("dispatcher", [DISPATCHER, "tests.partition.planted:AsksAgain"])
def test_what_is_delivered_directly_never_comes_twice(dispatcher: str) -> None:
    """A matcher that is out of sight delivers all the same."""
    lines = service(
        3,
        settings=["asking on", "ack_delay_s 0"],
        dispatcher=dispatcher,
        dispatcher_words="delivery=direct",
        matcher_words="message_s=0.1",
    )
    lines += crowd(4, until=20)
    for n in range(6):
        lines += [f"{5 + n * 2}.0 link cut D0 M{n % 3}", f"{5 + n * 2}.5 link heal D0 M{n % 3}"]
    _, checks, _ = simulated(lines, 20.0)
    assert (checks.doubled > 0) == (dispatcher != DISPATCHER)
    assert checks.delivered > 300
