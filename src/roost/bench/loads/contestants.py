"""Who can be measured: a server and its driver by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from roost.bench.loads.amqp import AmqpDriver, RabbitMq
from roost.bench.loads.base import Driver, Server
from roost.bench.loads.mqtt import Mosquitto, MqttDriver
from roost.bench.loads.nats import Nats, NatsDriver
from roost.bench.loads.roost import Roost, RoostDriver
from roost.errors import UserError

_MAKERS: Final[dict[str, tuple[Callable[[], Server], Callable[[], Driver]]]] = {
    "roost": (Roost, RoostDriver),
    "mosquitto": (Mosquitto, MqttDriver),
    "nats": (Nats, NatsDriver),
    "rabbitmq": (RabbitMq, AmqpDriver),
}
NAMES: Final = tuple(_MAKERS)


def contestant(name: str) -> tuple[Server, Driver]:
    """A server, not started, and what speaks to it."""
    if name not in _MAKERS:
        raise UserError(f"there is no driver for {name!r}; there are {', '.join(NAMES)}")
    server, driver = _MAKERS[name]
    return server(), driver()
