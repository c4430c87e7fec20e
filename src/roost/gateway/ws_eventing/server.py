"""The gateway on HTTP: who may send how much, for how long, and where the service descriptions are.

    POST /              a message of SOAP: a request of WS-Eventing, or a notification, by which one publishes
    GET  /2004.wsdl     the service as WSDL, for the version of 2004; /2011.wsdl for that of 2011
    GET  /health        200 while it serves, and how many subscriptions there are

A connection gets so long for a request and its answer, and is cut off then, whatever it was doing. A body
that is too long is not read to its end. So those who send slowly, or much, take a connection each, of which
there are enough, and no more.
"""

from __future__ import annotations

import asyncio
import re
import ssl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from roost.client import Tls
from roost.gateway.ws_eventing.answers import Reply
from roost.gateway.ws_eventing.logins import Clients, NotLoggedInError, login_of
from roost.gateway.ws_eventing.service import Service
from roost.gateway.ws_eventing.subscriptions import Subscriptions
from roost.gateway.ws_eventing.versions import EVENTINGS, SOAP_11, SOAP_12
from roost.gateway.ws_eventing.wsdl import wsdl_of
from roost.runtime.gateway_settings import GatewaySettings
from roost.runtime.http_face import HttpFace
from roost.runtime.tables import TlsTable
from roost.runtime.tls import server_context

# How long a connection may be silent between two requests.
IDLE_S = 15
MEDIA_TYPES = (SOAP_11.media_type, SOAP_12.media_type, "application/xml")

_host = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,255}", re.ASCII).fullmatch


class Gateway:
    """A gateway to the broker at a URL. After `start`, `port` is where it listens."""

    def __init__(
        self, url: str, settings: GatewaySettings, tls: ssl.SSLContext | Tls | None = None
    ) -> None:
        self._settings = settings
        files = TlsTable(certificate=settings.certificate, key=settings.key)
        self._tls = server_context(files) if settings.certificate else None
        self._clients = Clients(url, tls=tls, timeout_s=settings.broker_s)
        self.subscriptions = Subscriptions(settings, self._clients)
        self._service = Service(settings, self._clients, self.subscriptions)
        self._face = HttpFace(settings.host, settings.port, self._tls)

    @property
    def host(self) -> str:
        return self._face.host

    @property
    def port(self) -> int:
        return self._face.port

    async def start(self) -> None:
        """Listen, and take up the subscriptions that are kept; UserError if that is not possible."""
        self._face.bind("WS-Eventing", "a free port")
        await self.subscriptions.open()
        await self._face.start(self._app(), _limited(self._settings), IDLE_S)

    async def stop(self) -> None:
        """Whoever is being answered gets the answer, if that takes no second."""
        if self._face.is_up:
            await self._face.stop()
            await self.subscriptions.close()
            await self._clients.close()

    def _app(self) -> Starlette:
        routes = [
            Route("/", self._soap, methods=["POST"]),
            Route("/{version}.wsdl", self._wsdl, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
        ]
        return Starlette(routes=routes)

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"ok": True, "subscriptions": len(self.subscriptions)})

    async def _wsdl(self, request: Request) -> Response:
        version = request.path_params["version"]
        if version not in [each.name for each in EVENTINGS.values()]:
            return PlainTextResponse("expected /2004.wsdl or /2011.wsdl\n", 404)
        return Response(wsdl_of(version, self._here(request)), media_type="text/xml")

    async def _soap(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in MEDIA_TYPES:
            what = f"the content type is {kind[:80]!r}; expected {' or '.join(MEDIA_TYPES)}"
            return _refusal(415, what)
        try:
            async with asyncio.timeout(self._settings.body_s):
                data = await self._body(request)
        except TimeoutError:
            return _refusal(408, f"the body took longer than {self._settings.body_s:g} s")
        if data is None:
            return _refusal(413, f"the body has more than {self._settings.body_bytes_max:,} bytes")
        soap_11 = kind == SOAP_11.media_type
        try:
            login = login_of(request.headers.get("authorization", ""))
            reply = await self._service.answer(data, login, self._here(request), soap_11=soap_11)
        except NotLoggedInError as error:
            reply = self._service.not_logged_in(error, soap_11=soap_11)
        return _response(reply)

    async def _body(self, request: Request) -> bytes | None:
        """What was sent; None if it is too long."""
        most = self._settings.body_bytes_max
        length = request.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 18 or int(length) > most):
            return None
        data = bytearray()
        async for piece in request.stream():
            data += piece
            if len(data) > most:
                return None
        return bytes(data)

    def _here(self, request: Request) -> str:
        """Where others reach the gateway: it was told, or they say by what name they came."""
        if self._settings.url:
            return self._settings.url
        host = request.headers.get("host", "")
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{host if _host(host) else f'{self.host}:{self.port}'}/"


def _response(reply: Reply) -> Response:
    response = Response(reply.content, reply.status)
    if reply.media_type:
        response.headers["content-type"] = f"{reply.media_type}; charset=utf-8"
    if reply.status == 401:
        response.headers["www-authenticate"] = 'Basic realm="roost"'
    return response


def _refusal(status: int, what: str) -> Response:
    """What comes behind it on the connection is not read."""
    return PlainTextResponse(f"{what}\n", status, headers={"Connection": "close"})


def _host_of(connection: object) -> str:
    """Where it comes from."""
    client: tuple[str, int] | None = getattr(connection, "client", None)
    return client[0] if client else ""


def _limited(settings: GatewaySettings) -> type[H11Protocol]:
    """Connections that end in time, of which there are so many at most, and half of them from one host."""
    most = settings.connections_max
    # To send a request, to have it carried out (which may ask the broker thrice), and to think of another.
    within_s = settings.body_s + 3 * settings.broker_s + IDLE_S

    class Limited(H11Protocol):
        _end: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            neighbours = sum(_host_of(each) == _host_of(self) for each in self.connections)
            if len(self.connections) > most or neighbours > max(1, most // 2):
                transport.abort()
            else:
                self._begin()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._begin()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def _begin(self) -> None:
            self._cancel()
            self._end = self.loop.call_later(within_s, self.transport.abort)

        def _cancel(self) -> None:
            if self._end is not None:
                self._end.cancel()

    return Limited
