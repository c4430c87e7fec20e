"""A broker's machine without sockets, and callers who say to it what they like.

Transactions are safe at once, and what waits for a turn of the event loop goes on at once, so that after each
step everything has been said that is to be said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.machine import Happening
from roost.broker.messages import (
    PROTOCOL_VERSION,
    Advertise,
    Attach,
    AttachRefused,
    Delivery,
    Frame,
    Message,
    Parcel,
    Publication,
    Refused,
    Subscribe,
    priority_of,
)
from roost.broker.permissions import Permission
from roost.language import Event, Value, parse_advertisement, parse_subscription

Attributes = dict[str, Value]


class Desk:
    """A broker's machine, and what it has said on each connection."""

    def __init__(self, *, durable: bool = False, **config: Any) -> None:
        self.store: dict[do.StoreKey, Any] = {}
        self.said: dict[int, list[Parcel]] = {}
        self.config = BrokerConfig(
            broker="B0", incarnation="i", secured=True, durable=durable, **config
        )
        self.reading: list[type[do.Command]] = []  # whom it reads no further, and again
        self._ids = 0
        self.restart()

    def restart(self) -> None:
        """A new life, with what the store has; everybody is away."""
        self.broker = Broker(self.config)
        self.handle(ev.Started(dict(self.store)))

    def handle(self, event: Happening) -> None:
        waiting = self.broker.handle(event, 0.0)
        while waiting:
            command = waiting.pop(0)
            if isinstance(command, do.Send):
                self.said.setdefault(command.connection, []).append(command.parcel)
            elif isinstance(command, do.Deliver):
                for connection, frame in command.frames:
                    self.said.setdefault(connection, []).append(frame)
            elif isinstance(command, do.PauseReading | do.ResumeReading):
                self.reading.append(type(command))
            elif isinstance(command, do.Persist):
                for key, value in command.writes.items():
                    if value is None:
                        self.store.pop(key, None)
                    else:
                        self.store[key] = value
                waiting += self.broker.handle(ev.Persisted(command.token), 0.0)
            elif isinstance(command, do.SetTimer) and command.name.startswith("flow:"):
                waiting += self.broker.handle(ev.TimerFired(command.name), 0.0)


class Caller:
    """One connection to it, of one who has logged in or not."""

    def __init__(self, desk: Desk, permission: Permission | None) -> None:
        desk._ids += 1
        self.desk, self.id = desk, desk._ids
        self.client = ""
        self.sent = [0, 0]
        desk.handle(ev.ConnectionAccepted(self.id))
        if permission is not None:
            self.identify(permission)

    def identify(self, permission: Permission) -> None:
        self.desk.handle(ev.Identified(self.id, permission))

    def put(self, *parcels: Parcel) -> list[Parcel]:
        """What the broker says to it."""
        before = len(self.heard)
        self.desk.handle(ev.Received(self.id, parcels))
        return self.heard[before:]

    def say(self, message: Message) -> list[Parcel]:
        priority = priority_of(message)
        self.sent[priority] += 1
        return self.put(Frame(priority, self.sent[priority], message))

    def attach(
        self,
        client: str,
        session: str = "",
        *,
        resume: bool = False,
        received: Sequence[int] = (0, 0),
        durable: bool = False,
        process: str = "",
    ) -> list[Parcel]:
        self.client = client
        control, data = received
        return self.put(
            Attach(
                PROTOCOL_VERSION,
                client,
                session or client,
                resume,
                control,
                data,
                durable,
                process,
            )
        )

    def subscribe(self, text: str, id_: str = "s") -> list[Parcel]:
        return self.say(Subscribe(id_, parse_subscription(text), ""))

    def advertise(self, text: str, id_: str = "a") -> list[Parcel]:
        return self.say(Advertise(id_, parse_advertisement(text), ""))

    def publish(self, sequence: int, event: Attributes) -> list[Parcel]:
        return self.say(Publication(self.client, sequence, Event(event)))

    def close(self) -> None:
        self.desk.handle(ev.ConnectionClosed(self.id))

    @property
    def heard(self) -> list[Parcel]:
        return self.desk.said.setdefault(self.id, [])

    @property
    def delivered(self) -> list[Attributes]:
        return [dict(d.publication.event.attributes) for d in deliveries(self.heard)]


def messages(parcels: Sequence[Parcel]) -> list[Message]:
    return [parcel.message for parcel in parcels if isinstance(parcel, Frame)]


def deliveries(parcels: Sequence[Parcel]) -> list[Delivery]:
    return [message for message in messages(parcels) if isinstance(message, Delivery)]


def objection(answers: Sequence[Parcel]) -> str:
    """Of the broker to what was asked; "" if it had none."""
    found = [answer.reason for answer in answers if isinstance(answer, AttachRefused)]
    found += [message.reason for message in messages(answers) if isinstance(message, Refused)]
    return found[0] if found else ""
