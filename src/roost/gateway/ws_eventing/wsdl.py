"""The service as WSDL 1.1, one for each version: what tools make clients from.

They hold all schemas that they use, so that nothing has to be fetched from anywhere else.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from roost.gateway.ws_eventing.xml_tree import Element, write

ADDRESS = "@ADDRESS@"


def wsdl_of(version: str, address: str) -> str:
    """The description of the service at an address, for a version by its name."""
    return _template(version).replace(ADDRESS, _escaped(address))


@cache
def _template(version: str) -> str:
    return (files(__package__) / f"{version}.wsdl").read_text("utf-8")


def _escaped(text: str) -> str:
    """As it stands between quotes."""
    whole = write(Element("a", {"b": text}))
    return whole[len('<a b="') : -len('"/>')]
