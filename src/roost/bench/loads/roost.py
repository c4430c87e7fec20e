"""Roost itself, alone or as a chain of brokers, by sessions without the client library.

The publisher is at the first broker of the chain, the subscribers at the last. By content, each subscriber
has a filter for each symbol with a condition on the price. Roost acknowledges all that it takes; durable
means that it has its store, and acknowledges when that has it. Subscribers acknowledge in all scenarios.

A publication is as many bytes as the payload of the rivals: the quote's attributes, its own fields and a
payload that holds the stamps.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roost.bench.loads import kernels
from roost.bench.loads.base import (
    HOST,
    Driver,
    Inlet,
    Outlet,
    Scenario,
    connect,
    read_exactly,
)
from roost.bench.loads.processes import PrivateServer, Processes, free_port
from roost.bench.loads.quotes import CLASS, PAYLOAD_BYTES, STAMPS, Quote, quotes, symbol
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION_MIN,
    Ack,
    Advertise,
    Attach,
    Attached,
    Delivery,
    Frame,
    Message,
    Parcel,
    Publication,
    Subscribe,
)
from roost.language import Event, parse_advertisement, parse_subscription
from roost.runtime.broker_process import command_of, write_settings
from roost.wire import PREFACE, StreamDecoder, decode, encode, publication_bytes
from roost.wire.kinds import MESSAGE_TAGS, UNNUMBERED_TAGS

_PUBLISHER: Final = "p"
# A number that takes the five bytes that all will have.
_SOME_NUMBER: Final = 1 << 31
_NUMBERS: Final = (1 << 32) - 1
# Where the numbers of a frame and of the publication in it stand: behind length, mark, tag, class and mark;
# and behind the hops, the mark of the publication, its publisher (one letter) and a mark.
_FRAME_NUMBER_AT: Final = 8
_NUMBER_AT: Final = _FRAME_NUMBER_AT + 4 + 1 + 1 + 2 + 1
# What stands behind the payload of a publication: content type, headers, time and priority.
_BEHIND_PAYLOAD: Final = 1 + 1 + 9 + 1
# Deliveries are acknowledged so many at once.
_ACK_EVERY: Final = 256

Settings = Mapping[str, Mapping[str, object]]
NO_SETTINGS: Settings = {}


class Roost(PrivateServer):
    """A broker, or several in a row; `settings` that they have besides, by table."""

    def __init__(self, brokers: int = 1, settings: Settings = NO_SETTINGS) -> None:
        super().__init__()
        self.brokers = brokers
        self.name = "roost" if brokers == 1 else f"roost, {brokers} brokers"
        self._settings = settings

    def launch(self, processes: Processes, scenario: Scenario) -> None:
        ports = [self.publisher_port, *(free_port() for _ in range(1, self.brokers))]
        self.subscriber_port = ports[-1]
        for number, port in enumerate(ports):
            name = f"B{number}"
            # Each dials the one before it, which is up.
            neighbours = {}
            if number > 0:
                neighbours[f"B{number - 1}"] = f"{HOST}:{ports[number - 1]}"
            if number < self.brokers - 1:
                neighbours[f"B{number + 1}"] = ""
            data = str(processes.folder / name) if scenario.durable else ""
            config = processes.folder / f"{name}.toml"
            tables: dict[str, dict[str, object]] = {
                # Others let 64 MB wait for a client, which at such rates is half a second.
                "broker": {
                    "name": name,
                    "host": HOST,
                    "port": port,
                    "data": data,
                    "session_outbox_max": 500_000,
                },
                "links": {"neighbours": neighbours},
                "admin": {"port": -1},
            }
            for table, keys in self._settings.items():
                tables[table] = {**tables.get(table, {}), **keys}
            write_settings(config, tables)
            # As its rivals are started: it ends with the bench.
            processes.start(command_of(config))
            processes.wait_for_port(port)


class RoostDriver(Driver):
    """Filters by content; without, one for all quotes."""

    window = 1_024

    def tuned(self, scenario: Scenario) -> Scenario:
        tuned = super().tuned(scenario)
        # The rivals don't acknowledge at all unless it is durable, so this should not be what limits.
        return tuned if scenario.durable else replace(tuned, unacknowledged_max=tuned.window)

    def subscriber(self, scenario: Scenario, port: int, number: int) -> Inlet:
        name = f"s{number}"
        session = RoostSession(port, name)
        filters = [f"class = '{CLASS}'"]
        if scenario.by_content:
            filters = [
                f"class = '{CLASS}' and symbol = '{symbol(n)}' and low > 0"
                for n in range(scenario.symbols)
            ]
        session.control(
            [
                Subscribe(id=f"{name}/{n:04}", subscription=parse_subscription(text), cause=name)
                for n, text in enumerate(filters)
            ]
        )
        return RoostInlet(session.sock, scenario)

    def publisher(self, scenario: Scenario, port: int) -> Outlet:
        session = RoostSession(port, _PUBLISHER)
        offer = parse_advertisement(f"class = '{CLASS}' and symbol present and low > 0")
        session.control([Advertise(id="a", advertisement=offer, cause=_PUBLISHER)])
        frames = [publication_frame(quote) for quote in quotes(scenario.symbols, scenario.seed)]
        return RoostOutlet(session.sock, frames)


class RoostOutlet(Outlet):
    """Publications, numbered as frames and as the publisher's own; here both are the same number."""

    acknowledges = True

    def __init__(self, sock: socket.socket, frames: list[bytes]) -> None:
        behind = _BEHIND_PAYLOAD + payload_size()
        super().__init__(sock, frames, len(frames[0]) - behind)
        # What was ahead of the first frame to come has been read.
        self._decoder = StreamDecoder()
        self._decoder.feed(PREFACE)

    def number(self, row: int, count: int) -> None:
        for at in (_FRAME_NUMBER_AT, _NUMBER_AT):
            kernels.put_numbers(self.cells, self.width, row, count, at, 4, self.sent, _NUMBERS)

    def acknowledge(self, data: bytes) -> None:
        for parcel in self._decoder.feed(data):
            if not isinstance(parcel, Ack):
                raise RuntimeError(f"the broker says {parcel}")
            self.acknowledged = parcel.data


