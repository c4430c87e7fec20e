"""Where simulated brokers are found: not under their names, as it is outside."""

from __future__ import annotations

from roost.broker.names import Address

SCHEME = "@"


def address_of(broker: str) -> Address:
    return Address(SCHEME + broker)


def name_at(address: Address) -> str:
    """The broker that is, or was, or would be there."""
    return address.removeprefix(SCHEME)
