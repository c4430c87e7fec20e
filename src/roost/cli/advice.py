"""What to tell whoever has said nowhere where a broker is, and reached none: where one might be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from roost.errors import UserError

START = "`roost broker` starts one here; --url, ROOST_URL or a context says where another one is"


@contextmanager
def advised(url: str | None) -> Iterator[None]:
    """A client that finds nobody at the usual port says what to do; at a place that was said, only why."""
    from roost.client import ConnectError

    try:
        yield
    except ConnectError as error:
        if url is not None or os.environ.get("ROOST_URL"):
            raise
        raise UserError(f"{error}\nhint: {elsewhere() or START}") from None


def elsewhere() -> str:
    """Where the federation of this folder is, if there is one: `roost up` takes any free ports."""
    from roost.runtime.federation import DEFAULT_STATE, read

    federation = read(DEFAULT_STATE)
    running = federation.running() if federation is not None else []
    if not running:
        return ""
    first = running[0]
    return (
        "the brokers of this folder's federation have ports of their own:"
        f" --url roost://{first.address} is {first.name}, `roost status` has all"
    )
