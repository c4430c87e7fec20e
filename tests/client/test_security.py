"""Who is calling: tokens, permissions and TLS, as a client meets them."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from roost.client import ConnectError, Refused, Tls, connect
from roost.errors import UserError
from roost.runtime.private_file import write_private
from roost.runtime.security import Hardness, User, hash_token, users_text
from roost.runtime.tables import SecurityTable, ServerConfig, TlsTable
from roost.runtime.tls import issue, make_authority
from tests.client.support import config, in_loop, numbers, serving, take, url_of

QUICK = Hardness(time_cost=1, memory_kib=8)


def secured(folder: Path, tls: TlsTable = TlsTable(), **users: User) -> ServerConfig:
    path = folder / "users.toml"
    write_private(path, users_text(users).encode())
    refusals = str(folder / "refusals")
    security = SecurityTable(enabled=True, users=str(path), refusals=refusals)
    return config(security=security, tls=tls)


def user(publish: str = "*", subscribe: str = "*") -> User:
    return User(token_hash=hash_token("secret", QUICK), publish=publish, subscribe=subscribe)


@in_loop
async def test_logging_in(tmp_path: Path) -> None:
    async with serving(secured(tmp_path, alice=user())) as server:
        where = url_of(server).removeprefix("roost://")
        async with connect(f"roost://{where}", user="alice", token="secret", name="desk") as client:
            assert client.name.startswith("alice~desk~")
            subscription = client.subscribe("n > 0")
            await subscription.ready()
            await client.publish({"n": 1})
            assert numbers(await take(subscription, 1)) == [1]
            async with client.subscribe("n > 0", durable="d") as durable:
                await durable.ready()
                await client.publish({"n": 2})
                assert numbers(await take(durable, 1)) == [2]
                assert "alice~durable/d" in server.shell.machine.sessions
        async with connect(f"roost://alice:secret@{where}") as client:
            assert client.name.startswith("alice~")
        for user_, token in (("alice", "guessed"), ("bob", "secret")):
            with pytest.raises(ConnectError, match="the user or the token is not right"):
                async with connect(f"roost://{where}", user=user_, token=token):
                    pass
        with pytest.raises(ConnectError, match="nobody has logged in"):
            async with connect(f"roost://{where}"):
                pass


@in_loop
async def test_a_login_is_no_matter_where_nobody_asks() -> None:
    async with serving() as server, connect(url_of(server), user="alice", token="x") as client:
        await client.publish({"n": 1})
        await client.flush()
    async with connect("memory://", user="alice", token="x") as client:
        await client.publish({"n": 1})


@in_loop
async def test_what_was_not_granted(tmp_path: Path) -> None:
    granted = user(publish="class = 'STOCK'", subscribe="class = 'STOCK'")
    async with (
        serving(secured(tmp_path, alice=granted)) as server,
        connect(url_of(server), user="alice", token="secret") as client,
    ):
        # The derived advertisement names the class, so it is covered.
        await client.publish({"class": "STOCK", "n": 1})
        await client.flush()
        await client.publish({"class": "NEWS", "n": 1})
        with pytest.raises(Refused, match=r"may only advertise what .* covers") as refused:
            await client.flush()
        assert refused.value.request.startswith("the advertisement that follows")
        with pytest.raises(Refused, match="may only advertise") as refused:
            await client.advertise("n > 0")
        assert (refused.value.others, refused.value.events) == (0, 0)
        with pytest.raises(Refused, match=r"may only subscribe to what .* covers"):
            await client.subscribe("n > 0").ready()
        with pytest.raises(Refused, match="the durable subscription 'd' was refused"):
            await client.subscribe("n > 0", durable="d").ready()
        subscription = client.subscribe("class = 'STOCK' and n > 1")
        await subscription.ready()


def authority(folder: Path) -> TlsTable:
    make_authority(folder)
    issue(folder, "broker", ["127.0.0.1"])
    return TlsTable(
        certificate=str(folder / "broker.pem"),
        key=str(folder / "broker.key"),
        authority=str(folder / "authority.pem"),
    )


@in_loop
async def test_tls_where_there_is_none(tmp_path: Path) -> None:
    files = authority(tmp_path)
    async with serving() as server:
        url = url_of(server).replace("roost://", "roosts://")
        with pytest.raises(ConnectError, match="it speaks none; expected roost://"):
            async with connect(url, tls=files.authority, timeout_s=0.3):
                pass


@in_loop
async def test_tls(tmp_path: Path) -> None:
    files = authority(tmp_path)
    async with serving(config(tls=files)) as server:
        url = url_of(server).replace("roost://", "roosts://")
        context = ssl.create_default_context(cafile=files.authority)
        for tls in (
            files.authority,
            Path(files.authority),
            Tls(authority=files.authority),
            context,
        ):
            async with connect(url, tls=tls) as client:
                subscription = client.subscribe("n > 0")
                for n in (1, 2):
                    await client.publish({"n": n}, b"x" * 100_000)
                assert numbers(await take(subscription, 2)) == [1, 2]
        with pytest.raises(ConnectError, match="its certificate is not to be trusted"):
            async with connect(url, timeout_s=0.3):
                pass
        with pytest.raises(ConnectError, match="expected roosts://"):
            async with connect(url_of(server), timeout_s=0.3):
                pass
        with pytest.raises(UserError, match="no-such-file"):
            async with connect(url, tls="no-such-file"):
                pass


@in_loop
async def test_tls_that_they_do_not_agree_on() -> None:
    async def disagree(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(bytes.fromhex("15 0303 0002 02 28"))  # an alert: fatal, handshake failure
        writer.close()

    async with await asyncio.start_server(disagree, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        with pytest.raises(ConnectError, match=r"TLS failed: \S*HANDSHAKE_FAILURE"):
            async with connect(f"roosts://{host}:{port}", timeout_s=0.3):
                pass


@in_loop
async def test_a_certificate_says_who_is_calling(tmp_path: Path) -> None:
    files = authority(tmp_path)
    issue(tmp_path, "alice", [])
    known = User(publish="*", subscribe="*", certificates=("alice",))
    async with serving(secured(tmp_path, files, alice=known)) as server:
        url = url_of(server).replace("roost://", "roosts://")
        tls = Tls(
            authority=files.authority,
            certificate=tmp_path / "alice.pem",
            key=tmp_path / "alice.key",
        )
        async with connect(url, user="alice", tls=tls) as client:
            await client.publish({"n": 1})
            await client.flush()
        with pytest.raises(ConnectError, match="may not call itself"):
            async with connect(url, tls=tls):
                pass
