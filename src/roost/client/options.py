"""The settings of a client."""

from __future__ import annotations

import ssl

from msgspec import Struct

from roost.client.connection import KEEPALIVE_S
from roost.client.dialling import Tls
from roost.wire import DEFAULT_LIMITS, Limits


class Options(Struct, frozen=True, kw_only=True):
    """What `connect` was told, besides where to connect and as whom; see there."""

    name: str = ""
    tls: ssl.SSLContext | Tls | None = None
    timeout_s: float = 10.0
    wait: bool = False
    settle_s: float = 5.0
    failover_s: float = 2.0
    keepalive_s: float = KEEPALIVE_S
    pending_max: int = 10_000
    pending_bytes_max: int = 64_000_000
    buffer_max: int = 10_000
    limits: Limits = DEFAULT_LIMITS
