"""What a transaction writes: every change of state that has to outlive a crash.

A broker with durability on collects the writes that handling one event causes, and hands them to the
driver as one `Persist`. Whatever it wants to say to anybody waits until that is safe (see
`Work.commit`): so nobody ever hears of a state that a crash could take back.

Keys are tuples that begin with a word for the kind of record; None deletes. Values are plain or Structs
of `messages`: the simulator keeps them as they are, the runtime as bytes.
"""

from __future__ import annotations

from roost.broker.commands import StoreKey


class Journal:
    """The writes of the transaction in hand; later ones of a key replace earlier ones."""

    __slots__ = ("writes",)

    def __init__(self) -> None:
        self.writes: dict[StoreKey, object] = {}

    def put(self, *key: str | int, value: object) -> None:
        self.writes[key] = value

    def delete(self, *key: str | int) -> None:
        self.writes[key] = None

    def take(self) -> dict[StoreKey, object]:
        """The writes so far; the next transaction begins."""
        writes, self.writes = self.writes, {}
        return writes
