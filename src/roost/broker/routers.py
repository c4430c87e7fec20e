"""Routers by name: what `routing` in the settings can say.

One of those here, or `package.module:Class` for a user's own, derived from one of them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping

from roost.blame import blaming
from roost.broker.advertisements import AdvertisementBased
from roost.broker.hierarchy import Clustered, Tree
from roost.broker.router import Flooding
from roost.errors import UserError

ROUTERS: Mapping[str, type[Flooding]] = {
    "advertisement": AdvertisementBased,
    "cluster": Clustered,
    "flooding": Flooding,
    "tree": Tree,
}


def router_of(name: str) -> type[Flooding]:
    """The router of that name; UserError says what there is."""
    if name in ROUTERS:
        return ROUTERS[name]
    expected = f"expected one of {', '.join(ROUTERS)}, or package.module:Class for one of your own"
    if ":" not in name:
        raise UserError(f"there is no router {name!r}; {expected}")
    with blaming(f"the router {name!r} can't be imported", name.partition(":")[0], expected):
        found = pkgutil.resolve_name(name)
    if not (isinstance(found, type) and issubclass(found, Flooding)):
        raise UserError(f"{name!r} is no router; expected a class derived from {Flooding.__name__}")
    return found


def check_router(name: str) -> None:
    """UserError if there is no such router, or it can't be made: before a broker wants one."""
    kind = router_of(name)
    with blaming(f"the router {name!r} can't be made", kind):
        kind({}, lambda *_: None, None)
