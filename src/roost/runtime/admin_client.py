"""Asking brokers how they fare, and telling them what to do: the other end of `admin`.

A broker that does not answer is an answer, too: `ask` raises what it is, `ask_all` gives it in its place.
"""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from roost.errors import UserError
from roost.language.literals import abbreviate
from roost.loopback import is_loopback

DEFAULT_URL = "http://127.0.0.1:7412"
DEFAULT_PORT = 7412
ANSWER_S = 5.0
ANSWER_BYTES_MAX = 64_000_000
AT_A_TIME = 32


class AdminError(UserError):
    """A broker has not done what was asked."""


class NoAnswerError(AdminError):
    """It has not even answered."""


class Access(Struct, frozen=True):
    """How to be let in. Nothing of it is needed where security and TLS are off."""

    user: str = ""
    token: str = ""
    authority: Path | None = None  # what the certificate of a broker is checked against

    def __repr__(self) -> str:
        """Without the token."""
        return f"Access(user={self.user!r}, authority={self.authority!r})"


NO_ACCESS = Access()


def ask(url: str, path: str, body: object = None, access: Access = NO_ACCESS) -> dict[str, Any]:
    """What a broker answers; with a body, to an order. AdminError says why there is no answer."""
    shown, connection, login = _connection(url, access)
    headers = {"Connection": "close"}
    if login != ":":
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    try:
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            connection.request("POST", path, msgspec.json.encode(body), headers)
        answer = connection.getresponse()
        data = answer.read(ANSWER_BYTES_MAX)
    except TimeoutError:
        raise NoAnswerError(f"{shown}: no answer within {ANSWER_S:g} s") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NoAnswerError(f"{shown}: no answer: {reason}") from None
    finally:
        connection.close()
    try:
        read = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError:
        what = f"answers {answer.status} and no JSON; expected a broker's [admin] address"
        raise AdminError(f"{shown}: {what}") from None
    if answer.status != http.client.OK:
        raise AdminError(f"{shown}: {read.get('error') or answer.reason}")
    return read


def ask_all(
    urls: Sequence[str], path: str, body: object = None, access: Access = NO_ACCESS
) -> list[dict[str, Any] | AdminError]:
    """Several brokers at the same time; their answers, or why there is none."""

    def answer(url: str) -> dict[str, Any] | AdminError:
        try:
            return ask(url, path, body, access)
        except AdminError as error:
            return error

    if len(urls) < 2:
        return [answer(url) for url in urls]
    with ThreadPoolExecutor(min(AT_A_TIME, len(urls))) as pool:
        return list(pool.map(answer, urls))


def token_in_clear(url: str, access: Access) -> str:
    """Where a token would go unencrypted over a network, as messages show it; "" if it would not."""
    shown, connection, login = _connection(url, access)
    plain = not isinstance(connection, http.client.HTTPSConnection)
    return shown if plain and login.partition(":")[2] and not is_loopback(connection.host) else ""


def _connection(url: str, access: Access) -> tuple[str, http.client.HTTPConnection, str]:
    """The address as messages show it, a connection on which nothing was said yet, `user:token`."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError:
        raise _bad(url) from None
    if not host or parts.scheme not in ("http", "https") or parts.path not in ("", "/"):
        raise _bad(url)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    user = unquote(parts.username or "") or access.user
    login = f"{user}:{unquote(parts.password or '') or access.token}"
    if parts.scheme == "http":
        return shown, http.client.HTTPConnection(host, port, timeout=ANSWER_S), login
    try:
        context = ssl.create_default_context(cafile=access.authority)
    except (OSError, ssl.SSLError) as error:
        what = f"{access.authority}: can't be used: {error.strerror or error}"
        raise UserError(f"{what}; expected certificates of authorities, as PEM") from None
    return shown, http.client.HTTPSConnection(host, port, timeout=ANSWER_S, context=context), login


def _bad(url: str) -> UserError:
    """What stands before an @ may be a secret, and stays out of messages."""
    what = abbreviate(url.rpartition("@")[2])
    return UserError(f"{what!r} is no address of a broker; expected one such as {DEFAULT_URL}")
