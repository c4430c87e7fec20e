"""TLS: real handshakes, and files that will not do."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization
from msgspec.structs import replace

from roost.errors import UserError
from roost.runtime.tables import TlsTable
from roost.runtime.tls import (
    client_context,
    facts_of,
    issue,
    make_authority,
    names_of_peer,
    read_certificates,
    read_key,
    server_context,
)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
TIMEOUT_S = 10.0
MakeContext = Callable[[TlsTable], ssl.SSLContext]


class Keys(NamedTuple):
    """Two authorities and what they have issued."""

    ours: Path
    others: Path

    def table(self, name: str, *, required: bool = False, folder: Path | None = None) -> TlsTable:
        folder = folder or self.ours
        return TlsTable(
            certificate=str(folder / f"{name}.pem"),
            key=str(folder / f"{name}.key"),
            authority=str(self.ours / "authority.pem"),
            require_client_certificate=required,
        )


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    ours, others = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("others")
    make_authority(ours, days=36_500, now=LONG_AGO)
    make_authority(others)
    for folder in (ours, others):
        issue(folder, "broker", ["localhost", "127.0.0.1"])
        issue(folder, "client", [])
    issue(ours, "elsewhere", ["elsewhere.example"])
    issue(ours, "localhost", [])  # its CN is the host, which counts for nothing
    issue(ours, "old", ["localhost"], days=1, now=LONG_AGO)
    return Keys(ours, others)


def loaded(context: ssl.SSLContext, table: TlsTable) -> ssl.SSLContext:
    """With a certificate that we would refuse ourselves, as others may present it."""
    context.load_cert_chain(table.certificate, table.key)
    return context


class Shake(NamedTuple):
    """How a handshake went: what each end said, "" for well, and whom the server saw."""

    server: str
    client: str
    peer: tuple[str, ...]
    version: str


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> Shake:
    """A handshake over a pair of sockets, and a byte each way: with TLS 1.3 only reading shows
    the client that the server did not want it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(TIMEOUT_S)
    theirs.settimeout(TIMEOUT_S)
    said: dict[str, str] = {"server": "", "client": "", "version": ""}
    seen: list[tuple[str, ...]] = []

    def serve() -> None:
        try:
            with server.wrap_socket(ours, server_side=True) as wrapped:
                seen.append(names_of_peer(wrapped.getpeercert()))
                wrapped.sendall(wrapped.recv(1))
        except OSError as bad:
            said["server"] = str(bad)
        finally:
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs, server_hostname=host) as wrapped:
            said["version"] = wrapped.version() or ""
            wrapped.sendall(b"x")
            if wrapped.recv(1) != b"x":
                said["client"] = "closed"
    except OSError as bad:
        said["client"] = str(bad)
    finally:
        theirs.close()
        thread.join(TIMEOUT_S)
    return Shake(said["server"], said["client"], seen[0] if seen else (), said["version"])


# --- handshakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_both_ends_are_who_they_say(keys: Keys, host: str) -> None:
    server = server_context(keys.table("broker", required=True))
    shake = shake_hands(server, client_context(keys.table("client")), host)
    assert shake == Shake("", "", ("client",), "TLSv1.3")


def test_a_broker_is_a_client_too(keys: Keys) -> None:
    server = server_context(keys.table("broker", required=True))
    shake = shake_hands(server, client_context(keys.table("broker")))
    assert (shake.server, shake.client) == ("", "")
    assert shake.peer == ("broker", "localhost", "127.0.0.1")


def test_a_certificate_of_a_client_may_be_optional(keys: Keys) -> None:
    nobody = client_context(TlsTable(authority=str(keys.ours / "authority.pem")))
    assert shake_hands(server_context(keys.table("broker")), nobody) == Shake("", "", (), "TLSv1.3")
    somebody = client_context(keys.table("client"))
    assert shake_hands(server_context(keys.table("broker")), somebody).peer == ("client",)


def test_without_an_authority_no_certificate_is_asked_for(keys: Keys) -> None:
    table = keys.table("broker")
    server = server_context(TlsTable(certificate=table.certificate, key=table.key))
    assert shake_hands(server, client_context(keys.table("client"))).peer == ()


