"""What a broker tells Prometheus: the figures of its status, under names that stay.

Nothing is counted for it. A scrape reads what the broker knows anyway, so that a broker which nobody watches
pays nothing, and the figures are those of `/status`. Rates are left to whoever scrapes, who has the counters.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

import roost
from roost.runtime.loads import MEMORY_TOTAL_BYTES, resident_bytes

if TYPE_CHECKING:
    from roost.runtime.server import BrokerServer

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# For each name its key in the status, and the help. Counters get `_total` behind their names.
COUNTERS = {
    "roost_messages_out": ("messages_out", "Messages to neighbours and clients."),
    "roost_duplicates": ("duplicates", "Publications that came a second time, and were dropped."),
    "roost_deliveries_unheard": (
        "unheard",
        "Deliveries that nobody waited for any more, or that did not fit.",
    ),
    "roost_refusals": ("refusals", "Connections, and requests on them, that were refused."),
}
GAUGES = {
    "roost_connections": ("connections", "Open connections of clients and neighbours."),
    "roost_sessions": ("sessions", "Sessions of clients, there or away."),
    "roost_sessions_attached": ("attached", "Sessions of clients that are there."),
    "roost_session_queue_messages": ("waiting", "Deliveries that clients have not acknowledged."),
    "roost_subscriptions": ("subscriptions", "Subscriptions in the routing table."),
    "roost_advertisements": ("advertisements", "Advertisements in the routing table."),
    "roost_store_bytes": ("store_bytes", "Bytes that the store holds."),
    "roost_store_backlog_bytes": (
        "store_backlog_bytes",
        "Bytes that the store was given and that are not safe yet.",
    ),
    "roost_tracing": ("tracing", "1 while traffic is recorded."),
    "roost_uptime_seconds": ("uptime_s", "Seconds since the start."),
}
# The same for each neighbour, with its name as the label `link`.
LINK_COUNTERS = {
    "roost_link_messages_sent": ("sent", "Messages with events to the neighbour."),
    "roost_link_messages_received": ("received", "Messages with events from the neighbour."),
}
LINK_GAUGES = {
    "roost_link_up": ("up", "1 if both ends have greeted each other."),
    "roost_link_congested": ("congested", "1 if the neighbour reads more slowly than we write."),
    "roost_link_queue_messages": ("waiting", "Messages that the neighbour has not acknowledged."),
}
# Of the load indices.
LOAD_GAUGES = {
    "roost_input_utilisation_ratio": (
        "input_utilisation",
        "Publications to be handled, over what can be; above 1 there are too many.",
    ),
    "roost_output_utilisation_ratio": (
        "output_utilisation",
        "Part of the declared bandwidth in use; 0 if none is declared.",
    ),
    "roost_input_queue_messages": ("input_queue", "Publications that wait to be handled."),
    "roost_input_queueing_seconds": ("input_queueing_delay_s", "How long they wait."),
    "roost_client_queueing_seconds": (
        "client_queueing_delay_s",
        "How long deliveries wait for clients that are there.",
    ),
}
STORE_COUNTERS = {
    "roost_store_commits": ("commits", "Times that the disk has confirmed."),
    "roost_store_commit_seconds": ("commit_s", "Seconds that this has taken."),
    "roost_store_committed_bytes": ("committed_bytes", "Bytes that are safe by this."),
    "roost_store_transactions": ("committed_transactions", "Transactions that are safe by this."),
    "roost_store_failures": ("failures", "Attempts to write to the disk that failed."),
}


class Figures(Collector):
    """The figures of a broker, as they are when somebody asks."""

    def __init__(self, server: BrokerServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        server = self._server
        status = server.status()
        what = {key: str(status[key]) for key in ("broker", "incarnation", "routing", "durable")}
        what["version"] = roost.__version__
        yield InfoMetricFamily("roost_broker", "What the broker is.", value=what)
        yield _gauge(
            "roost_healthy",
            "1 unless something keeps it from its work.",
            not server.watch.troubles(),
        )
        yield _gauge(
            "roost_warnings",
            "What an operator should know all the same; /health says what.",
            len(status["warnings"]),
        )
        yield _counter(
            "roost_log_suppressed", "Lines that the log left out.", server.log.suppressed
        )
        yield _counter("roost_log_lost", "Lines that could not be written.", server.log.lost)
        yield _counter(
            "roost_publications_routed",
            "Publications matched and passed on.",
            server.shell.machine.traffic.routed,
        )
        yield _counter(
            "roost_bytes_out", "Bytes to neighbours and clients.", server.shell.bytes_out
        )
        for name, (key, help_) in COUNTERS.items():
            yield _counter(name, help_, status[key])
        for name, (key, help_) in GAUGES.items():
            yield _gauge(name, help_, status[key])
        yield from _of_process(status["load"])
        yield from _of_links(status["links"])
        yield from _of_queues(status["load"])
        decisions = CounterMetricFamily(
            "roost_decisions", "What optimisers have decided.", labels=["module", "kind"]
        )
        for labels, count in server.optimisers.counts.items():
            decisions.add_metric(labels, count)
        yield decisions
        if server._store is not None:
            for name, (key, help_) in STORE_COUNTERS.items():
                yield _counter(name, help_, getattr(server._store.counters, key))


def metrics_text(figures: Figures) -> bytes:
    """All of it, in the format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(figures)
    return generate_latest(registry)


def _of_process(load: dict[str, Any]) -> Iterator[Metric]:
    """What the machine gives it. The load is empty until there was a sample."""
    yield _counter("roost_cpu_seconds", "Processor time of the broker.", time.process_time())
    yield _gauge("roost_memory_bytes", "Memory of the broker.", resident_bytes())
    yield _gauge("roost_machine_memory_bytes", "Memory of the machine.", MEMORY_TOTAL_BYTES)
    if load:
        share = load["cpu_utilisation"]
        yield _gauge("roost_cpu_utilisation_ratio", "Part of one processor in use.", share)
        for name, (key, help_) in LOAD_GAUGES.items():
            yield _gauge(name, help_, load[key])
        delay_s = load["matching_delay_s"]
        yield _gauge("roost_publication_cpu_seconds", "Processor time a publication.", delay_s)


def _of_queues(load: dict[str, Any]) -> Iterator[Metric]:
    gauge = GaugeMetricFamily(
        "roost_link_queueing_seconds", "How long data waits for the neighbour.", labels=("link",)
    )
    for link, delay_s in load.get("link_queueing_delay_s", {}).items():
        gauge.add_metric((link,), delay_s)
    yield gauge


def _of_links(links: dict[str, dict[str, Any]]) -> Iterator[Metric]:
    for name, (key, help_) in LINK_COUNTERS.items():
        counter = CounterMetricFamily(name, help_, labels=("link",))
        for link, figures in links.items():
            counter.add_metric((link,), figures[key])
        yield counter
    for name, (key, help_) in LINK_GAUGES.items():
        gauge = GaugeMetricFamily(name, help_, labels=("link",))
        for link, figures in links.items():
            gauge.add_metric((link,), float(figures[key]))
        yield gauge
    yield _gauge("roost_links", "Neighbours in the settings.", len(links))
    yield _gauge(
        "roost_links_up", "Neighbours that are linked.", sum(x["up"] for x in links.values())
    )


def _counter(name: str, help_: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_, value=value)


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_, value=float(value))
