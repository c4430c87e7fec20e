"""U(R) is what a rewiring saves: 002's by topic, Roost's by content too (002 sections 4.2 to 5.2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.overlay.rewiring import exact, ocbr, theorem
from roost.overlay.rewiring.counters import LOCAL, Passages, Rewiring, Training
from roost.overlay.rewiring.theorem import Predicted
from tests.overlay.sent import Sent, World, rewired, rewirings, send, worlds


def weight(a: str, b: str) -> float:
    """Some weights, the same in both directions."""
    return 1 + (number(a) * number(b)) % 7


def number(name: str) -> int:
    return int(name[1:]) + 3


def places(world: World, rewiring: Rewiring) -> tuple[list[str], tuple[int, int]]:
    near = sorted(world.near[rewiring.middle])
    return near, (near.index(rewiring.mover), near.index(rewiring.anchor))


def cost(sent: Sent) -> float:
    return sum(weight(a, b) * count for (a, b), count in sent.links.items())


# --- the paper's --------------------------------------------------------------------------------------


@given(worlds(topics_a_subscription=1))
@settings(max_examples=40)
def test_theorem_1(world: World) -> None:
    """Section 4.3, relations (1) to (6): the counters after R, as the middle and the anchor measure them."""
    before = send(*world)
    for rewiring in rewirings(world.near):
        middle, mover, anchor = rewiring
        after = send(rewired(world.near, rewiring), world.interests, world.messages)
        counted = before.training[middle]
        here, there = after.training[middle], after.training[anchor]
        others = [LOCAL, *(world.near[middle] - {mover, anchor})]
        for topic, found in theorem.predicted(counted.incoming, counted.outgoing, rewiring).items():
            assert found == Predicted(
                there.incoming.get(mover, {}).get(topic, 0),
                there.outgoing.get(mover, {}).get(topic, 0),
                here.incoming.get(anchor, {}).get(topic, 0),
                here.outgoing.get(anchor, {}).get(topic, 0),
                sum(here.incoming.get(side, {}).get(topic, 0) for side in others),
                sum(here.outgoing.get(side, {}).get(topic, 0) for side in others),
            )


@given(worlds(topics_a_subscription=1))
@settings(max_examples=40)
def test_by_topic_the_papers_utility_is_what_is_saved(world: World) -> None:
    """Section 4.4, with the sign that (7) and (8) give it."""
    before = send(*world)
    for rewiring in rewirings(world.near):
        after = send(rewired(world.near, rewiring), world.interests, world.messages)
        counted = before.training[rewiring.middle]
        found = theorem.utility(counted.incoming, counted.outgoing, rewiring)
        assert found == before.total - after.total
        near, place = places(world, rewiring)
        assert theorem.utilities(near, counted.incoming, counted.outgoing)[place] == found


@given(worlds(topics_a_subscription=3))
@settings(max_examples=40)
def test_by_content_the_table_says_what_the_sum_says(world: World) -> None:
    """Section 5: an indicator; both ways to compute it agree."""
    before = send(*world)
    for rewiring in rewirings(world.near):
        counted = before.training[rewiring.middle]
        near, place = places(world, rewiring)
        table = theorem.utilities(near, counted.incoming, counted.outgoing)
        assert table[place] == theorem.utility(counted.incoming, counted.outgoing, rewiring)


def test_equation_9_as_printed_has_the_wrong_sign() -> None:
    """B1 - B0 - B2: what B1 publishes only B2 wants; to link them directly saves a message each."""
    counted = Training()
    for _ in range(5):
        counted.passed("B1", ["B2"], ["a"])
    assert theorem.utility(counted.incoming, counted.outgoing, Rewiring("B0", "B1", "B2")) == 5


def test_without_the_local_side_the_utility_is_wrong() -> None:
    """The clients of the middle want it, too: nothing is saved. Section 4.1's "external" would say 5."""
    counted = Training()
    for _ in range(5):
        counted.passed("B1", ["B2", LOCAL], ["a"])
    rewiring = Rewiring("B0", "B1", "B2")
    assert theorem.utility(counted.incoming, counted.outgoing, rewiring) == 0
    del counted.outgoing[LOCAL]
    assert theorem.utility(counted.incoming, counted.outgoing, rewiring) == 5


def test_a_subscription_counts_once_however_many_subscribers_there_are() -> None:
    """Covering by topic changes nothing: subscriptions to the same topic are one already."""
    counted = Training()
    counted.passed("B1", ["B2"], ["a"])
    assert counted.incoming == {"B1": {"a": 1}}
    assert counted.outgoing == {"B2": {"a": 1}}
    counted.reset()
    assert (counted.incoming, counted.outgoing, counted.messages) == ({}, {}, 0)


def test_with_covering_a_message_counts_for_the_covering_subscription_alone() -> None:
    """By content: `a or b` covers `a`. Counted for both, what is saved is counted twice."""
    rewiring = Rewiring("B0", "B1", "B2")
    for matched, value in ((["a or b"], 1), (["a", "a or b"], 2)):
        counted = Training()
        counted.passed("B1", ["B2"], matched)
        assert theorem.utility(counted.incoming, counted.outgoing, rewiring) == value


