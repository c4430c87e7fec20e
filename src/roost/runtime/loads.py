"""How a live broker fares: the load indices (001 section 3.3.1), measured instead of modelled.

The thesis models a broker's work as matching, whose time it knows. Here a publication's share is the
processor time that the broker took for everything, over the publications that it routed: so input
utilisation, arriving publications times that share, is the part of one processor that is in use.
"""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from roost.broker.events import LoadIndices
from roost.runtime.shell import Shell

PERIOD_S = 1.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MEMORY_TOTAL_BYTES = float(os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES)


def resident_bytes() -> float:
    with open("/proc/self/statm") as statm:
        return float(int(statm.read().split()[1]) * PAGE_BYTES)


class LoadMeter:
    """Takes a sample a period."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._cpu_s = time.process_time()
        self._routed = 0
        self._messages_out = 0
        self._bytes_out = 0

    def sample(self, shell: Shell) -> LoadIndices | None:
        """The load since the last sample; None if that was just now."""
        now = time.monotonic()
        period = now - self._at
        if period < PERIOD_S:
            return None
        machine = shell.machine
        cpu_s = time.process_time()
        routed, busy_s = machine.traffic.routed - self._routed, cpu_s - self._cpu_s
        output_queue = sum(len(link.channel.data.outbox) for link in machine.links.values())
        output_queue += sum(len(s.channel.data.outbox) for s in machine.sessions.values())
        load = LoadIndices(
            input_utilisation=busy_s / period,
            matching_delay_s=busy_s / routed if routed else 0.0,
            output_utilisation=0.0,  # nobody has told how much the network could take
            input_rate=routed / period,
            output_rate=(shell.messages_out - self._messages_out) / period,
            output_bytes_per_s=(shell.bytes_out - self._bytes_out) / period,
            input_queue=0,  # what has not been read is with the system
            output_queue=output_queue,
            input_queueing_delay_s=0.0,
            output_queueing_delay_s=0.0,
            cpu_utilisation=busy_s / period,
            memory_bytes=resident_bytes(),
            memory_total_bytes=MEMORY_TOTAL_BYTES,
            subscriptions=len(machine.table),
        )
        self._at, self._cpu_s, self._routed = now, cpu_s, machine.traffic.routed
        self._messages_out, self._bytes_out = shell.messages_out, shell.bytes_out
        return load


def load_dict(load: LoadIndices | None) -> dict[str, Any]:
    """For status and metrics; empty until there was a sample."""
    return {} if load is None else msgspec.structs.asdict(load)
