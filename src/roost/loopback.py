"""Whether an address is this machine's own: what decides how much secrecy a connection needs."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine gets there. What a name stands for is not looked up.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("broker.example")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
