"""The topologies of 003 as its own clients see them: each broker has a WS-Eventing gateway, another process.
Machines publish by SOAP notifications, one after the other; sinks subscribe with a filter.

What is measured is the processor's time of brokers and gateways together, since to Wihidum they are one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import NamedTuple

from roost.bench.gateway import HOST, gateway_process, listening, subscribe
from roost.bench.loads.processes import cpu_s
from roost.experiments.topologies.load import MACHINES, Said, Spread
from roost.gateway.ws_eventing.versions import SOAP_12
from roost.language import Event, parse_subscription
from roost.pipeline.workload.topics import TOPIC
from roost.runtime.federation import Member

PATIENCE_S = 120.0
LOOK_S = 0.005
# Of each broker. A sink answers each notification before it gets the next.
SINKS = 2
# The first events of each machine have a gateway load what it needs, and do not count.
EARLY = 3

EVENT = (
    f'<s:Envelope xmlns:s="{SOAP_12.namespace}"><s:Body><e:Event xmlns:e="urn:roost:event">'
    f'<e:Attribute name="{TOPIC}" type="string">TEXT</e:Attribute>'
    '<e:Attribute name="n" type="integer">NUMBER</e:Attribute>'
    "</e:Event></s:Body></s:Envelope>"
)


class Notified(NamedTuple):
    """What it took, of all brokers and of all gateways, and what became of it."""

    brokers_s: float
    gateways_s: float
    sent: int
    notifications: int
    lost: int


def played(members: Sequence[Member], spread: Spread, said: Sequence[Said]) -> Notified:
    """All machines publish to the gateway of their broker, to the sinks of all."""
    with ExitStack() as stack:
        gateways = [
            stack.enter_context(gateway_process(f"roost://{member.address}")) for member in members
        ]
        ports = [port for _, port in gateways]
        pids = [process.pid for process, _ in gateways]
        return asyncio.run(_play(members, ports, pids, spread, said))


async def _play(
    members: Sequence[Member],
    ports: Sequence[int],
    pids: Sequence[int],
    spread: Spread,
    said: Sequence[Said],
) -> Notified:
    brokers = [member.process.pid for member in members if member.process is not None]
    numbers: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for number, each in enumerate(said):
        numbers[each.machine].append((number, each.topic))
    async with listening(SINKS * len(members)) as sinks:
        wanted = []
        for place, (sink, _) in enumerate(sinks):
            broker = place // SINKS
            text = spread.filter_at(broker)
            await asyncio.to_thread(subscribe, ports[broker], f"http://{HOST}:{sink}/", text)
            filter_ = parse_subscription(text)
            wanted.append(
                {n for n, each in enumerate(said) if filter_.matches(Event({TOPIC: each.topic}))}
            )
        warm = {n: events[:EARLY] for n, events in numbers.items()}
        early = {number for events in warm.values() for number, _ in events}
        got = [numbers for _, numbers in sinks]

        async def publish(events: Mapping[int, Sequence[tuple[int, str]]]) -> None:
            await asyncio.gather(*(_publish(ports[n // MACHINES], events[n]) for n in events))

        await publish(warm)
        await _arrival([want & early for want in wanted], got)
        before = cpu_s(brokers), cpu_s(pids)
        await publish({n: events[EARLY:] for n, events in numbers.items()})
        await _arrival(wanted, got)
        after = cpu_s(brokers), cpu_s(pids)
    return Notified(
        brokers_s=after[0] - before[0],
        gateways_s=after[1] - before[1],
        sent=len(said) - len(early),
        notifications=sum(len(want - early) for want in wanted),
        lost=sum(len(want - set(its)) for want, its in zip(wanted, got, strict=True)),
    )


async def _arrival(wanted: Sequence[set[int]], got: Sequence[Sequence[int]]) -> None:
    """Until every sink has what it wants, or nothing comes any more."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while any(not want <= set(its) for want, its in zip(wanted, got, strict=True)):
                await asyncio.sleep(LOOK_S)


async def _publish(port: int, events: Sequence[tuple[int, str]]) -> None:
    """One machine: a connection, and each event when the one before was accepted."""
    async with AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection(HOST, port)
        stack.callback(writer.close)
        for number, topic in events:
            body = EVENT.replace("TEXT", topic).replace("NUMBER", str(number)).encode()
            head = (
                f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {SOAP_12.media_type}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = answer.partition("content-length:")[2].partition("\r")[0].strip()
            await reader.readexactly(int(length or 0))
            if " 202 " not in answer.partition("\r")[0]:
                raise RuntimeError(f"the gateway does not take {topic}: {answer.splitlines()[0]}")
