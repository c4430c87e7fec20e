"""A user with `link` is one broker, by its name or those in its certificates, while the file says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roost.broker.events import LinkAdded
from roost.broker.messages import PROTOCOL_VERSION, Frame, LinkHello, Login, Publication
from roost.runtime.plain_peer import PlainPeer, RefusedError
from roost.runtime.security import User
from tests.runtime.peers import Live, live, login_of, play, user

HELLO = LinkHello(PROTOCOL_VERSION, "N", "n", "", 0, 0)


async def greets(at: Live, who: str, hello: LinkHello = HELLO) -> PlainPeer:
    peer = await at.peer()
    peer.put(Login(*login_of(who)), hello)
    assert (await peer.next(LinkHello)).broker == "B0"
    return peer


NAMES = {
    "site": user("site", link=True, certificates=("N", "n.example")),
    "other": user("other", link=True, certificates=("n.example.org",)),
}


@live(users=NAMES)
async def test_a_broker_by_the_names_of_its_certificates(at: Live) -> None:
    at.server.shell.handle(LinkAdded("N", dial=False))
    await greets(at, "N")
    await greets(at, "site")
    with pytest.raises(RefusedError, match="'other' may not greet as 'N'"):
        await greets(at, "other")


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (None, "'N' is no user any more"),
        (user("N"), "'N' is not a broker of this federation"),
    ],
)
def test_who_is_no_neighbour_any_more_is_closed(
    now: User | None, reason: str, tmp_path: Path
) -> None:
    """Changes of the users file count at once: it hears of no event that is published from then on."""

    async def scenario(at: Live) -> None:
        at.server.shell.handle(LinkAdded("N", dial=False))
        peer = await greets(at, "N")
        at.change_users({"N": now})
        said: list[object] = []
        async with asyncio.timeout(5):
            while (parcel := await peer.hear()) is not None:
                said.append(parcel)
        assert getattr(said[-1], "reason", "") == reason
        assert not at.server.shell.machine.links["N"].greeted
        assert not [p for p in said if isinstance(p, Frame) and isinstance(p.message, Publication)]

    asyncio.run(play(scenario, tmp_path))
