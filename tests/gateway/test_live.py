"""A gateway at work: nothing is lost and all is in order, whatever becomes of sinks, gateway and broker."""

from __future__ import annotations

import ssl
from pathlib import Path

from msgspec.structs import replace

from roost.client import connect
from roost.gateway.ws_eventing.records import FILE, Records
from roost.gateway.ws_eventing.server import Gateway
from roost.gateway.ws_eventing.versions import EVENTING_2004, EVENTING_2011, SOAP_12, Eventing, Soap
from roost.runtime.tls import issue, make_authority
from tests.client.support import config, in_loop, until, url_of
from tests.gateway.kit import (
    HOST,
    QUICK,
    VERSIONS,
    Sink,
    asking,
    body_of,
    both,
    broker,
    fault_of,
    gateway_to,
    hears,
    message,
    post,
    post_bytes,
    prefixes,
    publish,
    sessions,
    sinks,
    subscribe_body,
    subscribed,
)

# --- from Subscribe to Unsubscribe ------------------------------------------------------------------


@both
@in_loop
async def test_a_life(version: Eventing, soap: Soap) -> None:
    async with (
        broker() as server,
        gateway_to(server) as gateway,
        sinks() as (sink,),
        connect(url_of(server)) as client,
    ):
        e, wsa = prefixes(version)
        how = {
            "references": f"<{wsa}:ReferenceParameters><Mine>7</Mine></{wsa}:ReferenceParameters>"
        }
        id_ = await subscribed(
            gateway, version, soap, sink.url, filter_="n > 1", expires="PT1H", **how
        )
        await publish(client, 1, 2, 3)
        await hears(sink, 2, 3)
        first = sink.heard[0]
        assert first.root.namespace == soap.namespace
        assert soap.media_type in first.content_type
        assert first.header("To") == sink.url
        assert first.header("Mine") == "7"
        assert first.header("Action") == "urn:roost:event:Event"
        assert first.header("MessageID") != sink.heard[1].header("MessageID")
        assert {each.namespace for each in first.headers} == {version.addressing.namespace, ""}

        answer = await post(gateway, soap, *asking(version, "GetStatus", id_))
        assert (answer.status, b"PT3" in answer.data) == (200, True)
        inside = f"<{e}:Expires>2099-01-01T00:00:00Z</{e}:Expires>"
        answer = await post(gateway, soap, *asking(version, "Renew", id_, inside))
        # Of 2004 is granted what there is; of 2011 only what was asked for.
        if version is EVENTING_2004:
            assert answer.status == 200
            answer = await post(gateway, soap, *asking(version, "GetStatus", id_))
            assert b"Z</wse:Expires>" in answer.data  # a date, as was asked for
        else:
            assert fault_of(answer.data) == "wse:UnsupportedExpirationValue"
            best = inside.replace("Expires>2099", "Expires BestEffort='true'>2099")
            assert (await post(gateway, soap, *asking(version, "Renew", id_, best))).status == 200

        answer = await post(gateway, soap, *asking(version, "Unsubscribe", id_))
        assert answer.status == 200
        said = body_of(answer.data)
        assert (said and said.local) == (
            "UnsubscribeResponse" if version is EVENTING_2011 else None
        )
        assert not sessions(server)
        await publish(client, 4)
        for kind in ("Renew", "GetStatus", "Unsubscribe"):
            answer = await post(gateway, soap, *asking(version, kind, id_))
            renews = kind == "Renew" and version is EVENTING_2004
            ours = "UnableToRenew" if renews else version.faults["unknown subscription"].name
            assert fault_of(answer.data) == f"wse:{ours}"
        assert sink.numbers() == [2, 3]


@in_loop
async def test_wrapped_notifications() -> None:
    async with (
        broker() as server,
        gateway_to(server) as gateway,
        sinks() as (sink,),
    ):
        wrap = f"<e11:Format Name='{EVENTING_2011.wrapped}'/>"
        await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url, more=wrap)
        headers = "<wsa5:Action>urn:act</wsa5:Action>"
        answer = await post(gateway, SOAP_12, "<q:Quote xmlns:q='urn:q'>x</q:Quote>", headers)
        assert (answer.status, answer.data) == (202, b"")
        await until(lambda: sink.heard, "the sink hears")
        heard = sink.heard[0]
        assert heard.body.name == EVENTING_2011.tag("Notify")
        assert heard.body.attributes == {"actionURI": "urn:act"}
        assert heard.body.elements[0].name == "{urn:q}Quote"
        assert heard.header("Action") == EVENTING_2011.uri("WrappedSinkPortType/NotifyEvent")


