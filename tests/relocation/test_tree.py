"""The layout of the tree against walking it, and answers that are no tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.optimising.bitvector import words_of
from roost.relocation.brute_force import Ways
from roost.relocation.statistics import Answer, Neighbour
from roost.relocation.tree import BadAnswersError, tree_of
from tests.relocation.worlds import PUBLICATIONS, World, worlds


def broker(name: str, *neighbours: str) -> Answer:
    return Answer(name, tuple(Neighbour(other) for other in neighbours))


@given(worlds(), st.data())
def test_sums_and_ors(world: World, data: st.DataObject) -> None:
    root = data.draw(st.sampled_from(world.names))
    tree = tree_of(world.answers, root)
    path = Ways(world.answers, root).path
    assert tree.names[0] == root
    assert sorted(tree.names) == sorted(world.names)
    below = {name: {other for other in path if name in path[other]} for name in tree.names}
    for i, name in enumerate(tree.names):
        assert set(tree.names[i : tree.end[i]]) == below[name]
    bits = {answer.broker: answer.bits for answer in world.answers}
    words = words_of([bits[name] for name in tree.names], PUBLICATIONS)
    values = np.array([world.names.index(name) for name in tree.names])
    found = zip(
        tree.inside(words),
        tree.outside(words),
        tree.sums_inside(values),
        tree.sums_on_path(values.astype(np.float64)),
        strict=True,
    )
    for name, (inside, outside, total, on_path) in zip(tree.names, found, strict=True):
        positions = [i for i, other in enumerate(tree.names) if other in below[name]]
        others = [i for i in range(len(tree)) if i not in positions]
        assert np.array_equal(inside, np.bitwise_or.reduce(words[positions]))
        assert np.array_equal(outside, np.bitwise_or.reduce(words[others]))
        assert total == values[positions].sum()
        assert on_path == sum(world.names.index(other) for other in path[name])


@given(worlds(), st.data())
def test_delays(world: World, data: st.DataObject) -> None:
    root = data.draw(st.sampled_from(world.names))
    tree = tree_of(world.answers, root)
    away = Ways(world.answers, root).delay_s
    down = tree.sums_on_path(tree.down_s)
    up = tree.sums_on_path(tree.up_s)
    for i, name in enumerate(tree.names):
        assert down[i] == pytest.approx(away[name])
        assert up[i] == pytest.approx(Ways(world.answers, name).delay_s[root])


@given(worlds(), st.data())
def test_the_order_of_answers_is_nothing(world: World, data: st.DataObject) -> None:
    shuffled = [
        replace(answer, neighbours=tuple(data.draw(st.permutations(answer.neighbours))))
        for answer in data.draw(st.permutations(world.answers))
    ]
    root = world.names[0]
    assert tree_of(world.answers, root).names == tree_of(shuffled, root).names


def test_a_deep_tree() -> None:
    n = 3_000
    chain = [broker(f"B{i}", *(f"B{j}" for j in (i - 1, i + 1) if 0 <= j < n)) for i in range(n)]
    assert tree_of(chain, "B0").names[-1] == f"B{n - 1}"


def test_neighbours_that_received_nothing_do_not_answer() -> None:
    answers = [broker("A", "B", "silent"), broker("B", "A", "silent too")]
    assert tree_of(answers, "B").names == ("B", "A")


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        ([broker("A"), broker("A")], "a broker has answered twice"),
        ([broker("A")], "there is no answer of R"),
        ([broker("R", "A"), broker("A")], "R has the neighbour A, which does not know of it"),
        ([broker("R"), broker("A", "R")], "no links lead from R to A"),
        ([broker("R"), *(broker(f"B{i}") for i in range(7))], "B4 .and 2 more."),
        (
            [broker("R", "A", "B"), broker("A", "R", "B"), broker("B", "R", "A")],
            "the link . - . closes a cycle",
        ),
        ([broker("R", "R")], "the link R - R closes a cycle"),
        ([Answer("R", matching_s=float("nan"))], "a delay of nan s at R"),
        ([Answer("R", matching_s=-1.0)], "a delay of -1 s at R"),
        (
            [Answer("R", (Neighbour("A", latency_s=float("inf")),)), broker("A", "R")],
            "a delay of inf s at A",
        ),
    ],
)
def test_answers_that_are_no_tree(answers: list[Answer], what: str) -> None:
    with pytest.raises(BadAnswersError, match=what):
        tree_of(answers, "R")
