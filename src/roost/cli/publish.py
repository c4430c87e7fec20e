"""`roost publish`: events from lines of JSON, or from the command line, to a broker."""

from __future__ import annotations

import binascii
import os
import sys
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from roost.cli.advice import advised
from roost.cli.contexts import ContextOption, Reach, reach
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.client import SyncClient, Tls
    from roost.language import Value

EXAMPLES = """\b
Events are lines of JSON, in a file or on standard input, of attributes or with what goes along:
  {"class": "STOCK", "symbol": "YHOO", "volume": 400000}
  {"attributes": {"class": "STOCK"}, "payload": "...", "content_type": "...", "headers": {"k": "v"}}
A payload that is no text is "payload_base64". What `roost subscribe` prints can be published again.
The first bad line ends it: everything before it is published, nothing after it.
Exit codes: 0 all is acknowledged, 2 bad input, or the broker can't be reached or refuses.

\b
Examples:
  roost publish class=STOCK symbol=YHOO volume=400000
  roost publish events.ndjson --rate 1000
  tail -f events.ndjson | roost publish --url roosts://broker.example
"""

STANDARD_INPUT = "-"
CONNECT_S = 3.0
# Keys beside "attributes"; the last two are what `roost subscribe` adds, and of no use here.
KEYS = frozenset(("payload", "payload_base64", "content_type", "headers", "id", "published_at"))

UrlOption = Annotated[
    str | None,
    typer.Option(help="Where the broker is; else ROOST_URL, or port 7411 of this machine."),
]
UserOption = Annotated[str | None, typer.Option(help="Who is calling; else ROOST_USER.")]
TokenOption = Annotated[
    str | None,
    typer.Option(help="What proves it; rather ROOST_TOKEN, which other users can't see."),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option("--authority", "--ca", help="For roosts://, whom to trust: certificates in PEM."),
]
CertificateOption = Annotated[
    Path | None, typer.Option(help="For brokers that ask for one: our certificate, in PEM ...")
]
KeyOption = Annotated[Path | None, typer.Option(help="... and its key.")]


class Line(NamedTuple):
    """An event to publish."""

    attributes: Mapping[str, Value]
    payload: bytes = b""
    content_type: str = ""
    headers: Mapping[str, str] | None = None
    text: str = ""  # of one that is nothing but attributes, to say what is wrong with it


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("publish", epilog=EXAMPLES)(publish)


def publish(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE | NAME=VALUE ...]", help="Else standard input."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, metavar="N", help="At most so many events a second.")
    ] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What goes along with NAME=VALUE.")
    ] = None,
    url: UrlOption = None,
    user: UserOption = None,
    token: TokenOption = None,
    authority: AuthorityOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    context: ContextOption = None,
) -> None:
    """Publish events: from a file, standard input or the command line."""
    from roost.client import connect_sync

    lines = lines_of(what or [], payload)
    to = reach(url, user, token, authority, certificate, key, context)
    with ExitStack() as stack:
        with advised(to.url):
            made = connect_sync(
                to.url,
                user=to.user,
                token=to.token,
                tls=tls_of(to),
                name="publish",
                timeout_s=CONNECT_S,
            )
            client = stack.enter_context(made)
        publish_all(client, lines, rate)


def tls_of(to: Reach) -> Tls | None:
    """The files of TLS, if there are any."""
    from roost.client import Tls

    if to.authority is to.certificate is to.key is None:
        return None
    return Tls(authority=to.authority or "", certificate=to.certificate or "", key=to.key or "")


def lines_of(what: list[str], payload: str | None) -> Iterator[tuple[str, Line]]:
    """The events that the arguments mean, each with where it stands."""
    if what and all(map(is_pair, what)):
        return iter([("the command line", Line(pairs_of(what), (payload or "").encode()))])
    if len(what) > 1:
        raise UserError(f"{what[0]!r} and more; expected one file, or only NAME=VALUE")
    if payload is not None:
        raise UserError("--payload goes along with NAME=VALUE; expected those")
    source = what[0] if what else STANDARD_INPUT
    # What a slip of the pen is wants no broker to be known.
    if source != STANDARD_INPUT and not os.path.exists(source):
        raise UserError(f"{source}: No such file or directory; expected a file, or NAME=VALUE")
    return file_lines(source)