@in_loop
async def test_time_is_over() -> None:
    async with broker() as server, gateway_to(server) as gateway, sinks() as (sink,):
        for version in VERSIONS:
            await subscribed(gateway, version, SOAP_12, sink.url, expires="PT0.3S", end_to=sink.url)
        await until(
            lambda: not sessions(server) and not len(gateway.subscriptions), "they are over"
        )
        assert not sink.heard  # whoever asked for it knew
        for version, name in (
            (EVENTING_2004, "InvalidExpirationTime"),
            (EVENTING_2011, "UnsupportedExpirationValue"),
        ):
            for expires in ("PT0S", "-PT1S", "2000-01-01T00:00:00Z"):
                body = subscribe_body(version, sink.url, expires=expires)
                assert fault_of((await post(gateway, SOAP_12, body)).data) == f"wse:{name}"


# --- sinks, gateway and broker come and go ----------------------------------------------------------


@in_loop
async def test_a_sink_that_is_killed_and_comes_back() -> None:
    async with (
        broker() as server,
        gateway_to(server) as gateway,
        sinks(2) as (sink, other),
        connect(url_of(server)) as client,
    ):
        await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url)
        await subscribed(gateway, EVENTING_2004, SOAP_12, other.url)
        await publish(client, *range(10))
        await hears(sink, *range(10))
        await sink.kill()
        await publish(client, *range(10, 20))
        await hears(other, *range(20))  # one does not wait for the other
        await sink.start()
        await hears(sink, *range(20))
        for status in (500, 404, 302):
            sink.status = status
            await publish(client, status)
            await until(lambda: len(other.heard) > len(sink.heard), "the other has it")
            assert status not in sink.numbers()
            sink.status = 202
            await until(lambda: len(other.heard) == len(sink.heard), "both have it")
        assert sink.numbers() == other.numbers()


@both
@in_loop
async def test_a_sink_that_never_comes_back(version: Eventing, soap: Soap) -> None:
    async with (
        broker() as server,
        gateway_to(server, replace(QUICK, give_up_s=0.2)) as gateway,
        sinks(2) as (sink, end),
        connect(url_of(server)) as client,
    ):
        id_ = await subscribed(gateway, version, soap, sink.url, end_to=end.url)
        await sink.kill()
        await publish(client, 1)
        await until(lambda: end.heard, "the end is said")
        (said,) = end.heard
        assert said.header("Action") == version.uri("SubscriptionEnd")
        parts = {each.local: each for each in said.body.elements}
        assert parts["Status"].text == version.uri("DeliveryFailure")
        assert "took nothing" in parts["Reason"].text
        assert ("SubscriptionManager" in parts) == (version is EVENTING_2004)
        assert not sessions(server)
        assert (await post(gateway, soap, *asking(version, "GetStatus", id_))).status != 200


@in_loop
async def test_a_sink_that_says_it_is_gone() -> None:
    async with (
        broker() as server,
        gateway_to(server) as gateway,
        sinks(2) as (sink, end),
        connect(url_of(server)) as client,
    ):
        await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url, end_to=end.url)
        sink.status = 410
        await publish(client, 1)
        await until(lambda: end.heard, "the end is said")
        assert "gone" in end.heard[0].body.elements[1].text


