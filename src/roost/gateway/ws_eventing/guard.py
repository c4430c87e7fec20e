"""Which addresses a gateway sends to: a stranger must not make it knock at doors inside of its network.

A name is looked up once, all that it stands for is judged, and the connection goes to an address that was
judged: a name that means something else a moment later gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

URL_LENGTH_MAX = 2_000
PORTS = {"http": 80, "https": 443}

# Names that take their time are looked up beside all else that threads are for.
_lookups = ThreadPoolExecutor(16, "look-up")

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_plain = re.compile(r"[\x21-\x7e]+", re.ASCII).fullmatch


class UnusableError(ValueError):
    """No message is sent there, and why."""


class Target(Struct, frozen=True):
    """The parts of an address of HTTP."""

    scheme: str
    host: str
    port: int
    path: str
    authority: str  # host and port, as HTTP says them


def target_of(url: str) -> Target:
    """UnusableError if it is no address of HTTP."""
    if len(url) > URL_LENGTH_MAX or not _plain(url):
        what = f"the address is {url[:80]!r}"
        raise UnusableError(f"{what}; expected at most {URL_LENGTH_MAX:,} plain characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in PORTS or not parts.hostname or "@" in parts.netloc or port == 0:
        raise UnusableError(f"the address is {url[:200]!r}; expected http://host:port/path")
    return Target(
        parts.scheme,
        parts.hostname,
        port or PORTS[parts.scheme],
        (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        parts.netloc,
    )


def objection_to(address: Address, *, allow_private: bool) -> str:
    """Why nothing is sent there; "" if it is.

    >>> objection_to(ipaddress.ip_address("10.0.0.1"), allow_private=False)
    '10.0.0.1 is not an address of the Internet, and others are not allowed here'
    """
    inside = getattr(address, "ipv4_mapped", None) or address
    if inside.is_multicast or inside.is_unspecified:
        return f"{address} is not the address of one machine"
    if not inside.is_global and not allow_private:
        return f"{address} is not an address of the Internet, and others are not allowed here"
    return ""


async def checked_addresses(target: Target, *, allow_private: bool) -> list[str]:
    """What a host stands for; UnusableError if that is nothing, or something is objected to."""
    addresses = await _addresses(target.host)
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        objection = objection_to(address, allow_private=allow_private)
        if objection:
            raise UnusableError(f"{target.host}: {objection}")
    return addresses


async def _addresses(host: str) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass  # a name, then
    loop = asyncio.get_running_loop()
    try:
        found = await loop.run_in_executor(_lookups, socket.getaddrinfo, host, None)
    except (OSError, UnicodeError):
        raise UnusableError(f"nobody knows where {host!r} is") from None
    return list(dict.fromkeys(str(place[0]) for *_, place in found))
