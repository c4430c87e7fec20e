"""What the application wants to have settled, and which sessions have not said so yet.

A client has one session, and asks there. While it moves it has two, and nobody knows which of them will be
the one that counts: it asks both, and has its answer when both have given theirs. A session that is over, or
said goodbye to, answers no more: then the other's word is enough, and if that was not asked, it is asked now.

A broker that has forgotten the session has forgotten the question, too. The application hears of a new
session (`attached`), and asks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from roost.broker.attachment import Attachment
from roost.broker.commands import Command, Tell
from roost.broker.config import ClientConfig
from roost.broker.messages import Settle


class Asker(Protocol):
    """Who asks."""

    config: ClientConfig
    home: Attachment

    def counting(self) -> Iterator[Attachment]:
        """The sessions whose word counts, that at home first."""

    def command(self, command: Command) -> None: ...


class Questions:
    """Those of one client that have no answer yet."""

    __slots__ = ("_client", "_waiting")

    def __init__(self, client: Asker) -> None:
        self._client = client
        self._waiting: dict[str, set[int]] = {}  # id -> numbers of sessions

    def ask(self, id_: str) -> None:
        """Asked again, it is a new question."""
        self._waiting[id_] = set()
        for attachment in self._client.counting():
            self._ask(attachment, id_)

    def _ask(self, attachment: Attachment, id_: str) -> None:
        self._waiting[id_].add(attachment.number)
        attachment.send(Settle(id_, f"{self._client.config.client} waits for its requests"))

    def answered(self, attachment: Attachment, id_: str, missing: tuple[str, ...] = ()) -> None:
        """In that session all is in effect; at brokers that are away it will be."""
        waiting = self._waiting.get(id_)
        if waiting is not None:
            waiting.discard(attachment.number)
            if not waiting:
                del self._waiting[id_]
                self._client.command(Tell("settled", id_, " ".join(missing)))

    def refused(self, id_: str) -> None:
        """If it was one of them, it is none any more."""
        self._waiting.pop(id_, None)

    def dismissed(self, attachment: Attachment) -> None:
        """The client stays where it is: what that session would say does not count."""
        for id_ in list(self._waiting):
            self.answered(attachment, id_)

    def moved(self) -> None:
        """The client has only its new session."""
        home = self._client.home
        for id_, waiting in self._waiting.items():
            if home.number not in waiting:
                self._ask(home, id_)
            waiting.intersection_update((home.number,))
