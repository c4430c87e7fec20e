"""The work in hand: the event that is handled, what it changes, and what is to be done about it.

Handling an event changes state in memory at once. With a store, the changes are one transaction (see
`journal`), and all that the machine wants to say waits until that and every earlier one is safe. A crash
takes back a transaction together with everything it would have said; the peers, who have had no
acknowledgement, send again.
"""

from __future__ import annotations

from collections import deque

from roost.broker.channel import Lane
from roost.broker.commands import (
    CancelTimer,
    Command,
    Deliver,
    OpenLink,
    PauseReading,
    Persist,
    Report,
    ResumeReading,
    Send,
    SendRun,
    SetTimer,
    Superseded,
)
from roost.broker.journal import Journal
from roost.broker.messages import DATA, Frame

# What the driver does without waiting for the store: nobody outside sees it.
AT_ONCE = frozenset(
    (SetTimer, CancelTimer, OpenLink, Report, Superseded, PauseReading, ResumeReading)
)


class Work:
    """What one event leads to. `commands` are those of the event in hand."""

    __slots__ = ("_held", "_token", "commands", "journal", "now")

    def __init__(self, *, durable: bool) -> None:
        self.journal = Journal() if durable else None
        self.commands: list[Command] = []
        self.now = 0.0
        self._token = 0
        self._held: deque[tuple[int, list[Command]]] = deque()

    def begin(self, now: float) -> None:
        self.commands = []
        self.now = now

    def command(self, command: Command) -> None:
        """Have the driver do something."""
        self.commands.append(command)

    def commit(self) -> list[Command]:
        """What is to be done now: what the event says waits for its transaction, and for those before."""
        if self.journal is None:
            return self.commands
        writes = self.journal.take()
        if not writes and not self._held:
            return self.commands
        at_once: list[Command] = [c for c in self.commands if type(c) in AT_ONCE]
        waiting = [c for c in self.commands if type(c) not in AT_ONCE]
        if not writes:
            self._held[-1][1].extend(waiting)
            return at_once
        self._token += 1
        self._held.append((self._token, waiting))
        return [*at_once, Persist(self._token, writes)]

    def released(self, token: int) -> list[Command]:
        """What has waited for the transactions up to this one."""
        released: list[Command] = []
        while self._held and self._held[0][0] <= token:
            released.extend(self._held.popleft()[1])
        return released

    @property
    def waits(self) -> bool:
        """Whether anything is held back until a transaction is safe."""
        return bool(self._held)

    def say_instead(self, connection: int, lane: Lane) -> None:
        """Messages of a lane have been replaced: so they are in what waits for the store to be said."""
        now_says = {frame.sequence: frame for frame in lane.outbox}
        for _, held in self._held:
            commands: list[Command] = []
            for command in held:
                if type(command) is Deliver:
                    others = [pair for pair in command.frames if pair[0] != connection]
                    ours = [frame for id_, frame in command.frames if id_ == connection]
                    commands.append(Deliver(command.publication, others))
                    commands += [Send(connection, now_says.get(f.sequence, f)) for f in ours]
                elif type(command) is Send and command.connection == connection:
                    parcel = command.parcel
                    if type(parcel) is Frame and parcel.priority == DATA:
                        parcel = now_says.get(parcel.sequence, parcel)
                    commands.append(Send(connection, parcel))
                elif type(command) is SendRun and command.connection == connection:
                    frames = command.run.frames()
                    commands += [Send(connection, now_says.get(f.sequence, f)) for f in frames]
                else:
                    commands.append(command)
            held[:] = commands
