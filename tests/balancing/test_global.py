"""Global load balancing: clusters that balance with each other (001 sections 3.3.2.2 and 3.4.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from roost.balancing import Status
from roost.balancing.control import GlobalRenewal, GlobalRequest
from roost.simulation import statements as st
from tests.balancing.clusters import HURRIED, SUBSCRIBERS, SYMBOLS, Clusters, cluster, judged

# B0 with B1 and B2, B9 with B8 and B7: all alike, and all subscribers at B1.
FIRST = {"B1": (20.0, 0.1), "B2": (20.0, 0.1)}
SECOND = {"B7": (20.0, 0.1), "B8": (20.0, 0.1)}
THIRD = {"B4": (20.0, 0.1), "B5": (20.0, 0.1)}


# A broker that is filled to the lower threshold may end just above it, and then keeps all others from asking.
CONFIG = replace(HURRIED, accept_limit=0.8, inert="offloads")


def two_clusters(subscribers: int = SUBSCRIBERS) -> list[str]:
    second = [line for line in cluster(SECOND, head="B9") if " broker " in line or " link " in line]
    return [*cluster(FIRST, subscribers), *second, "0.2 link add B0 B9 2"]


def by_cluster(world: Clusters) -> Counter[str]:
    placed = world.placed()
    return Counter(
        {"B0": placed["B1"] + placed["B2"], "B9": placed["B7"] + placed["B8"]},
    )


@pytest.fixture(scope="module")
def converged() -> Clusters:
    world = Clusters.of(two_clusters(), CONFIG)
    world.run(200)
    return world


def test_subscribers_spread_over_both_clusters(converged: Clusters) -> None:
    first, second = by_cluster(converged)["B0"], by_cluster(converged)["B9"]
    assert first + second == SUBSCRIBERS
    assert second >= SUBSCRIBERS * 0.3


def test_the_clusters_differ_by_less_than_the_global_threshold(converged: Clusters) -> None:
    loads = {name: converged.hosts[name].last_load for name in (*FIRST, *SECOND)}

    def mean(*names: str) -> float:
        found = [load.output_utilisation for name in names if (load := loads[name]) is not None]
        return sum(found) / len(found)

    assert abs(mean(*FIRST) - mean(*SECOND)) < HURRIED.global_ratio_threshold + 0.02


def test_the_session_is_over_when_all_are_balanced_and_both_heads_say_so(
    converged: Clusters,
) -> None:
    engaged, over = converged.of_kind("engage"), converged.of_kind("disengage")
    assert {noted.broker for noted in engaged} == {"B0", "B9"}
    assert len(engaged) == len(over)
    assert any(noted.decision.evidence["why"] == "balanced" for noted in over)
    for head in ("B0", "B9"):
        assert converged.head(head).session is None
        assert converged.head(head).status(200.0) is Status.OK
    # Nobody listens to the other cluster any more, or remembers its brokers.
    assert converged.edge("B1").table.entries(200.0).keys() == {"B2"}
    assert not converged.edge("B1")._engaged


def test_nothing_is_lost_doubled_or_reordered() -> None:
    world = Clusters.of(two_clusters(), CONFIG)
    world.run(120)
    checks = judged(world)
    assert checks.clean, checks.violations


def engaged_world() -> Clusters:
    """Two clusters in a session."""
    world = Clusters.of(two_clusters(), CONFIG)
    time = 1.0
    world.run(time)
    while world.head("B0").status(time) is not Status.BUSY:
        time += 0.1
        assert time < 60
        world.run(time)
    world.run(time + 1)
    return world


def test_in_a_session_edge_brokers_hear_of_those_of_the_other_cluster() -> None:
    world = engaged_world()
    world.run(world.clock.now + 6.0)
    if world.head("B0").session is not None:
        assert world.edge("B1").table.entries(world.clock.now).keys() == {"B2", "B7", "B8"}
        assert world.edge("B8").table.entries(world.clock.now).keys() == {"B1", "B2", "B7"}


@pytest.mark.parametrize("crashed", ["B0", "B9"])
def test_a_head_that_has_forgotten_the_session_ends_it(crashed: str) -> None:
    world = engaged_world()
    now = world.clock.now
    world._crash(st.CrashBroker(at=now, broker=crashed, keep_store=False))
    world.run(now + 1)
    world._restart(st.RestartBroker(at=now + 1, broker=crashed))
    other = {"B0": "B9", "B9": "B0"}[crashed]
    before = world.head(other).session
    assert before is not None
    world.run(now + 25)
    after = world.head(other).session
    assert after is None or after.id != before.id
    world.run(now + 150)
    assert by_cluster(world)["B9"] >= SUBSCRIBERS * 0.25
    assert judged(world).clean


def test_an_engagement_that_is_not_renewed_ends_by_itself() -> None:
    world = engaged_world()
    edge, now = world.edge("B1"), world.clock.now
    assert list(edge._engaged) == ["B9"]
    for head in ("B0", "B9"):
        world.head(head)._renew = lambda: None  # type: ignore[method-assign]
        world.head(head)._end_if_balanced = lambda now: None  # type: ignore[method-assign]  # noqa: ARG005
    world.run(now + 3 * HURRIED.global_pie_period_s + 2 * HURRIED.local_pie_period_s)
    assert not edge._engaged
    assert edge.table.entries(world.clock.now).keys() <= {"B2"}


def test_who_knows_nothing_of_a_session_answers_that_it_is_done() -> None:
    world = Clusters.of(two_clusters(subscribers=0))
    world.run(10)
    said: list[tuple[str, object]] = []
    head = world.head("B0")
    head._post = lambda to, message: said.append((to, message))
    head.renewed(GlobalRenewal("never", "B9"), 10.0)
    ((to, message),) = said
    assert (to, type(message).__name__) == ("B9", "GlobalDone")


def test_wishes_end_a_session_for_one_with_another_cluster() -> None:
    """An overloaded edge-broker finds nobody in both clusters: after N requests (3.3.2.2)."""
    third = [line for line in cluster(THIRD, head="B6") if " broker " in line or " link " in line]
    world = Clusters.of([*two_clusters(), *third, "0.2 link add B0 B6 2"], CONFIG)
    world.run(60)
    head, now = world.head("B0"), world.clock.now
    while head.session is None or head.session.stage != "engaged":
        now += 0.5
        assert now < 100
        world.run(now)
    session, life = head.session, world.hosts["B0"].life
    assert life is not None
    for _ in range(session.wishes, HURRIED.global_request_threshold):
        assert head.session is session
        life.broker._work.begin(now)
        head.wished(now)
        life.execute(life.broker._work.commit())
    over = world.of_kind("disengage")[-1]
    assert over.broker == "B0"
    assert "finds nobody" in over.decision.evidence["why"]
    assert head.session is not session


def test_a_cluster_with_an_overloaded_broker_is_not_available() -> None:
    world = Clusters.of(two_clusters(), CONFIG)
    world.run(1)
    world.edge("B1").mediator.ask = lambda *_: None  # type: ignore[method-assign]
    world.head("B0").detect = lambda *_, **__: None  # type: ignore[method-assign]
    world.run(15)
    assert world.edge("B1").status(15.0) is Status.NOT_AVAILABLE
    assert world.head("B0").status(15.0) is Status.NOT_AVAILABLE
    assert world.head("B9").status(15.0) is Status.OK
    assert world.head("B9").clusters.entries(15.0)["B0"].status is Status.NOT_AVAILABLE
    assert world.placed()["B1"] == SUBSCRIBERS
    assert len(SYMBOLS) == world.placed()["B0"]


def do(world: Clusters, broker: str, what: Callable[[], None]) -> None:
    """Something happens in the module of a broker."""
    life = world.hosts[broker].life
    assert life is not None
    life.broker._work.begin(world.clock.now)
    what()
    life.execute(life.broker._work.commit())


def test_two_clusters_in_a_session_give_way_to_one_that_is_overloaded() -> None:
    """The thesis is silent: a session of two may last, while the one beside them finds nobody."""
    world = engaged_world()
    head, now = world.head("B9"), world.clock.now
    head._is_overloaded = lambda now: False  # type: ignore[method-assign]  # noqa: ARG005
    session = head.session
    assert session is not None
    session.since -= 6 * HURRIED.global_pie_period_s  # it has had its time
    for count in range(HURRIED.global_request_threshold):
        request = GlobalRequest(f"another {count}", "B6", True)
        do(world, "B9", lambda request=request: head.requested(request, now))  # type: ignore[misc]
    over = [noted for noted in world.of_kind("disengage") if noted.broker == "B9"]
    assert over[-1].decision.evidence["why"] == "an overloaded cluster waits"
    assert head.session is not None
    assert head.session.cluster == "B6"


def test_who_is_overloaded_itself_does_not_give_way() -> None:
    world = engaged_world()
    head, now = world.head("B9"), world.clock.now
    head._is_overloaded = lambda now: True  # type: ignore[method-assign]  # noqa: ARG005
    session = head.session
    for count in range(2 * HURRIED.global_request_threshold):
        request = GlobalRequest(f"another {count}", "B6", True)
        do(world, "B9", lambda request=request: head.requested(request, now))  # type: ignore[misc]
    assert head.session is session


def test_a_session_in_which_nothing_happens_is_over() -> None:
    world = engaged_world()
    for name in (*FIRST, *SECOND):
        world.edge(name).detect = lambda now: None  # type: ignore[method-assign]  # noqa: ARG005
    for head in ("B0", "B9"):
        world.head(head)._end_if_balanced = lambda now: None  # type: ignore[method-assign]  # noqa: ARG005
        world.head(head).detect = lambda *_, **__: None  # type: ignore[method-assign]
    world.run(world.clock.now + 120)
    why = [noted.decision.evidence["why"] for noted in world.of_kind("disengage")]
    assert "nothing is left to be done" in why
