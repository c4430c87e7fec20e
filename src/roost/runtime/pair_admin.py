"""What operators see of a node that is not the broker just now: health, status; and how to promote it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.runtime.admin import Admin, json_error
from roost.runtime.log import iso

if TYPE_CHECKING:
    from roost.runtime.pair import PairNode


class WaitingNode:
    """Stands where a broker stands for `Admin`."""

    def __init__(self, node: PairNode) -> None:
        self._node = node
        self.config = node.config
        self.name = node.name
        self.log = node.log
        self.watch = self
        self.refusals = 0
        self._admin: WaitingAdmin | None = None

    async def start(self) -> None:
        if self.config.admin.port >= 0:
            self._admin = WaitingAdmin(self)  # type: ignore[arg-type]
            await self._admin.start()

    async def stop(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.stop()

    def health(self, *, with_details: bool) -> dict[str, Any]:
        trouble = self._node.trouble
        troubles = [{"what": "standby", "detail": trouble, "since": iso(time.time())}]
        shown = troubles if trouble and with_details else []
        return {"ok": not trouble, "broker": self.name, "troubles": shown, "warnings": []}

    def status(self) -> dict[str, Any]:
        return {
            "broker": self.name,
            "host": self.config.broker.host,
            "port": self.config.broker.port,
            "sessions": 0,
            "attached": 0,
            "subscriptions": 0,
            "waiting": 0,
            "links": {},
            "load": {},
            "pid": os.getpid(),
            "uptime_s": time.time() - self._node.started_at,
            "trouble": self._node.trouble,
            "standby": self._node.pair_status(),
        }

    def promote(self, *, force: bool) -> dict[str, Any]:
        return self._node.promote(force=force)

    def refused(self, connection_id: int, asked: str, reason: str) -> None:
        del connection_id
        self.refusals += 1
        self.log.warning("refused", about=asked, detail=reason)


class WaitingAdmin(Admin):
    """The pages that there are without a broker."""

    def _app(self) -> Starlette:
        routes = [
            Route("/health", self._health, methods=["GET"]),
            Route("/status", self._for_operators(self._status), methods=["GET"]),
            self._promote_route(),
            Route("/{page:path}", self._not_here, methods=["GET", "POST"]),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: json_error})

    async def _not_here(self, _: Request) -> Response:
        """Whatever a broker answers."""
        raise HTTPException(503, f"{self._broker.name} is not served by this node just now")
