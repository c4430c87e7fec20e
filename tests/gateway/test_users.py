"""Who may do what through a gateway, how much of it, and where sinks may be."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from roost.gateway.ws_eventing.versions import EVENTING_2004, EVENTING_2011, SOAP_12, Eventing, Soap
from tests.client.support import in_loop, until
from tests.client.test_security import secured, user
from tests.gateway.kit import (
    QUICK,
    asking,
    basic,
    both,
    broker,
    fault_of,
    gateway_to,
    post,
    sessions,
    sinks,
    subscribe_body,
    subscribed,
)


@in_loop
async def test_users_and_what_they_may(tmp_path: Path) -> None:
    alice = user(publish="class = 'STOCK'", subscribe="class = 'STOCK'")
    async with (
        broker(secured(tmp_path, alice=alice, bob=user())) as server,
        gateway_to(server) as gateway,
        sinks() as (sink,),
    ):
        body = subscribe_body(EVENTING_2011, sink.url, filter_="class = 'STOCK' and n > 0")
        for login in (
            {},
            {"Authorization": basic("alice", "guessed")},
            {"Authorization": "Digest x"},
        ):
            answer = await post(gateway, SOAP_12, body, **login)
            assert (answer.status, fault_of(answer.data)) == (401, "s:Sender")
            assert answer.headers["www-authenticate"].startswith("Basic")
        everything = subscribe_body(EVENTING_2011, sink.url)
        answer = await post(gateway, SOAP_12, everything, Authorization=basic("alice"))
        assert (answer.status, fault_of(answer.data)) == (400, "s:Sender")
        assert b"may only subscribe" in answer.data
        id_ = await subscribed(
            gateway,
            EVENTING_2011,
            SOAP_12,
            sink.url,
            filter_="class = 'STOCK'",
            login=basic("alice"),
        )
        status = asking(EVENTING_2011, "GetStatus", id_)
        answer = await post(gateway, SOAP_12, *status, Authorization=basic("bob"))
        assert fault_of(answer.data) == "wse:UnknownSubscription"
        answer = await post(gateway, SOAP_12, *status, Authorization="Bearer alice:secret")
        assert answer.status == 200
        refused = await post(gateway, SOAP_12, "<NEWS/>", Authorization=basic("alice"))
        assert (refused.status, b"may only" in refused.data) == (400, True)
        accepted = await post(
            gateway, SOAP_12, "<STOCK><n>1</n></STOCK>", Authorization=basic("alice")
        )
        assert accepted.status == 202
        await until(lambda: sink.heard, "the sink hears")
        assert [heard.body.local for heard in sink.heard] == ["STOCK"]


@in_loop
async def test_limits() -> None:
    settings = replace(QUICK, subscriptions_a_user=2, subscriptions_max=3)
    async with broker() as server, gateway_to(server, settings) as gateway, sinks() as (sink,):
        body = subscribe_body(EVENTING_2011, sink.url)
        for name, answers in (("alice", [200, 200, 400]), ("bob", [200, 503])):
            for status in answers:
                answer = await post(gateway, SOAP_12, body, Authorization=basic(name))
                assert answer.status == status, answer.data
        old = subscribe_body(EVENTING_2004, sink.url)
        answer = await post(gateway, SOAP_12, old, Authorization=basic("alice"))
        assert fault_of(answer.data) == "wse:EventSourceUnableToProcess"


@both
@in_loop
async def test_sinks_nearby_only_where_allowed(version: Eventing, soap: Soap) -> None:
    settings = replace(QUICK, allow_private=False)
    async with broker() as server, gateway_to(server, settings) as gateway, sinks() as (sink,):
        expected = f"wse:{version.faults['unusable address'].name}"
        for url in (sink.url, "ftp://x/", "http://no.such.invalid/"):
            answer = await post(gateway, soap, subscribe_body(version, url))
            assert fault_of(answer.data) == expected, url
        body = subscribe_body(version, "http://8.8.8.8/", end_to=sink.url)
        assert fault_of((await post(gateway, soap, body)).data) == expected
        assert not sessions(server)
