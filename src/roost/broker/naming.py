"""What a client calls its sessions, and what it asks for.

A name in the federation is nobody else's, at any time: a broker may hear of the withdrawal of one thing after
the next has begun. So sessions are numbered, and so are subscriptions and advertisements, under the name of
the client. In a *durable* session it is the other way round, as the next process has to know again what
there is:

    session         is the same in all processes
    subscription    has the id of its name, so that another one takes its place
    advertisement   of a durable publisher has the id of what it says, under the publisher's name. Another one
                    stands beside it: events that the last process published still need the first.
"""

from __future__ import annotations

from hashlib import blake2b

from roost.broker.config import ClientConfig
from roost.language import Advertisement

DIGEST_BYTES = 12


class Naming:
    """The names that one client gives."""

    __slots__ = ("_config", "_ids", "_sessions")

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._sessions = 0
        self._ids = 0

    @property
    def session(self) -> str:
        session = self._config.session
        return session if self._config.durable else f"{session}.{self._sessions}"

    def new_session(self) -> None:
        """Under another name: the broker that has the old one may not know that it is over."""
        if not self._config.durable:  # which is taken over, whoever has it
            self._sessions += 1

    def subscription(self, name: str) -> str:
        """The id of a subscription that the application calls so."""
        return f"{self.session}/{name}" if self._config.durable else self.new_id()

    def advertisement(self, publisher: str, advertisement: Advertisement) -> str:
        """The id of an advertisement."""
        if not self._config.publisher:
            return self.new_id()
        digest = blake2b(str(advertisement).encode(), digest_size=DIGEST_BYTES)
        return f"{publisher}/{digest.hexdigest()}"

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._config.client}/{self._ids}"
