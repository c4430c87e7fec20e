"""Machines by name: what `machine` in the settings can say.

`broker`, or `package.module:Class` for a user's own, derived from `Station` (or from `Broker`), or what a
package offers in the group `roost.machines`. Settings of its own may follow, as in
`my_package.ring:Ring next=B1`: those of its `Config`, as with modules (`registry`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.module import Module
from roost.broker.registry import find, settings_of
from roost.broker.server import Server
from roost.broker.station import Station
from roost.errors import UserError

GROUP = "roost.machines"
BROKER = "broker"


class MachineKind(Struct, frozen=True):
    """A kind of machine, and its settings."""

    type: type[Broker] | type[Station]
    settings: Struct | None = None

    @property
    def is_broker(self) -> bool:
        """Whether it is part of the overlay, and has modules."""
        return issubclass(self.type, Broker)

    def make(self, config: BrokerConfig, modules: Sequence[Module] = ()) -> Server:
        """One of them."""
        if self.settings is None:
            return self.type(config, modules)
        return self.type(config, modules, self.settings)  # type: ignore[call-arg]


def kind_of(text: str) -> MachineKind:
    """The kind that a text means; UserError says what is wrong with it."""
    reference, *words = text.split() or [BROKER]
    if reference == BROKER:
        found: object = Broker
    else:
        found = find(reference, GROUP, "machine")
    if not (isinstance(found, type) and issubclass(found, Broker | Station)):
        raise UserError(
            f"{reference!r} is no machine; expected a class derived from roost.broker.station.Station"
        )
    what, settings = f"the machine {reference}", {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (equals and key):
            raise UserError(f"{what}: {word!r}; expected KEY=VALUE")
        settings[key] = value
    return MachineKind(found, settings_of(what, getattr(found, "Config", None), settings))
