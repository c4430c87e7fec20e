"""Three live brokers in a row, B0 - B1 - B2, with one users file; and a victim, who has things at both ends.

What the victim, `alice`, has is what others may be after:

    alice~pub        publishes at B0; every event must reach all of hers
    alice~live       a session at B0, and
    alice~far        one at B2: she is there, and hears everything
    alice~durable/books     a durable session at B0 that is away: its events wait
    alice~outbox/orders     an outbox at B0 that is away: how far it has come is known
    N                a neighbour of B0 that is away: what was published since waits for it

`Victim.check` publishes, and says what is not as it should be: an event that did not come, a session that is
not hers any more, a word that she was not to hear. `Victim.take_back` comes for all that has waited.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from roost.broker.hops import Link, Session
from roost.broker.messages import (
    PROTOCOL_VERSION,
    Ack,
    Attach,
    Attached,
    Delivery,
    Frame,
    LinkHello,
    Login,
    Message,
    Parcel,
    Publication,
    Settle,
    Settled,
)
from roost.language import Event
from roost.runtime.config import check_config
from roost.runtime.in_process import start_server
from roost.runtime.plain_peer import PlainPeer
from roost.runtime.security import User, changed_users, digest_token
from roost.runtime.server import BrokerServer
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    LimitsTable,
    LinksTable,
    SecurityTable,
    ServerConfig,
)

HOST = "127.0.0.1"
BROKERS = ("B0", "B1", "B2")
NEIGHBOURS = {"B0": ("B1", "N"), "B1": ("B0", "B2"), "B2": ("B1",)}
VICTIM = "alice"
PUBLIC, SECRET = "PUBLIC", "SECRET"
DURABLE, OUTBOX = "alice~durable/books", "alice~outbox/orders"
UNMARKED = "c0ffee.0"  # of alice~far; as clients call those that don't outlive them
ORDERS = "alice~orders"  # the publisher of that outbox


def token_of(user: str) -> str:
    return f"roost_secret-of-{user}"


def user(name: str, **fields: object) -> User:
    return User(token_digest=digest_token(token_of(name)), **fields)  # type: ignore[arg-type]


def wants(class_: str) -> str:
    return f"class = '{class_}'"


def said(parcel: Parcel) -> Parcel | Message:
    """What a frame carries, or what comes without one."""
    return parcel.message if isinstance(parcel, Frame) else parcel


class Trio:
    """The brokers, and whoever has connected."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers: dict[str, BrokerServer] = {}
        self._peers: list[PlainPeer] = []

    async def start(self, *, store: bool) -> None:
        for name in BROKERS:
            before = {n: f"{HOST}:{s.port}" for n, s in self.servers.items()}
            config = ServerConfig(
                broker=BrokerTable(
                    name=name,
                    port=0,
                    data=str(self.folder / name) if store else "",
                    absence_grace_s=0.05,  # N is away, and nobody is to wait for it
                    redial_min_s=0.05,
                ),
                links=LinksTable(neighbours={n: before.get(n, "") for n in NEIGHBOURS[name]}),
                limits=LimitsTable(keepalive_s=60.0),
                admin=AdminTable(port=0),
                security=SecurityTable(
                    enabled=True,
                    users=str(self.folder / "users.toml"),
                    token=token_of(name),
                    refusals=str(self.folder / f"refusals-{name}"),
                ),
            )
            check_config(config)
            self.servers[name] = await start_server(config)

    async def stop(self) -> None:
        for peer in self._peers:
            await peer.close()
        for server in self.servers.values():
            await server.stop(within_s=1.0)

    async def peer(self, broker: str) -> PlainPeer:
        peer = await PlainPeer.connect(HOST, self.servers[broker].port)
        self._peers.append(peer)
        return peer

    async def attached(self, broker: str, client: str, session: str = "") -> PlainPeer:
        """A session of whom its client belongs to."""
        peer = await self.peer(broker)
        who = client.partition("~")[0]
        await peer.attach(client, session, login=(who, token_of(who)))
        return peer

    async def ask(
        self, broker: str, page: str, body: object, login: Login | None
    ) -> tuple[int, str]:
        """A page for operators, as somebody or nobody: the status, and what it says."""
        admin = self.servers[broker].admin
        assert admin is not None
        text = b"" if body is None else json.dumps(body).encode()
        head = [f"{'GET' if body is None else 'POST'} {page} HTTP/1.1", "Host: x"]
        head += ["Connection: close", f"Content-Length: {len(text)}"]
        if login is not None:
            basic = base64.b64encode(f"{login.user}:{login.token}".encode()).decode()
            head.append(f"Authorization: Basic {basic}")
        reader, writer = await asyncio.open_connection(HOST, admin.port)
        writer.write("\r\n".join([*head, "", ""]).encode() + text)
        answer = (await asyncio.wait_for(reader.read(), 10)).decode()
        writer.close()
        return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]

    def session(self, broker: str, name: str) -> Session | None:
        return self.servers[broker].shell.machine.sessions.get(name)

    def link(self, broker: str, name: str) -> Link:
        return self.servers[broker].shell.machine.links[name]


