"""The broker's face for operators: health, figures and a little control, over HTTP.

    GET  /health        200, or 503 and what the troubles are, since when; and warnings (see `watch`). It is
                        for everybody, so that a supervisor needs no token; details are for operators
    GET  /status        how it fares, as JSON
    GET  /metrics       the same for Prometheus
    GET  /sessions      its clients, a page at a time: ?limit=100&after=NAME
    POST /sessions/end  {"session": "NAME"}: it is over, with all that waits in it
    POST /trace         {"on": true, "folder": "/var/traces", "run": "monday"}, {"on": false}; only into
                        folders that the settings name
    POST /redirect      {"client": "c1", "broker": "b2.example:7411"}: asks a client to move; to an address,
                        or a neighbour that this broker dials, by its name
    GET  /decisions     what the optimisers have decided last, the newest last (?limit=100)
    POST /decisions     {"kind": "move", "subject": "c1", "choice": "B2", ...}: the record of what
                        somebody outside of brokers has decided, who carries out a plan
    POST /module        {"module": "grape", "state": "observing"}: off, observing or acting
    POST /promote       {"force": false}: at the standby of a broker, that it is to go on as that broker
    POST /ask           {"request": "drain", "arguments": {}, "module": ""}: what its optimisers, or the one
                        that is named, say to a request that they know

It runs in the broker's own event loop: what answers `/health` is what has to be healthy, and a page sees the
machine between two events, never amid one.

**Who may.** With security on, a user that was granted `administer`, by its name and token (HTTP basic
authentication), over TLS if the broker has a certificate; one that was granted `monitor` may GET, and no
more. A browser that is led here by some web page sends along where that page is from, and gets nothing done:
without security the loopback interface is all that protects us.

**How much.** Connections are few and short, requests small, and one token is checked at a time: neither
a curious scraper nor a hostile one takes much from the broker's work.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from roost.broker.commands import Decision, Record
from roost.broker.events import ClientRedirected, SessionDismissed
from roost.broker.module import ModuleState
from roost.broker.names import Address
from roost.errors import UserError
from roost.language.literals import abbreviate
from roost.runtime.config import address_of
from roost.runtime.http_face import HttpFace, check_free
from roost.runtime.link_pages import AddRequest, LinkPages, MoveRequest, RemoveRequest, WayRequest
from roost.runtime.metrics import CONTENT_TYPE, Figures, metrics_text
from roost.runtime.optimisers import DECISIONS_KEPT, decided_dict
from roost.runtime.security import Users
from roost.runtime.tls import server_context
from roost.runtime.trace_folders import ElsewhereError, checked_folder

if TYPE_CHECKING:
    from roost.broker.hops import Session
    from roost.broker.permissions import Permission
    from roost.runtime.server import BrokerServer
    from roost.runtime.shell import Shell
    from roost.runtime.tables import AdminTable

# From accepting to closing: a scraper that wants more connects again.
CONNECTION_S = 20.0
CONNECTIONS_MAX = 64
BODY_BYTES_MAX = 65_536
# Those who wait for their token to be checked; each takes the processor tens of milliseconds.
LOGINS_WAITING_MAX = 8
SESSIONS_A_PAGE, SESSIONS_A_PAGE_MAX = 100, 10_000
DECISIONS_A_PAGE = 100
# The module of decisions that were made outside of brokers.
OPERATOR = "plan"
# Whom its port is for, and what to say where that is taken.
FOR_OPERATORS = ("operators", "a free port in [admin] port, or -1 for none")

S = TypeVar("S", bound=Struct)
Page = Callable[[Request], Awaitable[Response]]
Name = Annotated[str, Meta(min_length=1, max_length=255)]


class TraceRequest(Struct, frozen=True, forbid_unknown_fields=True):
    on: bool
    folder: str = ""
    run: str = ""  # the same for all brokers whose traces belong together
    content: bool = False  # the events themselves, too


class ModuleRequest(Struct, frozen=True, forbid_unknown_fields=True):
    module: str
    state: Literal["off", "observing", "acting"]


class AskRequest(Struct, frozen=True, forbid_unknown_fields=True):
    request: Name
    arguments: dict[str, Any] = {}
    module: str = ""


class PromoteRequest(Struct, frozen=True, forbid_unknown_fields=True):
    force: bool = False


class EndRequest(Struct, frozen=True, forbid_unknown_fields=True):
    session: Annotated[str, Meta(min_length=1, max_length=1_000)]


class RedirectRequest(Struct, frozen=True, forbid_unknown_fields=True):
    client: Name
    broker: Name


class DecisionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    kind: Name
    subject: Name
    choice: Name
    evidence: dict[str, Any] = {}
    predicted: dict[str, float] = {}
    cause: Annotated[str, Meta(max_length=255)] = ""


def check_port(settings: AdminTable) -> None:
    """UserError if its pages could not be served there just now."""
    if settings.port > 0:
        check_free(settings.host, settings.port, *FOR_OPERATORS)


class Admin:
    """HTTP for the operators of one broker. After `start`, `port` is where it listens; -1: it does not."""

    def __init__(self, server: BrokerServer) -> None:
        config = server.config
        self._broker = server
        self._figures = Figures(server)
        secured = config.security.enabled
        self._users = Users.load(Path(config.security.users)) if secured else None
        # Whoever has a token needs no certificate.
        tls = replace(config.tls, authority="", require_client_certificate=False)
        self._tls = server_context(tls) if tls.certificate else None
        self._login = asyncio.Lock()
        self._logins_waiting = 0
        self._face = HttpFace(config.admin.host, config.admin.port, self._tls)

    @property
    def host(self) -> str:
        return self._face.host

    @property
    def port(self) -> int:
        return self._face.port

    async def start(self) -> None:
        """Listen; UserError if that is not possible there."""
        if self.port < 0 or self._face.is_up:
            return
        self._face.bind(*FOR_OPERATORS)
        await self._face.start(self._app(), _BriefConnection)

    async def stop(self) -> None:
        """Whoever is being answered gets the answer, if that takes no second."""
        await self._face.stop()

    # --- pages --------------------------------------------------------------------------------------

    def _app(self) -> Starlette:
        routes = [
            Route("/health", self._health, methods=["GET"]),
            Route("/status", self._for_operators(self._status), methods=["GET"]),
            Route("/metrics", self._for_operators(self._metrics), methods=["GET"]),
            Route("/sessions", self._for_operators(self._sessions), methods=["GET"]),
            Route("/sessions/end", self._for_operators(self._end_session), methods=["POST"]),
            Route("/trace", self._for_operators(self._trace), methods=["POST"]),
            Route("/redirect", self._for_operators(self._redirect), methods=["POST"]),
            Route("/links/{what}", self._for_operators(self._links), methods=["POST"]),
            Route("/decisions", self._for_operators(self._decisions), methods=["GET"]),
            Route("/decisions", self._for_operators(self._decide), methods=["POST"]),
            Route("/module", self._for_operators(self._module), methods=["POST"]),
            self._promote_route(),
            Route("/ask", self._for_operators(self._ask), methods=["POST"]),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: json_error})

    def _promote_route(self) -> Route:
        return Route("/promote", self._for_operators(self._promote), methods=["POST"])

    async def _promote(self, request: Request) -> Response:
        wanted = await _body(request, PromoteRequest, '{"force": false}')
        try:
            answer = self._broker.promote(force=wanted.force)
        except UserError as error:
            raise HTTPException(409, str(error)) from None
        self._broker.log.info("promoted by an operator", by=_who(request), force=wanted.force)
        return _json(answer)

    async def _health(self, request: Request) -> Response:
        known = self._users is None
        if self._users is not None and "authorization" in request.headers:
            await self._operator(request, self._users, watches=True)
            known = True
        health = self._broker.watch.health(with_details=known)
        return _json(health, 200 if health["ok"] else 503)

    async def _status(self, _: Request) -> Response:
        return _json(self._broker.status())

    async def _metrics(self, _: Request) -> Response:
        return Response(metrics_text(self._figures), media_type=CONTENT_TYPE)

    async def _sessions(self, request: Request) -> Response:
        """In the order of their names, so that nothing is left out when some come and go meanwhile."""
        limit = _number(request, "limit", SESSIONS_A_PAGE, SESSIONS_A_PAGE_MAX)
        after = request.query_params.get("after", "")
        shell = self._broker.shell
        sessions = shell.machine.sessions
        names = heapq.nsmallest(limit, (name for name in sessions if name > after))
        return _json(
            {
                "broker": self._broker.name,
                "sessions": [_session(sessions[name], shell) for name in names],
                "total": len(sessions),
                "next": names[-1] if len(names) == limit else None,
            }
        )

    async def _end_session(self, request: Request) -> Response:
        wanted = await _body(request, EndRequest, '{"session": "NAME"}')
        shell = self._broker.shell
        session = shell.machine.sessions.get(wanted.session)
        if session is None:
            what = f"there is no session {abbreviate(wanted.session)!r} at this broker"
            raise HTTPException(404, what)
        if session.ending:
            raise HTTPException(409, "it ends already, when its client has heard of it")
        was = _session(session, shell)
        who = _who(request)
        shell.handle(SessionDismissed(wanted.session, f"{who} has ended it"))
        self._broker.log.info(
            "session ended by an operator",
            about=wanted.session,
            by=who,
            durable=was["durable"],
            waiting=was["waiting"],
        )
        return _json({"broker": self._broker.name, "ended": was})

    async def _trace(self, request: Request) -> Response:
        wanted = await _body(request, TraceRequest, '{"on": true, "folder": "/var/traces"}')
        recorder, shell = self._broker.recorder, self._broker.shell
        if not wanted.on:
            if recorder.recording:
                self._broker.log.info("trace off", by=_who(request))
            recorder.end(shell)
            return _json({"tracing": False})
        folder = wanted.folder or self._broker.config.trace.folder
        if not folder:
            raise HTTPException(400, "the folder is missing; expected where the traces go")
        if wanted.folder and not Path(folder).is_absolute():
            what = f"the folder is {abbreviate(folder)!r}; expected a path from the root"
            raise HTTPException(400, what)
        if recorder.recording:
            raise HTTPException(409, "traffic is recorded already; turn that off first")
        try:
            name = self._broker.name
            real = checked_folder(self._broker.config, folder, wanted.run, name)
            run = recorder.begin(real, shell, wanted.run, content=wanted.content)
        except ElsewhereError as error:
            self._broker.log.warning("trace refused", by=_who(request), detail=str(error))
            raise HTTPException(403, str(error)) from None
        except (UserError, ValueError) as error:
            raise HTTPException(400, str(error)) from None
        self._broker.log.info("trace on", by=_who(request), folder=str(real), run=run)
        return _json({"tracing": True, "folder": folder, "run": run})

    async def _redirect(self, request: Request) -> Response:
        wanted = await _body(request, RedirectRequest, '{"client": "c1", "broker": "B2"}')
        machine = self._broker.shell.machine
        sessions = [x for x in machine.sessions.values() if x.client == wanted.client]
        if not sessions:
            raise HTTPException(
                404, f"there is no client {abbreviate(wanted.client)!r} at this broker"
            )
        if wanted.broker in (self._broker.name, machine.identity.address):
            raise HTTPException(400, f"it is at {wanted.broker}; expected another broker")
        who = _who(request)
        address = self._address_of(wanted.broker)
        self._broker.shell.handle(ClientRedirected(wanted.client, address, f"{who} asks for it"))
        self._broker.log.info("redirected", about=wanted.client, to=address, by=who)
        return _json({"client": wanted.client, "broker": wanted.broker, "sessions": len(sessions)})

    def _address_of(self, broker: str) -> Address:
        """Where clients find a broker: it is said, or a neighbour has told us. A client knows no names."""
        link = self._broker.shell.machine.links.get(broker)
        told = link.address if link is not None else ""
        said = self._broker.config.links.neighbours.get(broker, "").partition(",")[0]
        address = told or said or broker
        try:
            address_of(address)
        except ValueError:
            what = f"where {abbreviate(broker)!r} is, nobody here knows"
            raise HTTPException(
                400, f"{what}; expected host:port, or the name of a neighbour"
            ) from None
        return Address(address)

    async def _links(self, request: Request) -> Response:
        what, pages, who = request.path_params["what"], LinkPages(self._broker), _who(request)
        if what == "add":
            example = '{"broker": "B7", "address": "10.0.0.7:7411"}'
            return _json(pages.add(await _body(request, AddRequest, example), who))
        if what == "remove":
            return _json(pages.remove(await _body(request, RemoveRequest, '{"broker": "B7"}'), who))
        if what == "move":
            example = '{"mover": "B0", "anchor": "B2"}'
            return _json(pages.move(await _body(request, MoveRequest, example), who))
        if what == "way":
            return _json(pages.way(await _body(request, WayRequest, '{"way": "tree"}'), who))
        raise HTTPException(404, "expected /links/add, /links/remove, /links/move or /links/way")

    async def _decisions(self, request: Request) -> Response:
        kept = self._broker.optimisers.decisions
        limit = _number(request, "limit", DECISIONS_A_PAGE, DECISIONS_KEPT)
        last = islice(kept, max(0, len(kept) - limit), None)
        decisions = [decided_dict(decided) for decided in last]
        return _json({"broker": self._broker.name, "decisions": decisions})

    async def _decide(self, request: Request) -> Response:
        example = '{"kind": "move", "subject": "c1", "choice": "B2"}'
        told = await _body(request, DecisionRequest, example)
        decision = Decision(
            OPERATOR,
            told.kind,
            told.subject,
            told.choice,
            acted=True,
            evidence={**told.evidence, "asked_by": _who(request)},
            predicted=told.predicted,
            cause=told.cause,
        )
        self._broker.decided(Record(decision))
        return _json({"broker": self._broker.name, "recorded": True})

    async def _module(self, request: Request) -> Response:
        wanted = await _body(request, ModuleRequest, '{"module": "grape", "state": "observing"}')
        optimisers, shell = self._broker.optimisers, self._broker.shell
        known = optimisers.states(shell)
        if wanted.module not in known:
            what = f"there is no module {abbreviate(wanted.module)!r}"
            raise HTTPException(404, f"{what}; expected {' or '.join(known)}")
        if objection := optimisers.objection_to(wanted.module, ModuleState(wanted.state)):
            raise HTTPException(409, objection)
        optimisers.switch(shell, wanted.module, ModuleState(wanted.state))
        self._broker.log.info(
            "module switched", about=wanted.module, to=wanted.state, by=_who(request)
        )
        return _json({"modules": optimisers.states(shell)})

    async def _ask(self, request: Request) -> Response:
        wanted = await _body(request, AskRequest, '{"request": "drain", "arguments": {}}')
        broker, what, who = self._broker, wanted.request, _who(request)
        try:
            said = await broker.questions.ask(broker.shell, what, wanted.arguments, wanted.module)
        except TimeoutError:
            raise HTTPException(504, "the answer is not safe in the store yet") from None
        if said.objections and not said.answers:
            why = "; ".join(f"{module}: {each}" for module, each in said.objections.items())
            raise HTTPException(400, why)
        if not said.answers:
            of = f" called {abbreviate(wanted.module)!r}" if wanted.module else ""
            raise HTTPException(
                404, f"no optimiser{of} that is awake here knows {abbreviate(what)!r}"
            )
        broker.log.info("optimisers asked", about=what, by=who, answered=", ".join(said.answers))
        answer = {"answers": said.answers, "objections": said.objections}
        return _json({"broker": broker.name, **answer})

    # --- who may ------------------------------------------------------------------------------------

    def _for_operators(self, page: Page) -> Page:
        async def guarded(request: Request) -> Response:
            if request.method == "POST" and "origin" in request.headers:
                raise HTTPException(403, "pages of the web may not steer a broker")
            if self._users is not None:
                watches = request.method in ("GET", "HEAD")
                who = await self._operator(request, self._users, watches=watches)
                request.state.principal = who.principal
            return await page(request)

        return guarded

    async def _operator(self, request: Request, users: Users, *, watches: bool) -> Permission:
        """Who asks, if it may: to see something, or else to change it."""
        login = _login_of(request.headers.get("authorization", ""))
        if login is None:
            raise self._refusal(
                request, 401, "expected a user and its token, by basic authentication"
            )
        if self._logins_waiting >= LOGINS_WAITING_MAX:
            raise HTTPException(429, "too many want to log in; try again", {"Retry-After": "1"})
        self._logins_waiting += 1
        try:
            async with self._login:
                answer = await asyncio.to_thread(users.authenticate, *login)
        finally:
            self._logins_waiting -= 1
        if isinstance(answer, str):
            raise self._refusal(request, 401, answer)
        if answer.administer or (watches and users.may_monitor(answer.principal)):
            return answer
        may = "only monitor" if users.may_monitor(answer.principal) else "not administer"
        raise self._refusal(request, 403, f"{answer.principal!r} may {may} a broker")

    def _refusal(self, request: Request, status: int, reason: str) -> HTTPException:
        """Noted with all others. Nobody has a connection with the number 0."""
        who = request.client.host if request.client else ""
        self._broker.refused(0, f"administration from {who}", reason)
        headers = {"WWW-Authenticate": 'Basic realm="roost"'} if status == 401 else None
        return HTTPException(status, reason, headers)


class _BriefConnection(H11Protocol):
    """A connection that ends, whatever the other side does or leaves undone."""

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
        else:
            self._end = self.loop.call_later(CONNECTION_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._end is not None:
            self._end.cancel()
        super().connection_lost(exc)


# --- requests and answers ---------------------------------------------------------------------------


def _login_of(header: str) -> tuple[str, str] | None:
    """The user and the token of basic authentication; None if it is none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except ValueError:
        return None
    user, colon, token = text.partition(":")
    return (user, token) if colon else None


