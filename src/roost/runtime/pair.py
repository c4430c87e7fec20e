"""One node of a broker that has a standby, as a process: the broker itself, or whoever waits to be it.

The machine is `overlay.twin`, which decides everything; this drives it. While it is the broker, a
`BrokerServer` runs on the store, asks here before it says anything (`gate`), and what it commits goes to the
other node. While it is not, the store is a `Replica`, which takes what the other one commits. To fall silent
is to stop the server, whatever it was at: its store has all that it ever said, and it starts again from
there.

All that waits for a disk is done by one thread, in order (`pair_disk`).
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

from roost.broker.commands import StoreKey
from roost.broker.commands import Superseded as SupersededCommand
from roost.errors import UserError
from roost.overlay import twin_words as tw
from roost.overlay.twin import Twin
from roost.overlay.twin_settings import TwinSettings
from roost.overlay.twin_words import Membership, Position
from roost.runtime import pair_file, pair_wire, witness
from roost.runtime.config import address_of, login_of
from roost.runtime.log import EventLog
from roost.runtime.pair_admin import WaitingNode
from roost.runtime.pair_disk import PairDisk
from roost.runtime.pair_file import Known
from roost.runtime.pair_wire import Channel, PairWireError, Secured
from roost.runtime.replica import SHIPPED, Replica, snapshot
from roost.runtime.server import BrokerServer
from roost.runtime.tables import ServerConfig
from roost.runtime.witness import MayI

# How often the standby tries to reach the primary.
DIAL_EVERY_S = 0.2
# Signs of life, so many in the time after which there are none.
BEATS = 6


class Speaker:
    """The gate of the broker that runs here: one run of it."""

    def __init__(self, node: PairNode, epoch: int) -> None:
        self.epoch = epoch
        self.run = secrets.token_hex(8)
        self._node = node
        self._base = 0

    @property
    def beside(self) -> str:
        return self._node.beside

    @property
    def is_open(self) -> bool:
        return self._node.has_who_it_takes

    def begins(self, records: Mapping[StoreKey, Any]) -> None:
        position = Position(*records.get(SHIPPED, ()))
        self._base = position.number
        self._node.happens(tw.Began(self.run, position))

    def stamp(self, token: int) -> Mapping[StoreKey, Any]:
        return {SHIPPED: (self.run, self._base + token)}

    def wrote(self, token: int, body: bytes) -> None:
        self._node.spoken(self, tw.Wrote(self._base + token, body, len(body)))

    def safe(self, token: int) -> None:
        self._node.spoken(self, tw.Safe(self._base + token))

    def token_of(self, number: int) -> int:
        return number - self._base

    def superseded(self, command: SupersededCommand) -> None:
        self._node.spoken(self, tw.Superseded(command.epoch))

    def warning(self) -> str:
        return self._node.warning()

    def status(self) -> dict[str, Any]:
        return self._node.pair_status()


class PairNode:
    """A node, from its start to its end."""

    def __init__(self, config: ServerConfig, config_file: Path | None = None) -> None:
        self.config = config
        self.name = config.broker.name
        self.log = EventLog(config.log, self.name)
        self.server: BrokerServer | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.changed = asyncio.Event()  # it has begun to be the broker, or has ceased to
        self.started_at = time.time()
        self._config_file = config_file
        self._loop = asyncio.get_running_loop()
        self._folder = Path(config.broker.data)
        login = login_of(config)
        self._token = "" if login is None else login[1]
        self._tls = Secured(config.tls)
        self._refused = ""  # why, of whom we dialled or who came last
        self._disk = PairDisk(self._keep, self._has_kept, self._disk_failed)
        self._replica: Replica | None = None
        self._known: Known
        self._twin: Twin
        self._speaker: Speaker | None = None
        self._channel: Channel[tw.Word] | None = None
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = WaitingNode(self)
        self._changing = (
            asyncio.Lock()
        )  # to become the broker, and to be it no longer, take their time
        self._leaving = False
        self._over = False

    # --- start and stop -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the store, and look for the other one."""
        table, broker = self.config.standby, self.config.broker
        await self._disk.wait_for(self._open)
        assert self._replica is not None
        known = self._replica.known
        self._twin = Twin(
            TwinSettings(
                broker=self.name,
                node=known.node,
                first=table.role == "primary",
                alone=table.alone,
                witness=table.witness,
                takeover_s=table.takeover_s,
                address=broker.advertised or f"{broker.host}:{broker.port}",
            ),
            known.membership,
            self._replica.position,
        )
        host, port = address_of(table.address)
        if table.role == "primary":
            try:
                self._listener = await pair_wire.listen(
                    host, port, self._token, self._tls.listens, tw.Word, self._met, self._stranger
                )
            except OSError as error:
                what = f"can't listen on {table.address}, for the standby"
                raise UserError(f"{what}: {error.strerror or error}") from None
        else:
            self._spawn(self._dial(host, port))
        await self._waiting.start()
        self.log.info("started", role=table.role, epoch=self._twin.epoch, store=broker.data)
        self._spawn(self._beat())

    async def stop(self) -> None:
        """In order: what was accepted is at both, as long as the other is there."""
        self._leaving = True
        if self.server is not None:
            await self.server.stop()
        self._over = True
        for task in list(self._tasks):
            task.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._channel is not None:
            self._channel.close()
        await self._waiting.stop()
        if self._replica is not None:
            await self._disk.wait_for(self._replica.close)
        self._disk.close()
        self.log.close()

    def _open(self) -> None:
        self._replica = Replica(self._folder)
        self._known = self._replica.known
        pair_file.write(self._folder, self._known)

    # --- driving the machine ------------------------------------------------------------------------

    def happens(self, event: tw.Happening) -> None:
        if self._over:
            return
        for command in self._twin.handle(event, self._loop.time()):
            self._execute(command)

    def spoken(self, speaker: Speaker, event: tw.Happening) -> None:
        """By the broker that runs here, if it is still that one."""
        if speaker is self._speaker:
            self.happens(event)

    def _execute(self, command: tw.Command) -> None:
        match command:
            case tw.Say(word):
                if self._channel is not None:
                    self._channel.say(word)
            case tw.HangUp():
                channel, self._channel = self._channel, None
                if channel is not None:
                    channel.close()
            case tw.Note(membership):
                self._on_disk(lambda: self._note(membership), tw.Noted(membership))
            case tw.Serve(membership):
                self._spawn(self._serve(membership))
            case tw.Quit():
                self._spawn(self._quit())
            case tw.Promoted(epoch):
                if self.server is not None:
                    self.server.shell.machine.identity.epoch = epoch
            case tw.Release(number):
                if self.server is not None and self._speaker is not None:
                    self.server.released(self._speaker.token_of(number))
            case tw.SendSnapshot():
                self._spawn(self._send_snapshot())
            case tw.Clear():
                self._in_store(Replica.clear)
            case tw.Load(batch):
                self._in_store(lambda store: store.load(batch))
            case tw.Adopt(position, membership):
                self._on_disk(lambda: self._adopt(position, membership), tw.Kept(position))
            case tw.Keep(position, batch):
                self._disk.keep(position, batch)
            case tw.AskWitness(epoch):
                self._spawn(self._ask(epoch))
            case tw.Tell(level, what, detail):
                self.log.add(level, what, {"detail": detail, "epoch": self._twin.epoch})

    @property
    def _store(self) -> Replica:
        assert self._replica is not None, "the store is the broker's"
        return self._replica

    # --- in the thread, or called back from it ------------------------------------------------------

    def _on_disk(self, job: Callable[[], object], then: tw.Happening | None = None) -> None:
        self._disk.do(job, lambda: self.happens(then) if then is not None else None)

    def _in_store(self, job: Callable[[Replica], object]) -> None:
        self._disk.do(lambda: job(self._store))  # which it is by then

    def _keep(self, bodies: Sequence[bytes], position: Position) -> None:
        self._store.keep(bodies, position)

    def _has_kept(self, position: Position) -> None:
        if self._over:
            return
        self.happens(tw.Kept(position))
        self._in_store(Replica.look_after)  # once it has been answered

    def _disk_failed(self, error: BaseException) -> None:
        if self._over:
            return
        self.log.error("store", detail=str(error) or repr(error))
        self._lose("the store can't be written")
        # Behind all that came by that connection, which is refused: it would leave a gap.
        if self._replica is not None:
            self._in_store(Replica.mend)

    def _note(self, membership: Membership | None) -> None:
        if self._replica is not None:
            self._replica.note(membership)
            self._known = self._replica.known
        else:
            self._known = Known(self._known.store, self._known.node, membership)
            pair_file.write(self._folder, self._known)

    def _adopt(self, position: Position, membership: Membership | None) -> None:
        self._store.adopt(position, membership)
        self._known = self._store.known

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)

    # --- being the broker ---------------------------------------------------------------------------

    async def _serve(self, membership: Membership) -> None:
        async with self._changing:
            if not self._leaving:
                await self._begin(membership)

    async def _begin(self, membership: Membership) -> None:
        # Whoever is being answered by it keeps nobody waiting: its port is free at once.
        self._spawn(self._waiting.stop())
        await self._disk.wait_for(self._store.close)
        self._replica = None
        self._speaker = Speaker(self, membership.epoch)
        server = BrokerServer(
            self.config,
            log=EventLog(self.config.log, self.name),
            config_file=self._config_file,
            gate=self._speaker,
        )
        self.server = server
        await server.start()
        self._introduce()
        self.log.info("serves", epoch=self._twin.epoch, address=f"{server.host}:{server.port}")
        self.changed.set()

    async def _quit(self) -> None:
        if self._leaving:
            return
        if self.server is not None:
            self.server.fall_silent()
        async with self._changing:
            await self._end()

    async def _end(self) -> None:
        server, self._speaker, self.server = self.server, None, None
        if server is not None:
            server.fall_silent()
            await server.stop(within_s=0.0)
        await self._disk.wait_for(self._open)
        await self._waiting.start()
        self.changed.set()
        assert self._replica is not None
        self.happens(tw.Stopped(self._replica.position))

    @property
    def beside(self) -> str:
        """Where clients find the other node."""
        return self._twin.peer_address or self.config.standby.beside

    @property
    def has_who_it_takes(self) -> bool:
        """To make something safe: the other, or nobody."""
        return self._twin.alone or self._twin.connected

    def _introduce(self) -> None:
        if self.server is not None and self._speaker is not None:
            with suppress(AttributeError):  # it is about to start, and asks itself
                self.server.shell.machine.identity.beside = self.beside

    # --- the other one ------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            self.happens(tw.Ticked())
            await asyncio.sleep(self.config.standby.takeover_s / BEATS)

    async def _dial(self, host: str, port: int) -> None:
        while True:
            if self._channel is None:
                try:
                    channel = await pair_wire.dial(
                        host, port, self._token, self._tls.dials, tw.Word
                    )
                except (OSError, EOFError, TimeoutError):
                    pass
                except PairWireError as error:
                    self._stranger(str(error))
                else:
                    await self._met(channel)
            await asyncio.sleep(DIAL_EVERY_S)

    def _stranger(self, why: str) -> None:
        """Said once: the other node tries again and again."""
        if why != self._refused:
            self._refused = why
            self.log.warning("standby refused", detail=why)

    async def _met(self, channel: Channel[tw.Word]) -> None:
        """There is a connection: hear what comes, until it is over."""
        self._lose("there is a newer connection")
        self._refused = ""
        self._channel = channel
        reason = "the connection is gone"
        self.happens(tw.Opened())
        try:
            while self._channel is channel:
                word = await channel.hear()
                if self._channel is channel:
                    self.happens(tw.Heard(word))
                    if isinstance(word, tw.Hello):
                        self._introduce()
        except PairWireError as error:
            reason = str(error)
        except (OSError, EOFError):
            pass
        finally:
            channel.close()
            if self._channel is channel:
                self._lose(reason)

    def _lose(self, reason: str) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
            self.happens(tw.Closed(reason))

    async def _send_snapshot(self) -> None:
        channel = self._channel
        parts, position = await asyncio.to_thread(snapshot, self._folder)
        for part in parts:
            if self._channel is not channel or channel is None:
                return
            channel.say(tw.Part(part))
            with suppress(PairWireError):
                await channel.room()
        if self._channel is channel:
            self.happens(tw.SnapshotRead(position))

    async def _ask(self, epoch: int) -> None:
        address = address_of(self.config.standby.witness)
        question = MayI(self.name, self._known.node, epoch)
        try:
            granted = await witness.ask(address, self._token, self._tls.dials, question)
        except PairWireError as error:
            self._stranger(f"the witness: {error}")
            return
        if granted is not None:
            self.happens(tw.Witnessed(epoch, granted))

    # --- for operators ------------------------------------------------------------------------------

    def promote(self, *, force: bool) -> dict[str, Any]:
        """Be the broker, if that is possible."""
        self.happens(tw.Wanted(force))
        return self.pair_status()

    @property
    def trouble(self) -> str:
        """Why this node is neither the broker nor ready to be it; "" if it is."""
        if not self._twin.trouble:
            return ""
        last = f"; the last that was met was refused: {self._refused}" if self._refused else ""
        return f"{self._twin.trouble}{last}"

    def warning(self) -> str:
        """What is wrong with the other node, while this one is the broker."""
        twin = self._twin
        if twin.alone:
            where = "comes up to date" if twin.connected else "is away"
            return f"the standby {where}: what is accepted is on one disk only"
        if not twin.connected:
            return "the standby is away: nothing is accepted until that is settled"
        return ""

    def pair_status(self) -> dict[str, Any]:
        twin = self._twin
        return {
            "role": twin.role,
            "epoch": twin.epoch,
            "node": self._known.node,
            "connected": twin.connected,
            "alone": twin.alone,
            "member": twin.is_member,
            "behind": twin.behind,
            "beside": self.beside,
            "trouble": self.trouble,
        }