@in_loop
async def test_the_gateway_starts_again(tmp_path: Path) -> None:
    settings = replace(QUICK, data=str(tmp_path / "kept"))
    async with (
        broker(config(data=tmp_path / "broker")) as server,
        sinks() as (sink,),
        connect(url_of(server)) as client,
    ):
        async with gateway_to(server, settings) as gateway:
            id_ = await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url, end_to=sink.url)
            await publish(client, 1, 2)
            await hears(sink, 1, 2)
            sink.status = 503
            await publish(client, 3)
        assert len(sessions(server)) == 1
        assert (tmp_path / "kept" / FILE).stat().st_mode & 0o777 == 0o600
        await publish(client, 4, 5)
        sink.status = 202
        async with gateway_to(server, settings) as gateway:
            await hears(sink, 1, 2, 3, 4, 5)
            await publish(client, 6)
            await hears(sink, 1, 2, 3, 4, 5, 6)
            answer = await post(gateway, SOAP_12, *asking(EVENTING_2011, "Unsubscribe", id_))
            assert answer.status == 200
        assert not Records(tmp_path / "kept").all()


@in_loop
async def test_a_gateway_without_a_folder_says_goodbye() -> None:
    async with broker() as server, sinks() as (sink,):
        async with gateway_to(server) as gateway:
            await subscribed(gateway, EVENTING_2004, SOAP_12, sink.url, end_to=sink.url)
        (said,) = sink.heard
        (status,) = (each.text for each in said.body.elements if each.local == "Status")
        assert status == EVENTING_2004.uri("SourceShuttingDown")
        assert not sessions(server)


@in_loop
async def test_an_operator_ends_the_session() -> None:
    from roost.broker.events import SessionDismissed

    async with broker() as server, gateway_to(server) as gateway, sinks() as (sink,):
        await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url, end_to=sink.url)
        (session,) = sessions(server)
        server.shell.handle(SessionDismissed(session, "an operator has ended it"))
        await until(lambda: sink.heard, "the end is said")
        status, reason = sink.heard[0].body.elements
        assert status.text == EVENTING_2011.uri("SourceCancelling")
        assert "an operator has ended it" in reason.text


@in_loop
async def test_a_broker_that_is_away() -> None:
    async with sinks() as (sink,):
        async with broker() as server:
            pass
        gateway = Gateway(url_of(server), replace(QUICK, broker_s=0.3))
        await gateway.start()
        try:
            answer = await post(gateway, SOAP_12, subscribe_body(EVENTING_2011, sink.url))
            assert (answer.status, fault_of(answer.data)) == (503, "s:Receiver")
            answer = await post(gateway, SOAP_12, subscribe_body(EVENTING_2004, sink.url))
            assert fault_of(answer.data) == "wse:EventSourceUnableToProcess"
            assert (await post(gateway, SOAP_12, "<Quote/>")).status == 503
            assert len(gateway.subscriptions) == 0
        finally:
            await gateway.stop()


@in_loop
async def test_a_broker_that_starts_again(tmp_path: Path) -> None:
    async with sinks() as (sink,):
        async with broker(config(data=tmp_path)) as server:
            port, gateway = server.port, Gateway(url_of(server), QUICK)
            await gateway.start()
            await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url)
            assert (await post(gateway, SOAP_12, event(1))).status == 202
            await hears(sink, 1)
            sink.status = 503
            assert (await post(gateway, SOAP_12, event(2))).status == 202
        async with broker(config(data=tmp_path, port=port)):
            sink.status = 202
            assert (await post(gateway, SOAP_12, event(3))).status == 202
            await hears(sink, 1, 2, 3)
            await gateway.stop()


def event(n: int) -> str:
    return (
        f"<event:Event><event:Attribute name='n' type='integer'>{n}</event:Attribute></event:Event>"
    )


@in_loop
async def test_https_on_both_sides(tmp_path: Path) -> None:
    authority, _ = make_authority(tmp_path)
    certificate, key = issue(tmp_path, "here", [HOST])
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_tls.load_cert_chain(certificate, key)
    sink = Sink(server_tls)
    await sink.start()
    settings = replace(QUICK, certificate=str(certificate), key=str(key), authority=str(authority))
    async with broker() as server, gateway_to(server, settings) as gateway:
        client_tls = ssl.create_default_context(cafile=authority)
        data = message(SOAP_12, subscribe_body(EVENTING_2011, sink.url))
        answer = await post_bytes(gateway, data, SOAP_12.media_type, client_tls)
        assert f"https://{HOST}:{gateway.port}/".encode() in answer.data
        async with connect(url_of(server)) as client:
            await publish(client, 1)
        await hears(sink, 1)
    await sink.kill()
