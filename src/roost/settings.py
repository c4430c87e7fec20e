"""What a setting is made of: a type with bounds, and a reason to set it.

A setting is declared once, as a field of a struct that stands where it is used: what the machine of a broker
has to know in `broker.config`, limits of what is read in `wire.limits`, the rest in `runtime.tables`. A table
of the settings file takes over what it has in common with such a struct by deriving from it, and so do the
settings of the simulator. Checks, messages and the documented file come from types and descriptions.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

# What a value may be. Bounds are there to catch a slip (a time in milliseconds), not to advise.
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
Positive = Annotated[int, Meta(ge=1, le=1 << 62)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
SomeSeconds = Annotated[float, Meta(gt=0, le=1e9)]


def why(text: str) -> Meta:
    """What a setting is for, as the documented file says it above the key."""
    return Meta(description=text)
