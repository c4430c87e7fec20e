"""Numbers of entries, small ones, for matchers and posets; and who follows whose each of them is."""

from __future__ import annotations

from typing import Protocol

from roost.broker.hops import Entry, Hop
from roost.language import Interest


class Follower(Protocol):
    """Keeps tables of its own of whose each handle is (see `roost.chunks`)."""

    def entered(self, entry: Entry) -> None: ...

    def left(self, entry: Entry) -> None:
        """It is still the hop's that it was when it entered."""


class Handles:
    """Entries by handle; a handle that is free again is used again, so that a list is enough."""

    __slots__ = ("_followers", "_free", "entries")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._free: list[int] = []
        self._followers: list[Follower] = []

    def new(self, id_: str, interest: Interest, hop: Hop) -> Entry:
        handle = self._free.pop() if self._free else len(self.entries)
        entry = Entry(id_, handle, interest, hop)
        if handle == len(self.entries):
            self.entries.append(entry)
        else:
            self.entries[handle] = entry
        for follower in self._followers:
            follower.entered(entry)
        return entry

    def free(self, entry: Entry) -> None:
        for follower in self._followers:
            follower.left(entry)
        self._free.append(entry.handle)

    def move(self, entry: Entry, hop: Hop) -> None:
        """An entry is another hop's from now on."""
        for follower in self._followers:
            follower.left(entry)
        entry.hop = hop
        for follower in self._followers:
            follower.entered(entry)

    def follow(self, follower: Follower) -> None:
        """Tell it of what there is, and from now on of what comes and goes."""
        self._followers.append(follower)
        free = set(self._free)
        for entry in self.entries:
            if entry.handle not in free:
                follower.entered(entry)
