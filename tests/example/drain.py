"""What a user writes: an operator asks a broker to be rid of its clients (`drain`), and gets an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.broker.module import Module, Surroundings
from roost.broker.names import Address
from roost.errors import UserError


class Drain(Module):
    """From then on everybody goes to a neighbour."""

    name = "drain"

    def started(self, around: Surroundings, now: float) -> None:  # noqa: ARG002
        self._around = around
        self._to: Address | None = None

    def asked(
        self,
        request: str,
        arguments: Mapping[str, Any],
        now: float,  # noqa: ARG002
    ) -> Mapping[str, Any] | None:
        if request != "drain":
            return None
        around = self._around
        neighbour = arguments.get("to", "")
        self._to = around.address_of(neighbour)
        if self._to is None or neighbour == around.broker:
            raise UserError(f"to={neighbour}; expected one of {', '.join(around.neighbours)}")
        moving = [client for client in around.clients() if self._move(client, self._to)]
        return {"moving": moving, "staying": len(around.clients()) - len(moving)}

    def _move(self, client: str, to: Address) -> bool:
        if not self._around.is_movable(client):
            return False
        cause = self._around.propose(
            "drain", "drain", client, to, subjects=[client], evidence={}, predicted={}
        )
        if cause is not None:
            self._around.redirect(client, to, cause)
        return cause is not None

    def place(self, client: str, now: float) -> Address | None:  # noqa: ARG002
        return self._to
