"""What single steps cost a broker, as `roost bench topologies` measures them in live ones."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

from roost.broker.messages import Subscribe
from roost.broker.server import Costs

# Simulated processors have this speed, so that 1.0 s x MHz is a millisecond.
MHZ = 1_000.0
US = 1e-6


@dataclass
class Steps:
    """What a broker does, by kinds of steps; or what one of each costs it, in microseconds."""

    from_clients: float = 0  # publications that it took from clients and matched
    from_brokers: float = 0  # ... from neighbours
    forwarded: float = 0  # ... that it sent to a neighbour
    delivered: float = 0  # ... to a client
    subscriptions: float = 0  # that it took from clients
    broker_subscriptions: float = 0  # ... from neighbours
    compared: float = (
        0  # ... either, with what a neighbour was told before, to see whether it has to be
    )

    def times(self, costs: Steps) -> float:
        """The processor's time of all of them together, in seconds."""
        pairs = zip(astuple(self), astuple(costs), strict=True)
        return US * sum(float(count) * float(each) for count, each in pairs)


STEPS = tuple(field.name for field in fields(Steps))
# On an AMD EPYC processor, fitted to live runs of one to five brokers: docs/HIERARCHIES.md.
MEASURED = Steps(
    from_clients=6.8,
    from_brokers=6.9,
    forwarded=2.1,
    delivered=1.8,
    subscriptions=19.2,
    broker_subscriptions=62.0,
    compared=9.3,
)
# The simulator charges a message when it comes, and what goes out to the network card: see `cell`.
COSTS = Costs(
    publication_s_mhz=MEASURED.from_clients * US * MHZ,
    entry_s_mhz=0.0,
    messages_s_mhz={Subscribe: MEASURED.subscriptions * US * MHZ},
)
