"""A link is moved under load (002 section 4.1): nothing is lost, doubled or reordered, whatever goes wrong.

    P0 - B0 - B1 - B2 - P2        B1 is to be a neighbour of B2, and B0 of B2 only:
              |                   R = <B1, B0, B2> replaces B0 - B1 by B0 - B2
              B3

Clients of all four brokers publish and subscribe, so that events cross the triangle in every direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from roost.broker.arbiter import link_between
from roost.broker.commands import Record
from roost.broker.errors import RemoteProtocolError
from roost.broker.messages import Rewire
from roost.broker.module import Module, Surroundings
from roost.broker.rewiring.middle import Middle
from roost.broker.rewiring.party import Ground, Party
from roost.simulation.fuzz import fuzz
from roost.simulation.run import Checks, check, rest, run
from roost.simulation.scenario_settings import REWIRINGS
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World

MIDDLE, MOVER, ANCHOR = "B1", "B0", "B2"
BROKERS = ("B0", "B1", "B2", "B3")
ASKED_S = 6.0
UNTIL_S = 14.0
# When clients publish: from before it is asked until long after what went wrong is over.
BUSY_S = (5.0, 10.5)
# A rewiring takes about 15 messages of 10 ms, some of them behind others.
MOMENTS_S = [round(ASKED_S + 0.012 * n, 3) for n in range(0, 28, 4)]


def workload(*lines: str, links: str = "B0 B1,B1 B2,B1 B3", durable: bool = True) -> str:
    """50 events a second of each publisher, for a subscriber at each broker."""
    said = [f"0.0 broker add {name} 1000 16 100" for name in BROKERS]
    said += [f"0.0 link add {pair} 10" for pair in links.split(",")]
    said += ["0.0 federation set link_latency_ms 10"]
    said += [f"0.0 federation set durability {'on' if durable else 'off'}"]
    said += ["0.0 federation set asking on", "0.0 federation set members on"]
    for number, name in enumerate(BROKERS):
        said.append(f"0.5 publisher add P{number} - 0 {name} class = 'c{number}' and a >= 0")
        said.append(f"0.6 subscriber add S{number} {name} a >= 0")
        said.append(f"0.6 subscriber add T{number} {name} class = 'c{(number + 1) % 4}'")
    for step in range(int((BUSY_S[1] - BUSY_S[0]) * 50)):
        at = BUSY_S[0] + step / 50
        said += [
            f"{at + n / 1000:.3f} publisher publish P{n} [class,'c{n}'],[a,{step}]"
            for n in range(4)
        ]
    return "\n".join([*said, *lines, f"{UNTIL_S} end"])


def ran(text: str, seed: int = 0) -> tuple[World, Checks]:
    parsed = parse_workload(text, "rewiring", Path())
    world = World(parsed.settings, parsed.statements, seed=seed)
    run(world, UNTIL_S)
    rested = rest(world)
    return world, check(world, rested=rested, must_rest=True)


def links_of(world: World) -> dict[str, list[str]]:
    return {
        name: sorted(host.life.machine.links)
        for name, host in world.hosts.items()
        if host.life is not None
    }


MOVE = f"{ASKED_S} link move {MOVER} {MIDDLE} {ANCHOR}"
MOVED = {"B0": ["B2"], "B1": ["B2", "B3"], "B2": ["B0", "B1"], "B3": ["B1"]}


@pytest.mark.parametrize("durable", [True, False])
def test_a_link_moves_under_load_and_nobody_notices(durable: bool) -> None:
    world, checks = ran(workload(MOVE, durable=durable))
    assert checks.clean, checks.violations
    assert world.rewirings == 1
    assert links_of(world) == MOVED
    assert checks.delivered > 4 * 4 * 220
    assert not any(host.life.machine.exchange.duplicates for host in world.hosts.values())  # type: ignore[union-attr]


@pytest.mark.parametrize("latency_ms", [(10, 10, 10), (1, 1, 100)])
def test_all_three_say_that_it_has_moved(
    latency_ms: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the middle hears first that it is over, and closes its end before the mover has heard."""
    said: list[str] = []
    moved = Party.moved

    def noted(self: Party) -> None:
        said.append(type(self).__name__)
        moved(self)

    monkeypatch.setattr(Party, "moved", noted)
    text = workload(MOVE)
    for line, ms in zip(("B0 B1", "B1 B2"), latency_ms, strict=False):
        text = text.replace(f"link add {line} 10", f"link add {line} {ms}")
    world, checks = ran(text.replace("link_latency_ms 10", f"link_latency_ms {latency_ms[2]}"))
    assert checks.clean, checks.violations
    assert links_of(world) == MOVED
    assert sorted(said) == ["Anchor", "Middle", "Mover"]


