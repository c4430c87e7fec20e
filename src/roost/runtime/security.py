"""Who may do what: the users file, logging in, and a log of those who were refused.

A user of the file is a principal with what was granted to it. It proves who it is by a token, or by a
certificate with one of the names that stand for it. A token is random, shown once when it is made, and kept
only as its digest (BLAKE2b, with a salt). Nobody guesses 256 random bits, however fast one can try: so a
login takes microseconds, right or wrong, and those in vain keep nobody waiting.

**Older files** have an argon2 hash instead, which is slow on purpose: for passwords that people choose. A
process remembers for each such user which token was right, as a digest with a key that nobody outside of the
process knows: only the first login costs. As long as there is one such user in the file, all logins in vain
cost one argon2, whether there is such a user or not, and say the same, so that nobody learns who the users
are. `logins` has them wait in turn. `roost users renew` gives a user a token of the new kind.

Nothing here knows of asyncio; `Users` may be asked from several threads.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TextIO

import argon2
from msgspec import Struct
from msgspec.structs import asdict

from roost.broker.permissions import NAME_MARKS, Permission
from roost.errors import UserError
from roost.language import LanguageError, Subscription, parse_subscription
from roost.runtime.private_file import locked, write_private
from roost.runtime.toml_file import (
    TomlFile,
    parse_toml,
    read_table,
    read_toml,
    toml_key,
    toml_value,
)

PRINCIPAL_LENGTH_MAX = 256
TOKEN_BYTES = 32
SALT_BYTES = 16
DIGEST_BYTES = 32
# So that those who search for secrets that got lost know one.
TOKEN_PREFIX = "roost_"


class Hardness(Struct, frozen=True, kw_only=True):
    """What a guess at a token costs where the file has its hash: the least that OWASP advises."""

    time_cost: int = 2
    memory_kib: int = 19 * 1024
    parallelism: int = 1


HARDNESS = Hardness()


class User(Struct, frozen=True, kw_only=True):
    """A user as the file has it, in the table [users.PRINCIPAL]."""

    token_digest: str = ""  # without this or the next, only a certificate will do
    token_hash: str = ""  # of argon2, as older files have it
    publish: str = ""  # a filter that covers what it may publish; "" is nothing, "*" everything
    subscribe: str = ""  # the same for what it may subscribe to
    link: bool = False  # it is a broker of the federation
    administer: bool = False  # it may see and change how a broker runs
    monitor: bool = False  # it may see that, and change nothing
    expires: date | None = None  # the last day on which it may log in (UTC)
    certificates: tuple[str, ...] = ()  # names in certificates (CN or SAN) that stand for it


# For unknown users and wrong tokens alike.
NOT_RIGHT = "the user or the token is not right"


# --- tokens ---------------------------------------------------------------------------------------


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def digest_token(token: str, salt: bytes = b"") -> str:
    """What the users file keeps of a token; a salt only to compare with another.

    >>> digest_token("roost_secret", bytes(16))[:56]
    'blake2b:00000000000000000000000000000000:fdd0d4c4d4a0ff1'
    """
    salt = salt or secrets.token_bytes(SALT_BYTES)
    digest = hashlib.blake2b(_bytes(token), key=salt, digest_size=DIGEST_BYTES).hexdigest()
    return f"blake2b:{salt.hex()}:{digest}"


_is_digest = re.compile(
    f"blake2b:[0-9a-f]{{{2 * SALT_BYTES}}}:[0-9a-f]{{{2 * DIGEST_BYTES}}}", re.ASCII
).fullmatch


def _has_digest(token: str, digest: str) -> bool:
    salt = bytes.fromhex(digest.split(":")[1])
    return hmac.compare_digest(digest_token(token, salt), digest)


def hash_token(token: str, hardness: Hardness = HARDNESS) -> str:
    """What older users files keep of a token."""
    hasher = argon2.PasswordHasher(
        hardness.time_cost, hardness.memory_kib, hardness.parallelism, type=argon2.Type.ID
    )
    return hasher.hash(_bytes(token))


def _is_right(token: str, token_hash: str) -> bool:
    """How long it takes is said by the hash, and by nothing else."""
    try:
        return argon2.PasswordHasher().verify(token_hash, _bytes(token))
    except argon2.exceptions.VerificationError:
        return False


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _nobodys_hash(like: str) -> str:
    """A hash of no known token, as hard as another one."""
    head = like.rsplit("$", 2)[0]
    salt, digest = (
        base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32)
    )
    return f"{head}${salt}${digest}"


# --- the users file -------------------------------------------------------------------------------

HEADER = "# The users of a Roost federation; changed by `roost users`, which keeps no comments.\n"


class Known(Struct, frozen=True):
    """A user, and what its line in the file means."""

    user: User
    permission: Permission


def read_users(path: Path) -> dict[str, Known]:
    """The users of a file by their principals; UserError with the line of what is wrong."""
    return users_of(read_toml(path, "a users file; `roost users add` makes one"))


def users_of(file: TomlFile) -> dict[str, Known]:
    for name in file.tree:
        if name != "users":
            file.refuse((name,), f"{name!r} is unknown; expected only tables [users.NAME]")
    tables = file.tree.get("users", {})
    if not isinstance(tables, dict):
        file.refuse(("users",), "users is no table; expected tables [users.NAME]")
    found: dict[str, Known] = {}
    owners: dict[str, str] = {}
    for principal in tables:
        place = ("users", principal)
        if objection := objection_to_principal(principal):
            file.refuse(place, objection)
        user = read_table(file, place, User, None)
        for name in user.certificates:
            if owners.setdefault(name, principal) != principal:
                what = f"the certificate {name!r} stands for {owners[name]!r} already"
                file.refuse((*place, "certificates"), f"{what}; expected one user for each name")
        if user.token_digest and not _is_digest(user.token_digest):
            what = "token_digest is no digest; `roost users renew` makes a new one"
            file.refuse((*place, "token_digest"), what)
        if user.token_hash:
            try:
                argon2.extract_parameters(user.token_hash)
            except argon2.exceptions.InvalidHashError:
                what = "token_hash is no hash of argon2; `roost users renew` makes a new one"
                file.refuse((*place, "token_hash"), what)
        permission = Permission(
            principal,
            _filter(file, (*place, "publish"), user.publish),
            _filter(file, (*place, "subscribe"), user.subscribe),
            link=user.link,
            administer=user.administer,
            names=user.certificates,
        )
        found[principal] = Known(user, permission)
    return found


def _filter(file: TomlFile, place: tuple[str, ...], text: str) -> Subscription | None:
    try:
        return parse_subscription(text) if text else None
    except LanguageError as bad:
        raise file.refusal(place, f"{place[-1]}: {bad}") from None


def objection_to_principal(name: str) -> str:
    """To the name of a user; "" if it will do."""
    if not 0 < len(name) <= PRINCIPAL_LENGTH_MAX or not name.isprintable() or name != name.strip():
        what = f"a name of 1 to {PRINCIPAL_LENGTH_MAX} visible characters"
        return f"the user's name is {name[:80]!r}; expected {what}"
    if any(mark in name for mark in NAME_MARKS):
        # The sessions of the user "a" may be called "a~b", and what it asks for "a/b".
        without = " and ".join(map(repr, NAME_MARKS))
        return f"the user's name is {name!r}; expected one without {without}"
    return ""


def users_text(users: Mapping[str, User]) -> str:
    """The text that is read back as these users."""
    blank = asdict(User())
    lines = [HEADER]
    for principal, user in sorted(users.items()):
        lines.append(f"\n[users.{toml_key(principal)}]\n")
        for key, value in asdict(user).items():
            if value != blank[key]:
                lines.append(f"{key} = {toml_value(value)}\n")
    return "".join(lines)


@contextmanager
def changed_users(path: Path) -> Iterator[dict[str, User]]:
    """The users of a file, to be changed: they are written when the block ends without an error.

    A file that is not there has no users.
    """
    with locked(path):
        known = read_users(path) if path.exists() else {}
        users = {principal: each.user for principal, each in known.items()}
        yield users
        text = users_text(users)
        users_of(parse_toml(text, str(path)))  # nothing is written that would not be read
        write_private(path, text.encode())


# --- logging in -----------------------------------------------------------------------------------


class _Book(Struct, frozen=True):
    """One state of the file."""

    known: dict[str, Known]
    owners: dict[str, str]  # of names in certificates
    nobodys_digest: str
    nobodys_hash: str  # "" if nobody has a hash


class Users:
    """The users of a file, read again whenever it has changed.

    A change that cannot be read changes nothing, and `problem` says why: a slip of an editor's must not lock
    out a whole federation. `revision` counts the changes, so that a server knows when to ask again what those
    may do who are already in.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path = path
        self.revision = 0
        self.problem = ""
        self._clock = clock
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)
        # For each user the hash in the file and the digest of a token that was right for it.
        self._verified: dict[str, tuple[str, bytes]] = {}
        self._seen = self._state()
        self._book = self._read()

    @classmethod
    def load(cls, path: Path, clock: Callable[[], float] = time.time) -> Users:
        """UserError, with the line, if the file cannot be read. The clock is in seconds since 1970."""
        return cls(path, clock)

    def refresh(self) -> bool:
        """Reads the file if it has changed; whether anything is new."""
        with self._lock:
            seen = self._state()
            if seen == self._seen:
                return False
            self._seen = seen
            try:
                self._book = self._read()
            except UserError as bad:
                self.problem = str(bad)
                return False
            self.problem = ""
            self.revision += 1
            return True

    def authenticate(self, user: str, token: str) -> Permission | str:
        """By a token. Where the file has a hash, it may take tens of milliseconds of this thread."""
        self.refresh()
        book = self._book
        answer = self._at_once(book, user, token)
        if answer is not None:
            return answer
        known = book.known.get(user)
        token_hash = (known and known.user.token_hash) or book.nobodys_hash
        if not _is_right(token, token_hash) or known is None:
            return NOT_RIGHT
        self._verified[user] = (token_hash, self._digest(token))
        return self._unless_expired(known)

    def answer_at_once(self, user: str, token: str) -> Permission | str | None:
        """The same, if it takes neither argon2 nor reading the file anew; else None."""
        if self._lock.locked() or self._state() != self._seen:
            return None
        return self._at_once(self._book, user, token)

    def may_monitor(self, principal: str) -> bool:
        """Whether somebody who has logged in may see how a broker runs."""
        known = self._book.known.get(principal)
        return known is not None and (known.user.monitor or known.user.administer)

    def is_preferred(self, user: str) -> bool:
        """A neighbour, or somebody who has been here: of whom it is more likely that they are right."""
        known = self._book.known.get(user)
        return known is not None and (known.user.link or user in self._verified)

    def _at_once(self, book: _Book, user: str, token: str) -> Permission | str | None:
        known = book.known.get(user)
        digest = (known and known.user.token_digest) or book.nobodys_digest
        if _has_digest(token, digest) and known is not None:
            return self._unless_expired(known)
        if not book.nobodys_hash:
            return NOT_RIGHT
        if known is not None and known.user.token_hash:
            right_hash, right_digest = self._verified.get(user, ("", b""))
            if known.user.token_hash == right_hash and hmac.compare_digest(
                self._digest(token), right_digest
            ):
                return self._unless_expired(known)
        return None

    def _digest(self, token: str) -> bytes:
        return hmac.digest(self._key, _bytes(token), "sha256")

    def permission_of_certificate(self, names: Iterable[str]) -> Permission | str:
        """By the names of a certificate that TLS has verified; see `tls.names_of_peer`."""
        self.refresh()
        book, names = self._book, list(names)
        owners = {book.owners[name] for name in names if name in book.owners}
        listed = ", ".join(map(repr, names)) or "nobody"
        if not owners:
            return f"the certificate of {listed} stands for no user"
        if len(owners) > 1:
            # Whoever was granted more should not come of an order.
            return f"the certificate of {listed} stands for several users"
        return self._unless_expired(book.known[owners.pop()])

    def permission_of(self, principal: str) -> Permission | str:
        """What one who has logged in before may do now."""
        self.refresh()
        known = self._book.known.get(principal)
        if known is None:
            return f"{principal!r} is no user any more"
        return self._unless_expired(known)

    def _unless_expired(self, known: Known) -> Permission | str:
        return objection_to_day(known, self._clock()) or known.permission

    def _state(self) -> tuple[int, ...]:
        """Differs when the file does. What cannot be seen differs from all that can."""
        try:
            found = os.stat(self.path)
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> _Book:
        known = read_users(self.path)
        owners = {name: who for who, each in known.items() for name in each.user.certificates}
        hashes = [each.user.token_hash for each in known.values() if each.user.token_hash]
        like = max(sorted(set(hashes)), key=hashes.count, default="")
        nobodys_hash = _nobodys_hash(like) if like else ""
        return _Book(known, owners, digest_token(new_token()), nobodys_hash)


