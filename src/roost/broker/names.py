"""A name says who somebody is, an address where.

Brokers know each other by name, and their drivers know where a name is to be dialled. Clients know addresses
only. Whoever sends a client elsewhere has to say an address; neighbours tell each other theirs in the
greeting.
"""

from __future__ import annotations

from typing import NewType

Address = NewType("Address", str)
