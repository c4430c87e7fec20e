"""How a live broker fares: the load indices (001 section 3.3.1), measured instead of modelled.

The thesis models a broker's work as matching, whose time it knows. Here a publication's share is the
processor time that the broker took for everything, over the publications that it routed.

**Input** is what was there to be done in a period, over what can be done: publications that were handled, as
the part of its processor (`cpu_share`) that they took; and those that have arrived and wait to be read, as
many as their bytes make, as the part of a period that they will take at this rate. So the ratio passes 1
when more comes than can be handled, and stays there until it has been: a peer that is not read stops
sending, so what comes in would never say. What waits because somebody else is too slow to take it is in the
queue, and no load of the processor.

**Output** is the bytes that were written, over those of the bandwidth that it was promised
(`bandwidth_mbps`); 0 if nobody has said how much that is. How long they wait: see `queues`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from roost.broker.events import LoadIndices
from roost.runtime.queues import Outputs, unread_bytes
from roost.runtime.shell import Shell
from roost.runtime.tables import BrokerTable

if TYPE_CHECKING:
    from roost.runtime.connection import SocketConnection

PERIOD_S = 1.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MEMORY_TOTAL_BYTES = float(os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES)
# Whoever is neither busy nor late for the sample reads what comes as it comes. Then the system need not be
# asked about each connection, which would take a broker of thousands some percent of its time.
BUSY, LATE_S = 0.5, 0.02
BYTES_PER_MBIT = 1e6 / 8


def resident_bytes() -> float:
    with open("/proc/self/statm") as statm:
        return float(int(statm.read().split()[1]) * PAGE_BYTES)


class LoadMeter:
    """Takes a sample a period."""

    def __init__(self, settings: BrokerTable) -> None:
        self._share = settings.cpu_share or 1.0
        self._bytes_per_s = settings.bandwidth_mbps * BYTES_PER_MBIT
        self._at = time.monotonic()
        self._cpu_s = time.process_time()
        self._routed = 0
        self._bytes_in = 0
        self._messages_out = 0
        self._bytes_out = 0
        self._queue = 0
        self._outputs = Outputs()

    def sample(
        self, shell: Shell, connections: Mapping[int, SocketConnection]
    ) -> LoadIndices | None:
        """The load since the last sample; None if that was just now."""
        now = time.monotonic()
        period = now - self._at
        if period < PERIOD_S:
            return None
        machine, cpu_s = shell.machine, time.process_time()
        routed, busy_s = machine.traffic.routed - self._routed, cpu_s - self._cpu_s
        is_prompt = busy_s / period < BUSY and period < PERIOD_S + LATE_S
        unread = 0 if is_prompt else self._unread(shell, connections, routed)
        queue = unread + sum(connection.held for connection in connections.values())
        output_queue = sum(link.channel.data.waiting for link in machine.links.values())
        output_queue += sum(s.channel.data.waiting for s in machine.sessions.values())
        outputs, bytes_per_s = self._outputs, (shell.bytes_out - self._bytes_out) / period
        outputs.look(machine, connections, shell.bytes_out, shell.messages_out, period)
        load = LoadIndices(
            input_utilisation=busy_s / period / self._share + unread / max(routed, 1),
            matching_delay_s=busy_s / routed if routed else 0.0,
            output_utilisation=bytes_per_s / self._bytes_per_s if self._bytes_per_s else 0.0,
            input_rate=max(0, routed + queue - self._queue) / period,
            output_rate=(shell.messages_out - self._messages_out) / period,
            output_bytes_per_s=bytes_per_s,
            input_queue=queue,
            output_queue=output_queue,
            input_queueing_delay_s=queue * period / max(routed, 1),
            output_queueing_delay_s=outputs.wait_s,
            cpu_utilisation=busy_s / period,
            memory_bytes=resident_bytes(),
            memory_total_bytes=MEMORY_TOTAL_BYTES,
            subscriptions=len(machine.table),
            client_queueing_delay_s=outputs.of_clients_s,
            link_queueing_delay_s=outputs.of_links(machine),
        )
        self._at, self._cpu_s, self._routed, self._queue = now, cpu_s, machine.traffic.routed, queue
        self._messages_out, self._bytes_out = shell.messages_out, shell.bytes_out
        self._bytes_in = shell.bytes_in
        return load

    def _unread(
        self,
        shell: Shell,
        connections: Mapping[int, SocketConnection],
        routed: int,
    ) -> int:
        """Publications that have arrived and wait for the processor, by the bytes that others took."""
        taken = shell.bytes_in - self._bytes_in
        if not routed or not taken:
            return 0
        waiting = sum(unread_bytes(c.transport) for c in connections.values() if c.is_read)
        return round(waiting * routed / taken)


def load_dict(load: LoadIndices | None) -> dict[str, Any]:
    """For status and metrics; empty until there was a sample."""
    return {} if load is None else msgspec.structs.asdict(load)
