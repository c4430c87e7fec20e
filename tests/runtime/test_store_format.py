"""Commits and folds, without a disk: the state that they add up to is that of a plain dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.runtime.store_format import Batch, Fold, Packed, Unfolded, unpack_body

KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
RECORDS = st.one_of(st.none(), st.binary(max_size=3))
WRITES = st.lists(st.tuples(KEYS, RECORDS), max_size=6)


def play(state: dict[bytes, bytes], writes: list[Packed]) -> None:
    """What writes mean."""
    for key, record in writes:
        if record is None:
            state.pop(key, None)
        else:
            state[key] = record


def fold_into(kv: dict[bytes, bytes], fold: Fold) -> None:
    """What `StoreFile.fold` does to its rows; it would fail where this does."""
    for key in fold.gone:
        del kv[key]
    for key, record in fold.changed.items():
        assert key in kv
        kv[key] = record
    for key, record in fold.fresh.items():
        assert key not in kv
        kv[key] = record
    assert len(kv) == fold.records


@given(st.lists(st.lists(WRITES, max_size=4), max_size=6))
def test_batches_add_up(batches: list[list[list[Packed]]]) -> None:
    """It catches: a key that is put again and keeps its place, or that is changed and does not."""
    state: dict[bytes, bytes] = {}
    replayed: dict[bytes, bytes] = {}
    for transactions in batches:
        batch = Batch()
        for token, writes in enumerate(transactions, 1):
            play(state, writes)
            batch.add(token, writes)
        play(replayed, list(unpack_body(batch.body())))
        assert batch.token == batch.transactions == len(transactions)
        assert list(replayed.items()) == list(state.items())


@given(st.lists(st.one_of(WRITES, st.just("fold")), max_size=12))
def test_folds_add_up(steps: list[list[Packed] | str]) -> None:
    """It catches: a row that is inserted where one is, updated or deleted where none is."""
    state: dict[bytes, bytes] = {}
    kv: dict[bytes, bytes] = {}
    unfolded = Unfolded()
    for step in [*steps, "fold"]:
        if isinstance(step, list):
            play(state, step)
            unfolded.apply(step)
            assert not unfolded.gone.keys() & unfolded.kept.keys()
            assert not unfolded.fresh.keys() & unfolded.kept.keys()
            assert unfolded.changed.keys() <= unfolded.kept.keys()
        else:
            fold_into(kv, unfolded.fold())
            assert unfolded.kept == {key: len(record) for key, record in state.items()}
            assert list(kv.items()) == list(state.items())
        size = sum(len(key) + len(record) for key, record in state.items())
        assert unfolded.retained_bytes == size
    again = Unfolded()
    for key, record in kv.items():
        again.add_kept(key, len(record))
    assert (again.kept, again.retained_bytes) == (unfolded.kept, unfolded.retained_bytes)


def test_what_came_and_went_is_not_folded() -> None:
    unfolded = Unfolded()
    unfolded.apply([(b"a", b"1"), (b"b", b"1")])
    unfolded.fold()
    unfolded.apply([(b"a", b"2"), (b"c", b"1")])
    unfolded.apply([(b"a", None), (b"c", None), (b"d", None)])
    assert unfolded.fold() == Fold({b"a": None}, {}, {}, 1)
