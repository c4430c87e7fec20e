"""What exposes a broker: by its settings, and by real files with real modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roost.loopback import is_loopback
from roost.runtime.exposure import exposures
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    GatewayTable,
    LinksTable,
    SecurityTable,
    ServerConfig,
    TlsTable,
)

EVERYWHERE = BrokerTable(host="0.0.0.0")
USERS = SecurityTable(enabled=True, users="/nowhere/users.toml")
TLS = TlsTable(certificate="c.pem", key="k.pem", authority="a.pem")
STRICT = TlsTable(
    certificate="c.pem", key="k.pem", authority="a.pem", require_client_certificate=True
)
TOKEN = SecurityTable(token="secret")
FAR, NEAR = (
    LinksTable(neighbours={"B1": "10.0.0.2:7411"}),
    LinksTable(neighbours={"B1": "[::1]:7411", "B2": ""}),
)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("b0.example", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({}, []),
        ({"broker": EVERYWHERE}, ["no security"]),
        ({"broker": BrokerTable(host="::")}, ["no security"]),
        ({"broker": BrokerTable(host="10.0.0.1")}, ["no security"]),
        ({"broker": EVERYWHERE, "tls": TLS}, ["no security"]),
        ({"broker": EVERYWHERE, "tls": STRICT}, []),
        ({"admin": AdminTable(host="0.0.0.0")}, ["no security for operators"]),
        ({"admin": AdminTable(host="0.0.0.0"), "tls": STRICT}, ["no security for operators"]),
        ({"admin": AdminTable(host="0.0.0.0", port=-1)}, []),
        ({"gateway": GatewayTable(host="0.0.0.0", port=0)}, ["no security for the gateway"]),
        ({"gateway": GatewayTable(host="0.0.0.0")}, []),
        ({"security": USERS, "gateway": GatewayTable(host="::", port=0)}, ["gateway without TLS"]),
        ({"security": USERS, "gateway": GatewayTable(port=0)}, []),
        ({"security": USERS}, []),
        ({"security": USERS, "broker": EVERYWHERE}, ["users without TLS"]),
        ({"security": USERS, "admin": AdminTable(host="::")}, ["users without TLS"]),
        ({"security": USERS, "broker": EVERYWHERE, "tls": TLS}, []),
        ({"security": TOKEN, "links": FAR}, ["token without TLS"]),
        ({"security": TOKEN, "links": FAR, "tls": TLS}, []),
        ({"security": TOKEN, "links": NEAR}, []),
        ({"links": FAR}, []),
    ],
)
def test_settings(tables: dict[str, Any], expected: list[str]) -> None:
    assert [each.what for each in exposures(ServerConfig(**tables))] == expected


def test_files_that_others_can_read(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("users.toml", "key.pem", "token", "roost.toml")}
    for path in paths.values():
        path.write_text("")
    config = ServerConfig(
        security=SecurityTable(users=str(paths["users.toml"]), token_file=str(paths["token"])),
        tls=TlsTable(certificate="c.pem", key=str(paths["key.pem"])),
    )

    def found(mode: int, config: ServerConfig) -> list[str]:
        for path in paths.values():
            path.chmod(mode)
        exposed = exposures(config, paths["roost.toml"])
        assert {each.what for each in exposed} <= {"open file"}
        return [each.detail for each in exposed]

    assert found(0o600, config) == []
    assert found(0o400, config) == []
    assert found(0o644, config) == [
        f"{paths['users.toml']}: the users file can be read or changed by others, mode 0644: chmod 600",
        f"{paths['key.pem']}: the key can be read or changed by others, mode 0644: chmod 600",
        f"{paths['token']}: the token can be read or changed by others, mode 0644: chmod 600",
    ]
    assert len(found(0o640, config)) == len(found(0o602, config)) == 3
    # The settings count if the token stands in them.
    inside = ServerConfig(security=SecurityTable(token="roost_secret"))
    (detail,) = found(0o640, inside)
    assert detail.startswith(
        f"{paths['roost.toml']}: the settings, with a token in them, can be read"
    )
    assert "roost_secret" not in detail
    assert found(0o600, inside) == []
    for path in paths.values():
        path.unlink()
    assert exposures(config, paths["roost.toml"]) == []  # what is not there is another matter