def incidents() -> Iterator[tuple[str, str]]:
    for broker in (MIDDLE, MOVER, ANCHOR):
        yield (
            f"crash-{broker}",
            f"{{at}} broker crash {broker} keep\n{{later}} broker restart {broker}",
        )
        yield f"alone-{broker}", f"{{at}} partition cut {broker}\n{{later}} partition heal"
    yield "cut", f"{{at}} link cut {MIDDLE} {ANCHOR}\n{{later}} link heal {MIDDLE} {ANCHOR}"
    yield "slow", f"{{at}} broker slow {ANCHOR} 30\n{{later}} broker slow {ANCHOR} 1"


@pytest.mark.parametrize("at", MOMENTS_S)
@pytest.mark.parametrize("incident", [pytest.param(text, id=name) for name, text in incidents()])
def test_whatever_happens_at_whatever_moment(incident: str, at: float) -> None:
    """The three come back with what they knew; links that are cut heal."""
    said = incident.format(at=at, later=round(at + 1.3, 3))
    world, checks = ran(workload(MOVE, *said.splitlines()))
    assert checks.clean, checks.violations
    assert checks.rested
    assert links_of(world) == MOVED


@pytest.mark.parametrize("at", MOMENTS_S[::2])
@pytest.mark.parametrize("broker", [MIDDLE, MOVER, ANCHOR])
def test_a_broker_that_loses_its_memory_keeps_nobody_waiting(broker: str, at: float) -> None:
    """Events may be lost with it; afterwards there is a tree, tables are right, and clients are served."""
    said = (f"{at} broker crash {broker} lose", f"{at + 1} broker restart {broker}")
    world, checks = ran(workload(MOVE, *said, durable=False))
    assert checks.clean, checks.violations
    assert checks.rested
    edges = {frozenset((a, b)) for a, found in links_of(world).items() for b in found}
    assert len(edges) == len(BROKERS) - 1
    assert edges == {frozenset(link) for link in world.overlay.links()}


def test_that_the_anchor_has_lost_its_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[tuple[str, str, str]] = []
    monkeypatch.setattr(Ground, "report", lambda _, *said: reports.append(said[:3]))
    said = (f"6.096 broker crash {ANCHOR} lose", f"7.096 broker restart {ANCHOR}")
    ran(workload(MOVE, *said, durable=False))
    assert ("rewiring abandoned", ANCHOR, "it has lost its memory") in reports


def test_those_that_overlap_wait_for_each_other() -> None:
    """Both are asked for at once, and share brokers: one is refused for the moment, and asked for again."""
    moves = (MOVE, f"{ASKED_S} link move B3 B1 B2")
    world, checks = ran(workload(*moves))
    assert checks.clean, checks.violations
    assert world.rewirings == 2
    assert links_of(world) == {"B0": ["B2"], "B1": ["B2"], "B2": ["B0", "B1", "B3"], "B3": ["B2"]}


def test_a_link_that_moves_there_and_back_all_the_time() -> None:
    moves = [
        f"{ASKED_S + n:.1f} link move B0 {middle} {anchor}"
        for n, (middle, anchor) in enumerate(pairwise(["B1", "B2", "B1", "B3", "B1", "B2"]))
    ]
    world, checks = ran(workload(*moves))
    assert checks.clean, checks.violations
    assert world.rewirings == 5


