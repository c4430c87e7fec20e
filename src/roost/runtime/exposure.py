"""What exposes a broker, though it works: found in its settings and files, and said loudly.

None of this keeps a broker from starting, for each has a place where it is right (a container, a lab, a
network behind a gateway). But nobody should have to find out afterwards. It is looked for anew whenever
somebody asks: whoever mends a file sees it mended.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from roost.loopback import is_loopback
from roost.runtime.config import address_of
from roost.runtime.tables import ServerConfig


class Exposure(NamedTuple):
    """One thing that is open to those whom it may not be meant for."""

    what: str  # of a few
    detail: str  # with what to do


def exposures(config: ServerConfig, config_file: Path | None = None) -> list[Exposure]:
    """All of them, the settings' first. The file is where the settings are from."""
    return [*_open_doors(config), *_tokens_in_clear(config), *_open_files(config, config_file)]


def _open_doors(config: ServerConfig) -> Iterator[Exposure]:
    if config.security.enabled:
        return
    remedy = "turn on [security], or listen on 127.0.0.1"
    host = config.broker.host
    # Else only those come in who have a certificate of the operator's own authority.
    if not is_loopback(host) and not config.tls.require_client_certificate:
        what = f"whoever reaches {host} may publish and subscribe to everything"
        yield Exposure("no security", f"{what}: {remedy}")
    host = config.admin.host
    if config.admin.port >= 0 and not is_loopback(host):
        what = f"whoever reaches [admin] at {host} may steer the broker"
        yield Exposure("no security for operators", f"{what}: {remedy}")
    standby = config.standby
    for place in filter(None, (standby.address if standby.role else "", standby.witness_for)):
        if not (
            is_loopback(address_of(place)[0]) or config.security.token or config.security.token_file
        ):
            what = f"whoever reaches {place} may take itself for a node of a pair"
            remedy_here = "set [security] token, the same at both, or listen on 127.0.0.1"
            yield Exposure("no security for the standby", f"{what}: {remedy_here}")
    host = config.gateway.host
    if config.gateway.port >= 0 and not is_loopback(host):
        what = f"whoever reaches [gateway] at {host} may publish and subscribe to everything"
        yield Exposure("no security for the gateway", f"{what}: {remedy}")


def _tokens_in_clear(config: ServerConfig) -> Iterator[Exposure]:
    security, gateway = config.security, config.gateway
    at_gateway = gateway.port >= 0 and not gateway.certificate and not is_loopback(gateway.host)
    if security.enabled and at_gateway:
        what = f"users log in to [gateway] at {gateway.host} without TLS"
        yield Exposure("gateway without TLS", f"{what}: set its certificate and key")
    if config.tls.certificate:
        return
    hosts = [config.broker.host, *([config.admin.host] if config.admin.port >= 0 else [])]
    outside = [host for host in dict.fromkeys(hosts) if not is_loopback(host)]
    if security.enabled and outside:
        what = (
            f"users log in over {' and '.join(outside)} without TLS, and whoever listens has tokens"
        )
        yield Exposure("users without TLS", f"{what}: set [tls] certificate and key")
    if security.token or security.token_file:
        places = [
            (name, place)
            for name, places in config.links.neighbours.items()
            for place in filter(None, places.split(","))
        ]
        for name, address in places:
            if not is_loopback(address_of(address)[0]):
                what = f"our token goes to {name} ({address}) without TLS"
                yield Exposure("token without TLS", f"{what}: set [tls] certificate and key")


def _open_files(config: ServerConfig, config_file: Path | None) -> Iterator[Exposure]:
    secrets = {
        "the users file": config.security.users,
        "the key": config.tls.key,
        "the key of the gateway": config.gateway.key,
        "the token": config.security.token_file,
        "the settings, with a token in them,": (config_file or "") if config.security.token else "",
    }
    for title, path in secrets.items():
        mode = _mode(path) if path else 0
        if mode & (stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH):
            what = f"{path}: {title} can be read or changed by others, mode {mode:04o}"
            yield Exposure("open file", f"{what}: chmod 600")


def _mode(path: str | Path) -> int:
    """0 if there is no telling."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return 0
