"""Records of a broker that begins anew, one kind at a time: what stays, and what goes with its session.

`going` is a session that goes, `staying` a durable one. Names of links may be those of sessions.
"""

from __future__ import annotations

from typing import Any

import pytest

from roost.broker.commands import StoreKey
from roost.broker.sessions import RESTORED
from roost.language import parse_advertisement, parse_subscription
from roost.runtime.store_anew import begin_anew

SUBSCRIPTION = parse_subscription("a present")
ADVERTISEMENT = parse_advertisement("a present")
SESSIONS: dict[StoreKey, Any] = {
    ("session", "going"): ("ann", False, False, "", ""),
    ("session", "staying"): ("bob", False, True, "process", "bob"),
    ("link", "going"): (True, "", "", 0),
    ("sub", "g/1"): ("session", "going", SUBSCRIPTION, 0),
    ("sub", "s/1"): ("session", "staying", SUBSCRIPTION, 0),
    ("sub", "l/1"): ("link", "going", SUBSCRIPTION, 0),
    ("adv", "g/2"): ("session", "going", ADVERTISEMENT, 1),
    ("adv", "l/2"): ("link", "going", ADVERTISEMENT, 1),
}


@pytest.mark.parametrize(
    ("key", "value", "goes"),
    [
        # An advertisement that is about to come from elsewhere: its id, and from where.
        (("next", "l/2"), ("session", "going", 0), True),
        (("next", "l/2"), ("session", "staying", 0), False),
        (("next", "l/2"), ("link", "going", 0), False),
        (("next", "g/2"), ("link", "going", 0), True),
        (("spare", "sub", "l/1", "session", "going"), (SUBSCRIPTION, 0), True),
        (("spare", "sub", "l/1", "session", "staying"), (SUBSCRIPTION, 0), False),
        (("spare", "sub", "s/1", "link", "going"), (SUBSCRIPTION, 0), False),
        (("told", "going", "sub", "g/1"), 0, True),
        (("told", "going", "sub", "s/1"), 0, False),
        (("told", "going", "adv", "g/2"), 3, True),
        (("told", "going", "adv", "l/2"), 3, False),
        (("published", "going"), ("ann", 3), True),
        (("published", "staying"), ("bob", 3), False),
        (("sent", "session", "going", 1), 3, True),
        (("sent", "session", "staying", 1), 3, False),
        (("sent", "link", "going", 1), 3, False),
        (("drains",), 3, False),
    ],
)
def test_what_goes_with_a_session(key: StoreKey, value: Any, goes: bool) -> None:
    without = begin_anew(SESSIONS).writes
    writes = begin_anew({**SESSIONS, key: value}).writes
    assert writes.keys() - without.keys() == ({key} if goes else set())
    assert writes.get(key) is None


def test_a_session_that_stays_is_nobody_s_and_else_what_it_was() -> None:
    record = begin_anew(SESSIONS).writes["session", "staying"]
    client, ending, durable, process, *later = record
    assert process.startswith(RESTORED)
    assert (client, ending, durable, *later) == ("bob", False, True, "bob")


def test_what_goes_of_all_these() -> None:
    anew = begin_anew(SESSIONS)
    gone = {key for key, value in anew.writes.items() if value is None}
    assert gone == {("session", "going"), ("sub", "g/1"), ("adv", "g/2")}
    assert (anew.durable, anew.others, anew.links) == (1, 1, 1)
    assert (anew.subscriptions, anew.advertisements) == (1, 0)
