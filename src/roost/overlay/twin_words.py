"""What the two of a pair say to each other, what happens to one of them, and what it wants done.

See `twin` for what it all means. A *batch* is what one commit writes, in whatever form the driver keeps it:
the machine only passes it on.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct


class Membership(Struct, frozen=True, array_like=True):
    """Who belongs to the pair: the record that each of the two has in its store."""

    epoch: int  # of each that there ever was: higher ones are later
    leader: str  # the store whose node speaks
    pair: bool  # the other one has all that was said; else the leader is alone, or we are out


class Position(Struct, frozen=True, array_like=True):
    """How far a store has come: its last transaction, by who wrote it and its number.

    A *run* is one time that one node has been the broker. Numbers go on from run to run; but a run that
    was cut short may have written some that the next one gives again.
    """

    run: str = ""
    number: int = 0


# --- messages -------------------------------------------------------------------------------------------


class Hello(Struct, frozen=True, tag="hello"):
    """The first word of each."""

    broker: str
    node: str  # its store
    membership: Membership | None
    position: Position
    serves: bool  # it is the broker just now
    alone: bool  # the two settings that both must have alike
    witness: str
    address: str = ""  # where clients find it, when it is the broker


class Refusal(Struct, frozen=True, tag="refusal"):
    """Not with you, and why."""

    reason: str


class Follow(Struct, frozen=True, tag="follow"):
    """The leader to the other: you are the standby. What you lack comes next, all of it or the rest."""

    membership: Membership
    whole: bool


class Part(Struct, frozen=True, tag="part"):
    """Some of the records of a snapshot."""

    batch: Any


class Whole(Struct, frozen=True, tag="whole"):
    """That was all, up to this transaction. `membership`: of a member, which it stays."""

    position: Position
    membership: Membership | None


class Ship(Struct, frozen=True, tag="ship"):
    """What a commit writes, up to this transaction."""

    run: str
    number: int
    batch: Any


class Stored(Struct, frozen=True, tag="stored"):
    """All up to this transaction is on the disk here, too."""

    number: int


class Join(Struct, frozen=True, tag="join"):
    """You have all: from now on nothing is said that you do not have."""

    membership: Membership


class Joined(Struct, frozen=True, tag="joined"):
    epoch: int


class Beat(Struct, frozen=True, tag="beat"):
    """I am there."""


class Please(Struct, frozen=True, tag="please"):
    """The standby is to be the broker: stop, and say when you have."""


class Yield(Struct, frozen=True, tag="yield"):
    """I am not the broker any more: go on. The last transaction that anybody may have heard of is this."""

    epoch: int
    number: int


Word: TypeAlias = (
    Hello | Refusal | Follow | Part | Whole | Ship | Stored | Join | Joined | Beat | Please | Yield
)

# --- what happens ---------------------------------------------------------------------------------------


class Opened(Struct, frozen=True):
    """There is a connection with the other."""


class Closed(Struct, frozen=True):
    reason: str = ""


class Heard(Struct, frozen=True):
    word: Word


class Ticked(Struct, frozen=True):
    """Again and again, every `beat_s`."""


class Began(Struct, frozen=True):
    """It is the broker, as `Serve` asked for: this run, from where the store was."""

    run: str
    position: Position


class Wrote(Struct, frozen=True):
    """The broker commits this."""

    number: int
    batch: Any
    size: int = 0


class Safe(Struct, frozen=True):
    """It is on the disk of the leader."""

    number: int


class Kept(Struct, frozen=True):
    """What `Keep` or `Adopt` asked for is on the disk of the standby."""

    position: Position


class Noted(Struct, frozen=True):
    membership: Membership


class SnapshotRead(Struct, frozen=True):
    """All parts of a snapshot have been said: it was the state after this transaction."""

    position: Position


class Stopped(Struct, frozen=True):
    """What `Quit` asked for is done: nothing more is said."""

    position: Position


class Witnessed(Struct, frozen=True):
    """The witness has answered; not `granted`: somebody else has that epoch, or a later one."""

    epoch: int  # that was asked for
    granted: bool


class Wanted(Struct, frozen=True):
    """An operator wants this one to be the broker; with `force`, whatever the other may know."""

    force: bool = False


class Superseded(Struct, frozen=True):
    """A neighbour or a client knows of a later epoch."""

    epoch: int


Happening: TypeAlias = (
    Opened
    | Closed
    | Heard
    | Ticked
    | Began
    | Wrote
    | Safe
    | Kept
    | Noted
    | SnapshotRead
    | Stopped
    | Witnessed
    | Wanted
    | Superseded
)

# --- what is wanted -------------------------------------------------------------------------------------


class Say(Struct, frozen=True):
    word: Word


class HangUp(Struct, frozen=True):
    reason: str


class Note(Struct, frozen=True):
    """Make it durable: `Noted`."""

    membership: Membership


class Serve(Struct, frozen=True):
    """Be the broker, in this epoch, with what is in the store."""

    membership: Membership


class Quit(Struct, frozen=True):
    """Be it no longer, at once and without a word: `Stopped`."""

    reason: str


class Promoted(Struct, frozen=True):
    """The broker goes on in a later epoch."""

    epoch: int


class Release(Struct, frozen=True):
    """What has waited for transactions up to this one may be said."""

    number: int


class SendSnapshot(Struct, frozen=True):
    """Say all records as parts: `SnapshotRead`."""


class Clear(Struct, frozen=True):
    """Parts come: they are a store of their own, until `Adopt`."""


class Load(Struct, frozen=True):
    batch: Any


class Adopt(Struct, frozen=True):
    """The parts are the store from now on, with this membership in it: `Kept`."""

    position: Position
    membership: Membership | None


class Keep(Struct, frozen=True):
    """Write this to the store: `Kept`."""

    position: Position
    batch: Any


class AskWitness(Struct, frozen=True):
    """May we have this epoch? `Witnessed`, or nothing."""

    epoch: int


class Tell(Struct, frozen=True):
    """For operators."""

    level: str
    what: str
    detail: str


Command: TypeAlias = (
    Say
    | HangUp
    | Note
    | Serve
    | Quit
    | Promoted
    | Release
    | SendSnapshot
    | Clear
    | Load
    | Adopt
    | Keep
    | AskWitness
    | Tell
)
