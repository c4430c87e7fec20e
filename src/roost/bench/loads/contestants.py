"""Who can be measured: a server and its driver by name.

Roost is there several times, with something on that it usually hasn't, or off: to be set beside itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from roost.bench.loads.amqp import AmqpDriver, RabbitMq
from roost.bench.loads.base import Driver, Server
from roost.bench.loads.mqtt import Mosquitto, MqttDriver
from roost.bench.loads.nats import Nats, NatsDriver
from roost.bench.loads.roost import Roost, RoostDriver, Settings
from roost.errors import UserError

_OBSERVING: Settings = {"relocation": {"mode": "observing"}}
_TRACES: Settings = {"trace": {"folder": "traces"}}

_MAKERS: Final[dict[str, tuple[Callable[[], Server], Callable[[], Driver]]]] = {
    "roost": (Roost, RoostDriver),
    "mosquitto": (Mosquitto, MqttDriver),
    "nats": (Nats, NatsDriver),
    "rabbitmq": (RabbitMq, AmqpDriver),
    "roost-grape": (partial(Roost, settings=_OBSERVING), RoostDriver),
    "roost-traces": (partial(Roost, settings=_TRACES), RoostDriver),
    "roost-watched": (partial(Roost, settings={**_OBSERVING, **_TRACES}), RoostDriver),
    "roost-no-chunks": (partial(Roost, settings={"broker": {"chunks": False}}), RoostDriver),
}
NAMES: Final = tuple(_MAKERS)


def contestant(name: str) -> tuple[Server, Driver]:
    """A server, not started, and what speaks to it."""
    if name not in _MAKERS:
        raise UserError(f"there is no driver for {name!r}; there are {', '.join(NAMES)}")
    server, driver = _MAKERS[name]
    return server(), driver()
