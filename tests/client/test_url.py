"""Where to connect, and as whom."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import roost
from roost.client import InsecureConnection
from roost.client.url import BadUrl, address_of, target_of
from roost.errors import UserError


def test_one_broker() -> None:
    target = target_of("roost://broker.example:7500", environment={})
    assert target.addresses == (("broker.example", 7500),)
    assert not target.tls
    assert target.memory is None
    assert (target.user, target.token) == ("", "")


def test_several_brokers_and_the_usual_port() -> None:
    target = target_of("roosts://h1,h2:7500,[::1]:7,[::1]/", environment={})
    assert target.addresses == (("h1", 7411), ("h2", 7500), ("::1", 7), ("::1", 7411))
    assert target.tls


def test_memory() -> None:
    assert target_of("memory://", environment={}).memory == ""
    assert target_of("memory://quotes", environment={}).memory == "quotes"


def test_who_is_calling() -> None:
    said = target_of("roost://al%40ce:s%3Acret%2F@h", environment={})
    assert (said.user, said.token) == ("al@ce", "s:cret/")
    only_user = target_of("roost://alice@h", environment={"ROOST_TOKEN": "t"})
    assert (only_user.user, only_user.token) == ("alice", "t")


def test_arguments_go_before_the_url_and_that_before_the_environment() -> None:
    environment = {"ROOST_URL": "roost://env:1", "ROOST_USER": "env", "ROOST_TOKEN": "from env"}
    silent = target_of(environment=environment)
    assert silent.addresses == (("env", 1),)
    assert (silent.user, silent.token) == ("env", "from env")
    spoken = target_of("roost://url:2@h", environment=environment)
    assert (spoken.user, spoken.token) == ("url", "2")
    loud = target_of("roost://url:2@h", "argument", "3", environment)
    assert (loud.user, loud.token) == ("argument", "3")
    assert target_of(environment={}).addresses == (("127.0.0.1", 7411),)


def test_the_token_is_shown_nowhere() -> None:
    target = target_of("roost://alice:secret@h", environment={})
    assert "secret" not in repr(target) + target.url
    with pytest.raises(BadUrl) as bad:
        target_of("roost://alice:secret@h:port", environment={})
    assert "secret" not in str(bad.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost:7411", "expected roost://host:7411"),
        ("http://localhost:7411", "expected roost://host:7411"),
        ("roost://localhost:7411/topic", "expected roost://host:7411"),
        ("roost://", "where '' stands"),
        ("roost://h1,,h2", "where '' stands"),
        ("roost://h:0", "a port from 1 to 65535, where 'h:0' stands"),
        ("roost://h:65536", "where 'h:65536' stands"),
        ("roost://h:port", "where 'h:port' stands"),
        ("roost://::1:7411", "where '::1:7411' stands"),
    ],
)
def test_bad_urls(url: str, expected: str) -> None:
    with pytest.raises(BadUrl, match="the URL is ") as bad:
        roost.connect(url)
    assert expected in str(bad.value)
    assert isinstance(bad.value, UserError)


def test_a_token_without_a_user() -> None:
    with pytest.raises(UserError, match="there is a token, and no user"):
        target_of("roost://h", token="t", environment={})


def test_tls_without_roosts() -> None:
    async def main() -> None:
        async with roost.connect("roost://localhost", tls="authority.pem"):
            pass

    import asyncio

    with pytest.raises(UserError, match="expected roosts://"):
        asyncio.run(main())


def test_a_url_that_says_nothing() -> None:
    with pytest.raises(BadUrl, match="the URL is ''; expected roost://host:7411; without any"):
        target_of("")


@pytest.mark.parametrize("text", ["", "a b", "h:", ":7", "[h]:7", "h:99999"])
def test_no_addresses(text: str) -> None:
    assert address_of(text) is None


# --- a token in the clear ---------------------------------------------------------------------------

CONNECTS = pytest.mark.parametrize("connects", [roost.connect, roost.connect_sync])


@CONNECTS
@pytest.mark.parametrize(
    ("url", "how"),
    [
        ("roost://u:t@broker.example", {}),
        ("roost://broker.example", {"user": "u", "token": "t"}),
        ("roost://u:t@127.0.0.1,10.0.0.2", {}),  # one of them will do
        ("roost://u:t@[2001:db8::1]:7411", {}),
        ("roost://u:t@localhost.example", {}),
    ],
)
def test_a_token_that_goes_to_another_machine_in_the_clear(
    connects: Callable[..., Any], url: str, how: dict[str, str]
) -> None:
    """Nothing is dialled for that: it is said when the client is made."""
    with pytest.warns(InsecureConnection, match=r"in the clear; expected roosts://") as said:
        connects(url, **how)
    (warning,) = said
    assert "u:t" not in str(warning.message)


def test_a_token_from_the_environment_goes_in_the_clear_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROOST_USER", "u")
    monkeypatch.setenv("ROOST_TOKEN", "t")
    with pytest.warns(InsecureConnection):
        roost.connect("roost://broker.example")


@CONNECTS
@pytest.mark.parametrize(
    "url",
    [
        "roosts://u:t@broker.example",
        "roost://u:t@127.0.0.1:7411,localhost",
        "roost://u:t@[::1]:7411",
        "roost://u:t@127.9.9.9",
        "roost://u@broker.example",  # no token
        "roost://broker.example",
        "memory://u:t@name",
    ],
)
def test_a_token_that_nobody_else_sees(connects: Callable[..., Any], url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connects(url)
