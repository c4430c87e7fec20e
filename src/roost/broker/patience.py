"""A client that reads is waited for; one that does not is not.

What waits for a client has a bound, behind which its session ends or loses deliveries. Publishers can be so
much faster than anybody who reads that a hundred thousand are reached within a tenth of a second. So from
half of the bound on whoever publishes for a client is read no further, as for a neighbour (`pausing`), until
a quarter is left.

That makes everybody else who gets the same events wait, too, and must cost them little. So

- a client is waited for only while it reads: `READS_S` ago at most it has acknowledged something, or could be
  written to;
- it has `WAIT_S` to come down to a quarter. So nobody slows others down by more than to a quarter of the
  bound in that time;
- if it does not, nobody waits for it until it has come down to a quarter. Then the bound holds as ever.

More than the bound waits only for a client of a durable session that has been away, or was slow: it has a
store, and nobody waits for it.
"""

from __future__ import annotations

from roost.broker.commands import CancelTimer, SetTimer
from roost.broker.hops import Hop, Session
from roost.broker.pausing import Pausing
from roost.broker.work import Work

TIMER = "patience"
READS_S = 0.5
WAIT_S = 1.0


class Patience:
    """For which clients others wait, and for which no more."""

    def __init__(self, work: Work, pausing: Pausing, bound: int, bytes_bound: int) -> None:
        self._work = work
        self._pausing = pausing
        self._bound = bound
        self._half, self._quarter = max(1, bound // 2), bound // 4
        self._half_bytes, self._quarter_bytes = bytes_bound // 2, bytes_bound // 4
        # Since when they have been waited for; None: no more, until a quarter is left.
        self.waited: dict[Session, float | None] = {}

    def is_due(self, session: Session, count: int = 0) -> bool:
        """Whether, with so many more, it has enough for others to wait for it."""
        lane = session.channel.data
        waiting = lane.sent + count - lane.acked
        if waiting < self._half and session.held_bytes < self._half_bytes:
            return False
        if session.connection is None or waiting - count >= self._bound:
            return False
        if session in self.waited:
            return self.waited[session] is not None
        return not session.congested or self._work.now - session.read_at < READS_S

    def wait(self, source: Hop, session: Session) -> None:
        """Read no further from there, for now."""
        if session not in self.waited:
            self.waited[session] = now = self._work.now
            if not session.congested:
                session.read_at = now
            self._set_timer(session)
        self._pausing.block(source, session)

    def heard(self, session: Session) -> None:
        """It has acknowledged something."""
        if session.congested or session in self.waited:
            session.read_at = self._work.now
        lane = session.channel.data
        if (
            session in self.waited
            and lane.sent - lane.acked <= self._quarter
            and session.held_bytes <= self._quarter_bytes
        ):
            self._end(session)
            del self.waited[session]

    def congested(self, session: Session) -> None:
        """Until now it could be written to."""
        session.read_at = self._work.now

    def gone(self, session: Session) -> None:
        """Nobody waits for one that is away; when it is back, it has not been waited for."""
        if session in self.waited:
            self._end(session)
            del self.waited[session]

    def timer(self, name: str) -> None:
        session = next((waited for waited in self.waited if waited.name == name), None)
        since = None if session is None else self.waited[session]
        if session is None or since is None:
            return
        now = self._work.now
        if now - session.read_at < READS_S and now - since < WAIT_S:
            self._set_timer(session)
        else:
            self._end(session)

    def _end(self, session: Session) -> None:
        if self.waited[session] is not None:
            self.waited[session] = None
            self._work.command(CancelTimer(f"{TIMER}:{session.name}"))
            self._pausing.unblock(session)

    def _set_timer(self, session: Session) -> None:
        self._work.command(SetTimer(f"{TIMER}:{session.name}", READS_S))