# --- Roost's ------------------------------------------------------------------------------------------


@given(worlds(topics_a_subscription=3))
@settings(max_examples=40)
def test_roosts_utility_is_what_is_saved_by_content_too(world: World) -> None:
    before = send(*world)
    for rewiring in rewirings(world.near):
        after = send(rewired(world.near, rewiring), world.interests, world.messages)
        near, place = places(world, rewiring)
        counted = before.passages[rewiring.middle]
        assert exact.saved(exact.sums(near, counted.kinds))[place] == before.total - after.total
        assert (
            exact.links_saved(exact.between(near, counted.deliveries))[place]
            == before.hops - after.hops
        )


@given(worlds(topics_a_subscription=3))
@settings(max_examples=30)
def test_with_weights_it_is_the_cost_that_is_saved(world: World) -> None:
    """Section 5.2."""
    before = send(*world)
    for rewiring in rewirings(world.near):
        after = send(rewired(world.near, rewiring), world.interests, world.messages)
        near, place = places(world, rewiring)
        found = exact.sums(near, before.passages[rewiring.middle].kinds)
        value = theorem.weighted(rewiring.middle, near, exact.saved(found), found.link, weight)
        assert value[place] == pytest.approx(cost(before) - cost(after))


@given(worlds(topics_a_subscription=1))
@settings(max_examples=20)
def test_the_papers_utility_has_weights_too(world: World) -> None:
    before = send(*world)
    for rewiring in rewirings(world.near):
        after = send(rewired(world.near, rewiring), world.interests, world.messages)
        near, place = places(world, rewiring)
        counted = before.training[rewiring.middle]
        tables = (near, counted.incoming, counted.outgoing)
        value = theorem.weighted(
            rewiring.middle,
            near,
            theorem.utilities(*tables),
            theorem.link_messages(*tables),
            weight,
        )
        assert value[place] == pytest.approx(cost(before) - cost(after))


def test_lengths_of_links_count_as_delay() -> None:
    """Eight deliveries between the neighbours, one to the clients here."""
    counted = Passages()
    for _ in range(8):
        counted.passed("B1", {"B2": 1})
    counted.passed("B1", {LOCAL: 1})
    found = exact.between(["B1", "B2"], counted.deliveries)
    lengths = {("B0", "B1"): 5.0, ("B0", "B2"): 7.0, ("B1", "B2"): 4.0, ("B2", "B1"): 4.0}
    value = exact.time_saved("B0", ["B1", "B2"], found, lambda a, b: lengths[a, b])
    assert value[0, 1] == 8 * (5 + 7 - 4) - (4 + 7 - 5)
    assert value[1, 0] == 8 * (5 + 7 - 4)
    assert exact.links_saved(found).tolist() == [[0, 7], [8, 0]]


def test_a_message_that_goes_nowhere_counts_for_nothing() -> None:
    counted = Passages()
    counted.passed("B1", {})
    assert not exact.saved(exact.sums(["B1", "B2"], counted.kinds)).any()


def test_a_neighbour_that_has_gone_is_another_side() -> None:
    counted = Passages()
    counted.passed("B1", {"B2": 1, "B9": 1})
    counted.passed("B9", {"B1": 1})
    assert exact.saved(exact.sums(["B1", "B2"], counted.kinds)).tolist() == [[0, -1], [-1 + 1, 0]]


# --- OCBR ---------------------------------------------------------------------------------------------


def test_forwarded_and_residual_traffic() -> None:
    """Section 3: B1 and B2 exchange five messages, of which one is for B3 as well."""
    counted = Passages()
    for _ in range(4):
        counted.passed("B1", {"B2": 1})
    counted.passed("B2", {"B1": 1, "B3": 1})
    counted.passed(LOCAL, {"B2": 1})
    near = ["B1", "B2", "B3"]
    link = exact.sums(near, counted.kinds).link
    assert link.tolist() == [5, 6, 1]
    found = ocbr.traffic(ocbr.couples(near, counted.kinds), link)
    assert found.forwarded.tolist() == [[0, 5, 0], [5, 0, 1], [0, 1, 0]]
    assert found.residual[0].tolist() == [5, 0, 5]
    assert found.residual[1].tolist() == [1, 6, 5]


@given(st.lists(st.tuples(st.integers(0, 3), st.frozensets(st.integers(0, 3))), max_size=20))
@settings(max_examples=50)
def test_the_way_back_has_the_opposite_value(rows: list[tuple[int, frozenset[int]]]) -> None:
    """What two neighbours share is the same from both: U(R) differs by their links only."""
    counted = Passages()
    for source, goes in rows:
        counted.passed(f"B{source}", {f"B{i}": 1 for i in sorted(goes - {source})})
    found = exact.sums([f"B{i}" for i in range(4)], counted.kinds)
    assert (found.together == found.together.T).all()
    values = exact.saved(found)
    expected = found.link[None, :] - found.link[:, None]
    off = ~np.eye(4, dtype=bool)
    assert ((values - values.T)[off] == expected[off]).all()