def test_who_is_no_neighbour_is_not_moved() -> None:
    text = workload().replace(f"{UNTIL_S} end", "")
    parsed = parse_workload(text, "rewiring", Path())
    world = World(parsed.settings, parsed.statements)
    world.run(5.0)
    life = world.hosts[MIDDLE].life
    assert life is not None
    begin = life.broker.rewirings.begin
    assert begin("B9", "B2", "") == "B9 is no neighbour of B1"
    assert begin("B2", "B2", "") == "B2 can't be a neighbour of itself"
    assert begin("B0", "B2", "") == ""
    assert begin("B3", "B2", "") == "B1 is being rewired: B1 - B0 - B2"


@pytest.mark.parametrize(
    ("step", "brokers"),
    [
        ("ask", ("B0", "B1", "B1")),
        ("ask", ("B0", "B1")),
        ("ask", ("B2", "B1", "B3")),
        ("adopt", ("B0", "B2", "B3")),
    ],
)
def test_a_neighbour_that_speaks_of_what_it_has_no_part_in(
    step: str, brokers: tuple[str, ...]
) -> None:
    """It is hung up on, and no link is made."""
    parsed = parse_workload(workload().replace(f"{UNTIL_S} end", ""), "rewiring", Path())
    world = World(parsed.settings, parsed.statements)
    world.run(5.0)
    life = world.hosts[MIDDLE].life
    assert life is not None
    machine = life.broker
    with pytest.raises(RemoteProtocolError, match="a rewiring of"):
        machine.rewirings.hear(
            machine.links["B0"], Rewire("x", step, brokers, "", about=("nowhere:1",))
        )
    assert sorted(machine.links) == ["B0", "B2", "B3"]
    # Nor by one who is part of it, and not the middle.
    told = Rewire("x", "adopt", ("B9", "B1", "B0"), "", about=("nowhere:1",))
    machine.rewirings.hear(machine.links["B0"], told)
    assert sorted(machine.links) == ["B0", "B2", "B3"]


@pytest.mark.parametrize("client", ["S0", "P0", "P2"])
@pytest.mark.parametrize("at", MOMENTS_S)
def test_clients_that_move_meanwhile(client: str, at: float) -> None:
    world, checks = ran(workload(MOVE, f"{at} client redirect {client} B3"))
    assert checks.clean, checks.violations
    assert world.clients[client].broker in ("B3", f"B{client[1]}")
    assert links_of(world) == MOVED


@pytest.mark.parametrize("at", MOMENTS_S)
def test_clients_that_come_meanwhile(at: float) -> None:
    """What is asked for while a link moves is promised when it has moved."""
    said = [
        f"{at} subscriber add N{n} {name} class = 'c{(n + 2) % 4}'"
        for n, name in enumerate(BROKERS)
    ]
    said += [f"{at} publisher add Q{n} - 0 {name} b >= 0" for n, name in enumerate(BROKERS)]
    said += [f"{at} publisher publish Q{n} [b,{k}],[a,1]" for n in range(4) for k in range(3)]
    world, checks = ran(workload(MOVE, *said))
    assert checks.clean, checks.violations
    assert links_of(world) == MOVED


@pytest.mark.parametrize("at", MOMENTS_S)
@pytest.mark.parametrize("broker", [MIDDLE, ANCHOR, "B3"])
def test_a_publisher_that_leaves_meanwhile(broker: str, at: float) -> None:
    """A subscription of the mover's side that only it concerned is not left with the anchor."""
    said = (
        f"0.5 publisher add Q - 0 {broker} class = 'q'",
        f"0.6 subscriber add N {MOVER} class = 'q'",
        f"{at} publisher remove Q",
    )
    world, checks = ran(workload(MOVE, *said))
    assert checks.clean, checks.violations
    assert links_of(world) == MOVED