def objection_to_day(known: Known, now_s: float) -> str:
    """To a user's logging in at this time; "" on all days up to the last."""
    last = known.user.expires
    if last is None or datetime.fromtimestamp(now_s, UTC).date() <= last:
        return ""
    return f"{known.permission.principal!r} expired on {last.isoformat()}"


# --- refusals -------------------------------------------------------------------------------------

WINDOW_S = 60.0
FIELD_LENGTH_MAX = 400
ADDRESSES_NAMED = 5


class RefusalLog:
    """Who was refused what, and why, as JSON lines in a file or on a stream; or both.

    Made so that nobody can fill a disk by being refused. In a minute an address gets so many lines and all
    together so many; the rest are counted, and the next minute begins with a line of how many there were and
    from where. What peers have said is cut short. A file that has become too long is renamed to end in `.1`,
    in place of the one before. A log that cannot be written stops nobody: `lost` counts.
    """

    def __init__(
        self,
        file: str = "",
        stream: TextIO | None = None,
        *,
        lines_an_address: int = 20,
        lines_in_all: int = 1_000,
        file_bytes_max: int = 16_000_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.suppressed = 0  # since the start
        self.lost = 0
        self._file = file
        self._stream = stream if file or stream else sys.stderr
        self._lines_an_address = lines_an_address
        self._lines_in_all = lines_in_all
        self._file_bytes_max = file_bytes_max
        self._clock = clock
        self._lock = threading.Lock()
        # This minute: its beginning, lines written, and refusals of each address that got a line.
        self._since = clock()
        self._written = 0
        self._refused: dict[str, int] = {}
        self._suppressed = 0
        self._handle = self._open() if file else -1

    def add(self, address: str, principal: str, asked: str, reason: str) -> None:
        """One refusal. The address is without its port: a peer may have as many ports as it likes."""
        with self._lock:
            now = self._clock()
            if not 0 <= now - self._since < WINDOW_S:
                self._turn(now)
            refused = self._refused.get(address, 0)
            full = self._written >= self._lines_in_all
            if refused or not full:
                self._refused[address] = refused + 1
            if full or refused >= self._lines_an_address:
                self._suppressed += 1
                self.suppressed += 1
                return
            self._written += 1
            line = {"address": address, "principal": principal, "asked": asked, "reason": reason}
            self._line(now, {key: _short(text) for key, text in line.items()})

    def close(self) -> None:
        """Says what is left to say, and closes the file."""
        with self._lock:
            self._turn(self._clock())
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1

    def _turn(self, now: float) -> None:
        """A new minute begins."""
        if self._suppressed:
            most = sorted(self._refused.items(), key=lambda each: -each[1])[:ADDRESSES_NAMED]
            named = {_short(address): count for address, count in most}
            since = _time(self._since)
            self._line(now, {"suppressed": self._suppressed, "since": since, "refusals": named})
        self._since = now
        self._written = self._suppressed = 0
        self._refused.clear()

    def _line(self, now: float, content: Mapping[str, object]) -> None:
        # Nothing but ASCII: what peers call themselves may not steer a terminal.
        line = json.dumps({"time": _time(now), **content}, ensure_ascii=True) + "\n"
        try:
            if self._stream is not None:
                self._stream.write(line)
                self._stream.flush()
            if self._handle >= 0:
                if os.fstat(self._handle).st_size + len(line) > self._file_bytes_max:
                    self._begin_file()
                os.write(self._handle, line.encode())
        except (OSError, UserError, ValueError):
            self.lost += 1

    def _begin_file(self) -> None:
        os.replace(self._file, f"{self._file}.1")
        old, self._handle = self._handle, self._open()
        os.close(old)

    def _open(self) -> int:
        try:
            return os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as bad:
            raise UserError(f"{self._file}: can't be written: {bad.strerror or bad}") from None


def _time(now_s: float) -> str:
    return datetime.fromtimestamp(now_s, UTC).isoformat(timespec="milliseconds")


def _short(text: str) -> str:
    return text if len(text) <= FIELD_LENGTH_MAX else f"{text[: FIELD_LENGTH_MAX - 4]} ..."
