"""Tables of strings, against a dictionary: many that are entered together are as if they came one by one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from roost.chunks.tables import Words
from roost.chunks.text import TextHeap, TextTable

KEYS = st.one_of(st.sampled_from([b"", b"a", b"b"]), st.binary(max_size=40))
WORDS = st.tuples(KEYS, st.integers(0, 3), st.lists(st.integers(0, 9), min_size=1, max_size=20))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("many"), st.lists(WORDS, min_size=1, max_size=60)),
        st.tuples(st.just("drop"), st.tuples(KEYS, st.integers(0, 3))),
    ),
    max_size=12,
)


@given(STEPS)
def test_words_entered_together_stand_for_what_was_said_last(steps: list[Any]) -> None:
    heap = TextHeap(lambda _: None)
    table = TextTable(heap, lambda _: None)
    words = Words(heap, table)
    known: dict[tuple[bytes, int], list[int]] = {}
    for what, said in steps:
        if what == "many":
            words.put_many(said)
            known |= {(key, owner): tokens for key, owner, tokens in said}
        else:
            words.drop(*said)
            known.pop(said, None)
        assert len(words) == len(known)
        for (key, owner), tokens in known.items():
            block = table.get(key, owner)
            assert heap.cells[block : block + 1 + len(tokens)].tolist() == [len(tokens), *tokens]
