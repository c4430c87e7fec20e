"""A plan on three real brokers under load: applied, killed amid it, resumed and undone; nobody notices."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roost
from roost.cli.plan import rules_of
from roost.client.client import Client
from roost.pipeline.lake import Lake
from roost.pipeline.plans.brokers import Brokers
from roost.pipeline.plans.effect import Weights
from roost.pipeline.plans.journal import journal_path, read_journal
from roost.pipeline.plans.plan import Limits, Plan, Step, plan_bytes
from roost.pipeline.plans.planning import plan_of
from roost.pipeline.plans.replaying import read_scene, workload_text
from roost.runtime import federation
from roost.runtime.admin_client import ask
from roost.runtime.federation import Federation
from tests.pipeline.plans.obvious import recorded_plainly
from tests.pipeline.plans.small import plan_of_steps
from tests.pipeline.plans.test_replaying import run_of
from tests.runtime.test_rewiring import Crowd, closed, connected

BROKERS = ("B0", "B1", "B2")
LINKS = (("B0", "B1"), ("B1", "B2"))
PATIENCE_S = 60.0


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Federation]:
    monkeypatch.chdir(tmp_path)  # where it is started, it may write traces
    yield federation.start(tmp_path / "state", BROKERS, LINKS, durable=True)
    federation.end(tmp_path / "state")


def command(name: str, plan: Path, there: Federation, *more: str) -> list[str]:
    admin = [word for member in there.members for word in ("--admin", member.admin_url)]
    return [sys.executable, "-m", "roost", name, str(plan), *admin, *more]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done


def killed_amid(words: list[str], path: Path, plan: Plan, step: int) -> None:
    """kill -9 as soon as a step was asked for."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        entries = read_journal(journal_path(path), plan)
        if entries and entries[step].state != "proposed":
            break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def decisions_of(there: Federation) -> list[dict[str, Any]]:
    found = []
    for member in there.members:
        found += ask(member.admin_url, "/decisions")["decisions"]
    return [each for each in found if each["module"] == "plan"]


def test_apply_and_undo_under_load(three: Federation, tmp_path: Path) -> None:
    brokers = Brokers([member.admin_url for member in three.members])
    path = tmp_path / "the.plan"

    async def scenario() -> dict[str, Client]:
        clients = await connected(three)
        crowd = Crowd(clients)
        await crowd.begin()
        names = [client.name for client in clients.values()]
        start = brokers.look(names)
        assert start.clients == {clients[b].name: b for b in BROKERS}
        steps = (
            Step(1, "move", 1, clients["B2"].name, "B2", "B0"),
            Step(2, "rewire", 2, middle="B1", mover="B2", anchor="B0"),
            Step(3, "move", 3, clients["B0"].name, "B0", "B2"),
        )
        plan = plan_of_steps(start, steps)
        path.write_bytes(plan_bytes(plan))
        words = command("apply", path, three, "--measure", "0")
        await asyncio.to_thread(killed_amid, words, path, plan, 2)
        done = await asyncio.to_thread(run, *command("apply", path, three, "--measure", "0.5"))
        assert "3 done" in done.stdout
        now = brokers.look(names)
        assert now.links == (("B0", "B1"), ("B0", "B2"))
        assert [now.clients[clients[b].name] for b in BROKERS] == ["B2", "B1", "B0"]
        told = decisions_of(three)
        (outcome,) = (each for each in told if each["kind"] == "outcome")
        assert outcome["evidence"]["measured"]["load_per_s"] > 0
        assert outcome["predicted"]["load_per_s"] == plan.after.load_per_s
        assert {each["kind"] for each in told} == {"move", "rewire", "outcome"}
        await asyncio.to_thread(run, *command("undo", path, three))
        assert brokers.look(names) == start
        await crowd.end()
        await closed(clients)
        crowd.check()
        return clients

    asyncio.run(scenario())
    assert len({each["cause"] for each in decisions_of(three)}) == 4
    # The clients are gone, so this is another federation for the plan.
    done = subprocess.run(
        command("undo", path, three), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "has changed since plan" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_live_brokers_recorded_is_planned_from_and_replayed(
    three: Federation, tmp_path: Path
) -> None:
    """A publisher at one end, its subscriber at the other: the plan brings them together."""
    folder = tmp_path / "state" / "traces"
    members = {member.name: member for member in three.members}
    names: dict[str, str] = {}

    def trace(on: bool) -> None:
        order = {"on": on, "folder": str(folder), "run": "live", "content": True}
        for member in three.members:
            ask(member.admin_url, "/trace", order if on else {"on": False})

    async def scenario() -> None:
        publisher = await roost.connect(f"roost://{members['B0'].address}")
        subscriber = await roost.connect(f"roost://{members['B2'].address}")
        names.update({"B0": publisher.name, "B2": subscriber.name})
        await publisher.advertise("n >= 0")
        subscription = subscriber.subscribe("n >= 0")
        await subscription.ready()
        await asyncio.to_thread(trace, True)
        for n in range(300):
            await publisher.publish({"n": n, "word": "it's"})
            await asyncio.sleep(0.005)
        got = [await anext(subscription) for _ in range(300)]
        assert [event["n"] for event in got] == list(range(300))
        await asyncio.sleep(1.5)  # a sample more: what clients want is recorded with it
        await asyncio.to_thread(trace, False)
        await publisher.close()
        await subscriber.close()

    asyncio.run(scenario())
    run = recorded_plainly(folder, "live")
    assert run.placement.links == (("B0", "B1"), ("B1", "B2"))
    assert run.placement.clients == {names["B0"]: "B0", names["B2"]: "B2"}
    assert run.load_per_s == pytest.approx(2 * 300 / run.seconds)
    limits = Limits(degree_max=16)
    plan = plan_of(run, Weights(), rules_of(Weights(), limits), limits, ["publishers"])
    assert [step.client for step in plan.steps] == [names["B0"]]
    assert plan.after.load_per_s == 0.0
    scene = read_scene(Lake(folder), "live")
    assert [event.event.attributes["n"] for event in scene.events] == list(range(300))
    again = tmp_path / "again"
    again.mkdir()
    replay = run_of(again, workload_text(scene))
    assert replay.checks.clean, replay.checks.violations
    assert replay.checks.delivered == 300