def test_a_client_without_a_certificate_is_refused(keys: Keys) -> None:
    nobody = client_context(TlsTable(authority=str(keys.ours / "authority.pem")))
    shake = shake_hands(server_context(keys.table("broker", required=True)), nobody)
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in shake.server
    assert shake.client


@pytest.mark.parametrize("required", [False, True])
def test_a_client_of_another_authority_is_refused(keys: Keys, required: bool) -> None:
    server = server_context(keys.table("broker", required=required))
    shake = shake_hands(server, client_context(keys.table("client", folder=keys.others)))
    assert "CERTIFICATE_VERIFY_FAILED" in shake.server
    assert shake.client


def test_a_server_of_another_authority_is_refused(keys: Keys) -> None:
    server = server_context(keys.table("broker", folder=keys.others))
    shake = shake_hands(server, client_context(keys.table("client")))
    assert "CERTIFICATE_VERIFY_FAILED" in shake.client


def test_a_server_that_the_system_does_not_trust_is_refused(keys: Keys) -> None:
    shake = shake_hands(server_context(keys.table("broker")), client_context(TlsTable()))
    assert "CERTIFICATE_VERIFY_FAILED" in shake.client


def test_an_expired_server_is_refused(keys: Keys) -> None:
    server = loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), keys.table("old"))
    shake = shake_hands(server, client_context(keys.table("client")))
    assert "certificate has expired" in shake.client


def test_an_expired_client_is_refused(keys: Keys) -> None:
    server = server_context(keys.table("broker", required=True))
    trusting = client_context(TlsTable(authority=str(keys.ours / "authority.pem")))
    shake = shake_hands(server, loaded(trusting, keys.table("old")))
    assert "certificate has expired" in shake.server
    assert shake.client


@pytest.mark.parametrize("name", ["elsewhere", "localhost"])
def test_a_server_under_another_name_is_refused(keys: Keys, name: str) -> None:
    shake = shake_hands(server_context(keys.table(name)), client_context(keys.table("client")))
    assert "certificate is not valid for 'localhost'" in shake.client


@pytest.mark.parametrize("context", [server_context, client_context])
def test_old_versions_are_out(keys: Keys, context: MakeContext) -> None:
    # Not by a handshake: OpenSSL of today would not do it with an old version anyway.
    assert context(keys.table("broker")).minimum_version is ssl.TLSVersion.TLSv1_2


# --- files that will not do -----------------------------------------------------------------------


@pytest.mark.parametrize("context", [server_context, client_context])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"certificate": "none.pem"},
            "none.pem: No such file or directory; expected a certificate",
        ),
        ({"key": "none.key"}, "none.key: No such file or directory; expected a key in PEM"),
        ({"authority": "none.pem"}, "none.pem: No such file or directory; expected a certificate"),
        (
            {"certificate": "broker.key"},
            "broker.key: it can't be read; expected a certificate in PEM",
        ),
        ({"key": "broker.pem"}, "broker.pem: it can't be read; expected a key in PEM, without"),
        ({"key": "client.key"}, "client.key: the key does not belong to the certificate "),
        ({"key": "locked.key"}, "locked.key: the key has a passphrase; expected a key in PEM"),
        (
            {"certificate": "old.pem", "key": "old.key"},
            "old.pem: the certificate expired on 2020-01-02 00:00 UTC; expected one that is valid",
        ),
        ({"authority": "old.pem"}, "old.pem: the certificate expired on 2020-01-02 00:00 UTC; exp"),
        ({"key": ""}, "TLS needs a certificate and its key; expected the files of both"),
    ],
)
def test_files_that_will_not_do(
    keys: Keys,
    context: MakeContext,
    change: dict[str, str],
    message: str,
) -> None:
    secret = read_key(keys.ours / "broker.key").private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (keys.ours / "locked.key").write_bytes(secret)
    files = {
        "certificate": "broker.pem",
        "key": "broker.key",
        "authority": "authority.pem",
    } | change
    table = replace(
        TlsTable(), **{kind: name and str(keys.ours / name) for kind, name in files.items()}
    )
    with pytest.raises(UserError) as refused:
        context(table)
    assert str(refused.value).removeprefix(f"{keys.ours}/").startswith(message)


