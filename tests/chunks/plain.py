"""What the first pass says, in plain Python: the obvious way, by the decoder and the router.

`read_plainly` reads frames until one is not a publication as most are. It returns where it stopped, and of
each event before that its own bytes, its hops so far, and where it goes: names of neighbours, and for each
client the ids of what it matched, in order.
"""

from __future__ import annotations

from typing import NamedTuple

from roost.broker.core import Broker
from roost.broker.hops import Link, Session
from roost.broker.messages import DATA, Frame, Publication
from roost.chunks.taking import OWN_BYTES_MAX
from roost.language import filters_of
from roost.language.values import EXACT_INT
from roost.wire import WireError, decode
from roost.wire.codec import PREFIX_SIZE, encode

HOPS_MAX = 126
HEADERS_MAX = 15  # beyond, MessagePack has another mark for a map


class Read(NamedTuple):
    own: bytes
    hops: int
    links: list[str]
    matched: dict[str, tuple[str, ...]]


def read_plainly(broker: Broker, connection: int, data: bytes) -> tuple[int, list[Read]]:
    peer = broker.node.peers.on[connection]
    assert peer is not None
    at, found = 0, list[Read]()
    number, last = peer.channel.data.received, dict[str, int]()
    while at + PREFIX_SIZE <= len(data):
        end = at + PREFIX_SIZE + int.from_bytes(data[at : at + PREFIX_SIZE], "big")
        try:
            frame = decode(data[at + PREFIX_SIZE : end]) if end <= len(data) else None
        except WireError:
            break
        if not isinstance(frame, Frame) or not isinstance(frame.message, Publication):
            break
        publication = frame.message
        if not (
            (frame.priority, frame.sequence) == (DATA, number + 1)
            and encode(frame) == data[at:end]  # in the usual spelling
            and is_plain(publication, frame.hops, asked_of(broker))
            and publication.sequence > last.get(publication.publisher, -1)
            and may_publish(broker, peer, publication)
        ):
            break
        links, local = broker.router.route(publication.event, peer)
        matched = {hop.name: hop.matched for hop in local}
        hops = frame.hops if peer.is_link else 0
        found.append(Read(publication.encoded, hops, [link.name for link in links], matched))
        last[publication.publisher] = publication.sequence
        number, at = number + 1, end
    return at, found


def asked_of(broker: Broker) -> set[str]:
    """The attributes that somebody asks for, or has advertised."""
    entries = (*broker.router.subscriptions.values(), *broker.router.advertisements.values())
    return {
        predicate.attribute
        for entry in entries
        for filter_ in filters_of(entry.interest)
        for predicate in filter_.predicates
    }


def is_plain(publication: Publication, hops: int, asked: set[str]) -> bool:
    return (
        hops <= HOPS_MAX
        and publication.priority == DATA
        and not publication.traced
        and len(publication.encoded) <= OWN_BYTES_MAX
        and len(publication.headers) <= HEADERS_MAX
        and not any(
            name in asked and type(value) is int and abs(value) > EXACT_INT
            for name, value in publication.event.attributes.items()
        )
    )


def may_publish(broker: Broker, peer: Link | Session, publication: Publication) -> bool:
    if isinstance(peer, Link):
        return True
    return publication.publisher == peer.publisher and not broker.router.objection_to(
        peer, publication.event
    )
