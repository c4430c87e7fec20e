"""Controllers with secondaries (003 section IV.A), as processes: each kind of them fails, under load.

Two peers, a controller below each, and a plain broker below each of those: an event from one end to the other
passes every kind. Each broker has a standby. A node that was killed is started again; one that was stopped
wakes up when the other has gone on in its place, and has nothing to say.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roost.overlay.hierarchies import parse_hierarchy
from roost.runtime.admin_client import AdminError, ask
from roost.runtime.child_pair import until
from roost.runtime.federation import (
    CLUSTER,
    Federation,
    Member,
    end,
    running_federation,
    start,
)
from roost.runtime.restarting import restart
from tests.cli.support import make_roost
from tests.runtime.pair_load import Fault, through

# Whom events pass on their way from the clients of B4 to those of B5.
KINDS = {"peer": "B0", "controller": "B2", "of the publisher": "B4", "of the subscriber": "B5"}


class Pairs:
    """The brokers of a federation that have standbys."""

    def __init__(self, state: Path, federation: Federation) -> None:
        self._state = state
        self._members = federation.members

    def nodes(self, broker: str) -> list[Member]:
        return [member for member in self._members if member.broker == broker]

    def url(self, broker: str) -> str:
        return f"roost://{','.join(node.address for node in self.nodes(broker))}"

    def role(self, node: Member) -> dict[str, object]:
        try:
            return dict(ask(node.admin_url, "/status")["standby"])
        except AdminError:
            return {}

    def joined(self, broker: str) -> tuple[Member, Member]:
        """Who leads and who follows, once one does and the other has all."""

        def found() -> tuple[Member, Member] | None:
            nodes = self.nodes(broker)
            for leader, other in (nodes, nodes[::-1]):
                here, there = self.role(leader), self.role(other)
                if here.get("role") == "leader" and not here["alone"] and there.get("member"):
                    return leader, other
            return None

        return until(found, f"{broker} to be a pair")  # type: ignore[no-any-return]

    def fail(self, broker: str, how: signal.Signals, *, lose_disk: bool = False) -> None:
        """The leader fails, the other goes on, and the old one is the standby when it is back."""
        leader, other = self.joined(broker)
        assert leader.process is not None
        os.kill(leader.process.pid, how)
        until(lambda: self.role(other).get("role") == "leader", f"{broker} to go on")
        if how is signal.SIGSTOP:
            os.kill(leader.process.pid, signal.SIGCONT)
        else:
            if lose_disk:
                shutil.rmtree(self._state / "data" / leader.config.removesuffix(".toml"))
            again, _ = restart(self._state, leader.name)
            self._members = tuple(again if m.name == again.name else m for m in self._members)
        # Whoever leads by then: on a busy machine a standby may hear nothing for too long at any time.
        self.joined(broker)

    def fault(self, broker: str, how: signal.Signals, *, lose_disk: bool = False) -> Fault:
        async def fails() -> None:
            await asyncio.to_thread(self.fail, broker, how, lose_disk=lose_disk)

        return fails


@contextmanager
def federation(state: Path, form: str) -> Iterator[Pairs]:
    hierarchy = parse_hierarchy(form)
    started = start(
        state,
        hierarchy.brokers,
        [(link.a, link.b) for link in hierarchy.links],
        peers=[(link.a, link.b) for link in hierarchy.peers],
        routing=CLUSTER,
        standbys=True,
    )
    try:
        yield Pairs(state, started)
    finally:
        end(state)


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_every_kind_of_controller_fails_under_load(tmp_path: Path, how: signal.Signals) -> None:
    with federation(tmp_path / "state", "cluster:2x1x1") as pairs:
        faults = [pairs.fault(broker, how) for broker in KINDS.values()]
        got = asyncio.run(through(pairs.url("B4"), pairs.url("B5"), faults))
        assert got.all_once_and_in_order, got


@pytest.mark.long
def test_every_kind_of_controller_loses_its_disk_under_load(tmp_path: Path) -> None:
    """And then the other disk, too: by then the first one has all again."""
    with federation(tmp_path / "state", "cluster:2x1x1") as pairs:
        twice = [broker for broker in KINDS.values() for _ in range(2)]
        faults = [pairs.fault(broker, signal.SIGKILL, lose_disk=True) for broker in twice]
        got = asyncio.run(through(pairs.url("B4"), pairs.url("B5"), faults))
        assert got.all_once_and_in_order, got


def test_a_peer_is_killed_and_the_other_stopped(tmp_path: Path) -> None:
    """The short one: the controllers at the top of both sides, at the same time."""
    with federation(tmp_path / "state", "cluster:2") as pairs:

        async def both() -> None:
            one, other = pairs.fault("B0", signal.SIGKILL), pairs.fault("B1", signal.SIGSTOP)
            await asyncio.gather(one(), other())

        got = asyncio.run(through(pairs.url("B0"), pairs.url("B1"), [both]))
        assert got.all_once_and_in_order, got


def test_operators_ask_whichever_node_is_the_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The role of one is given to its standby. A newcomer that joins it has a standby, too."""
    state, call = tmp_path / "state", make_roost(capsys, monkeypatch)
    with federation(state, "cluster:2"):
        assert call("promote", "B1", "--state", state).code == 0
        ran = call("routing", "tree", "--state", state, "--json")
        assert ran.json["routing"] == {"B0": "tree", "B1": "tree"}
        assert call("optimise", "entry", "on", "--state", state).code == 0
        ran = call("place", "--state", state, "--json")
        assert ran.json["neighbour"] in ("B0", "B1")
        assert call("join", "B9", "--to", "B1", "--state", state).code == 0
        grown = Pairs(state, running_federation(state))
        assert [node.name for node in grown.nodes("B9")] == ["B9", "B9-standby"]
        grown.joined("B9")
        got = asyncio.run(through(grown.url("B9"), grown.url("B0"), [], events=50, apart=10))
        assert got.all_once_and_in_order, got
        # Of what was kept for them durably, nobody has to be asked: it is at B0.
        assert call("leave", "B9", "--state", state).code == 2
        assert call("sessions", "end", "outbox/box", "--state", state).code == 0
        assert call("leave", "B9", "--state", state).code == 0
        assert not Pairs(state, running_federation(state)).nodes("B9")
