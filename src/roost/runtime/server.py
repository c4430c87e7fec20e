"""A live broker, or another machine: sockets, a store, security and limits around it.

    start    the store is read, the listener opens, neighbours are dialled
    serve    connections come and go; see `connection` for one, `shell` for what the machine wants
    stop     nobody new is let in, nothing more is read; what was accepted is made safe and written out,
             within a time; then everything closes. What had not arrived is sent again when both are back.

When the disk fails, nothing is called safe that is not: acknowledgements stop, and after a while so does
reading, until the store works again.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roost.broker.commands import Fetch, Persist, Record
from roost.broker.events import (
    Fetched,
    Identified,
    LinkOpened,
    LinkRefused,
    LoadSampled,
    ModuleSwitched,
    NeighboursConfigured,
    Persisted,
    Started,
    StoreFilled,
)
from roost.broker.hops import Link
from roost.broker.machines import kind_of
from roost.broker.messages import Attach, LinkHello, Locate, Located, Login, Parcel
from roost.broker.module import ModuleState
from roost.broker.names import Address
from roost.broker.permissions import NOBODY, Permission
from roost.broker.quotas import owner_of
from roost.broker.routers import router_of
from roost.built_in import ENTRY, LOCATE
from roost.errors import UserError
from roost.runtime.asking import Questions
from roost.runtime.config import address_of, broker_config, limits_of, login_of
from roost.runtime.connection import SocketConnection
from roost.runtime.descriptors import connections_possible, raise_limit
from roost.runtime.doorstep import READ_BYTES, Doorstep
from roost.runtime.gate import Gate, in_loop
from roost.runtime.keepalive import DEAD_AFTER
from roost.runtime.listener import EVERYWHERE, Listener
from roost.runtime.loads import LoadMeter, load_dict
from roost.runtime.log import EventLog
from roost.runtime.logins import Logins
from roost.runtime.optimisers import Optimisers
from roost.runtime.places import Places
from roost.runtime.rates import Bucket, Rates
from roost.runtime.recorder import Recorder
from roost.runtime.security import RefusalLog, Users
from roost.runtime.shell import Shell
from roost.runtime.store import Store
from roost.runtime.strangers import Arrival, Slots
from roost.runtime.tables import ServerConfig
from roost.runtime.tasks import Tasks
from roost.runtime.tls import client_context, names_of_peer, server_context, tell_failures
from roost.runtime.trace_folders import checked_folder
from roost.runtime.watch import Watch
from roost.wire import encode

if TYPE_CHECKING:
    from roost.runtime.admin import Admin
    from roost.runtime.witness import Witness

STORE_NAME = "roost.db"
# How much may wait for the disk before nobody is read any more.
BACKLOG_BYTES_MAX = 64_000_000
# How often connections are looked at that may have stayed too long.
SWEEP_S = 0.5
DRAIN_S = 10.0
DIAL_S = 10.0
# Of one that has a standby, which goes on in its place: how long it may be silent.
STANDBY_KEEPALIVE_S = 0.5


class BrokerServer:
    """One machine on real sockets: a broker of a federation, unless the settings say another."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        log: EventLog | None = None,  # None: to the file of the settings, or nowhere
        config_file: Path | None = None,  # where the settings are from
        gate: Gate | None = None,  # of a broker that has a standby
    ) -> None:
        self.config = config
        self.name = config.broker.name
        self.host, self.port = config.broker.host, config.broker.port
        self.started_at = time.time()
        self.choked = False  # the store can't follow: nobody is read
        self.refusals = 0
        self.log = log or EventLog(config.log, self.name, aloud=False)
        self.watch = Watch(self, self.log, config_file)
        self.tasks = Tasks(self.name, note=self.watch.task_failed if self.log.is_heard else None)
        self.wire_limits = limits_of(config)
        self.doorstep_buffer = memoryview(bytearray(READ_BYTES))
        self.slots = Slots(config.limits.connections_max)
        self._rates = Rates(config.quotas.events_per_s, config.limits.publish_burst)
        self._login = login_of(config)
        self._users = Users.load(Path(config.security.users)) if config.security.enabled else None
        self._users_revision = 0
        self._refusal_log = RefusalLog(config.security.refusals, self.log.refusals)
        self._logins = (
            None if self._users is None else Logins(self._users, self.tasks, self._answered)
        )
        self._server_tls = server_context(config.tls) if config.tls.certificate else None
        if self._server_tls is not None:
            tell_failures(self._server_tls, lambda why: self.refused(0, "connection", why))
        self._client_tls = client_context(config.tls) if config.tls.certificate else None
        self._gate = gate
        self.places = Places(config.links.neighbours, config.limits.greeting_s)
        self._store: Store | None = None
        self._listener: Listener | None = None
        self._open: dict[int, SocketConnection] = {}
        self._meter = LoadMeter(config.broker)
        self.questions = Questions()  # of operators, to the optimisers
        self._begun = False
        self._stopping = False
        self.admin: Admin | None = None
        self._witness: Witness | None = None

    # --- start and stop -----------------------------------------------------------------------------

    async def bind(self) -> None:
        """Take the address, so that one that somebody has is known at once. Others get in after `start`."""
        self._listener = Listener(self, self._server_tls)
        self.port = await self._listener.bind(self.host, self.port)

    async def start(self) -> None:
        """Read the store, listen, and dial the neighbours."""
        loop = asyncio.get_running_loop()
        records: dict[Any, Any] = {}
        if self.config.broker.data:
            folder = Path(self.config.broker.data)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(
                    f"{folder}: can't be the folder of a store: {error.strerror}"
                ) from None
            self._store = Store.open(
                folder / STORE_NAME,
                on_safe=lambda token: loop.call_soon_threadsafe(self._safe, token),
                retained_bytes_max=self.config.store.retained_bytes_max or None,
                accept_older=self.config.store.accept_older,
                on_commit=None if self._gate is None else partial(in_loop, loop, self._gate.wrote),
            )
            records = self._store.load()
            if self._gate is not None:
                self._gate.begins(records)
        life = round(self.started_at * 1000)
        self.recorder = Recorder(self.name, life, self.config.trace, self.config.broker.data)
        kind = kind_of(self.config.broker.machine)
        config = self.config
        self.optimisers = Optimisers(config, any_=kind.is_broker)
        self.recorder.watch(self.optimisers.modules)
        self.shell = Shell(
            kind.make(
                broker_config(config, incarnation=secrets.token_hex(8)),
                [self.recorder, *self.optimisers.modules],
            ),
            dial=self._dial,
            persist=self._persist,
            fetch=self._fetch,
            record=self.decided,
            refused=self.refused,
            report=self.watch.report,
            answered=self.questions.answered,
            chunks=self.wire_limits if config.broker.chunks else None,
            superseded=None if self._gate is None else self._gate.superseded,
        )
        self.shell.handle(ModuleSwitched(self.recorder.name, ModuleState.OFF.value))
        self.optimisers.begin(self.shell)
        self.shell.machine.identity.address = self._address()
        if self._gate is not None:
            self.shell.machine.identity.epoch = self._gate.epoch
            self.shell.machine.identity.beside = self._gate.beside
        self.shell.handle(Started(records))
        self._begun = True
        self.watch.restored(len(records))
        try:
            await self._listen()
        except BaseException:
            await self.stop(within_s=0.0)
            raise

    async def _listen(self) -> None:
        """From here on others can reach us."""
        raise_limit(self.config.limits.connections_max)
        most = min(self.config.limits.connections_max, connections_possible())
        if most < self.config.limits.connections_max:
            what = "the system's limit of open files allows for no more"
            self.log.warning("fewer connections", most=most, detail=what)
        self.slots = Slots(most)
        if self._listener is None:
            await self.bind()
        assert self._listener is not None
        self._listener.begin()
        # Before anybody is accepted or dialled, which happens in a later turn of the loop.
        self.shell.machine.identity.address = self._address()
        self._set_links()
        self.recorder.resume(
            self.shell, lambda folder, run: checked_folder(self.config, folder, run, self.name)
        )
        self.tasks.repeat("looking after connections", self._look, self._look_every_s)
        self.tasks.repeat("sampling the load", self._sample, lambda: SWEEP_S)
        if self._users is not None:
            self.tasks.repeat("reading the users file", self._read_users, lambda: SWEEP_S)
        if self.config.admin.port >= 0:
            from roost.runtime.admin import Admin  # noqa: PLC0415 (a web server takes its time)

            self.admin = Admin(self)
            await self.admin.start()
        if self.config.standby.witness_for:
            # Few brokers are one.
            from roost.runtime.pair_wire import Secured  # noqa: PLC0415
            from roost.runtime.witness import Witness  # noqa: PLC0415

            self._witness = Witness(Path(self.config.broker.data), self._refused_as_witness)
            await self._witness.start(
                *address_of(self.config.standby.witness_for),
                self._login[1] if self._login is not None else "",
                Secured(self.config.tls).listens,
            )
        self.watch.started()

    def _refused_as_witness(self, reason: str) -> None:
        self.refused(0, "a witness", reason)

    def _address(self) -> Address:
        """Where clients find us that were at another broker."""
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        shown = f"[{host}]" if ":" in host else host
        return Address(self.config.broker.advertised or f"{shown}:{self.port}")

    def decided(self, record: Record) -> None:
        """An optimiser has decided, or somebody outside who carries out a plan."""
        self.recorder.decided(record)
        self.optimisers.decided(record)
        self.watch.decided(record)

    def _set_links(self) -> None:
        """The neighbours of the settings, and those that the store remembers from since."""
        links, ranked = self.config.links, router_of(self.config.broker.routing).strategy.ranks
        self.shell.handle(
            NeighboursConfigured(
                {name: bool(address) for name, address in links.neighbours.items()},
                {name: links.rank(name) for name in links.neighbours} if ranked else {},
            )
        )

    async def stop(self, *, within_s: float = DRAIN_S) -> None:
        """In order: what was accepted is safe, and what was said is written."""
        if self._stopping:
            return
        if not self._begun:
            if self._listener is not None:
                self._listener.close()
            return
        self._stopping = True
        self.watch.stopping()
        if self.admin is not None:
            await self.admin.stop()
        if self._witness is not None:
            self._witness.stop()
        if self._listener is not None:
            self._listener.close()
        self.choked = True
        for connection in self._open.values():
            connection.read_or_not()
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and self._unfinished():
            await asyncio.sleep(0.01)
        await self.tasks.end()
        self.shell.stop()
        for connection in list(self._open.values()):
            connection.transport.close()
        await asyncio.sleep(0)
        try:
            if self._store is not None:
                await asyncio.get_running_loop().run_in_executor(None, self._store.close)
        finally:
            for connection in list(self._open.values()):
                connection.transport.abort()  # it has had its time to read
            self.recorder.end()
            self._refusal_log.close()
            self.watch.stopped()
            if self._logins is not None:
                self._logins.close()

    def fall_silent(self) -> None:
        """Not a word more, whatever waits to be said; `stop` is to follow."""
        if self._begun:
            self.shell.over = True
        for connection in list(self._open.values()):
            connection.transport.abort()
        if self._listener is not None:
            self._listener.close()

    def _unfinished(self) -> bool:
        if self.shell.machine.node.work.waits and (self._gate is None or self._gate.is_open):
            return True
        return any(c.transport.get_write_buffer_size() for c in self._open.values())

    # --- connections --------------------------------------------------------------------------------

    def connected(self, connection: SocketConnection) -> None:
        self._open[connection.id] = connection
        if connection.neighbour:
            if self._login is not None:
                connection.transport.write(encode(Login(*self._login)))
            self.shell.connections[connection.id] = connection
            self.shell.handle(LinkOpened(connection.neighbour, connection.id))
            return
        self.shell.accepted(connection)
        if self._stopping:
            connection.refuse("the broker is about to stop", transient=True)
            return
        if self.choked:
            connection.read_or_not()
        if self._users is not None and (shown := connection.transport.get_extra_info("peercert")):
            answer = self._users.permission_of_certificate(names_of_peer(shown))
            if not isinstance(answer, str):  # else it may still log in
                connection.principal = answer.principal
                self.shell.handle(Identified(connection.id, answer))

    def hung_up(self, connection: SocketConnection) -> None:
        """It may still read why."""
        self.slots.put(connection.arrival, "leaving")
        if self._logins is not None and connection.is_checking:
            self._logins.forget(connection)

    def disconnected(self, connection: SocketConnection) -> None:
        self.hung_up(connection)
        self.slots.put(connection.arrival, "gone")
        self._open.pop(connection.id, None)

    def objection_to(self, connection: SocketConnection, greeting: Parcel) -> str:
        """To one more who greets; "" if there is room. From then on it is no stranger."""
        permission = self.shell.machine.node.peers.permissions.get(connection.id)
        administers = permission is not None and permission.administer
        objection = self.slots.objection_to(greeting, administers=administers)
        if not objection:
            kind = type(greeting)
            self.slots.put(connection.arrival, "link" if kind is LinkHello else "session")
        return objection

    def buckets_of(self, connection: SocketConnection, greeting: Parcel) -> tuple[Bucket, ...]:
        """How fast one who has greeted may publish: as one connection, and with all others of its user."""
        if type(greeting) is not Attach:
            return ()
        limits, now = self.config.limits, self.shell.loop.time()
        permission = self.shell.machine.node.peers.permissions.get(connection.id)
        buckets = []
        if limits.publish_rate_max:
            buckets.append(Bucket(limits.publish_rate_max, limits.publish_burst, now))
        if permission is None or not (permission.link or permission.administer):
            buckets += self._rates.of(owner_of(greeting.client, permission), now)
        return tuple(buckets)

    def check_login(self, connection: SocketConnection, login: Login) -> None:
        """Find out whether it is who it says, without keeping anybody waiting."""
        if self._logins is None:
            connection.checked("")
        else:
            self._logins.check(connection, login)

    def locate(self, connection: SocketConnection, question: Locate) -> None:
        """Somebody wants to know where to connect: it is told, if we know who it is, or need not."""
        known = connection.id in self.shell.machine.node.peers.permissions
        if self._users is not None and not known:
            connection.transport.write(encode(Located((), NOBODY)))
        else:
            self.tasks.spawn("telling where brokers are", self._locate(connection, question.by))

    async def _locate(self, connection: SocketConnection, by: str) -> None:
        said = await self.questions.ask(self.shell, LOCATE, {"by": by}, ENTRY)
        found = said.answers.get(ENTRY, {}).get("addresses", ())
        reason = "; ".join(said.objections.values())
        if not found and not reason:
            reason = f'{self.name} is no entry point; expected [entry] mode = "acting" there'
        if not connection.transport.is_closing():
            connection.transport.write(encode(Located(tuple(found), reason)))

    def _answered(self, connection: SocketConnection, answer: Permission | str) -> None:
        if isinstance(answer, str):
            connection.checked(answer)
        else:
            self.shell.handle(Identified(connection.id, answer))
            connection.checked("")

    def _ask_again(self, users: Users) -> None:
        """The users have changed: so may have what those may do who are already in."""
        for id_, permission in list(self.shell.machine.node.peers.permissions.items()):
            answer = users.permission_of(permission.principal)
            connection, peer = self._open.get(id_), self.shell.machine.node.peers.on.get(id_)
            if isinstance(answer, Permission) and isinstance(peer, Link):
                answer = answer.objection_to_link(peer.name) or answer
            if isinstance(answer, str):
                if connection is not None:
                    connection.refuse(answer)
            elif answer != permission:
                self.shell.handle(Identified(id_, answer))

    def refused(self, connection_id: int, asked: str, reason: str) -> None:
        """A connection, or something that was asked for on it, was refused."""
        self.refusals += 1
        connection = self._open.get(connection_id)
        self._refusal_log.add(
            connection.arrival.address if connection is not None else "",
            connection.principal if connection is not None else "",
            asked,
            reason,
        )

    def refused_address(self, address: str, reason: str) -> None:
        """Somebody who is not let in at all."""
        self.refusals += 1
        self._refusal_log.add(address, "", "connection", reason)

    # --- again and again ----------------------------------------------------------------------------

    def _look_every_s(self) -> float:
        keepalive_s = self.config.limits.keepalive_s
        return min(SWEEP_S, keepalive_s / 2) if keepalive_s else SWEEP_S

    async def _look(self) -> None:
        """End connections that take too long."""
        now = self.shell.loop.time()
        for connection in list(self._open.values()):
            try:
                connection.look(now)
            except Exception as error:
                self.tasks.failed("looking after a connection", error)
                connection.transport.abort()

    async def _read_users(self) -> None:
        assert self._users is not None
        await asyncio.to_thread(self._users.refresh)
        # Not whether that found anything: somebody who logged in may have been first.
        if self._users.revision != self._users_revision:
            self._users_revision = self._users.revision
            self._ask_again(self._users)

    async def _sample(self) -> None:
        self.watch.look()
        load = self._meter.sample(self.shell, self._open)
        if load is not None:
            self.shell.handle(LoadSampled(load))
            self.recorder.loaded(self.shell, load)
            if self.recorder.has_failed:
                self.recorder.end(self.shell)

    def turned_away(self, neighbour: str, reason: str) -> None:
        """A neighbour that we dialled does not want us."""
        self.watch.turned_away(neighbour, reason)

    def keepalive_s(self, greeting: Parcel) -> float:
        """How long one who greets so may be silent until it is asked. The standby of one is there soon."""
        most, own = self.config.limits.keepalive_s, self.config.standby
        if not (type(greeting) is LinkHello and greeting.beside):
            return most
        # Where we have one, too: what we take for a silence of ours is one of theirs.
        return min(most, own.takeover_s / DEAD_AFTER if own.role else STANDBY_KEEPALIVE_S)

    # --- neighbours ---------------------------------------------------------------------------------

    def _dial(self, neighbour: str, address: str) -> None:
        places = self.places.next(neighbour, address)
        self.tasks.spawn(f"dialling {neighbour}", self._dial_all(neighbour, places))

    async def _dial_all(self, neighbour: str, places: list[str]) -> None:
        reason = "nobody knows where it is"
        for place in places:
            reason = await self._dial_now(neighbour, place)
            if not reason:
                return
        self.watch.unreachable(neighbour, reason)
        self.shell.handle(LinkRefused(neighbour, reason))

    async def _dial_now(self, neighbour: str, address: str) -> str:
        """Why it does not answer; "" if it does."""
        try:
            host, port = address_of(address)
        except ValueError as error:  # of a link that was made by somebody else
            return f"its address: {error}"
        arrival = Arrival(host, self.shell.loop.time())
        try:
            async with asyncio.timeout(DIAL_S):
                await self.shell.loop.create_connection(
                    lambda: Doorstep(SocketConnection(self, arrival, neighbour=neighbour)),
                    host,
                    port,
                    ssl=self._client_tls,
                )
        except TimeoutError:
            return "it does not answer"
        except OSError as error:
            return str(error)
        return ""

    # --- the store ----------------------------------------------------------------------------------

    def _persist(self, persist: Persist) -> None:
        assert self._store is not None
        writes = persist.writes
        if self._gate is not None:
            writes = {**writes, **self._gate.stamp(persist.token)}
        self._store.write(persist.token, writes)
        if self._store.backlog_bytes > BACKLOG_BYTES_MAX and not self.choked:
            self._choke(True)

    def _safe(self, token: int) -> None:
        """Everything up to this transaction is on the disk."""
        if self._gate is None:
            self.released(token)
        else:
            self._gate.safe(token)

    def released(self, token: int) -> None:
        """What has waited for transactions up to this one may be said."""
        assert self._store is not None
        self.shell.handle(Persisted(token))
        if self.choked and not self._stopping and self._store.backlog_bytes < BACKLOG_BYTES_MAX / 2:
            self._choke(False)
        if self._store.is_full != self.shell.machine.node.hosted.store_is_full:
            self.shell.handle(StoreFilled(self._store.is_full))

    def _fetch(self, fetch: Fetch) -> None:
        assert self._store is not None

        def done(records: list[Any]) -> None:
            event = Fetched(fetch, records)
            self.shell.loop.call_soon_threadsafe(self.shell.handle, event)

        self._store.read(fetch.records, done)

    def _choke(self, choked: bool) -> None:
        self.choked = choked
        for connection in self._open.values():
            connection.read_or_not()

    # --- for operators ------------------------------------------------------------------------------

    def promote(self, *, force: bool) -> dict[str, Any]:
        """Somebody wants this node to be the broker, which it is."""
        del force
        raise UserError(f"{self.name} is served by this node; ask the other one of the pair")

    def standby_warning(self) -> str:
        """What is wrong with the standby; "" if there is none, or nothing is."""
        return "" if self._gate is None else self._gate.warning()

    def troubles(self) -> dict[str, str]:
        """What keeps the broker from its work, by what it is about; "" where nothing does."""
        return {
            "store": self._store.trouble if self._store is not None else "",
            "trace": self.recorder.trouble,
            "users": self._users.problem if self._users is not None else "",
            "tasks": self.tasks.trouble(),
        }

    def trouble(self) -> str:
        """All of it; "" if there is none."""
        return "; ".join(filter(None, self.troubles().values()))

    def status(self) -> dict[str, Any]:
        load = self.shell.machine.load
        store = self._store
        return {
            **self.shell.status(),
            "host": self.host,
            "port": self.port,
            "pid": os.getpid(),
            "uptime_s": time.time() - self.started_at,
            "routed": self.shell.machine.traffic.routed,
            "bytes_out": self.shell.bytes_out,
            "refusals": self.refusals,
            "trouble": self.trouble(),
            "warnings": [each.as_dict() for each in self.watch.warnings()],
            "tracing": self.recorder.recording,
            "address": self.shell.machine.identity.address,
            "modules": self.optimisers.states(self.shell),
            "load": load_dict(load),
            "store_bytes": 0 if store is None else store.retained_bytes,
            "store_backlog_bytes": 0 if store is None else store.backlog_bytes,
            "standby": None if self._gate is None else self._gate.status(),
        }
