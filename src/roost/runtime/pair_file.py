"""What a node of a pair knows of itself beyond its store: the file `pair.json` beside that.

    node         a name of its own, from when the store was made
    membership   who leads in which epoch, and whether this one has everything (`overlay.twin`)

It belongs to one store: with another one beside it, because that was deleted, moved away or replaced, it says
nothing. It is written whole or not at all, and is on the disk when `write` returns.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec
from msgspec import Struct

from roost.overlay.twin_words import Membership
from roost.runtime.store_file import sync_folder

NAME = "pair.json"


class Known(Struct, frozen=True):
    """What the file says."""

    store: str  # the id of the store that it is about
    node: str
    membership: Membership | None = None


def seen(folder: Path) -> Known | None:
    """What the file says, whichever store is beside it; None if there is none."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Known)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def read(folder: Path, store_id: str) -> Known:
    """What is known of this store; without a file that is about it, nothing is."""
    known = seen(folder)
    if known is None or known.store != store_id:
        return Known(store_id, secrets.token_hex(8))
    return known


def write(folder: Path, known: Known) -> None:
    """Make it durable."""
    new = folder / f"{NAME}.new"
    with new.open("wb") as file:
        file.write(msgspec.json.encode(known) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(folder / NAME)
    sync_folder(folder)
