"""The examples of docs/GATEWAYS.md, as they stand there, against a gateway that runs."""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Any

from roost.client import connect
from tests.client.support import in_loop, url_of
from tests.docs.blocks import DOCUMENTS, blocks_of
from tests.gateway.kit import HOST, federation, gateway_to, sinks

(MANUAL,) = (document for document in DOCUMENTS if document.name == "GATEWAYS.md")
USUAL, SINK = "http://127.0.0.1:7413/", "http://sink.example:8080/"


def example(begins: str) -> str:
    (text,) = (block.text for block in blocks_of(MANUAL) if block.text.startswith(begins))
    return text


def post(port: int, body: str) -> int:
    kind = {"Content-Type": "application/soap+xml"}
    request = urllib.request.Request(f"http://{HOST}:{port}/", body.encode(), kind)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as answer:
        return int(answer.status)


def enveloped(element: str) -> str:
    soap = "http://www.w3.org/2003/05/soap-envelope"
    return f'<s:Envelope xmlns:s="{soap}"><s:Body>{element}</s:Body></s:Envelope>'


@in_loop
async def test_what_is_published() -> None:
    curl = example("curl ")
    assert USUAL in curl
    body = curl.partition("-d '")[2].removesuffix("'")
    async with (
        federation() as servers,
        gateway_to(servers[0]) as here,
        connect(url_of(servers[2])) as client,
    ):
        events = client.subscribe("symbol = 'YHOO'")
        await events.ready()
        for said in (body, enveloped(example("<event:Event"))):
            assert await asyncio.to_thread(post, here.port, said) == 202
        quote, event = await events.get(10), await events.get(10)
    assert quote.attributes == {"class": "Quote", "symbol": "YHOO", "price.low": 30.25}
    assert event.attributes == {"symbol": "YHOO", "volume": 400_000}
    assert (event.payload, event.content_type) == (b"...", "text/plain")


@in_loop
async def test_zeep() -> None:
    text = example("import zeep")
    async with federation() as servers, gateway_to(servers[0]) as here, sinks() as (sink,):
        for usual, ours in ((USUAL, f"http://{HOST}:{here.port}/"), (SINK, sink.url)):
            assert usual in text
            text = text.replace(usual, ours)
        names: dict[str, Any] = {}
        await asyncio.to_thread(exec, compile(text, str(MANUAL), "exec"), names)
    assert names["subscription"].SubscriptionManager.Address == f"http://{HOST}:{here.port}/"
