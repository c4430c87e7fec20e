"""Settings tried without a broker: whether they read, and the files that they name.

What a broker finds wrong when it starts is found here before: settings that make no sense, users,
certificates, keys and tokens that can't be read or don't go together. Nothing is opened for good, and nothing
is written. What would expose it is no error (see `exposure`), and told.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from roost.runtime.config import check_config, login_of
from roost.runtime.exposure import Exposure, exposures
from roost.runtime.security import Users
from roost.runtime.tables import ServerConfig
from roost.runtime.tls import client_context, server_context


def check_all(config: ServerConfig, config_file: Path | None = None) -> list[Exposure]:
    """UserError says what a broker with these settings would not start with; else what exposes it."""
    check_config(config)
    login_of(config)
    if config.security.enabled:
        Users.load(Path(config.security.users))
    if config.tls.certificate:
        server_context(config.tls)
        client_context(config.tls)
    if config.gateway.certificate:
        gateway = config.gateway
        server_context(replace(config.tls, certificate=gateway.certificate, key=gateway.key))
    return exposures(config, config_file)
