"""Stories: the causal history of a publication or a client.

Every command that sends something names what it is about, and why: a control message carries its cause,
a publication is its own. A storybook writes down who said what to whom, and `story` reads out what
concerns one id, directly or as its cause: how an event went from broker to broker, or what followed
from a client's unsubscription, brokers away.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from roost.broker.commands import Record
from roost.broker.messages import (
    Advertise,
    Answer,
    Arrived,
    Delivery,
    Done,
    DrainEcho,
    EndSession,
    Frame,
    HandOver,
    Inquiry,
    Marker,
    MarkerEcho,
    Members,
    Message,
    Migrate,
    MigrationComplete,
    MigrationUpdate,
    Note,
    Parcel,
    Paused,
    PausePlease,
    Probe,
    Probed,
    Publication,
    Redirect,
    Refused,
    Rewire,
    SessionEnded,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wants,
)

CHAPTERS_MAX = 1_000_000


class Chapter(Struct, frozen=True):
    """Somebody said something to somebody."""

    at: float
    who: str
    to: str
    verb: str
    subject: str  # the id of what it is about
    text: str
    cause: str
    hops: int = 0

    def __str__(self) -> str:
        why = f"   ({self.cause})" if self.cause else ""
        text = f"{self.verb} {self.text}".rstrip()
        return f"{self.at:10.3f}  {self.who:>6} -> {self.to:<6}  {text}{why}"

    def concerns(self, id_: str) -> bool:
        """Whether it is about this publication, request or client, or follows from it."""
        return (
            id_ in (self.subject, self.who, self.to)
            or self.subject.startswith((f"{id_}/", f"{id_}:"))
            or id_ in self.cause.split()
        )


class Storybook:
    """What was said, the oldest forgotten first."""

    def __init__(self, chapters_max: int = CHAPTERS_MAX) -> None:
        self.chapters: deque[Chapter] = deque(maxlen=chapters_max)

    def said(self, at: float, who: str, to: str, parcel: Parcel) -> None:
        """Somebody put a parcel on a connection. Greetings and acknowledgements are no story."""
        if type(parcel) is Frame:
            verb, subject, text, cause = describe(parcel.message)
            self.chapters.append(Chapter(at, who, to, verb, subject, text, cause, parcel.hops))

    def decided(self, at: float, who: str, record: Record) -> None:
        d = record.decision
        text = f"{d.kind}: {d.subject} -> {d.choice}"
        self.chapters.append(Chapter(at, who, who, "decides", d.subject, text, d.cause))

    def story(self, id_: str) -> list[Chapter]:
        """What concerns a publication (`P1:17`), a client (`S3`) or a request (`S3/1`), in order."""
        return [chapter for chapter in self.chapters if chapter.concerns(id_)]


def describe(message: Message) -> tuple[str, str, str, str]:
    """(verb, id of what it is about, words, cause)"""
    match message:
        case Publication():
            return "publish", message.id, f"{message.id} {message.event}", ""
        case Delivery(publication=publication):
            ids = " ".join(message.subscriptions)
            return "deliver", publication.id, f"{publication.id} for {ids}", ""
        case Subscribe():
            text = f"{message.id} {message.subscription}"
            return "subscribe", message.id, text, message.cause
        case Advertise():
            text = f"{message.id} {message.advertisement}"
            return "advertise", message.id, text, message.cause
        case Unsubscribe():
            return "unsubscribe", message.id, message.id, message.cause
        case Unadvertise():
            return "unadvertise", message.id, message.id, message.cause
        case Marker():
            return "mark", message.id, message.id, message.cause
        case MarkerEcho() | DrainEcho():
            return "echo", message.id, message.id, message.cause
        case Inquiry():
            return "inquire", "", str(message.number), message.cause
        case Answer():
            return "answer", "", str(message.number), message.cause
        case Members():
            names = f"{' '.join(message.added)} {'not ' if message.gone else ''}{' '.join(message.gone)}"
            return "members", "", names.strip(), ""
        case Wants(path=path):
            text = f"everything, for one behind {' '.join(path)}" if path else "what was asked for"
            return "want", "", text, message.cause
        case MigrationUpdate() | MigrationComplete():
            done = "migrated" if isinstance(message, MigrationComplete) else "migrates"
            return done, message.advertisements[0], message.client, message.cause
        case Migrate():
            ids = " ".join(message.advertisements)
            return "migrate", message.advertisements[0], ids, message.cause
        case PausePlease():
            return "pause", "", "please", message.cause
        case Paused():
            return "paused", "", "", message.cause
        case HandOver():
            return "hand over", "", "session", message.cause
        case Note():
            return "note", message.module, message.module, message.cause
        case Rewire():
            return (
                "rewire",
                message.step,
                f"{message.step}: {' '.join(message.brokers)}",
                message.cause,
            )
        case Probe():
            return "probe", "", " ".join(message.brokers), ""
        case Arrived():
            return "arrived", "", "", message.cause
        case Done():
            return "done", "", ", ".join(f"{first} to {last}" for first, last in message.spans), ""
        case Probed():
            return "probed", "", " ".join(message.brokers), ""
        case Redirect():
            return "redirect", message.address, f"to {message.address}", message.cause
        case Refused():
            return "refuse", message.request, f"{message.request}: {message.reason}", ""
        case EndSession():
            return "end", "", "session", message.cause
        case SessionEnded():
            return "ended", "", f"session: {message.reason}", ""
        case _:
            return type(message).__name__.lower(), "", "", ""
