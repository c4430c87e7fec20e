"""Arguments that can't be are refused where they are handed in, by name; found by introspection, so that
none is left out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roost.client import Client, connect, connect_sync
from roost.language import parse_advertisement, parse_subscription
from tests.client.support import in_loop, take

# What arguments may be that have to be given.
FINE: dict[str, Any] = {
    "filter_": "n > 0",
    "attributes": {"n": 1},
    "name": "name",
    "number": 1,
    "event": None,
    "events": [],
}

# What is given back as it is may be anything.
ANYTHING = {"default"}


def arguments_of(function: Callable[..., Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each argument by its name, and a call in which it is of a type that nobody expects."""
    parameters = inspect.signature(function).parameters
    needed = {n: FINE[n] for n, p in parameters.items() if p.default is p.empty and n in FINE}
    for name in parameters:
        if name not in ANYTHING:
            yield name, {**needed, name: object()}


def methods_of(thing: object) -> Iterator[Callable[..., Any]]:
    for name, method in inspect.getmembers(thing, inspect.ismethod):
        if not name.startswith("_"):
            yield method


def names_it(error: Exception, name: str) -> bool:
    said = str(error).replace(" ", "_")
    return name.rstrip("_") in said and "missing" not in said


async def refused(call: Callable[..., Any], arguments: dict[str, Any]) -> Exception:
    async def called() -> None:
        answer = call(**arguments)
        if inspect.isawaitable(answer):
            await answer

    with pytest.raises((TypeError, ValueError)) as caught:
        await called()
    return caught.value


@pytest.mark.parametrize("function", [connect, connect_sync])
def test_connecting(function: Callable[..., Any]) -> None:
    names = []
    for name, arguments in arguments_of(function):
        with pytest.raises((TypeError, ValueError), match=name) as caught:
            function("memory://", **arguments) if name != "url" else function(**arguments)
        assert names_it(caught.value, name)
        names.append(name)
    assert {"url", "tls", "wait", "buffer_max", "on_state", "limits"} <= set(names)


@in_loop
async def test_every_method() -> None:
    checked = set()
    async with (
        connect("memory://") as client,
        client.outbox("own") as outbox,
        client.subscribe("n > 0", durable="d") as durable,
    ):
        plain = client.subscribe("n > 0")
        advertised = await outbox_advertises(client)
        await client.publish({"class": "X", "n": 1})
        (event,), (again,) = await take(plain, 1), await take(durable, 1)
        for thing in (client, plain, durable, outbox, advertised, event, again):
            for method in methods_of(thing):
                for name, arguments in arguments_of(method):
                    error = await refused(method, arguments)
                    assert names_it(error, name), f"{method.__qualname__}: {error}"
                    checked.add(f"{type(thing).__name__}.{method.__name__}({name})")
        # And nothing of all that was sent: the session goes on.
        await client.publish({"class": "X", "n": 1})
        await take(plain, 1)
    assert {"Client.subscribe(filter_)", "Outbox.publish(number)"} <= checked
    assert {"ReceivedEvent.get(name)", "DurableEvent.get(name)"} <= checked
    assert len(checked) > 25


async def outbox_advertises(client: Client) -> Any:
    advertised = await client.advertise("n present")
    await client.advertise("class present")
    return advertised


def test_every_method_without_asyncio() -> None:
    import asyncio

    checked = set()
    with connect_sync("memory://") as client, client.outbox("own") as outbox:
        subscription = client.subscribe("n > 0")
        advertised = client.advertise("n present")
        client.publish({"n": 1})
        event = subscription.get(30.0)
        for thing in (client, subscription, outbox, advertised, event):
            for method in methods_of(thing):
                for name, arguments in arguments_of(method):
                    error = asyncio.run(refused(method, arguments))
                    assert names_it(error, name), f"{method.__qualname__}: {error}"
                    checked.add(f"{type(thing).__name__}.{method.__name__}({name})")
    assert {"SyncClient.subscribe(filter_)", "SyncSubscription.ack(events)"} <= checked
    assert "SyncEvent.get(name)" in checked


@pytest.mark.parametrize("wrong", [None, 7, b"n > 0", ["n > 0"], {"n": 1}])
@in_loop
async def test_filters_that_are_none(wrong: Any) -> None:
    """They were sent, and ended the session."""
    async with connect("memory://") as client:
        with pytest.raises(TypeError, match=r"filter is .*; expected a text, a Filter or a Subsc"):
            client.subscribe(wrong)
        with pytest.raises(TypeError, match="expected a text, a Filter or an Advertisement"):
            await client.advertise(wrong)
        with pytest.raises(TypeError):
            client.subscribe(parse_advertisement("n > 0"))  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            await client.advertise(parse_subscription("n > 0"))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="content type is None;"):
            await client.publish({"n": 1}, content_type=None)  # type: ignore[arg-type]
        assert client.state == "connected"


@in_loop
async def test_a_filter_that_never_holds() -> None:
    from roost.client import NeverMatches

    async with connect("memory://") as client:
        with pytest.warns(NeverMatches, match="no event can match 'n > 5 and n < 3'"):
            client.subscribe("n > 5 and n < 3")
