"""How much one user may have at a broker, so that it can't take it from the others.

A *user* is a principal; where nobody has to log in, whoever is there under one name of a client. What is
counted is what a user leaves behind, not what it does: sessions, subscriptions, and the bytes that wait for
it while it is away or does not read. Brokers of the federation and administrators are not counted.

The bytes of a session are those of all deliveries that wait for it (`backlog`). They are counted where
nothing else bounds them: for durable sessions of a broker with a store.
"""

from __future__ import annotations

from collections.abc import Iterator

from roost.broker.config import BrokerConfig
from roost.broker.hops import Session
from roost.broker.permissions import Permission

# The bytes of all sessions of a user are added up only so often: once in so many deliveries to one of them.
LOOK_EVERY = 64


class Quotas:
    """What users have, and what of it is too much. An answer is "" or the objection, in words for the
    user."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._sessions: dict[str, dict[Session, None]] = {}  # by owner
        # What each may have by now, at most: interests, and bytes that were kept since they were added up.
        self._interests: dict[str, int] = {}
        self._unlooked: dict[str, int] = {}

    def begun(self, session: Session) -> None:
        self._sessions.setdefault(session.owner, {})[session] = None

    def over(self, session: Session) -> None:
        theirs = self._sessions[session.owner]
        del theirs[session]
        if not theirs:
            del self._sessions[session.owner]
            self._interests.pop(session.owner, None)
            self._unlooked.pop(session.owner, None)

    def has(self, session: Session) -> bool:
        """Whether its user has another session of the same client."""
        return any(True for _ in self.others(session))

    def others(self, session: Session) -> Iterator[Session]:
        """The other sessions of the same client."""
        theirs = self._sessions.get(session.owner, ())
        return (x for x in theirs if x is not session and x.client == session.client)

    def objection_to_session(self, client: str, permission: Permission | None) -> str:
        """To one more session."""
        if _is_privileged(permission):
            return ""
        owner = owner_of(client, permission)
        bound = self._config.quotas.sessions
        if len(self._sessions.get(owner, ())) < bound:
            return ""
        return f"{owner!r} has {bound:,} sessions here already"

    def objection_to_subscription(self, session: Session) -> str:
        """To one more subscription of a session."""
        if len(session.subscriptions) >= self._config.subscriptions_max:
            return f"a session has at most {self._config.subscriptions_max:,} subscriptions"
        return self._objection_to_interest(session)

    def objection_to_advertisement(self, session: Session) -> str:
        """To one more advertisement: they count like subscriptions, and cost the same."""
        if len(session.advertisements) >= self._config.subscriptions_max:
            return f"a session has at most {self._config.subscriptions_max:,} advertisements"
        return self._objection_to_interest(session)

    def _objection_to_interest(self, session: Session) -> str:
        if _is_privileged(session.permission):
            return ""
        owner, bound = session.owner, self._config.quotas.subscriptions
        count = self._interests.get(owner, 0) + 1
        if count > bound:  # some may have been withdrawn since
            theirs = self._sessions[owner]
            count = 1 + sum(len(s.subscriptions) + len(s.advertisements) for s in theirs)
        if count > bound:
            return f"{owner!r} has {bound:,} subscriptions here already"
        self._interests[owner] = count
        return ""

    def needs_a_look(self, session: Session, size: int) -> bool:
        """Whether there may be an objection to keeping that many bytes more."""
        bound = self._config.quotas.kept_bytes
        return bound > 0 and (self._unlooked.get(session.owner, 0) + size) * LOOK_EVERY >= bound

    def keeps(self, session: Session, size: int) -> None:
        """So many bytes more are kept for it."""
        if self._config.quotas.kept_bytes:
            self._unlooked[session.owner] = self._unlooked.get(session.owner, 0) + size

    def objection_to_keeping(self, session: Session, size: int) -> str:
        """To keeping one more delivery, of that many bytes, in the store for somebody who is behind."""
        look = self.needs_a_look(session, size)
        self.keeps(session, size)
        if not look:
            return ""
        owner, bound = session.owner, self._config.quotas.kept_bytes
        kept = [theirs.kept_bytes for theirs in self._sessions[owner]]
        if sum(kept) + size <= bound or _is_privileged(session.permission):
            self._unlooked[owner] = 0
            return ""
        if (session.kept_bytes + size) * len(kept) < sum(kept) + size:
            return ""  # a larger one's turn will come
        return f"more than {bound:,} bytes wait for {session.owner!r}"


def owner_of(client: str, permission: Permission | None) -> str:
    """The user that a client counts for."""
    return client if permission is None else permission.principal


def _is_privileged(permission: Permission | None) -> bool:
    return permission is not None and (permission.link or permission.administer)
