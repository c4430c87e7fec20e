"""A name says who somebody is, an address where.

Brokers know each other by name, and their drivers know where a name is to be dialled. Clients know addresses
only. Whoever sends a client elsewhere has to say an address; neighbours tell each other theirs in the
greeting.

A rank says what a neighbour is to us, where brokers have ranks (`hierarchy`).
"""

from __future__ import annotations

from typing import Literal, NewType

Address = NewType("Address", str)

# In a refusal of one node of a broker that has two (`epochs`); behind it, the epoch that is known.
IS_SUPERSEDED = "is superseded by epoch "

# "" where brokers have none.
Rank = Literal["", "super", "sub", "peer"]
# What we are to a neighbour of that rank.
FACING = {"super": "sub", "sub": "super", "peer": "peer"}
