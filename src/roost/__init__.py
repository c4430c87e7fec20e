"""Roost: a self-optimising content-based publish/subscribe system.

Importing `roost` itself costs nothing; import the package that you need (`roost.language`, ...). What
applications use of the client library is here by its short name, and loaded when it is first asked for:

    async with roost.connect("roost://host:7411") as client: ...
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing` would have to be loaded
if TYPE_CHECKING:
    from typing import Any

    from roost.client import connect as connect
    from roost.client import connect_sync as connect_sync

# The one place that says the version; the build reads it from here.
__version__ = "0.1.0"

# Names that are loaded when they are asked for, and from where.
_LATER = {"connect": "client", "connect_sync": "client", "client": "client"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    module = import_module(f"{__name__}.{_LATER[name]}")
    found = globals()[name] = module if name == _LATER[name] else getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATER])
