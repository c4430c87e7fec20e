"""What outlives a process: what its session is called, and where it is.

A durable subscription and an outbox are sessions that another process goes on with. So both processes have to
come to the same name from the same words, and to the same broker: the first of those that they know. An
entry point would send each of them somewhere else.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from roost.client.url import Target

SUBSCRIPTION_NAME_MAX = 256
# Names of clients go to 300 characters, with the user's in front and a word of the process behind.
OUTBOX_NAME_MAX = 200


class Lasting(NamedTuple):
    """What a session that outlives its process is called at its broker."""

    client: str
    session: str


def lasting_subscription(target: Target, name: str) -> Lasting:
    """Of the durable subscription of this name; ValueError if it can't be called that."""
    return _lasting(target, name, "durable", SUBSCRIPTION_NAME_MAX, "durable is")


def lasting_outbox(target: Target, name: str) -> Lasting:
    """Of the outbox of this name; the same."""
    return _lasting(target, name, "outbox", OUTBOX_NAME_MAX, "the outbox is called")


def _lasting(target: Target, name: str, kind: str, length_max: int, what: str) -> Lasting:
    if not name or len(name) > length_max or not name.isprintable():
        expected = f"expected 1 to {length_max} visible characters"
        raise ValueError(f"{what} {name[:80]!r}; {expected}")
    user = target.user
    session = f"{user}~{kind}/{name}" if user else f"{kind}/{name}"
    return Lasting(f"{user or kind}~{name}", session)


def home_of(target: Target) -> Target:
    """Only the first broker of a target, itself."""
    return replace(target, addresses=target.addresses[:1], entry="")
