"""Names belong to who holds them: what mallory, who may have PUBLIC and nothing else, can take from alice.

Mallory speaks the protocol with words of its own (a raw peer), as whoever means harm would.
"""

from __future__ import annotations

from collections.abc import Callable

from roost.broker.messages import (
    PROTOCOL_VERSION,
    LinkHello,
    Login,
    Publication,
    Refused,
    Settle,
    Settled,
    Subscribe,
)
from roost.client import ClientError
from roost.language import parse_subscription
from roost.runtime.plain_peer import PlainPeer, RefusedError
from tests.edges.kit import (
    HOST,
    STOCK,
    WITHIN_S,
    BrokenPromise,
    Broker,
    Stage,
    all_of,
    arrived,
    case,
    publish,
)

EVERYTHING = ("--publish", "*", "--subscribe", "*")
PUBLIC = "class = 'PUBLIC'"


async def guarded(stage: Stage) -> tuple[Broker, Broker]:
    """B0 and B1, linked, with alice at home and mallory about."""
    stage.add_user("alice", "--publish", STOCK, "--subscribe", STOCK)
    stage.add_user("mallory", "--publish", PUBLIC, "--subscribe", PUBLIC)
    stage.add_user("probe", *EVERYTHING)
    for name in ("B0", "B1"):
        stage.add_user(name, "--link")
    return await stage.pair()


async def mallory(
    stage: Stage, broker: Broker, session: str = "", *, durable: bool = False
) -> PlainPeer:
    peer = await PlainPeer.connect(HOST, broker.port)
    login = ("mallory", stage.tokens["mallory"])
    await peer.attach("mallory", session or "mallory", login=login, durable=durable, process="m")
    return peer


async def says(peer: PlainPeer, say: Callable[[], None]) -> None:
    """It says this, and whatever the broker makes of it is done."""
    say()
    peer.say(Settle("now", ""))
    await peer.next(Settled, WITHIN_S)


@case(once="LOST 10 of 10")
async def the_id_of_a_durable_subscription_elsewhere(stage: Stage) -> str:
    """Nobody else can subscribe under the id of a durable subscription, at another broker."""
    b0, b1 = await guarded(stage)
    async with (
        stage.connect(b1, "alice") as client,
        client.subscribe(STOCK, durable="books") as books,
    ):
        await books.ready()
        squatter = await mallory(stage, b0)
        await says(squatter, lambda: squatter.subscribe("alice~durable/books/events", PUBLIC))
        async with stage.connect(b0, "alice") as publisher:
            await publish(publisher, range(10))
        async with stage.connect(b1, "alice") as witness:
            return all_of(await arrived(books, range(10), witness), range(10))


@case(once="LOCKED OUT: .* the session is somebody else's")
async def the_name_of_a_durable_session(stage: Stage) -> str:
    """Nobody else can take the name of a user's durable session before it comes."""
    b0, _ = await guarded(stage)
    answer = await squats(stage, b0, "alice~durable/books")
    try:
        async with stage.connect(b0, "alice") as client:
            await client.subscribe(STOCK, durable="books").ready()
    except ClientError as error:
        raise BrokenPromise(f"LOCKED OUT: {error}") from None
    return answer


@case(once="LOCKED OUT: .* the session is somebody else's")
async def the_name_of_an_outbox(stage: Stage) -> str:
    """Nobody else can take the name of a user's outbox before it comes."""
    b0, _ = await guarded(stage)
    answer = await squats(stage, b0, "alice~outbox/orders")
    try:
        async with stage.connect(b0, "alice") as client, client.outbox("orders") as outbox:
            await outbox.publish(1, {"class": "STOCK", "n": 1})
    except ClientError as error:
        raise BrokenPromise(f"LOCKED OUT: {error}") from None
    return answer


async def squats(stage: Stage, broker: Broker, session: str) -> str:
    """Mallory comes first under this name; what it gets for an answer."""
    try:
        await mallory(stage, broker, session, durable=True)
    except RefusedError as error:
        return f"mallory was refused: {error}"
    return "mallory was let in, and alice none the less"


@case(once="LOCKED OUT: the id .* is in use")
async def the_id_of_an_advertisement(stage: Stage) -> str:
    """Nobody else can take the id of a user's advertisement, at another broker."""
    b0, b1 = await guarded(stage)
    squatter = await mallory(stage, b0)
    await says(squatter, lambda: squatter.advertise("alice/1", PUBLIC))
    owner = await PlainPeer.connect(HOST, b1.port)
    await owner.attach("alice", login=("alice", stage.tokens["alice"]))
    owner.advertise("alice/1", STOCK)
    owner.say(Settle("now", ""))
    while not isinstance(said := await owner.next(object, WITHIN_S), Settled):
        if isinstance(said, Refused):
            raise BrokenPromise(f"LOCKED OUT: {said.reason}")
    return "alice advertises under it"


@case(once="LET IN: B2 read 10 of 10 events as B1")
async def a_neighbour_that_greets_as_another(stage: Stage) -> str:
    """The user of one neighbour can't come as another one, and read what is for it."""
    for name in ("B0", "B1", "B2"):
        stage.add_user(name, "--link")
    stage.add_user("alice", *EVERYTHING)
    b0 = await stage.broker("B0", {"B1": "", "B2": ""})
    async with stage.connect(b0, "alice") as publisher:
        await publish(publisher, [-1])
        impostor = await PlainPeer.connect(HOST, b0.port)
        hello = LinkHello(PROTOCOL_VERSION, "B1", "x", "", 0, 0)
        impostor.put(Login("B2", stage.tokens["B2"]), hello)
        try:
            await impostor.next(LinkHello, WITHIN_S)
        except RefusedError as error:
            return f"B2 was refused: {error}"
        impostor.say(Subscribe("B1/1", parse_subscription(STOCK), ""))
        await impostor.acknowledged(WITHIN_S)
        await publish(publisher, range(10))
        for _ in range(10):
            await impostor.next(Publication, WITHIN_S)
    raise BrokenPromise("LET IN: B2 read 10 of 10 events as B1")
