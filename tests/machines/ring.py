"""The third machine, a tiny one: a word goes round in a ring, and each passes it on after a pause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from roost.broker.commands import StoreKey
from roost.broker.config import BrokerConfig
from roost.broker.hops import Link
from roost.broker.messages import Note
from roost.broker.module import Module
from roost.broker.server import Costs
from roost.broker.station import Station


class Ring(Station):
    """The word is a number, and one more at each pass."""

    name = "ring"
    costs = Costs(messages_s_mhz={Note: 10.0})

    class Config(Struct, frozen=True):
        next: str
        first: bool = False  # who begins
        pause_s: float = 0.05

    def __init__(self, config: BrokerConfig, modules: Sequence[Module], settings: Config) -> None:
        super().__init__(config, modules, settings)
        self.heard: list[int] = []
        self.word: int | None = None  # while it is here

    def restored(self, records: Mapping[StoreKey, Any]) -> None:
        begins = self.settings.first and ("passed",) not in records
        word = records.get(("word",), 0 if begins else None)
        if word is not None:
            self._have(word)

    def told(self, link: Link, body: bytes) -> None:  # noqa: ARG002
        self.heard.append(int(body))
        self._have(int(body))

    def _have(self, word: int) -> None:
        self.word = word
        self.keep("word", value=word)
        self.set_timer("pass", self.settings.pause_s)

    def timer(self, name: str) -> None:  # noqa: ARG002
        link = self.links.get(self.settings.next)
        if link is None:  # not introduced yet
            self.set_timer("pass", self.settings.pause_s)
        elif self.word is not None:
            word, self.word = self.word + 1, None
            self.note(link, b"%d" % word, cause=f"{self.identity.name} passes it on")
            self.keep("word", value=None)
            self.keep("passed", value=word)

    def figures(self) -> Mapping[str, Any]:
        return {**super().figures(), "heard": len(self.heard)}