def test_a_certificate_that_has_not_begun(keys: Keys) -> None:
    with pytest.raises(UserError, match=r"the certificate begins on .* by this clock"):
        server_context(keys.table("broker"), now=LONG_AGO)


def test_required_certificates_need_an_authority(keys: Keys) -> None:
    table = keys.table("broker")
    bare = TlsTable(certificate=table.certificate, key=table.key, require_client_certificate=True)
    with pytest.raises(UserError, match="expected an authority to check them"):
        server_context(bare)


def test_an_authority_may_take_over_from_another_that_expired(keys: Keys, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(
        (keys.ours / "old.pem").read_bytes() + (keys.ours / "authority.pem").read_bytes()
    )
    trusting = client_context(TlsTable(authority=str(both)))
    assert shake_hands(server_context(keys.table("broker")), trusting).client == ""


# --- issuing --------------------------------------------------------------------------------------


def test_only_the_owner_can_read_the_files(keys: Keys) -> None:
    for name in ("authority.pem", "authority.key", "broker.pem", "broker.key"):
        assert stat.S_IMODE(os.stat(keys.ours / name).st_mode) == 0o600


def test_facts(keys: Keys) -> None:
    broker = facts_of(read_certificates(keys.ours / "broker.pem")[0])
    assert broker.names == ("broker", "localhost", "127.0.0.1")
    assert (broker.subject, broker.issuer, broker.authority) == ("CN=broker", "CN=Roost", False)
    assert timedelta(364) < broker.ends - datetime.now(UTC) <= timedelta(365)
    assert facts_of(read_certificates(keys.ours / "authority.pem")[0]).authority


def test_what_is_there_is_not_replaced_by_accident(keys: Keys) -> None:
    with pytest.raises(UserError, match=r"authority\.pem: it is there already"):
        make_authority(keys.ours)
    before = (keys.ours / "elsewhere.key").read_bytes()
    with pytest.raises(UserError, match=r"elsewhere\.pem: it is there already"):
        issue(keys.ours, "elsewhere", [])
    assert (keys.ours / "elsewhere.key").read_bytes() == before
    issue(keys.ours, "elsewhere", ["elsewhere.example"], replace=True)
    assert (keys.ours / "elsewhere.key").read_bytes() != before
    server_context(keys.table("elsewhere"))


@pytest.mark.parametrize(
    ("name", "hosts", "days", "message"),
    [
        ("authority", [], 1, "that is the authority itself; expected another name"),
        ("../x", [], 1, "the name is '../x'; expected 1 to 64 visible characters without a slash"),
        (".x", [], 1, "the name is '.x'; expected one that does not begin with a dot"),
        ("x" * 65, [], 1, "expected 1 to 64 visible characters"),
        ("", [], 1, "the name is ''; expected 1 to 64 visible"),
        ("x", ["localhost:7411"], 1, "the host is 'localhost:7411'; expected a name such as"),
        ("x", [""], 1, "the host is ''; expected a name such as"),
        ("x", ["bücher.example"], 1, "the host is 'bücher.example'; expected a name such as"),
        ("x", [], 40_000, "40000 days; the authority itself ends in "),
    ],
)
def test_what_is_not_issued(
    keys: Keys, name: str, hosts: list[str], days: int, message: str
) -> None:
    with pytest.raises(UserError) as refused:
        issue(keys.ours, name, hosts, days=days)
    assert message in str(refused.value)


def test_issuing_needs_an_authority(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"authority\.pem: not there; `roost keys authority "):
        issue(tmp_path, "x", [])
    make_authority(tmp_path / "a")
    make_authority(tmp_path / "b")
    (tmp_path / "a" / "authority.key").write_bytes((tmp_path / "b" / "authority.key").read_bytes())
    with pytest.raises(UserError, match=r"authority\.key: the key does not belong to "):
        issue(tmp_path / "a", "x", [])


def test_an_expired_authority_issues_nothing(tmp_path: Path) -> None:
    make_authority(tmp_path, days=1, now=LONG_AGO)
    with pytest.raises(UserError, match="the certificate expired on 2020-01-02"):
        issue(tmp_path, "x", [])


@pytest.mark.parametrize("certificate", [None, {}, {"subject": ()}])
def test_peers_without_names(certificate: dict[str, object] | None) -> None:
    assert names_of_peer(certificate) == ()
