"""Makes of the state of a broker one that begins anew: for a store that is older than what others know.

A backup that was restored, or a store without its last commits, is a good state of the past. But the broker
has said things since that its neighbours and clients remember: numbers that were given, acknowledgements. If
it went on as if nothing had been, numbers would be given twice and messages passed over that nobody has had.
So nobody may take it for the one it was:

    neighbours        Without its incarnation the broker takes a new one. Both ends of a link then forget what
                      they knew, tell each other all anew, and send again the events that had not arrived for
                      certain; the numbers of publishers tell which are there already (`broker.linking`).
    durable sessions  stay, with what they subscribe to and what waits for them. The process that had one
                      can't go on with its numbers, so nobody has it (`RESTORED`): the next one takes it over.
    other sessions    go. Their clients are told that nobody knows them, and say again what they want; what
                      waited for them is lost.

Deliveries that a durable client had handled since come to it again. What was accepted since is lost, unless
somebody else has it.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from roost.broker.commands import StoreKey
from roost.broker.messages import DATA, Publication
from roost.broker.runs import Run
from roost.broker.sessions import RESTORED

_CHANNELS: Final = ("out", "run", "acked", "sent", "received")
_CLIENT, _ENDING, _DURABLE, _PROCESS = range(4)  # of the record of a session; there may be more


class Anew(Struct, frozen=True):
    """What is to be written; and what that means, in numbers."""

    writes: dict[StoreKey, Any]
    durable: int  # sessions that stay
    outboxes: int  # of those
    waiting: int  # deliveries for those
    subscriptions: int  # of those; others are told anew
    advertisements: int
    others: int  # sessions that go
    lost: int  # deliveries for those
    links: int
    sent_again: int  # events that wait for neighbours


def begin_anew(records: Mapping[StoreKey, Any]) -> Anew:
    """What is to be written so that the broker of these records begins anew."""
    writes: dict[StoreKey, Any] = {}
    if ("incarnation",) in records:
        writes[("incarnation",)] = None
    durable: set[str | int] = set()
    others: set[str | int] = set()
    for key, value in records.items():
        if key[0] != "session":
            continue
        if value[_DURABLE]:
            durable.add(key[1])
            process = RESTORED + secrets.token_hex(8)
            writes[key] = (*value[:_PROCESS], process, *value[_PROCESS + 1 :])
        else:
            others.add(key[1])
            writes[key] = None
    counts: Counter[str] = Counter()
    gone = _of_others(records, others)
    for key, value in records.items():
        kind = str(key[0])
        if kind in _CHANNELS:
            if key[1] == "session" and key[2] in others:
                writes[key] = None
            if kind in ("out", "run"):
                counts[_waits(key, value, others)] += len(numbers_of(records, key))
        elif kind in ("sub", "adv"):
            if key[1] in gone[kind]:
                writes[key] = None
            elif value[0] == "session":
                counts[kind] += 1
        elif (
            (kind == "published" and key[1] in others)
            or (kind == "told" and key[3] in gone[str(key[2])])
            or (kind == "spare" and key[3] == "session" and key[4] in others)
            or (kind == "next" and key[1] in gone["adv"])
            or (kind == "next" and value[0] == "session" and value[1] in others)
        ):
            writes[key] = None
    return Anew(
        writes=writes,
        durable=len(durable),
        outboxes=sum(("published", name) in records for name in durable),
        waiting=counts["waiting"],
        subscriptions=counts["sub"],
        advertisements=counts["adv"],
        others=len(others),
        lost=counts["lost"],
        links=sum(key[0] == "link" for key in records),
        sent_again=counts["sent again"],
    )


def _of_others(
    records: Mapping[StoreKey, Any], others: set[str | int]
) -> dict[str, set[str | int]]:
    """The ids of what those sessions subscribe to and advertise."""
    return {
        kind: {
            key[1]
            for key, value in records.items()
            if key[0] == kind and value[0] == "session" and value[1] in others
        }
        for kind in ("sub", "adv")
    }


def numbers_of(records: Mapping[StoreKey, Any], key: StoreKey) -> range:
    """The numbers of the messages of a record that have not arrived (see `broker.kept`)."""
    value, (_, *lane, number) = records[key], key
    if not isinstance(value, Run):
        # One that was replaced while it waited stands in a run, too.
        return range(int(number), int(number) + 1)
    return range(max(value.first, records.get(("acked", *lane), 0) + 1), value.last + 1)


def _waits(key: StoreKey, value: Any, others: set[str | int]) -> str:
    """What becomes of what waits in a channel."""
    _, kind, name, lane, _ = key
    if kind == "link":
        is_event = isinstance(value, Run) or isinstance(value[0], Publication)
        return "sent again" if is_event else "told anew"
    if lane != DATA:
        return "told anew"
    return "lost" if name in others else "waiting"
