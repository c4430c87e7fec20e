"""What a standby keeps: the records of the broker's own store, in their order, by log or by snapshot."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from roost.broker.commands import StoreKey
from roost.overlay.twin_words import Membership, Position
from roost.runtime import pair_file, pair_wire, witness
from roost.runtime.backup import back_up, restore
from roost.runtime.pair_wire import PairWireError
from roost.runtime.replica import SHIPPED, STORE_NAME, Replica, snapshot
from roost.runtime.store import Store
from roost.runtime.store_file import StoreFile
from roost.runtime.store_format import StoreError
from roost.runtime.witness import MayI, Register, Witness

MEMBER = Membership(3, "other", True)


class Leader:
    """A store that tells what it commits."""

    def __init__(self, folder: Path, fold_bytes: int) -> None:
        folder.mkdir()
        self.folder = folder
        self.shipped: list[tuple[int, bytes]] = []
        self._safe = threading.Event()
        self._last = 0
        self.store = Store.open(
            folder / STORE_NAME,
            on_safe=self._is_safe,
            on_commit=lambda token, body: self.shipped.append((token, body)),
            fold_bytes=fold_bytes,
        )
        self.store.load()

    def _is_safe(self, token: int) -> None:
        if token >= self._last:
            self._safe.set()

    def write(self, draws: random.Random, count: int) -> None:
        for _ in range(count):
            self._safe.clear()
            self._last += 1
            writes: dict[StoreKey, Any] = {
                ("sub", draws.randrange(20)): draws.choice([None, ("session", "c", "x" * 50)])
                for _ in range(4)
            }
            self.store.write(self._last, {**writes, SHIPPED: ("run", self._last)})
            if draws.random() < 0.3:
                assert self._safe.wait(20)
        assert self._safe.wait(20)


def records(folder: Path) -> list[tuple[StoreKey, Any]]:
    store = Store.open(folder / STORE_NAME, on_safe=lambda _: None)
    try:
        return list(store.load().items())
    finally:
        store.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_replica_has_what_the_store_has(tmp_path: Path, seed: int) -> None:
    draws = random.Random(seed)
    leader = Leader(tmp_path / "one", fold_bytes=draws.choice([5_000, 50_000]))
    replica = Replica(tmp_path / "two", fold_bytes=draws.choice([5_000, 50_000]))
    leader.write(draws, 60)
    for number, body in leader.shipped:
        replica.keep([body], Position("run", number))
        replica.look_after()
    assert replica.position == Position("run", 60)
    # Another one comes later, and gets all at once; then both go on.
    late = Replica(tmp_path / "three")
    parts, position = snapshot(leader.folder)
    assert position == Position("run", 60)
    late.clear()
    for part in parts:
        late.load(part)
    late.adopt(position, MEMBER)
    seen = len(leader.shipped)
    leader.write(draws, 30)
    for each in (replica, late):
        rest = leader.shipped[seen:]
        while rest:  # in groups, as they happen to come
            some, rest = rest[: (many := draws.randint(1, 5))], rest[many:]
            each.keep([body for _, body in some], Position("run", some[-1][0]))
            each.look_after()
    leader.store.close()
    replica.close()
    late.close()
    expected = records(tmp_path / "one")
    assert records(tmp_path / "two") == expected
    # A snapshot keeps the order, too.
    assert records(tmp_path / "three") == expected
    again = Replica(tmp_path / "three")
    assert (again.position, again.known.membership) == (Position("run", 90), MEMBER)
    again.close()


def test_what_is_known_is_of_one_store(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.note(MEMBER)
    node = replica.known.node
    replica.close()
    again = Replica(tmp_path)
    assert (again.known.node, again.known.membership) == (node, MEMBER)
    again.close()
    for file in tmp_path.glob(f"{STORE_NAME}*"):
        file.unlink()
    # The disk was deleted, and the file was left: it is no member any more.
    anew = Replica(tmp_path)
    assert anew.known.membership is None
    assert anew.known.node != node
    anew.close()


def test_nothing_is_kept_behind_what_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader would take it that all before it is there, too."""
    leader = Leader(tmp_path / "one", fold_bytes=50_000)
    for _ in range(5):  # each a commit of its own, at least
        leader.write(random.Random(1), 2)
    leader.store.close()
    shipped = leader.shipped
    replica = Replica(tmp_path / "two")
    replica.keep([shipped[0][1]], Position("run", shipped[0][0]))

    def is_full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(StoreFile, "append", is_full)
        with pytest.raises(OSError, match="no space left"):
            replica.keep([shipped[1][1]], Position("run", shipped[1][0]))
    with pytest.raises(StoreError, match="what came before could not be written"):
        replica.keep([shipped[2][1]], Position("run", shipped[2][0]))
    assert replica.position == Position("run", shipped[0][0])
    # By the next connection all of it comes again.
    replica.mend()
    replica.keep([body for _, body in shipped[1:]], Position("run", 10))
    replica.close()
    assert records(tmp_path / "two") == records(tmp_path / "one")


