"""The load-balancing states of a broker and of a cluster (001 figures 3.3a and 3.3b).

The figures are missing from the text; these are the transitions that sections 3.3.1 to 3.4.3 describe. What
is not in a table is no transition: the state stays.

    OK            may ask, and be asked
    BUSY          in a session
    N/A           overloaded: may ask, and accepts nothing
    STABILIZING   a session is over, and its effects are not yet to be seen in full

A broker:

    state         overloaded   relieved      begun   ended         stable
    OK            N/A                        BUSY
    N/A                        OK            BUSY
    BUSY                                             STABILIZING
    STABILIZING   N/A                        BUSY                  OK

A broker that was in a session since it last was stable goes from N/A back to STABILIZING, not to OK: after
1,400 s of its experiment the thesis' B1 does (5.2.1.1). A broker that stabilises begins a session only if it
is overloaded, or if it does not refuse requests (`stabilising_refuses`).

A cluster is N/A as long as one of its edge-brokers is, and knows no STABILIZING.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Status(StrEnum):
    """What a PIE says of its broker or cluster."""

    OK = "OK"
    BUSY = "BUSY"
    NOT_AVAILABLE = "N/A"
    STABILIZING = "STABILIZING"


class Cue(StrEnum):
    """What has happened to a broker or a cluster."""

    OVERLOADED = "overloaded"  # a ratio is above the lower overload threshold
    RELIEVED = "relieved"  # none is any more
    RELIEVED_UNSTABLE = (
        "relieved, unstable"  # none is, and it has not been stable since its last session
    )
    BEGUN = "begun"  # a session
    ENDED = "ended"  # a session
    ENDED_EMPTY = "ended, empty"  # a session that moved nobody, and need not be waited for
    STABLE = "stable"


Transitions = Mapping[Status, Mapping[Cue, Status]]

BROKER: Transitions = {
    Status.OK: {Cue.OVERLOADED: Status.NOT_AVAILABLE, Cue.BEGUN: Status.BUSY},
    Status.NOT_AVAILABLE: {
        Cue.RELIEVED: Status.OK,
        Cue.RELIEVED_UNSTABLE: Status.STABILIZING,
        Cue.BEGUN: Status.BUSY,
    },
    Status.BUSY: {Cue.ENDED: Status.STABILIZING, Cue.ENDED_EMPTY: Status.OK},
    Status.STABILIZING: {
        Cue.OVERLOADED: Status.NOT_AVAILABLE,
        Cue.BEGUN: Status.BUSY,
        Cue.STABLE: Status.OK,
    },
}

CLUSTER: Transitions = {
    Status.OK: {Cue.OVERLOADED: Status.NOT_AVAILABLE, Cue.BEGUN: Status.BUSY},
    Status.NOT_AVAILABLE: {Cue.RELIEVED: Status.OK, Cue.BEGUN: Status.BUSY},
    Status.BUSY: {Cue.ENDED: Status.OK, Cue.ENDED_EMPTY: Status.OK},
}


def after(transitions: Transitions, status: Status, cue: Cue) -> Status:
    """The state that follows; the same if this is nothing to it.

    >>> after(BROKER, Status.OK, Cue.BEGUN)
    <Status.BUSY: 'BUSY'>
    """
    return transitions[status].get(cue, status)
