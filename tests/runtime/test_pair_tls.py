"""Where the two of a pair meet, with certificates: both ends prove themselves, and others hear why not."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from roost.runtime.child_pair import ChildPair, until
from roost.runtime.pair_wire import Channel, PairWireError, Secured, dial, listen
from roost.runtime.tables import TlsTable
from roost.runtime.tls import client_context, issue, make_authority
from tests.runtime.pair_load import through

HOST = "127.0.0.1"
TOKEN = "roost_ours"


class Keys(NamedTuple):
    """Certificates of our authority, and of somebody else's."""

    ours: Path
    others: Path

    def of(self, folder: Path) -> TlsTable:
        """Somebody who trusts our authority, with a certificate of this folder."""
        return TlsTable(
            certificate=str(folder / "node.pem"),
            key=str(folder / "node.key"),
            authority=str(self.ours / "authority.pem"),
        )

    def secured(self, whose: str) -> Secured:
        tables = {"ours": self.of(self.ours), "others": self.of(self.others), "none": TlsTable()}
        return Secured(tables[whose])


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    found = Keys(tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("others"))
    for folder in found:
        make_authority(folder)
        issue(folder, "node", ["localhost", HOST])
    return found


class Meeting(NamedTuple):
    """How it went: what came over the connection, and why not, at the end that dialled and the other."""

    heard: list[str]
    dialler: str
    listener: list[str]


def meet(
    listens: ssl.SSLContext | None,
    dials: ssl.SSLContext | None,
    tokens: tuple[str, str],
    *,
    both: bool = True,  # say why, if they do not meet
) -> Meeting:
    found = Meeting([], "", [])
    channels: list[Channel[str]] = []

    async def met(channel: Channel[str]) -> None:
        channels.append(channel)
        found.heard.append(await channel.hear())
        channel.say("and here")

    async def main() -> Meeting:
        told = found.listener.append
        server = await listen(HOST, 0, tokens[0], listens, str, met, told)
        port = server.sockets[0].getsockname()[1]
        try:
            channel = await dial(HOST, port, tokens[1], dials, str)
            channels.append(channel)
            channel.say("there")
            found.heard.append(await channel.hear())
        except PairWireError as error:
            while both and not found.listener:  # which hears of it in its own time
                await asyncio.sleep(0.01)
            return found._replace(dialler=str(error))
        finally:
            server.close()
            for channel in channels:
                channel.abort()
            await asyncio.sleep(0.01)  # in which they are closed
        return found

    async def in_time() -> Meeting:
        async with asyncio.timeout(30):
            return await main()

    return asyncio.run(in_time())


def test_two_with_certificates_of_one_authority_meet(keys: Keys) -> None:
    """Also though the settings ask no client for one."""
    ours = keys.secured("ours")
    meeting = meet(ours.listens, ours.dials, (TOKEN, TOKEN))
    assert meeting == Meeting(["there", "and here"], "", [])


@pytest.mark.parametrize(
    ("listens", "dials", "dialler", "listener"),
    [
        ("ours", "none", "it says nothing; it was stopped, or waits for TLS", "the TLS handshake"),
        ("none", "ours", "the TLS handshake failed", "it speaks TLS; expected [tls] at both"),
        ("ours", "others", "the TLS handshake failed", "the TLS handshake failed"),
    ],
)
def test_both_ends_say_why_they_do_not_meet(
    keys: Keys, listens: str, dials: str, dialler: str, listener: str
) -> None:
    meeting = meet(keys.secured(listens).listens, keys.secured(dials).dials, (TOKEN, TOKEN))
    assert meeting.heard == []
    assert meeting.dialler.startswith(dialler)
    assert len(meeting.listener) == 1
    assert meeting.listener[0].startswith(listener)


def test_nobody_follows_one_of_another_authority(keys: Keys) -> None:
    """It is the one that dials who refuses, and says why."""
    meeting = meet(
        keys.secured("others").listens, keys.secured("ours").dials, (TOKEN, TOKEN), both=False
    )
    assert meeting.heard == []
    assert "certificate verify failed" in meeting.dialler


def test_who_shows_no_certificate_is_refused(keys: Keys) -> None:
    """One that trusts us, and has nothing to show."""
    trusts = ssl.create_default_context(cafile=str(keys.ours / "authority.pem"))
    meeting = meet(keys.secured("ours").listens, trusts, (TOKEN, TOKEN))
    assert meeting.heard == []
    assert "the TLS handshake failed" in meeting.dialler
    assert "did not return a certificate" in meeting.listener[0]


@pytest.mark.parametrize("secured", ["ours", "none"])
def test_another_token_is_refused_with_tls_or_without(keys: Keys, secured: str) -> None:
    tls = keys.secured(secured)
    meeting = meet(tls.listens, tls.dials, (TOKEN, "roost_theirs"))
    assert meeting.heard == []
    assert "it has another token" in meeting.dialler
    assert "it has another token" in meeting.listener[0]


# --- as processes -----------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path, keys: Keys) -> Iterator[ChildPair]:
    table = keys.of(keys.ours)
    tls = {key: getattr(table, key) for key in ("certificate", "key", "authority")}
    made = ChildPair(tmp_path, tables={"tls": tls, "security": {"token": TOKEN}})
    yield made
    made.stop()


@pytest.mark.long
def test_a_pair_with_certificates_fails_over(pair: ChildPair, keys: Keys) -> None:
    leader, other = pair.joined()
    tls = client_context(keys.of(keys.ours))

    async def fail() -> None:
        leader.running.signal(signal.SIGKILL)
        await asyncio.to_thread(until, lambda: other.has_role("leader"), "a take-over")

    url = pair.url.replace("roost://", "roosts://")
    assert asyncio.run(through(url, url, [fail], tls=tls)).all_once_and_in_order