async def serve_pair(
    config: ServerConfig,
    config_file: Path | None,
    beside: Callable[[BrokerServer], AbstractAsyncContextManager[None]] | None = None,
) -> None:
    """Run a node of a pair until SIGTERM or SIGINT."""
    from roost.runtime.main import announce, ready_to_run  # noqa: PLC0415 (which starts brokers)

    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    node = PairNode(config, config_file)
    ready_to_run(node.log)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await node.start()
        announce(node.log, f"{node.name} waits for its turn, or the other")
        ends = loop.create_task(stop.wait())
        while not ends.done() and not node.failed.done():
            node.changed.clear()
            server = node.server
            if server is not None:
                announce(node.log, f"{node.name} listens on {server.host}:{server.port}")
            await _while_it_is(node, server, ends, beside)
        if node.failed.done():
            node.failed.result()
        announce(node.log, f"{node.name} stops")
    finally:
        await node.stop()


async def _while_it_is(
    node: PairNode,
    server: BrokerServer | None,
    ends: asyncio.Task[Any],
    beside: Callable[[BrokerServer], AbstractAsyncContextManager[None]] | None,
) -> None:
    """The broker, or not: until that changes."""
    changed = asyncio.get_running_loop().create_task(node.changed.wait())
    try:
        if server is None or beside is None:
            await asyncio.wait((changed, ends, node.failed), return_when=asyncio.FIRST_COMPLETED)
        else:
            async with beside(server):
                await asyncio.wait(
                    (changed, ends, node.failed), return_when=asyncio.FIRST_COMPLETED
                )
    finally:
        changed.cancel()
