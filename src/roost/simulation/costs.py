"""What messages take a simulated machine: as its kind says, and for brokers what the settings say besides.

The thesis has matching only (001 section 5.1): what changes a table is free, unless it is said what it takes.
docs/SIMULATION.md has what was measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from roost.broker.messages import Advertise, Message, Subscribe, Unadvertise, Unsubscribe

if TYPE_CHECKING:
    from roost.broker.machines import MachineKind
    from roost.broker.server import Costs
    from roost.simulation.settings import Settings


def costs_of(kind: MachineKind, settings: Settings) -> Costs:
    """The costs of a machine of that kind."""
    costs = kind.type.costs
    if not kind.is_broker:
        return costs
    said: dict[type[Message], float] = {
        Subscribe: settings.subscribing_s_mhz,
        Unsubscribe: settings.unsubscribing_s_mhz,
        Advertise: settings.advertising_s_mhz,
        Unadvertise: settings.unadvertising_s_mhz,
    }
    # What the settings leave at 0 is what a broker of one's own may say.
    messages = {**costs.messages_s_mhz, **{each: cost for each, cost in said.items() if cost}}
    return replace(costs, messages_s_mhz=messages)