def test_a_mover_that_has_lost_its_memory_is_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the anchor, which waits for it, hears from the middle that it may go on (a rare coincidence)."""
    ended: list[str] = []
    original = Middle._mover_ends

    def count(self: Middle, message: Rewire) -> None:
        ended.append(message.id)
        original(self, message)

    monkeypatch.setattr(Middle, "_mover_ends", count)
    _, _, checks = fuzz(73, REWIRINGS)
    assert checks.clean, checks.violations
    assert checks.rested
    assert ended


def test_what_a_mover_that_has_lost_its_memory_sends_the_old_way_gets_to_the_anchor() -> None:
    """Who wants it there has said so over the new link, of which the mover knows nothing (a coincidence)."""
    _, _, checks = fuzz(4093, REWIRINGS)
    assert checks.clean, checks.violations
    assert checks.rested


def far(text: str) -> str:
    """The same where the anchor is far from the middle, and near the mover."""
    text = text.replace("link add B1 B2 10", "link add B1 B2 300")
    return text.replace("link_latency_ms 10", "link_latency_ms 0")


@pytest.mark.parametrize("slowness", [1, 100])
@pytest.mark.parametrize("at", [7.5, 8.1, 8.7])
def test_events_of_a_mover_that_is_adopted_do_not_overtake_those_on_the_old_way(
    at: float, slowness: int
) -> None:
    """It has lost its memory, publishes by way of the middle, and is told of the anchor, which is nearer."""
    lost = (f"{at} broker crash {MOVER} lose", f"{at + 0.05} broker restart {MOVER}")
    slow = (f"{at} broker slow {MIDDLE} {slowness}", f"{at + 1} broker slow {MIDDLE} 1")
    world, checks = ran(far(workload(MOVE, *lost, *slow, durable=False)))
    assert checks.clean, checks.violations
    assert checks.rested
    assert links_of(world) == MOVED


@pytest.mark.parametrize("at", [8.7, 9.0])
def test_a_middle_that_comes_back_late_in_it_tells_the_anchor_nothing_of_the_mover(
    at: float,
) -> None:
    """Else the anchor would have from it what it has from the mover, and is to have from there only."""
    back = (f"{at} broker crash {MIDDLE} keep", f"{at + 0.3} broker restart {MIDDLE}")
    world, checks = ran(far(workload(MOVE, *back)))
    assert checks.clean, checks.violations
    assert checks.rested
    assert links_of(world) == MOVED


def test_who_is_left_by_a_mover_hears_that_ahead_of_who_is_behind_it() -> None:
    """The middle, which has lost its memory, would close the link, and never be told (a coincidence)."""
    _, _, checks = fuzz(204, REWIRINGS)
    assert checks.clean, checks.violations
    assert checks.rested


class Restless(Module):
    """At B1 and B2: wants B0 behind the other one, every second."""

    name = "restless"

    def started(self, around: Surroundings, now: float) -> None:  # noqa: ARG002
        self.around = around
        self.objections: list[str] = []
        self.outcomes: list[str] = []
        around.set_timer("again", 5.0)

    def timer(self, name: str, now: float) -> None:  # noqa: ARG002
        around = self.around
        around.set_timer("again", 1.0)
        anchor = {"B1": "B2", "B2": "B1"}.get(around.broker)
        if anchor is None or not {"B0", anchor} <= {*around.neighbours}:
            return
        self.want("B0", anchor)

    def want(self, mover: str, anchor: str) -> None:
        link = link_between(self.around.broker, mover)
        cause = self.around.propose(
            "rewiring",
            "rewire",
            link,
            anchor,
            subjects=[link],
            evidence={},
            predicted={"saves": 1.0},
        )
        if cause is not None:
            self.objections.append(self.around.rewire(mover, anchor, cause))

    def rewired(self, mover: str, anchor: str, objection: str, now: float) -> None:  # noqa: ARG002
        self.outcomes.append(objection)


class Twice(Restless):
    """B1 wants two of its neighbours behind a third at the same moment, which is one too many."""

    name = "twice"

    def timer(self, name: str, now: float) -> None:  # noqa: ARG002
        if self.around.broker == "B1":
            self.want("B0", "B2")
            self.want("B3", "B2")


def test_what_can_not_begin_gives_its_lease_back_at_once() -> None:
    parsed = parse_workload(workload(), "rewiring", Path())
    modules: dict[str, Twice] = {}
    decisions: list[Record] = []

    def make(broker: str) -> list[Module]:
        modules[broker] = Twice()
        return [modules[broker]]

    world = World(parsed.settings, parsed.statements, modules=make)
    world.decided = lambda _, record: decisions.append(record)  # type: ignore[method-assign, assignment]
    run(world, UNTIL_S)
    busy = "B1 is being rewired: B1 - B0 - B2"
    assert modules["B1"].objections == ["", busy]
    assert modules["B1"].outcomes == [busy, ""]
    abandoned = [r.decision for r in decisions if r.decision.kind == "abandoned"]
    assert [(d.subject, d.evidence["why"], d.evidence["took_s"]) for d in abandoned] == [
        ("B1 - B3", busy, 0.0)
    ]


class Crosswise(Restless):
    """At the same moment B1 wants B0 behind B2, and B0 wants B3 behind B1."""

    name = "crosswise"

    def timer(self, name: str, now: float) -> None:  # noqa: ARG002
        wanted = {"B1": ("B0", "B2"), "B0": ("B3", "B1")}.get(self.around.broker)
        if wanted is not None:
            self.want(*wanted)


def test_whoever_wanted_it_hears_that_the_mover_or_the_anchor_refuses() -> None:
    text = workload(links="B0 B1,B1 B2,B0 B3")
    parsed = parse_workload(text, "rewiring", Path())
    modules: dict[str, Crosswise] = {}

    def make(broker: str) -> list[Module]:
        modules[broker] = Crosswise()
        return [modules[broker]]

    world = World(parsed.settings, parsed.statements, modules=make)
    run(world, UNTIL_S)
    checks = check(world, rested=rest(world), must_rest=True)
    assert checks.clean, checks.violations
    assert modules["B1"].objections == modules["B0"].objections == [""]
    assert modules["B1"].outcomes == ["B0 is being rewired: B0 - B3 - B1"]
    assert modules["B0"].outcomes == ["B1 is being rewired: B1 - B0 - B2"]
    assert world.rewirings == 0


def test_a_mover_that_is_quicker_than_the_word_that_it_is_over() -> None:
    """It has closed its end of the old link before the middle hears of the anchor that all is done."""
    slow = workload(links="B0 B1,B1 B2,B1 B3").replace("link add B1 B2 10", "link add B1 B2 40")
    text = slow.replace("link_latency_ms 10", "link_latency_ms 0")
    parsed = parse_workload(text + "\n0.0 federation set rest_s 60", "rewiring", Path())
    modules: dict[str, Restless] = {}
    decisions: list[Record] = []

    def make(broker: str) -> list[Module]:
        modules[broker] = Restless()
        return [modules[broker]]

    world = World(parsed.settings, parsed.statements, modules=make)
    world.decided = lambda _, record: decisions.append(record)  # type: ignore[method-assign, assignment]
    run(world, UNTIL_S)
    assert check(world, rested=rest(world), must_rest=True).clean
    assert world.rewirings == 1
    assert modules["B1"].outcomes == [""]
    kinds = Counter(record.decision.kind for record in decisions)
    assert (kinds["rewire"], kinds["carried out"]) == (1, 1)


def test_an_optimiser_moves_links_and_they_rest() -> None:
    """After a move the link rests at its new ends: it is not moved back before that is over (`rest_s`)."""
    text = workload("0.0 federation set rest_s 3")
    parsed = parse_workload(text, "rewiring", Path())
    modules: dict[str, Restless] = {}
    decisions: list[Record] = []

    def make(broker: str) -> list[Module]:
        modules[broker] = Restless()
        return [modules[broker]]

    world = World(parsed.settings, parsed.statements, modules=make)
    world.decided = lambda _, record: decisions.append(record)  # type: ignore[method-assign, assignment]
    run(world, UNTIL_S)
    checks = check(world, rested=rest(world), must_rest=True)
    assert checks.clean, checks.violations
    # Within 9 s: from 5 s on, and again when it has rested for 3 s.
    assert 2 <= world.rewirings <= 3
    kinds = Counter(record.decision.kind for record in decisions)
    assert kinds["rewire"] == kinds["carried out"] + kinds["abandoned"]
    assert kinds["carried out"] == world.rewirings
    refused = [r.decision.evidence["why"] for r in decisions if r.decision.kind == "refused"]
    assert any("rests for" in why for why in refused)
    assert all(not objection for objection in modules["B1"].objections)
    outcomes = [why for module in modules.values() for why in module.outcomes]
    assert outcomes.count("") == world.rewirings


# P:2 is for B3, too, and slow on its way there. Meanwhile the operator takes B0 - B2 out and links B3 to B1.
TAKEN_OUT_AND_PUT_IN_ELSEWHERE = """
0.0 federation set absence_grace_s 60.0
0.0 federation set members on
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 broker add B3 1000 16 10
0.0 link add B2 B3 1
0.0 link add B0 B2 1
0.0 link add B0 B1 1
0.5 publisher add P - 0 B0 a >= 0
0.6 subscriber add S B1 a >= 1
0.6 subscriber add T B3 a >= 2
5.0 link cut B0 B1
5.0 link delay B2 B3 1000 1.5
5.1 publisher publish P [a,1]
5.2 publisher publish P [a,2]
5.3 link remove B0 B2
5.3 link add B1 B3
9.0 link heal B0 B1
20.0 end
"""


def test_a_link_that_is_taken_out_and_put_in_elsewhere_while_another_is_cut() -> None:
    """P:2 must not come to B1 by the new link, ahead of P:1, which waits for the link that is cut.

    As live, brokers know who is behind which link: B1 takes B3 for a neighbour when B0 has said that it is
    gone.
    """
    assert not violations(TAKEN_OUT_AND_PUT_IN_ELSEWHERE)


# P:16 is for B3, too, and waits in Y's queue, which the news that B0 is gone goes ahead of; the events of
# before wait in X's.
IN_QUEUES = """
0.0 federation set absence_grace_s 60.0
0.0 federation set members on
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 broker add B3 1000 16 10
0.0 broker add X 0.03 16 10
0.0 broker add Y 0.02 16 10
0.0 link add B2 Y 1
0.0 link add Y B3 1
0.0 link add B0 B2 1
0.0 link add B0 X 1
0.0 link add X B1 1
0.5 publisher add P - 0 B0 a >= 0
0.6 subscriber add S B1 a >= 1
0.6 subscriber add T B3 a >= 2
{earlier}
5.2 publisher publish P [a,2]
5.3 link remove B0 B2
5.6 link add B1 B3
60.0 end
""".format(earlier="\n".join(f"5.{i:02} publisher publish P [a,1]" for i in range(5, 20)))


def test_who_is_gone_is_no_neighbour_before_the_last_of_its_events_has_come() -> None:
    assert not violations(IN_QUEUES)


def violations(text: str) -> tuple[str, ...]:
    workload = parse_workload(text, "made", None)
    world = World(workload.settings, workload.statements)
    run(world, workload.statements[-1].at)
    return check(world, rested=rest(world), must_rest=True).violations


@pytest.mark.parametrize("at_s", [round(6.06 + 0.01 * n, 2) for n in range(10)])
def test_a_middle_that_has_lost_its_memory_and_is_back_before_anybody_notices(at_s: float) -> None:
    """What the anchor had from it is the mover's to say at once, not when the anchor notices."""
    lines = (f"{at_s} broker crash B1 lose", f"{round(at_s + 0.05, 2)} broker restart B1")
    _, checks = ran(workload(MOVE, *lines, durable=False))
    assert checks.clean, checks.violations[:3]
