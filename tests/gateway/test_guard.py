"""Which addresses are sent to."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from roost.gateway.ws_eventing.guard import (
    UnusableError,
    checked_addresses,
    objection_to,
    target_of,
)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
    ],
)
def test_private_addresses_only_where_allowed(address: str) -> None:
    assert objection_to(ipaddress.ip_address(address), allow_private=False)
    assert not objection_to(ipaddress.ip_address(address), allow_private=True)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:224.0.0.1"])
def test_never(address: str) -> None:
    assert objection_to(ipaddress.ip_address(address), allow_private=True)


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888"])
def test_the_internet(address: str) -> None:
    assert not objection_to(ipaddress.ip_address(address), allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "sink",
            "ftp://h/",
            "http://",
            "http://user:secret@h/",
            "http://h:0/",
            "http://h:99999/",
        ),
        *("http://h/a b", "http://h/\r\nX: y", "http://[::1/", "file:///etc/passwd", "http://h/ü"),
        "http://h/" + "x" * 2_000,
    ],
)
def test_no_targets(url: str) -> None:
    with pytest.raises(UnusableError):
        target_of(url)


def test_targets() -> None:
    target = target_of("https://[::1]:8443/a?b=c#d")
    assert (target.host, target.port, target.path) == ("::1", 8443, "/a?b=c")
    assert target_of("http://h").path == "/"
    assert target_of("http://h").port == 80


def test_names_are_looked_up_and_all_that_they_stand_for_is_judged() -> None:
    target = target_of("http://localhost:1/")
    assert asyncio.run(checked_addresses(target, allow_private=True))
    with pytest.raises(UnusableError, match="not an address of the Internet"):
        asyncio.run(checked_addresses(target, allow_private=False))
    with pytest.raises(UnusableError, match="nobody knows where"):
        asyncio.run(checked_addresses(target_of("http://no.such.invalid/"), allow_private=True))
