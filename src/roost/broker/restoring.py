"""A broker, or another machine on a node, comes back from its store, as its last transaction left it.

Records are those that `Journal.put` wrote, in the order in which they were first written; see the
modules that write them. Connections are gone, clients are away, timers are set anew, and modules start
from the beginning: what they had subscribed to is withdrawn, as they will do it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roost.broker.channel import Marks
from roost.broker.commands import StoreKey
from roost.broker.draining import Draining
from roost.broker.flow import size_in_memory
from roost.broker.hops import Hop, Inside, Link, Session
from roost.broker.messages import Delivery, SessionEnded
from roost.broker.names import Address
from roost.broker.node import Node
from roost.broker.rewiring.rewirings import Rewirings
from roost.broker.router import Flooding
from roost.broker.runs import Run
from roost.broker.spares import Kind

# What a link's record has behind who dials; stores of an earlier version know only the first of these.
LINK_RECORD: tuple[Any, ...] = ("", "", 0, "", "", False)
# The first word of a key -> the rest of it -> the record.
Kinds = Mapping[str | int, Mapping[StoreKey, Any]]


def by_kind(records: Mapping[StoreKey, Any]) -> Kinds:
    kinds: dict[str | int, dict[StoreKey, Any]] = {}
    for (kind, *rest), value in records.items():
        kinds.setdefault(kind, {})[tuple(rest)] = value
    return kinds


def restore_node(records: Mapping[StoreKey, Any], node: Node) -> None:
    """Put back what any node remembers, and nothing else: its peers, and what waits for them."""
    kinds = by_kind(records)
    restore_peers(node, kinds)
    restore_channels(node, kinds)


def restore(
    records: Mapping[StoreKey, Any],
    node: Node,
    router: Flooding,
    draining: Draining,
    rewirings: Rewirings,
) -> None:
    """Put the records back into a broker that has nothing yet."""
    kinds = by_kind(records)
    restore_peers(node, kinds)
    peers = (*node.links.values(), *node.sessions.values())
    hops: dict[tuple[str, str], Hop] = {peer.key: peer for peer in peers}
    if "rewiring" in kinds:  # which says who is to be told what
        rewirings.restore(kinds["rewiring"][()])
    asked = {str(name): number for (name,), number in kinds.get("asked", {}).items()}
    router.restore_way(kinds.get("way", {}).get(()), asked)  # which says so, too
    for kind in ("adv", "sub"):
        for (id_,), (hop_kind, hop_name, interest, number) in kinds.get(kind, {}).items():
            key = (hop_kind, hop_name)
            if key not in hops:
                hops[key] = Inside(hop_name)
            router.restore_entry(hops[key], str(id_), interest, number)
    for (id_,), (hop_kind, hop_name, number) in kinds.get("next", {}).items():
        router.restore_next(str(id_), hops[hop_kind, hop_name], number)
    for (which, id_, *hop_key), (interest, number) in kinds.get("spare", {}).items():
        spare_of = hops[str(hop_key[0]), str(hop_key[1])]
        table: Kind = "sub" if which == "sub" else "adv"
        router.restore_spare(table, spare_of, str(id_), interest, number)
    for hop in hops.values():
        if isinstance(hop, Link):
            told = [(k, v) for k, v in kinds.get("told", {}).items() if k[0] == hop.name]
            router.restore_told(
                hop,
                [str(id_) for (_, kind, id_), _ in told if kind == "sub"],
                {str(id_): number for (_, kind, id_), number in told if kind == "adv"},
            )
    restore_channels(node, kinds)
    draining.restore(
        kinds.get("drains", {}).get((), 0), kinds.get("drain", {}), kinds.get("shared", {})
    )
    for hop in hops.values():
        if isinstance(hop, Inside):
            router.forget(hop, f"{node.identity.name} has restarted")


def restore_peers(node: Node, kinds: Kinds) -> None:
    """Who was linked and who had a session, and who we are."""
    identity = node.identity
    identity.incarnation = kinds.get("incarnation", {}).get((), identity.incarnation)
    identity.boots = kinds.get("boots", {}).get((), 0)
    node.hosted.unheard = kinds.get("unheard", {}).get((), 0)
    configured = kinds.get("configured", {}).get(())
    node.linked.configured_before = None if configured is None else dict(configured)
    for (name,), (dials, *rest) in kinds.get("link", {}).items():
        link = node.linked.new(str(name), dials)
        known = (*rest, *LINK_RECORD[len(rest) :])
        link.peer_incarnation, link.peer_life, link.number_base, address = known[:4]
        link.address = Address(address)
        link.rank, link.unmet = known[4:]
        link.epoch, link.beside = kinds.get("epoch", {}).get((name,), (0, ""))
    counted = kinds.get("published", {})
    for (name,), (client, ending, durable, process, *later) in kinds.get("session", {}).items():
        publisher, published = counted.get((name,), ("", 0))
        session = node.hosted.new(
            str(name),
            client,
            durable=durable,
            process=process,
            ending=ending,
            publisher=publisher,
            published=published,
            owner=later[0] if later else "",
        )
        session.dropped = kinds.get("dropped", {}).get((name,), 0)


def restore_channels(node: Node, kinds: Kinds) -> None:
    """How far their channels were, and what had not arrived."""
    outboxes: dict[StoreKey, dict[int, Any]] = {}
    for key, value in kinds.get("out", {}).items():
        outboxes.setdefault(key[:-1], {})[int(key[-1])] = value
    runs: dict[StoreKey, list[Run]] = {}
    for key, run in kinds.get("run", {}).items():
        runs.setdefault(key[:-1], []).append(run)
    for several in runs.values():
        several.sort(key=lambda run: run.first)
    sent, received, acked = (kinds.get(kind, {}) for kind in ("sent", "received", "acked"))
    for peer in (*node.links.values(), *node.sessions.values()):
        for lane in peer.channel.lanes:
            lane.restore(
                sent.get(lane.key, 0),
                received.get(lane.key, 0),
                outboxes.get(lane.key, {}),
                runs.get(lane.key, ()),
                acked.get(lane.key, 0),
            )
    for link in node.links.values():
        link.before = Marks.of(link.channel)
    for session in node.sessions.values():
        restore_backlog(session, outboxes, runs)
        session.ended = any(type(f.message) is SessionEnded for f in session.channel.data.single)


def restore_backlog(
    session: Session,
    outboxes: Mapping[StoreKey, Mapping[int, Any]],
    runs: Mapping[StoreKey, Sequence[Run]],
) -> None:
    """How many bytes wait for it."""
    lane = session.channel.data
    if not lane.memory_max:
        return
    sizes = [(run.last, len(run.data)) for run in runs.get(lane.key, ())]
    for number, (message, _) in outboxes.get(lane.key, {}).items():
        if isinstance(message, Delivery):
            sizes.append((number, size_in_memory(message.publication)))
    for last, size in sorted(sizes):
        session.backlog.add(last, size, lane.acked)