def test_a_snapshot_that_never_ends_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    leader = Leader(tmp_path / "one", fold_bytes=50_000)
    leader.write(random.Random(1), 20)
    replica = Replica(tmp_path / "two")
    for number, body in leader.shipped:
        replica.keep([body], Position("run", number))
    replica.note(MEMBER)
    replica.clear()
    replica.load(snapshot(leader.folder)[0][0])
    replica.close()
    leader.store.close()
    again = Replica(tmp_path / "two")
    assert (again.position, again.known.membership) == (Position("run", 20), MEMBER)
    again.close()
    assert pair_file.seen(tmp_path / "nowhere") is None


def test_subscriptions_of_a_failed_broker_are_restored_on_a_replacement(tmp_path: Path) -> None:
    """Amadoru et al., section IV: what the standby has is restored elsewhere; that broker begins anew."""
    leader = Leader(tmp_path / "one", fold_bytes=50_000)
    writes: dict[StoreKey, Any] = {
        ("incarnation",): "first",
        ("session", "durable/a"): ("a", False, True, "p1", "a"),
        ("session", "plain"): ("b", False, False, "", "b"),
        ("sub", "a/1"): ("session", "durable/a", "x", 1),
        ("sub", "b/1"): ("session", "plain", "x", 2),
        SHIPPED: ("run", 1),
    }
    leader.store.write(1, writes)
    leader.store.close()
    replica = Replica(tmp_path / "two")
    for number, body in leader.shipped:
        replica.keep([body], Position("run", number))
    replica.close()
    for file in (tmp_path / "one").iterdir():
        file.unlink()  # the broker and its disk are gone
    back_up(tmp_path / "two" / STORE_NAME, tmp_path / "saved")
    (tmp_path / "three").mkdir()
    restore(tmp_path / "saved", tmp_path / "three" / STORE_NAME)
    found = dict(records(tmp_path / "three"))
    assert ("sub", "a/1") in found
    assert ("session", "durable/a") in found
    assert ("incarnation",) not in found  # neighbours are told all anew
    assert ("sub", "b/1") not in found  # its client says it again


def test_a_witness_gives_each_epoch_once(tmp_path: Path) -> None:
    register = Register(tmp_path)
    assert register.give(MayI("B0", "one", 2))
    assert register.give(MayI("B0", "one", 2))  # who asks again has not heard
    assert not register.give(MayI("B0", "two", 2))
    assert not Register(tmp_path).give(MayI("B0", "two", 2))  # it is on the disk
    assert register.give(MayI("B0", "two", 3))
    assert not register.give(MayI("B0", "one", 2))
    assert register.give(MayI("B1", "one", 2))


def test_a_witness_answers_those_who_have_the_token(tmp_path: Path) -> None:
    async def main() -> None:
        refused: list[str] = []
        there = Witness(tmp_path, refused.append)
        port = await there.start("127.0.0.1", 0, "token", None)
        question = MayI("B0", "one", 2)
        try:
            with pytest.raises(PairWireError, match="another token"):
                await witness.ask(("127.0.0.1", port), "another", None, question)
            assert await witness.ask(("127.0.0.1", port), "token", None, question) is True
            question = MayI("B0", "two", 2)
            assert await witness.ask(("127.0.0.1", port), "token", None, question) is False
        finally:
            there.stop()
        assert "another token" in refused[0]
        assert await witness.ask(("127.0.0.1", port), "token", None, question) is None
        with pytest.raises(OSError, match="onnect"):
            await pair_wire.dial("127.0.0.1", port, "token", None, MayI)

    asyncio.run(main())