@asynccontextmanager
async def trio(
    folder: Path, users: Mapping[str, User], *, store: bool = False
) -> AsyncIterator[tuple[Trio, Victim]]:
    with changed_users(folder / "users.toml") as written:
        written.update(users)
        written.update({name: user(name, link=True) for name in (*BROKERS, "N")})
        written[VICTIM] = user(VICTIM, publish="*", subscribe="*")
    brokers = Trio(folder)
    try:
        await brokers.start(store=store)
        victim = Victim(brokers)
        await victim.begin()
        yield brokers, victim
    finally:
        await brokers.stop()


async def settled(peer: PlainPeer) -> None:
    """All that was asked for is in place, everywhere."""
    peer.say(Settle("s", ""))
    await peer.next(Settled)


class Victim:
    """Alice, and the neighbour N."""

    def __init__(self, brokers: Trio) -> None:
        self._brokers = brokers
        self.published = 0  # by alice~pub, a secret and a public one each time
        self._orders = 3
        self.n_greeting: LinkHello  # with which N goes on, as would whoever likes to be N

    async def begin(self) -> None:
        trio_ = self._brokers
        await self._n_comes(LinkHello(PROTOCOL_VERSION, "N", "n", "", 0, 0, "life"))
        self.pub = await trio_.attached("B0", "alice~pub")
        self.pub.advertise("alice~pub/1", "*")
        await settled(self.pub)
        self.live = await trio_.attached("B0", "alice~live")
        self.far = await trio_.attached("B2", "alice~far", UNMARKED)
        for peer in (self.live, self.far):
            for number, class_ in enumerate((SECRET, PUBLIC), 1):
                peer.subscribe(f"{peer.client}/{number}", wants(class_))
            await settled(peer)
        durable = await self._comes(DURABLE, "books")
        # Her own only: others may publish secrets, too.
        durable.subscribe(f"{DURABLE}/events", f"{wants(SECRET)} and by = 'alice'")
        await settled(durable)
        await durable.close()
        outbox = await self._comes(OUTBOX, "orders", publisher=ORDERS)
        outbox.advertise(f"{ORDERS}/1", wants("ORDER"))
        for number in range(1, self._orders + 1):
            outbox.say(Publication(ORDERS, number, Event({"class": "ORDER"})))
        await outbox.acknowledged()
        await outbox.close()
        assert not await self.check()

    async def _comes(self, session: str, process: str, publisher: str = "") -> PlainPeer:
        peer = await self._brokers.peer("B0")
        peer.put(
            Login(VICTIM, token_of(VICTIM)),
            Attach(PROTOCOL_VERSION, VICTIM, session, False, 0, 0, True, process, publisher),
        )
        self.attached = await peer.next(Attached)
        return peer

    async def _n_comes(self, greeting: LinkHello) -> list[int]:
        """N comes, hears what has waited for it, and goes; the numbers of alice~pub's events."""
        peer = await self._brokers.peer("B0")
        peer.put(Login("N", token_of("N")), greeting)
        answer = await peer.next(LinkHello)
        link = self._brokers.link("B0", "N")
        heard = []
        while peer.received[1] < link.channel.data.sent:
            parcel = await peer.hear()
            assert parcel is not None
            message = said(parcel)
            if isinstance(message, Publication) and message.publisher == "alice~pub":
                heard.append(message.sequence)
        control, data = peer.received
        self.n_greeting = replace(
            greeting,
            known_incarnation=answer.incarnation,
            known_life=answer.life,
            control_received=control,
            data_received=data,
        )
        await peer.close()
        return heard

    # --- whether all is as it was -------------------------------------------------------------------

    async def check(self, attackers: str = "") -> list[str]:
        """What is wrong; events of these others are no surprise."""
        wrong: list[str] = []
        for class_ in (SECRET, PUBLIC):
            self.published = self.pub.publish({"class": class_, "by": "alice"})
            for peer in (self.live, self.far):
                wrong += await self._hears(peer, self.published, class_, attackers)
        durable = self._brokers.session("B0", DURABLE)
        if durable is None or durable.connection is not None or durable.process != "books":
            wrong.append("the durable session is not hers any more")
        elif durable.channel.data.sent - durable.channel.data.acked != self.published // 2:
            wrong.append("what waits in the durable session is not what she was sent")
        outbox = self._brokers.session("B0", OUTBOX)
        if outbox is None or outbox.connection is not None or outbox.process != "orders":
            wrong.append("the outbox is not hers any more")
        elif outbox.published != self._orders:
            wrong.append(f"the outbox has come to {outbox.published}")
        for broker, neighbours in NEIGHBOURS.items():
            for name in neighbours:
                link = self._brokers.link(broker, name)
                if link.greeted != (name != "N"):
                    wrong.append(f"{broker}'s link to {name} is not as it was")
        return wrong

    async def _hears(self, peer: PlainPeer, number: int, class_: str, attackers: str) -> list[str]:
        while True:
            try:
                parcel = await peer.hear()
            except TimeoutError:
                return [f"{peer.client} does not hear of event {number}"]
            if isinstance(parcel, Ack):
                continue
            message = parcel and said(parcel)
            if not isinstance(message, Delivery):
                return [f"{peer.client} hears {message}"]
            event = message.publication
            if attackers and event.publisher.partition("~")[0] == attackers:
                continue
            what = (event.publisher, event.sequence, event.event.attributes["class"])
            wanted = ("alice~pub", number, class_)
            return [] if what == wanted else [f"{peer.client} hears {what} in place of {wanted}"]

    async def take_back(self, *, with_n: bool = True) -> list[str]:
        """All that waits is hers, and there; and what she comes for the first time is free. What is not."""
        wrong = []
        durable = await self._comes(DURABLE, "next")
        got = [
            (await durable.next(Delivery)).publication.sequence for _ in range(self.published // 2)
        ]
        if got != list(range(1, self.published, 2)) or self.attached.is_new:
            wrong.append(f"of {self.published // 2} secrets {len(got)} have waited")
        await self._comes(OUTBOX, "next", publisher=ORDERS)
        if (self.attached.publisher, self.attached.published) != (ORDERS, self._orders):
            wrong.append(f"the outbox is {self.attached}")
        for session, publisher in (("alice~durable/later", ""), ("alice~outbox/later", ORDERS)):
            peer = await self._comes(session, "first", publisher)
            if not self.attached.is_new:
                wrong.append(f"{session} was there before her")
            id_ = f"{session}/1"
            peer.subscribe(id_, wants(SECRET))
            peer.advertise(id_, wants(SECRET))
            await settled(peer)
            machine = self._brokers.servers["B0"].shell.broker
            mine = self._brokers.session("B0", session)
            tables = (machine.router.subscriptions, machine.router.advertisements)
            if not all(id_ in table and table[id_].hop is mine for table in tables):
                wrong.append(f"{id_} is not hers")
        if with_n:
            heard = await self._n_comes(self.n_greeting)
            if heard != list(range(1, self.published + 1)):
                wrong.append(f"N has heard of {len(heard)} events of {self.published}")
        return wrong
