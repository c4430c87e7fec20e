"""Subscriptions of modules that stay here: matched against what passes, told to no neighbour.

A module that wants to know what another broker would get, of all that passes here, subscribes as that
broker does, and changes nothing for anybody (001 section 4.1.1: "locally subscribes"). So they stand beside
the routing table, not in it: neighbours and clients can't tell that they are there, nor can the store.
"""

from __future__ import annotations

from roost.language import Event, Subscription
from roost.matching import Index


class Watches:
    """The local subscriptions of all modules of a broker, by module and name."""

    def __init__(self) -> None:
        self._index = Index()
        self._handles: dict[tuple[str, str], int] = {}
        self._whose: dict[int, tuple[str, str]] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._handles)

    def add(self, module: str, name: str, subscription: Subscription) -> None:
        """One of that name is replaced."""
        self.remove(module, name)
        handle = self._free.pop() if self._free else len(self._handles)
        self._handles[module, name] = handle
        self._whose[handle] = (module, name)
        self._index.add(handle, subscription)

    def remove(self, module: str, name: str) -> None:
        """One that is not there is no matter."""
        handle = self._handles.pop((module, name), None)
        if handle is not None:
            del self._whose[handle]
            self._index.remove(handle)
            self._free.append(handle)

    def forget(self, module: str) -> None:
        """All that a module has."""
        for other, name in list(self._handles):
            if other == module:
                self.remove(module, name)

    def match(self, event: Event) -> dict[str, list[str]]:
        """For each module its names of those that an event matches."""
        found: dict[str, list[str]] = {}
        for handle in self._index.match(event).tolist():
            module, name = self._whose[handle]
            found.setdefault(module, []).append(name)
        return found
