"""Strangers who send much, deep, slow or wrong: limits hold, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from msgspec.structs import replace

from roost.client import connect
from roost.gateway.ws_eventing.server import Gateway
from roost.gateway.ws_eventing.versions import EVENTING_2011, SOAP_11, SOAP_12
from tests.client.support import in_loop, until, url_of
from tests.gateway.kit import (
    HOST,
    QUICK,
    broker,
    fault_of,
    gateway_to,
    message,
    post,
    post_bytes,
    sinks,
    subscribed,
)

BOMB = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">%s]><a>&l9;</a>""" % b"".join(
    b'<!ENTITY l%d "%s">' % (n, b"&%s;" % (b"l%d" % (n - 1) if n else b"a") * 10) for n in range(10)
)


@pytest.mark.parametrize(
    "data",
    [
        BOMB,
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        message(SOAP_12, "<a>" * 5_000 + "</a>" * 5_000),
        message(SOAP_12, "<a/>" * 100_000),
        b"\x00" * 1_000,
        b"",
    ],
)
@in_loop
async def test_hostile_messages(data: bytes) -> None:
    async with broker() as server, gateway_to(server) as gateway:
        began = time.process_time()
        for soap, status in ((SOAP_12, 400), (SOAP_11, 500)):
            answer = await post_bytes(gateway, data, soap.media_type)
            assert (answer.status, fault_of(answer.data)) == (status, f"s:{soap.codes['sender']}")
        assert time.process_time() - began < 2
        assert (await post(gateway, SOAP_12, "<Quote/>")).status == 202


async def raw(gateway: Gateway, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """What is answered to these bytes, until the connection ends."""
    reader, writer = await asyncio.open_connection(HOST, gateway.port)
    answer = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        answer = await reader.read()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return answer


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\n"


@in_loop
async def test_long_bodies_are_not_read() -> None:
    async with broker() as server, gateway_to(server) as gateway:
        said = await raw(gateway, HEAD + b"Content-Length: 100000000\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 413")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        said = await raw(gateway, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 1_600)
        assert said.startswith(b"HTTP/1.1 413") or not said  # cut off while it was still sending
        said = await raw(gateway, b"POST / HTTP/1.1\r\nX: " + b"y" * 100_000)
        assert said.startswith(b"HTTP/1.1 4") or not said


@in_loop
async def test_other_requests() -> None:
    async with broker() as server, gateway_to(server) as gateway:
        answer = await post_bytes(gateway, b"<a/>", "text/plain")
        assert answer.status == 415
        for request, status in (
            (b"GET / HTTP/1.0\r\n\r\n", b"405"),
            (b"GET /2010.wsdl HTTP/1.0\r\n\r\n", b"404"),
            (b"GET /health HTTP/1.0\r\n\r\n", b"200"),
            (b"nonsense\r\n\r\n", b"400"),
        ):
            assert (await raw(gateway, request)).split()[1] == status


@in_loop
async def test_slow_bodies_while_others_are_served() -> None:
    settings = replace(QUICK, body_s=1.5, connections_max=60)
    async with (
        broker() as server,
        gateway_to(server, settings) as gateway,
        sinks() as (sink,),
        connect(url_of(server)) as client,
    ):
        await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url)
        slow = [
            asyncio.create_task(
                raw(gateway, HEAD + b"Content-Length: 1000\r\n\r\n", *[b"<"] * 3, pause_s=0.05)
            )
            for _ in range(15)
        ]
        await asyncio.sleep(0.05)
        for n in range(20):
            assert (await post(gateway, SOAP_12, f"<Quote><n>{n}</n></Quote>")).status == 202
        await client.publish({"n": 99})
        await until(lambda: len(sink.heard) == 21, "all are delivered")
        for said in await asyncio.gather(*slow):
            assert said.startswith(b"HTTP/1.1 408")


@in_loop
async def test_too_many_connections() -> None:
    settings = replace(QUICK, connections_max=8)
    async with broker() as server, gateway_to(server, settings) as gateway:
        held = [await asyncio.open_connection(HOST, gateway.port) for _ in range(12)]
        # One host has half of them.
        ended = 0
        for reader, writer in held:
            writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                ended += not await reader.read(1)
            except ConnectionError:
                ended += 1
            writer.transport.abort()
        assert ended == 8
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(ConnectionError):
                    assert (await post(gateway, SOAP_12, "<Quote/>")).status == 202
                    break
