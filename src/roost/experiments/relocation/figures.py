"""What the graphs of 000 section 5.2 show, from the trace of a run.

    figure                    what it is
    message_rate              messages that a broker receives a second, of clients and of brokers, data and
                              control, on average over all brokers (figure 5a)
    input_utilisation         matching time needed over time, on average over all brokers, in % (5b)
    output_utilisation        bandwidth used over bandwidth, likewise
    delay_ms                  from publishing to delivery, on average over all deliveries (5c, 5g, 5h)
    hops                      from the publisher's broker to the subscriber's, likewise (5d)
    memory_kb                 what subscriptions and queues take, on average over all brokers (5e)
    overhead                  of these messages, those that are no publications, in % (5f)
    overhead_rate             ... and how many a second and broker

They are taken at the end: over the last minutes of a run (`Window`). Only the overhead is that of the whole
run since the clients have joined, because what brings it about comes in bursts.

A trace knows how old a publication was when a broker had matched it. To get to the clients it then waits for
the network card and is sent. That is taken from the samples of the load: the mean wait of a message on the
output of that broker in that period, and the time that sending a message of mean size takes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roost.experiments.relocation.tables import Floats, Tables, Visits

MS = 1e-3
PERCENT = 100.0
KB = 1e3


class Window(NamedTuple):
    """A part of a run: after `start`, up to and with `end`."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.start

    def of(self, visits: Visits) -> Visits:
        """What brokers matched in it."""
        return visits.where((visits.time > self.start) & (visits.time <= self.end))


class Clients(NamedTuple):
    """What a trace does not say of the clients."""

    latency_s: float  # between a client and its broker, one way; ages begin behind it
    # When all of them had joined, and what that brought about was over.
    joined_s: float


def figures(tables: Tables, window: Window, clients: Clients) -> dict[str, float]:
    """All of them at the end of a run."""
    loads, brokers = tables.loads, len(tables.brokers)
    visits = window.of(tables.visits)

    def mean(name: str) -> float:
        return float(loads.between(name, *window).mean())

    joined = Window(clients.joined_s, window.end)
    inputs = loads.between("input_utilisation", *window).mean(axis=0)
    return {
        "message_rate": message_rate(tables, window),
        "data_rate": len(visits.time) / window.seconds / brokers,
        "input_utilisation": PERCENT * float(inputs.mean()),
        "input_utilisation_max": PERCENT * float(inputs.max()),
        "output_utilisation": PERCENT * mean("output_utilisation"),
        "delay_ms": delay_ms(tables, visits, clients),
        "hops": hops(visits),
        "memory_kb": mean("memory_bytes") / KB,
        "overhead": overhead(tables, joined),
        "overhead_rate": overhead(tables, joined) / PERCENT * message_rate(tables, joined),
    }


def over_time(tables: Tables, every_s: float, end: float, clients: Clients) -> dict[str, float]:
    """Some of them in one period after the other (figures 6d to 6h): `delay_ms_at_60` is of the period that
    ends there."""
    found: dict[str, float] = {}
    for number in range(1, int(end / every_s) + 1):
        window = Window((number - 1) * every_s, number * every_s)
        visits = window.of(tables.visits)
        at = f"at_{window.end:g}"
        found |= {
            f"message_rate_{at}": message_rate(tables, window),
            f"delay_ms_{at}": delay_ms(tables, visits, clients),
            f"hops_{at}": hops(visits),
            f"overhead_{at}": overhead(tables, window),
        }
    return found


def message_rate(tables: Tables, window: Window) -> float:
    """Messages a second and broker: those of brokers, and what publishers publish."""
    first = window.of(tables.visits).hop == 0
    received = tables.counters.received(*window) + int(first.sum())
    return received / window.seconds / len(tables.brokers)


def overhead(tables: Tables, window: Window) -> float:
    """Of all messages that brokers receive, those that are no publications, in %."""
    hop = window.of(tables.visits).hop
    received = tables.counters.received(*window)
    # At the edges of a window a publication may have been received in it and matched behind it.
    other = max(0, received - int((hop > 0).sum()))
    total = received + int((hop == 0).sum())
    return PERCENT * other / total if total else 0.0


def hops(visits: Visits) -> float:
    """On average over deliveries."""
    return _average(visits.hop.astype(np.float64), visits)


def delay_ms(tables: Tables, visits: Visits, clients: Clients) -> float:
    """On average over deliveries."""
    outputs = output_s(tables)
    sample = np.searchsorted(tables.loads.times, visits.time)
    sample = np.minimum(sample, len(tables.loads.times) - 1)
    delays = visits.age_s + outputs[sample, visits.broker] + clients.latency_s
    return _average(delays, visits) / MS


def output_s(tables: Tables) -> Floats:
    """Of each sample and broker: how long a message takes from the broker to the far end of its network
    card."""
    loads = tables.loads.by_name
    rates = loads["output_rate"]
    sending: Floats = np.divide(
        loads["output_utilisation"], rates, out=np.zeros_like(rates), where=rates > 0
    )
    return loads["output_queueing_delay_s"] + sending


def _average(values: Floats, visits: Visits) -> float:
    deliveries = int(visits.local.sum())
    return float(values @ visits.local) / deliveries if deliveries else 0.0
