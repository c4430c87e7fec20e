"""The operators' pages about links: a neighbour more, one less, and a link that moves.

    POST /links/add      {"broker": "B7", "address": "10.0.0.7:7411"}   a neighbour from now on; without an
                                                                        address it dials us
    POST /links/remove   {"broker": "B7"}                               no longer; nothing may wait for it
    POST /links/move     {"mover": "B0", "anchor": "B2"}                R = <here, B0, B2>; see `rewiring`
    POST /links/way      {"way": "tree"}                                which way it goes in a hierarchy, or
                                                                        "cluster"; see `hierarchy`

What is said here is kept in the store, and holds over restarts (`NeighboursConfigured`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct
from starlette.exceptions import HTTPException

from roost.broker.events import LinkAdded, LinkRemoved, RewiringRequested, WaySwitched
from roost.broker.names import Address, Rank
from roost.broker.routers import router_of
from roost.runtime.config import address_of

if TYPE_CHECKING:
    from roost.runtime.server import BrokerServer

Name = Annotated[str, Meta(min_length=1, max_length=255)]


class AddRequest(Struct, frozen=True, forbid_unknown_fields=True):
    broker: Name
    address: str = ""


class RemoveRequest(Struct, frozen=True, forbid_unknown_fields=True):
    broker: Name


class MoveRequest(Struct, frozen=True, forbid_unknown_fields=True):
    mover: Name
    anchor: Name


class WayRequest(Struct, frozen=True, forbid_unknown_fields=True):
    way: Name


class LinkPages:
    """What operators do with the links of one broker. HTTPException says why not."""

    def __init__(self, server: BrokerServer) -> None:
        self._server = server

    def add(self, wanted: AddRequest, who: str) -> dict[str, Any]:
        server = self._server
        if wanted.broker == server.name or wanted.broker in server.shell.machine.links:
            raise HTTPException(409, f"{wanted.broker} is a neighbour of {server.name} already")
        if wanted.address:
            try:
                address_of(wanted.address)
            except ValueError as error:
                raise HTTPException(400, f"{error}; expected host:port, or nothing") from None
        # Whoever joins a hierarchy is below the one that is told of it here; who is above is in its settings.
        rank: Rank = "sub" if router_of(server.config.broker.routing).strategy.ranks else ""
        event = LinkAdded(
            wanted.broker, bool(wanted.address), Address(wanted.address), rank, joins=True
        )
        server.shell.handle(event)
        server.log.info("link added", about=wanted.broker, address=wanted.address, by=who)
        return {"broker": server.name, "added": wanted.broker}

    def remove(self, wanted: RemoveRequest, who: str) -> dict[str, Any]:
        server = self._server
        link = server.shell.machine.links.get(wanted.broker)
        if link is None:
            raise HTTPException(404, f"{wanted.broker} is no neighbour of {server.name}")
        data = link.channel.data
        if waiting := data.sent - data.acked:
            what = f"{waiting:,} messages wait for {wanted.broker}"
            raise HTTPException(409, f"{what}; expected none, or they would be lost")
        server.shell.handle(LinkRemoved(wanted.broker, f"{who} has ended the link"))
        server.log.info("link removed", about=wanted.broker, by=who)
        return {"broker": server.name, "removed": wanted.broker}

    def move(self, wanted: MoveRequest, who: str) -> dict[str, Any]:
        server = self._server
        objection = server.shell.broker.rewirings.objection_to(wanted.mover, wanted.anchor)
        if objection:
            raise HTTPException(409, objection)
        event = RewiringRequested(wanted.mover, wanted.anchor, f"{who} asks for it")
        server.shell.handle(event)
        server.log.info("link to be moved", about=wanted.mover, to=wanted.anchor, by=who)
        return {"broker": server.name, "mover": wanted.mover, "anchor": wanted.anchor}

    def way(self, wanted: WayRequest, who: str) -> dict[str, Any]:
        server = self._server
        objection = server.shell.broker.router.objection_to_way(wanted.way)
        if objection:
            raise HTTPException(409, f"{server.name}: {objection}")
        server.shell.handle(WaySwitched(wanted.way, f"{who} asks for it"))
        server.log.info("way switched", about=server.name, to=wanted.way, by=who)
        return {"broker": server.name, "way": wanted.way}