async def _body(request: Request, kind: type[S], example: str) -> S:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > BODY_BYTES_MAX:
            raise HTTPException(413, f"the body is too long; expected {example}")
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise HTTPException(400, f"the body does not read: {error}; expected {example}") from None


def _number(request: Request, name: str, default: int, highest: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isdecimal() and text.isascii() and len(text) < 10 and 1 <= int(text) <= highest):
        what = f"{name} is {abbreviate(text)!r}; expected a whole number from 1 to {highest:,}"
        raise HTTPException(400, what)
    return int(text)


def _who(request: Request) -> str:
    return getattr(request.state, "principal", "") or "an operator"


def _session(session: Session, shell: Shell) -> dict[str, Any]:
    left_s = shell.timer_left_s(f"linger:{session.name}")
    config = shell.machine.config
    linger_s = config.durable_linger_s if session.durable else config.linger_s
    return {
        "session": session.name,
        "client": session.client,
        "principal": session.permission.principal if session.permission is not None else None,
        "attached": session.connection is not None,
        "durable": session.durable,
        # Of one that is away: for how long (at this broker, since it started), and how long it is kept yet.
        "away_s": None if left_s is None else max(0.0, linger_s - left_s),
        "left_s": left_s,
        "ending": session.ending,
        "congested": session.congested,
        "subscriptions": len(session.subscriptions),
        "advertisements": len(session.advertisements),
        "waiting": session.channel.data.waiting,
        "held_bytes": session.held_bytes,
        "open": session.open,
        "spilled": session.channel.data.spilled,
        "fetching": session.fetching,
        "numbers": [session.channel.data.acked, session.released, session.channel.data.sent],
        "dropped": session.dropped,
    }


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content) + b"\n", status, media_type="application/json")


async def json_error(_: Request, error: Exception) -> Response:
    said = cast(HTTPException, error)
    answer = _json({"error": said.detail}, said.status_code)
    answer.headers.update(said.headers or {})
    return answer
