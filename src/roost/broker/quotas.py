"""How much one user may have at a broker, so that it can't take it from the others.

A *user* is a principal; where nobody has to log in, whoever is there under one name of a client. What is
counted is what a user leaves behind, not what it does: sessions, subscriptions, and the bytes that wait for
it while it is away or does not read. Brokers of the federation and administrators are not counted.

The bytes of a session are estimated: the deliveries that wait, by the usual size of those that came last.
Most of them are in the store only, where to measure them would cost more than they do.
"""

from __future__ import annotations

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

    def begun(self, session: Session) -> None:
        self._sessions.setdefault(session.owner, {})[session] = None

    def over(self, session: Session) -> None:
        theirs = self._sessions[session.owner]
        del theirs[session]
        if not theirs:
            del self._sessions[session.owner]

    def objection_to_session(self, client: str, permission: Permission | None) -> str:
        """To one more session."""
        if _is_privileged(permission):
            return ""
        owner = owner_of(client, permission)
        bound = self._config.user_sessions_max
        if len(self._sessions.get(owner, ())) < bound:
            return ""
        return f"{owner!r} has {bound:,} sessions here already"

    def objection_to_subscription(self, session: Session) -> str:
        """To one more subscription of a session."""
        if len(session.subscriptions) >= self._config.subscriptions_max:
            return f"a session has at most {self._config.subscriptions_max:,} subscriptions"
        bound = self._config.user_subscriptions_max
        if _is_privileged(session.permission) or len(session.subscriptions) < LOOK_EVERY:
            return ""
        if sum(len(theirs.subscriptions) for theirs in self._sessions[session.owner]) < bound:
            return ""
        return f"{session.owner!r} has {bound:,} subscriptions here already"

    def objection_to_keeping(self, session: Session, size: int) -> str:
        """To keeping one more delivery, of that many bytes, in the store for somebody who is behind."""
        session.usual_bytes += (size - session.usual_bytes) / LOOK_EVERY
        bound = self._config.user_kept_bytes_max
        if not bound or session.channel.data.sent % LOOK_EVERY:
            return ""
        kept = [theirs.kept_bytes for theirs in self._sessions[session.owner]]
        if sum(kept) <= bound or _is_privileged(session.permission):
            return ""
        if session.kept_bytes < max(kept):
            return ""  # another one's turn will come
        return f"more than {bound:,} bytes wait for {session.owner!r}"


def owner_of(client: str, permission: Permission | None) -> str:
    """The user that a client counts for."""
    return client if permission is None else permission.principal


def _is_privileged(permission: Permission | None) -> bool:
    return permission is not None and (permission.link or permission.administer)
