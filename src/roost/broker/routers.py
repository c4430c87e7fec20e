"""Routers by name: what `routing` in the settings can say."""

from __future__ import annotations

from collections.abc import Mapping

from roost.broker.advertisements import AdvertisementBased
from roost.broker.router import Flooding

ROUTERS: Mapping[str, type[Flooding]] = {
    "advertisement": AdvertisementBased,
    "flooding": Flooding,
}


def router_of(name: str) -> type[Flooding]:
    return ROUTERS[name]