class RoostInlet(Inlet):
    """Deliveries, acknowledged some hundreds at a time."""

    def __init__(self, sock: socket.socket, scenario: Scenario) -> None:
        self._stamps_behind = _BEHIND_PAYLOAD + payload_size()
        self._acknowledged = 0
        super().__init__(sock, scenario)

    def scan(self, data: NDArray[np.uint8], end: int, now_ns: int) -> int:
        used = kernels.scan_roost(
            data,
            end,
            now_ns,
            self.tally,
            self.latencies_ns,
            MESSAGE_TAGS[Delivery],
            UNNUMBERED_TAGS[Ack],
            self._stamps_behind,
        )
        last = int(self.tally[kernels.FRAME])
        if last - self._acknowledged >= _ACK_EVERY:
            self._acknowledged = last
            self.sock.sendall(encode(Ack(control=0, data=last)))
        return used


# --- the protocol ---------------------------------------------------------------------------------


class RoostSession:
    """A new session of a client, and what it says before anything is published."""

    def __init__(self, port: int, client: str) -> None:
        self.sock = connect(port)
        greeting = Attach(
            version=PROTOCOL_VERSION_MIN,  # which is asked nothing that we would have to answer
            client=client,
            session=client,
            resume=False,
            control_received=0,
            data_received=0,
        )
        self.sock.sendall(PREFACE + encode(greeting))
        preface = read_exactly(self.sock, len(PREFACE))
        if preface != PREFACE:
            raise RuntimeError(f"this is no Roost broker: {preface!r}")
        answer = self._parcel()
        if not isinstance(answer, Attached):
            raise RuntimeError(f"the broker answers {answer}")

    def control(self, messages: list[Message]) -> None:
        """Say these, and wait until the broker has them."""
        self.sock.sendall(
            b"".join(encode(Frame(CONTROL, number, m)) for number, m in enumerate(messages, 1))
        )
        control = 0
        while control < len(messages):
            parcel = self._parcel()
            if not isinstance(parcel, Ack):
                raise RuntimeError(f"the broker answers {parcel}")
            control = parcel.control

    def _parcel(self) -> Parcel:
        """The next one, and no byte more."""
        (length,) = struct.unpack(">I", read_exactly(self.sock, 4))
        return decode(read_exactly(self.sock, length))


def publication_frame(quote: Quote) -> bytes:
    """The quote as a publication in a frame; all have one size, and numbers of five bytes."""
    return encode(Frame(DATA, _SOME_NUMBER, _publication(quote, payload_size())))


@cache
def payload_size() -> int:
    """What makes a publication as long as a payload of the rivals. (Quotes have one length.)"""
    bare = len(publication_bytes(_publication(quotes(1, 0)[0], 0)))
    return PAYLOAD_BYTES - bare


def _publication(quote: Quote, payload_bytes: int) -> Publication:
    return Publication(
        publisher=_PUBLISHER,
        sequence=_SOME_NUMBER,
        event=Event(quote),
        payload=STAMPS.ljust(payload_bytes)[:payload_bytes],
        published_at=0.0,
    )
