"""What the tests of the gateway have in common: messages of SOAP, sinks, brokers and a gateway among them."""

from __future__ import annotations

import asyncio
import base64
import http.client
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import h11
import pytest

from roost.client import Client
from roost.gateway.ws_eventing.server import Gateway
from roost.gateway.ws_eventing.versions import (
    ADDRESSING_2004,
    ADDRESSING_2005,
    EVENTING_2004,
    EVENTING_2011,
    SOAP_11,
    SOAP_12,
    Eventing,
    Soap,
)
from roost.gateway.ws_eventing.xml_tree import Element, parse
from roost.runtime.gateway_settings import GatewaySettings
from roost.runtime.in_process import running
from roost.runtime.server import BrokerServer
from roost.runtime.tables import ServerConfig
from tests.client.support import config, until, url_of

HOST = "127.0.0.1"
VERSIONS = (EVENTING_2004, EVENTING_2011)
SOAPS = (SOAP_11, SOAP_12)
# In both versions of WS-Eventing, and of SOAP.
both = pytest.mark.parametrize(
    ("version", "soap"),
    [(version, soap) for version in VERSIONS for soap in SOAPS],
    ids=lambda each: each.name,
)
FILTER = "urn:roost:event:filter"
TOPIC = "urn:roost:event:topic"


# --- messages ---------------------------------------------------------------------------------------


def message(soap: Soap, body: str, headers: str = "") -> bytes:
    """An envelope around a body. The prefixes of both say what they are."""
    return (
        f'<s:Envelope xmlns:s="{soap.namespace}" xmlns:wsa4="{ADDRESSING_2004.namespace}"'
        f' xmlns:wsa5="{ADDRESSING_2005.namespace}" xmlns:e4="{EVENTING_2004.namespace}"'
        f' xmlns:e11="{EVENTING_2011.namespace}" xmlns:roost="urn:roost:eventing"'
        f' xmlns:event="urn:roost:event">'
        f"<s:Header>{headers}</s:Header><s:Body>{body}</s:Body></s:Envelope>"
    ).encode()


def prefixes(version: Eventing) -> tuple[str, str]:
    """What `message` calls a version, and WS-Addressing of its age."""
    return ("e4", "wsa4") if version is EVENTING_2004 else ("e11", "wsa5")


def subscribe_body(
    version: Eventing,
    sink: str,
    *,
    filter_: str = "",
    dialect: str = FILTER,
    expires: str = "",
    end_to: str = "",
    more: str = "",
    delivery: str = "",
    references: str = "",
) -> str:
    e, wsa = prefixes(version)
    escaped = filter_.replace("&", "&amp;").replace("<", "&lt;")
    parts = [
        f"<{e}:EndTo><{wsa}:Address>{end_to}</{wsa}:Address></{e}:EndTo>" if end_to else "",
        f"<{e}:Delivery {delivery}><{e}:NotifyTo><{wsa}:Address>{sink}</{wsa}:Address>"
        f"{references}</{e}:NotifyTo></{e}:Delivery>",
        more,
        f"<{e}:Expires>{expires}</{e}:Expires>" if expires else "",
        f'<{e}:Filter Dialect="{dialect}">{escaped}</{e}:Filter>' if filter_ else "",
    ]
    return f"<{e}:Subscribe>{''.join(parts)}</{e}:Subscribe>"


def asking(version: Eventing, kind: str, identifier: str = "", inside: str = "") -> tuple[str, str]:
    """The body and the headers of a request about a subscription."""
    e, wsa = prefixes(version)
    tag = "e4:Identifier" if version is EVENTING_2004 else "roost:Identifier"
    headers = (
        f"<{wsa}:Action>{version.uri(kind)}</{wsa}:Action>"
        f"<{wsa}:MessageID>urn:test:{kind}</{wsa}:MessageID>"
    )
    if identifier:
        headers += f"<{tag}>{identifier}</{tag}>"
    return f"<{e}:{kind}>{inside}</{e}:{kind}>", headers


def body_of(data: bytes) -> Element | None:
    """The element in the body of a message."""
    root = parse(data)
    (body,) = (each for each in root.elements if each.local == "Body")
    return body.elements[0] if body.elements else None


def fault_of(data: bytes) -> str:
    """The name of the fault in an answer, as the version of SOAP says it; the plain one's without a colon."""
    fault = body_of(data)
    assert fault is not None
    assert fault.local == "Fault", data
    if fault.namespace == SOAP_11.namespace:
        (code,) = (each.text for each in fault.elements if each.local == "faultcode")
        return code
    code_ = fault.child(SOAP_12.tag("Code"))
    assert code_ is not None
    subcode = code_.child(SOAP_12.tag("Subcode"))
    value = (subcode or code_).child(SOAP_12.tag("Value"))
    assert value is not None
    return value.text


# --- calling ----------------------------------------------------------------------------------------


class Elsewhere(NamedTuple):
    """A gateway that is not in our hands: where it listens."""

    port: int


class Answer(NamedTuple):
    status: int
    data: bytes
    headers: Mapping[str, str]


async def post(
    gateway: Gateway | Elsewhere, soap: Soap, body: str, headers: str = "", **more: Any
) -> Answer:
    """Send a message to a gateway."""
    return await post_bytes(gateway, message(soap, body, headers), soap.media_type, **more)


