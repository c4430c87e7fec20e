"""What is kept of each subscription, so that the gateway may be stopped and started again.

One SQLite file, a row for each. What waits for a sink is not here: the broker keeps it, in a durable session
of the subscription's name, and with the session how far the sink has come. The file has the tokens of those
who subscribed, as the gateway has to log in for them when it starts again: only its owner can read it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import msgspec
from msgspec import Struct

from roost.errors import UserError
from roost.gateway.ws_eventing.addressing import Endpoint

FILE = "ws-eventing.db"
FORMAT = 1
# How long to wait for another gateway to let go of the file.
LOCKED_S = 0.2


class Record(Struct, frozen=True, kw_only=True):
    """A subscription."""

    id: str
    user: str  # whose it is; "" where nobody logs in
    token: str
    filter: str
    notify: Endpoint
    end: Endpoint | None
    version: str  # of WS-Eventing, SOAP and WS-Addressing: as it was asked for, so it is notified
    soap: str
    addressing: str
    wrapped: bool
    expires_at: float
    expires_as_date: bool
    manager: str  # the address that it is managed at

    @property
    def urn(self) -> str:
        """Its identifier, as others see it."""
        return f"urn:uuid:{self.id}"

    @property
    def session(self) -> str:
        """What its durable session is called."""
        return f"ws-eventing-{self.id}"

    def __repr__(self) -> str:
        """Without the token: records get logged."""
        return f"Record({self.id!r}, {self.user!r}, {self.filter!r}, {self.notify.address!r})"


class Records:
    """Those of one gateway; in memory only if there is no folder. May be used from several threads."""

    def __init__(self, folder: Path | None) -> None:
        self._lock = threading.Lock()
        try:
            self._base = sqlite3.connect(
                _path(folder), timeout=LOCKED_S, check_same_thread=False, isolation_level=None
            )
        except sqlite3.Error as bad:
            raise _not_ours(folder, bad) from None
        try:
            self._prepare(folder)
        except sqlite3.Error as bad:
            self._base.close()
            raise _not_ours(folder, bad) from None
        except UserError:
            self._base.close()
            raise

    def _prepare(self, folder: Path | None) -> None:
        self._base.execute("PRAGMA journal_mode = DELETE")
        self._base.execute("PRAGMA synchronous = FULL")
        self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
        (version,) = self._base.execute("PRAGMA user_version").fetchone()
        if version not in (0, FORMAT):
            raise UserError(f"{folder}/{FILE}: format {version}; expected {FORMAT}")
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS subscriptions (id TEXT PRIMARY KEY, record BLOB) STRICT"
        )
        self._base.execute(f"PRAGMA user_version = {FORMAT}")

    def all(self) -> list[Record]:
        """In the order of their ids."""
        with self._lock:
            rows = self._base.execute("SELECT record FROM subscriptions ORDER BY id").fetchall()
        return [msgspec.json.decode(data, type=Record) for (data,) in rows]

    def put(self, record: Record) -> None:
        """It is on the disk when this returns."""
        with self._lock:
            self._base.execute(
                "INSERT OR REPLACE INTO subscriptions VALUES (?, ?)",
                (record.id, msgspec.json.encode(record)),
            )

    def drop(self, id_: str) -> None:
        """It is forgotten."""
        with self._lock:
            self._base.execute("DELETE FROM subscriptions WHERE id = ?", (id_,))

    def close(self) -> None:
        with self._lock:
            self._base.close()


def _not_ours(folder: Path | None, bad: sqlite3.Error) -> UserError:
    return UserError(f"{folder}/{FILE}: {bad}; expected the file of one gateway")


def _path(folder: Path | None) -> str:
    if folder is None:
        return ":memory:"
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Before anything is in it, and for what SQLite puts beside it as well.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as bad:
        raise UserError(
            f"{path}: {bad.strerror}; expected a folder to keep subscriptions in"
        ) from None
    return str(path)
