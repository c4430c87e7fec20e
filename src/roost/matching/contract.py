"""What every matcher does.

A matcher holds subscriptions, each under an id that the caller chooses: a whole number from 0 to 2^63 - 1.
It answers which of them an event matches, as an array of ids. The order of the ids is not specified; it is
the same for the same history of additions and removals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost.errors import UserError
from roost.language import Event, Interest

Ids = NDArray[np.int64]
ID_MAX = 2**63 - 1


class DuplicateIdError(UserError, ValueError):
    """The id already names a subscription."""

    def __init__(self, id_: int) -> None:
        super().__init__(f"the subscription id {id_} is already in use; remove it first")


class UnknownIdError(UserError, KeyError):
    """The id names no subscription."""

    def __init__(self, id_: int) -> None:
        super().__init__(f"there is no subscription with the id {id_}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message in quotes


class Matcher(Protocol):
    """Subscriptions under ids, and the question which of them an event matches."""

    def add(self, id_: int, interest: Interest) -> None:
        """Hold a subscription. DuplicateIdError if the id is in use."""

    def remove(self, id_: int) -> None:
        """Forget a subscription. UnknownIdError if there is none."""

    def match(self, event: Event) -> Ids:
        """The ids of the subscriptions that the event matches, each once."""

    def match_batch(self, events: Iterable[Event]) -> tuple[Ids, Ids]:
        """(offsets, ids): event i matches ids[offsets[i]:offsets[i + 1]]."""

    def __len__(self) -> int:
        """How many subscriptions it holds."""


def check_id(id_: object) -> int:
    """`id_` if it can name a subscription."""
    if isinstance(id_, bool) or not isinstance(id_, int | np.integer) or not 0 <= id_ <= ID_MAX:
        raise UserError(
            f"{id_!r} is not a subscription id; expected a whole number from 0 to 2^63 - 1"
        )
    return int(id_)
