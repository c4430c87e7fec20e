"""Where to connect, and as whom: addresses as URLs.

    roost://host:7411                   one broker
    roost://h1:7411,h2:7411             any of these, tried in turn
    roosts://host:7411                  with TLS
    roost://user:token@host             who is calling; special characters as %XX
    roost+entry://h1,h2                 brokers that say where to connect, in turn; roosts+entry:// with TLS
    roost+entry://h1?by=load            ... to those with the fewest clients; by=near: to the nearest
    memory://  memory://name            a broker inside this process, one a name and event loop

What a URL leaves out comes from the environment (ROOST_URL, ROOST_USER, ROOST_TOKEN), then from defaults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

from msgspec import Struct

from roost.client.errors import ClientError

DEFAULT_URL = "roost://127.0.0.1:7411"
DEFAULT_PORT = 7411
# As `roost.entry.directory` has them, which clients do without.
ENTRY_POLICIES = ("turn", "load", "near")

_shape = re.compile(
    r"(?P<scheme>roosts?(?:\+entry)?|memory)://(?:(?P<who>[^@/]*)@)?(?P<hosts>[^@/?#]*)/?"
    r"(?:\?by=(?P<by>[a-z]*))?",
    re.ASCII,
).fullmatch
_host_and_port = re.compile(
    r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\s:\[\]]+))(?::(?P<port>[0-9]{1,5}))?"
).fullmatch


class BadUrl(ClientError, ValueError):  # noqa: N818  # as the others are called
    """A URL that says no place to connect to."""


class Target(Struct, frozen=True, kw_only=True):
    """What a URL says."""

    url: str  # for messages: without the token
    addresses: tuple[tuple[str, int], ...] = ()
    tls: bool = False
    entry: str = ""  # by what those who are there are to say where to go; "": they are the brokers
    memory: str | None = None  # the name of a broker in this process
    user: str = ""
    token: str = ""

    def __repr__(self) -> str:
        """Without the token: targets get logged."""
        return f"Target({self.url!r})"


def target_of(
    url: str | None = None,
    user: str | None = None,
    token: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Target:
    """What the URL, the arguments and the environment say together; an argument goes before the rest.

    >>> target_of("roost://h1,h2:7500").addresses
    (('h1', 7411), ('h2', 7500))
    """
    if url == "":
        raise _bad(url, "roost://host:7411; without any (None) it is ROOST_URL, or this machine")
    text = url or environment.get("ROOST_URL") or DEFAULT_URL
    found = _shape(text)
    if not found:
        raise _bad(text, "roost://host:7411, roosts://host:7411 or memory://name")
    entry = _entry_of(text, found["scheme"], found["by"])
    who, colon, secret = (found["who"] or "").partition(":")
    user = user or unquote(who) or environment.get("ROOST_USER", "")
    token = token or (unquote(secret) if colon else "") or environment.get("ROOST_TOKEN", "")
    if token and not user:
        raise ClientError("there is a token, and no user; expected both (--user, ROOST_USER)")
    shown = f"{found['scheme']}://{found['hosts']}" + (f"?by={found['by']}" if found["by"] else "")
    if found["scheme"] == "memory":
        return Target(url=shown, memory=found["hosts"], user=user, token=token)
    return Target(
        url=shown,
        addresses=tuple(_address(text, part) for part in found["hosts"].split(",")),
        tls=found["scheme"].startswith("roosts"),
        entry=entry,
        user=user,
        token=token,
    )


def _entry_of(text: str, scheme: str, by: str | None) -> str:
    if by is not None and not scheme.endswith("+entry"):
        raise _bad(text, "roost+entry:// where ?by= says which broker to go to")
    if by is not None and by not in ENTRY_POLICIES:
        raise _bad(text, f"?by= with {', '.join(ENTRY_POLICIES)}")
    return (by or ENTRY_POLICIES[0]) if scheme.endswith("+entry") else ""


def address_of(text: str) -> tuple[str, int] | None:
    """`host:port`, `host` or `[::1]:port`; None if it is none of these."""
    found = _host_and_port(text)
    if not found:
        return None
    port = int(found["port"] or DEFAULT_PORT)
    return (found["six"] or found["host"], port) if 0 < port < 65_536 else None


def shown(address: tuple[str, int]) -> str:
    """An address as a message shows it.

    >>> shown(("::1", 7411))
    '[::1]:7411'
    """
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(url: str, part: str) -> tuple[str, int]:
    address = address_of(part)
    if address is None:
        raise _bad(url, f"host:port, with a port from 1 to 65535, where {part[:80]!r} stands")
    return address


def _bad(url: str, expected: str) -> BadUrl:
    """Whatever stands before an @ may be a secret, and stays out of messages."""
    before, at, _ = url.rpartition("@")
    if at:
        url = f"{before.partition('://')[0]}://...@{url.rpartition('@')[2]}"
    return BadUrl(f"the URL is {url[:200]!r}; expected {expected}")
