"""`roost subscribe`: the events that match a filter, as lines of JSON."""

from __future__ import annotations

import signal
import sys
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.advice import advised
from roost.cli.console import filter_argument, json_value, warn
from roost.cli.contexts import ContextOption, reach
from roost.cli.publish import (
    CONNECT_S,
    AuthorityOption,
    CertificateOption,
    KeyOption,
    TokenOption,
    UrlOption,
    UserOption,
    tls_of,
)

if TYPE_CHECKING:
    from roost.client import Client, ReceivedEvent, State, Subscription
    from roost.language import Subscription as Interest

EXAMPLES = """\b
One line of JSON an event, with what came along, if anything did:
  {"id": "...", "published_at": 1760000000.0, "attributes": {...}, "payload": "...", "headers": {...}}
A payload that is no text is "payload_base64". Ctrl-C ends it. When the broker is gone and when it is back is
said on standard error; what was published meanwhile still comes.
With --durable NAME, what comes while nobody is reading is kept for the next one of that name.
Exit codes: 0 done, 1 fewer than --count came, 2 bad input, or the broker can't be reached or refuses.

\b
Examples:
  roost subscribe "class = 'STOCK' and volume > 300000"
  roost subscribe "*" --count 10 --timeout 60 > sample.ndjson
  roost subscribe "class = 'ORDER'" --durable billing | ./bill
"""

EXIT_TOO_FEW = 1


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("subscribe", epilog=EXAMPLES)(subscribe)


def subscribe(
    filter_: Annotated[
        str, typer.Argument(metavar="FILTER", help="What to ask for; * is everything.")
    ],
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after so many events.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, metavar="S", help="End after so many seconds.")
    ] = None,
    durable: Annotated[
        str | None, typer.Option(metavar="NAME", help="Go on where the last one of it ended.")
    ] = None,
    url: UrlOption = None,
    user: UserOption = None,
    token: TokenOption = None,
    authority: AuthorityOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    context: ContextOption = None,
) -> None:
    """Print the events that match a filter, as they come."""
    from roost.client import connect
    from roost.event_loop import run

    for message in never_holds(filter_argument("FILTER", filter_)):
        warn(message)
    to = reach(url, user, token, authority, certificate, key, context)
    client = connect(
        to.url, user=to.user, token=to.token, tls=tls_of(to), name="subscribe", timeout_s=CONNECT_S
    )
    with advised(to.url):
        printed = run(until_told(client, filter_, count, timeout, durable))
    if count is not None and printed < count:
        raise typer.Exit(EXIT_TOO_FEW)


def never_holds(subscription: Interest) -> Iterator[str]:
    """What to tell somebody who asks for events that there can't be."""
    from roost.language import contradictions

    if not any(subscription.filters):
        for filter_ in subscription.filters:
            for found in contradictions(filter_):
                reason = " and ".join(map(str, found.predicates))
                yield f"nothing will come: no value of {found.attribute} satisfies {reason}"


async def until_told(
    client: Client, filter_: str, count: int | None, timeout_s: float | None, durable: str | None
) -> int:
    """Print events until there were enough, time is over, or a signal comes; how many."""
    import asyncio

    printer = Printer(count)
    loop = asyncio.get_running_loop()
    work = loop.create_task(printer.work(client, filter_, durable))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.cancel)
    try:
        await asyncio.wait((work,), timeout=timeout_s)
        work.cancel()
        await asyncio.wait((work,))
        if not work.cancelled():
            work.result()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    return printer.printed


class Connection:
    """Says on standard error that the broker is gone, and that it is back."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._has_been = False
        self._gone_at = 0.0

    def changed(self, state: State, why: str) -> None:
        """The client's state is another one, for that reason."""
        if state == "connecting" and self._has_been:
            self._gone_at = time.monotonic()
            reason = f" ({why})" if why else ""
            self._say(f"{self._url} is gone{reason}; trying again ...")
        elif state == "connected":
            if self._has_been:
                self._say(f"{self._url} is back, after {time.monotonic() - self._gone_at:.1f} s")
            self._has_been = True

    @staticmethod
    def _say(what: str) -> None:
        print(what, file=sys.stderr, flush=True)


class Printer:
    """Prints events, as many as there are at a time."""

    def __init__(self, count: int | None) -> None:
        self.printed = 0
        self._count = count

    async def work(self, client: Client, filter_: str, durable: str | None) -> None:
        from roost.client import NeverMatches, NotInTime

        client.on_state = Connection(client.url).changed
        async with client:
            subscription: Subscription
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NeverMatches)  # it has been said, with the reason
                if durable is None:
                    subscription = client.subscribe(filter_)
                else:
                    subscription = client.subscribe(filter_, durable=durable)
            async with subscription:
                try:
                    await subscription.ready()
                except NotInTime as late:
                    warn(str(late))  # it still gets what its own broker knows of
                else:
                    print(f"subscribed at {client.url}", file=sys.stderr, flush=True)
                await self._print_all(subscription)

    async def _print_all(self, subscription: Subscription) -> None:
        most = 1_000
        while self._count is None or self.printed < self._count:
            left = most if self._count is None else self._count - self.printed
            events = await subscription.batch(min(most, left))
            if not events:
                return
            out = sys.stdout.buffer
            out.write(b"".join(map(line_of, events)))
            out.flush()
            self.printed += len(events)
            for event in events:
                await event.ack()


def line_of(event: ReceivedEvent) -> bytes:
    """An event as a line of JSON."""
    import msgspec

    said: dict[str, Any] = {
        "id": event.id,
        "published_at": event.published_at,
        "attributes": {name: json_value(value) for name, value in event.attributes.items()},
    }
    if event.payload:
        try:
            said["payload"] = event.payload.decode()
        except UnicodeDecodeError:
            said["payload_base64"] = event.payload  # which is how msgspec writes bytes
    if event.content_type:
        said["content_type"] = event.content_type
    if event.headers:
        said["headers"] = event.headers
    return msgspec.json.encode(said) + b"\n"