async def post_bytes(
    gateway: Gateway | Elsewhere,
    data: bytes,
    kind: str,
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> Answer:
    def work() -> Answer:
        connection = http.client.HTTPConnection(HOST, gateway.port, timeout=30)
        if tls is not None:
            connection = http.client.HTTPSConnection(HOST, gateway.port, context=tls)
        try:
            connection.request("POST", "/", data, {"Content-Type": kind, **headers})
            response = connection.getresponse()
            return Answer(response.status, response.read(), dict(response.getheaders()))
        finally:
            connection.close()

    return await asyncio.to_thread(work)


async def subscribed(
    gateway: Gateway | Elsewhere,
    version: Eventing,
    soap: Soap,
    sink: str,
    *,
    login: str = "",
    **how: Any,
) -> str:
    """Subscribe; the identifier."""
    more = {"Authorization": login} if login else {}
    answer = await post(gateway, soap, subscribe_body(version, sink, **how), **more)
    assert answer.status == 200, answer.data
    return identifier_of(answer.data)


def identifier_of(data: bytes) -> str:
    """The identifier in the answer to Subscribe."""
    return next(each.text for each in _all(parse(data)) if each.local == "Identifier")


def _all(element: Element) -> list[Element]:
    return [element, *(inner for each in element.elements for inner in _all(each))]


# --- sinks ------------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """A message that a sink got."""

    root: Element
    content_type: str

    @property
    def body(self) -> Element:
        (body,) = (each for each in self.root.elements if each.local == "Body")
        return body.elements[0]

    @property
    def headers(self) -> list[Element]:
        return [
            each for part in self.root.elements if part.local == "Header" for each in part.elements
        ]

    def header(self, local: str) -> str:
        return next(each.text for each in self.headers if each.local == local)

    def number(self) -> int:
        """The attribute `n` of an event."""
        (text,) = (each.text for each in self.body.elements if each.attributes.get("name") == "n")
        return int(text)


class Sink:
    """Takes notifications. It can be killed, and come back at the same address."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.heard: list[Heard] = []
        self.status = 202
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://{HOST}:{self.port}/sink"

    def numbers(self) -> list[int]:
        return [heard.number() for heard in self.heard if heard.body.local == "Event"]

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        """All at once, without a word."""
        if self._server is not None:
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        connection = h11.Connection(h11.SERVER)
        try:
            while await self._answer(connection, reader, writer):
                connection.start_next_cycle()
        except (ConnectionError, h11.RemoteProtocolError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _answer(
        self, http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        kind, data = "", b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Request):
                kind = dict(event.headers).get(b"content-type", b"").decode()
            elif isinstance(event, h11.Data):
                data += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return False
        if 200 <= self.status < 300:
            self.heard.append(Heard(parse(data), kind))
        head = h11.Response(status_code=self.status, headers=[("Content-Length", "0")])
        writer.write((http.send(head) or b"") + (http.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        return True


@asynccontextmanager
async def sinks(count: int = 1) -> AsyncIterator[list[Sink]]:
    all_ = [Sink() for _ in range(count)]
    try:
        for sink in all_:
            await sink.start()
        yield all_
    finally:
        for sink in all_:
            await sink.kill()


# --- brokers and gateways ---------------------------------------------------------------------------

QUICK = GatewaySettings(
    port=0, allow_private=True, retry_min_s=0.02, retry_max_s=0.1, broker_s=20.0
)


@asynccontextmanager
async def gateway_to(
    server: BrokerServer, settings: GatewaySettings = QUICK
) -> AsyncIterator[Gateway]:
    gateway = Gateway(url_of(server), settings)
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()


@asynccontextmanager
async def broker(settings: ServerConfig | None = None) -> AsyncIterator[BrokerServer]:
    async with running(settings or config(), within_s=1.0) as server:
        yield server


@asynccontextmanager
async def federation() -> AsyncIterator[list[BrokerServer]]:
    """B0 - B1 - B2."""
    async with (
        running(config("B0", neighbours={"B1": ""}), within_s=1.0) as first,
        running(
            config("B1", neighbours={"B0": f"{HOST}:{first.port}", "B2": ""}), within_s=1.0
        ) as second,
        running(config("B2", neighbours={"B1": f"{HOST}:{second.port}"}), within_s=1.0) as third,
    ):
        servers = [first, second, third]
        await until(
            lambda: all(link["up"] for s in servers for link in s.status()["links"].values()),
            "all are linked",
        )
        yield servers


# --- what happens ---------------------------------------------------------------------------------


def basic(user_: str, token: str = "secret") -> str:
    return f"Basic {base64.b64encode(f'{user_}:{token}'.encode()).decode()}"


async def publish(client: Client, *numbers: int) -> None:
    for n in numbers:
        await client.publish({"n": n})
    await client.flush()


async def hears(sink: Sink, *numbers: int) -> None:
    await until(lambda: len(sink.numbers()) >= len(numbers), "the sink hears")
    assert sink.numbers() == [*numbers]


def sessions(server: BrokerServer) -> list[str]:
    return [
        name
        for name in server.shell.machine.sessions
        if "ws-eventing" in name and "durable" in name
    ]
