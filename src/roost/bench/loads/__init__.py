"""Loads for message brokers: the same quotes through Roost, mosquitto, NATS and RabbitMQ.

A run has three parties, each a process of its own: the server, one publisher, and all subscribers in one
process. `base` says what they agree on, `harness` has them play a scenario, `children` is what the two load
processes do, and `nats`, `mqtt`, `amqp` and `roost` say it in the server's own words, over raw sockets: with
a client library, the library would be what is measured.
"""

from roost.bench.loads.base import Driver, Result, Scenario, Server
from roost.bench.loads.contestants import NAMES, contestant
from roost.bench.loads.harness import run_scenario
from roost.bench.loads.scenarios import SCENARIOS, scenario

__all__ = [
    "NAMES",
    "SCENARIOS",
    "Driver",
    "Result",
    "Scenario",
    "Server",
    "contestant",
    "run_scenario",
    "scenario",
]