def publish_all(client: SyncClient, lines: Iterator[tuple[str, Line]], rate: float | None) -> None:
    """Publish them in order; whatever ends it, what was published before is acknowledged."""
    from roost.client import Refused
    from roost.language import LanguageError

    published = refused = 0
    trouble: UserError | None = None
    next_at = time.monotonic()
    try:
        for where, (attributes, payload, content_type, headers, text) in lines:
            if rate is not None:
                time.sleep(max(0.0, next_at - time.monotonic()))
                # After a pause it may catch up a little, and not with all of it.
                next_at = max(next_at, time.monotonic() - 1.0) + 1 / rate
            try:
                client.publish(attributes, payload, content_type=content_type, headers=headers)
            except LanguageError as bad:
                refuse(where, text, bad)
            published += 1
    except Refused as error:
        trouble, refused = error, error.events
    except UserError as error:
        trouble = error
    try:
        client.flush()
    except Refused as error:
        trouble = trouble or error
        refused += error.events
    acknowledged = published - client.unacknowledged - refused
    events = "event" if acknowledged == 1 else "events"
    print(f"{acknowledged:,} {events} acknowledged", file=sys.stderr)
    if trouble is not None:
        raise trouble


# --- the command line -----------------------------------------------------------------------------


def is_pair(text: str) -> bool:
    """Whether it says NAME=VALUE; a file whose name looks so is ./NAME=VALUE."""
    name, equals, _ = text.partition("=")
    return bool(name and equals) and "/" not in name


def pairs_of(texts: list[str]) -> dict[str, Value]:
    """Attributes from NAME=VALUE: numbers, true and false as such, else a text, with quotes or without."""
    from roost.language import LanguageError

    attributes: dict[str, Value] = {}
    for text in texts:
        name, _, said = text.partition("=")
        if name in attributes:
            raise UserError(f"{name!r} is said twice")
        try:
            attributes[name] = value_of(said)
        except LanguageError as bad:
            raise UserError(f"{text}: {bad}") from None
    return attributes


def value_of(text: str) -> Value:
    """What a word of the command line says."""
    from roost.language.lines import plain_number
    from roost.language.literals import read_string
    from roost.language.values import STRING_LENGTH_MAX

    number = plain_number(text)
    if number is not None:
        return number
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return read_string(text, STRING_LENGTH_MAX)
    return text


# --- lines of JSON --------------------------------------------------------------------------------


def file_lines(source: str) -> Iterator[tuple[str, Line]]:
    """The events of a file, or of standard input as they come."""
    from roost.cli.lines import lines_of as texts_of
    from roost.language.lines import LineError, json_object

    for where, raw in texts_of(source):
        if raw.isspace():
            continue
        text = raw.rstrip("\r\n")
        try:
            said = json_object(text)
        except LineError as bad:
            refuse(where, text, bad)
        enclosed = isinstance(said.get("attributes"), dict)
        yield where, enveloped(where, said) if enclosed else Line(said, text=text)


def refuse(where: str, text: str, bad: ValueError) -> NoReturn:
    """Say what is wrong with an event; of a line of nothing but attributes, with the column."""
    from roost.cli.lines import careful_event

    if text and '"attributes"' not in text:
        careful_event(where, text)
    raise UserError(f"{where}: {bad}") from None


def enveloped(where: str, said: dict[str, Any]) -> Line:
    """An event with what goes along."""
    strange = [key for key in said if key != "attributes" and key not in KEYS]
    if strange:
        known = ", ".join(sorted(KEYS))
        raise UserError(f'{where}: beside "attributes" stands {strange[0]!r}; expected {known}')
    for key in ("payload", "payload_base64", "content_type"):
        if not isinstance(said.get(key, ""), str):
            raise UserError(f'{where}: "{key}" is no text; expected one')
    if not isinstance(said.get("headers", {}), dict):
        raise UserError(f'{where}: "headers" is no object; expected one of texts')
    if "payload" in said and "payload_base64" in said:
        raise UserError(f'{where}: there are "payload" and "payload_base64"; expected one of them')
    try:
        payload = said.get("payload", "").encode() or b64decode(
            said.get("payload_base64", ""), validate=True
        )
    except UnicodeEncodeError:
        raise UserError(f'{where}: "payload" has half of a surrogate pair in it') from None
    except (binascii.Error, ValueError):
        raise UserError(f'{where}: "payload_base64" is no base64') from None
    return Line(said["attributes"], payload, said.get("content_type", ""), said.get("headers"))
