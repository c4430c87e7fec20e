"""Outboxes: publishing exactly once, whatever becomes of the process that publishes.

A program that publishes what stands in a log (a table, a file, a stream) has to know after a crash how far it
had come. An *outbox* knows: the broker keeps its session under its name, together with the number of the last
event that it has accepted, in the same transaction as the event. The next process asks for it and goes on
with the one behind; an event that it hands in again is not published again.

Events are numbered by the application, from 1 on and without gaps: the line of the log. One process at a time
has an outbox. The next one takes it over, and the one before gets `SessionOver`. So what an old process still
wants to say can't come in between.

**What the broker has forgotten** nobody knows: it has no store and was restarted, or nobody has asked for the
outbox for `durable_linger_s`. `open` then gives 0, or what the application itself says (`after`), and
`is_new` is true. The events are those of another publisher from then on, so that no number is taken for one
that was used before; what is published again arrives again.

**Names.** The session is the user's, as is its publisher: `USER~NAME~` and a word of the process that began
it (`outbox~NAME~...` without a user), which is what permissions want of a client. The session stands at the
first broker of the URL, and at no other: nobody else knows how far it has come.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

from roost.broker.messages import Publication
from roost.broker.permissions import NAME_SEPARATOR
from roost.client.arguments import check_seconds, check_whole
from roost.client.errors import ClientError, Closed, Refused
from roost.client.lasting import Lasting
from roost.client.line import HASTE_S, Dials, Line, Owner, line_config
from roost.client.options import Options
from roost.client.outgoing import Checked, Outgoing
from roost.client.publishing import Publishing
from roost.language import Advertisement, Value

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger("roost.client")


class Outbox:
    """Events of a log, each published once, by whichever process. `Client.outbox` makes one.

    `open` says how far the processes before this one have come. `publish` takes the next number; one that was
    accepted before is passed over, so that a log may be read again from wherever that is easy.

    >>> import asyncio, roost
    >>> log = ["first", "second", "third"]
    >>> async def process(client, lines):
    ...     async with client.outbox("orders") as outbox:
    ...         for number, line in enumerate(lines, 1):
    ...             await outbox.publish(number, {"line": line})
    ...         await outbox.flush()
    ...         return outbox.last
    >>> async def main():
    ...     async with roost.connect("memory://") as client:
    ...         async with client.subscribe("line present") as subscription:
    ...             print(await process(client, log[:2]), await process(client, log))
    ...             for _ in log:
    ...                 print((await subscription.get())["line"])
    >>> asyncio.run(main())
    2 3
    first
    second
    third
    """

    def __init__(
        self,
        name: str,
        *,
        lasting: Lasting,
        dialler: Dials,
        options: Options,
        outgoing: Outgoing,
        advertisements: Sequence[Advertisement],
        after: int,
    ) -> None:
        self.name = name
        self.is_closed = False
        self._options = options
        self._outgoing = outgoing
        self._advertisements = advertisements
        process = secrets.token_hex(8)
        config = line_config(
            lasting.client,
            lasting.session,
            durable=True,
            process=process,
            publisher=f"{lasting.client}{NAME_SEPARATOR}{process}",
            published=after,
        )
        owner = Owner(
            handed=self._handed,
            dropped=self._dropped,
            refused=self._refused,
            attached=self._attached,
            detached=self._detached,
            failed=self._failed,
        )
        self._line = Line(config, dialler, owner)
        self._machine = self._line.machine
        self._opening = asyncio.Lock()
        self._publishing: Publishing | None = None
        self._is_new = False

    # --- beginning and end --------------------------------------------------------------------------

    async def open(self) -> int:
        """Take it over from the process before, or begin it; the number of the last event, 0 if none.

        ConnectError if there is no broker in time; Refused if it does not allow what is advertised.
        """
        async with self._opening:
            if self.is_closed:
                raise Closed(f"the outbox {self.name!r} is closed")
            if self._publishing is None:
                try:
                    self._publishing = await self._begin()
                except BaseException:
                    await self._detach()
                    raise
        return self.last

    async def _begin(self) -> Publishing:
        await self._line.open(self._options.timeout_s)
        machine = self._machine
        self._is_new = machine.publisher == machine.config.publisher or not machine.published
        # Behind the greeting, which has said whose events they are.
        publishing = Publishing(self._line, self._options)
        for advertisement in self._advertisements:
            await publishing.advertise(advertisement)
        return publishing

    @property
    def is_new(self) -> bool:
        """The broker knew of no event when it was opened: there was none, or it has forgotten the outbox."""
        return self._is_new

    @property
    def last(self) -> int:
        """The number of the last event, whoever published it. The next one has the next number."""
        return self._machine.published

    @property
    def accepted(self) -> int:
        """The number of the last event that the broker has acknowledged."""
        return self._machine.accepted

    @property
    def publisher(self) -> str:
        """Whose events they are, as brokers see it: an event's id is `PUBLISHER:NUMBER`."""
        return self._machine.publisher

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, and leave it to the next process; `async with` does it. Closed it is in any case."""
        check_seconds("timeout_s", timeout_s)
        if self.is_closed:
            return
        try:
            # What went wrong has been heard of, unless events of ours went with it.
            if self._line.failure is None or self.last > self.accepted:
                await self.flush(self._options.timeout_s if timeout_s is None else timeout_s)
        except Closed:
            pass  # it was never opened
        finally:
            await self._detach()

    async def forget(self) -> None:
        """End it for good, behind what was published: whoever opens it next begins with number 1."""
        await self.open()
        try:
            await self.flush(self._options.timeout_s)
            await self._line.leave(self._options.timeout_s)
        finally:
            await self._detach()

    async def _detach(self) -> None:
        self.is_closed = True
        await self._line.hang_up()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.close(min(HASTE_S, self._options.timeout_s))
        except ClientError as trouble:
            log.warning("outbox %s: %s", self.name, trouble)  # what went wrong first counts

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "new" if self._publishing is None else "open"
        return f"<Outbox {self.name!r}, {state}, last {self.last:,}>"

    # --- publishing ---------------------------------------------------------------------------------

    async def publish(
        self,
        number: int,
        attributes: Mapping[str, Value],
        payload: bytes = b"",
        *,
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> bool:
        """Publish the event of this number; False if it was published before, and nothing happens.

        It is on its way then; `flush` tells when the broker has it. Gap if it is not the next one. Waits
        while too many are on their way. Once an event is refused none behind it is accepted: this raises
        Refused, and so does all else, until the outbox is opened anew, which says the number before it.
        """
        check_whole("number", number, 1)
        if number <= self._machine.published:
            self._opened()
            return False
        checked = self._outgoing.check(attributes, payload, content_type, headers)
        await self._opened().publish(checked, number)
        return True

    async def _publish(self, numbered: tuple[int, Checked]) -> None:
        number, checked = numbered
        await self._opened().publish(checked, number)

    async def flush(self, timeout_s: float | None = None) -> None:
        """Until the broker has accepted all events; with a store, they are on its disk then.

        NotInTime if that takes too long, which leaves them on their way.
        """
        check_seconds("timeout_s", timeout_s)
        await self._opened().flush(timeout_s)

    def _opened(self) -> Publishing:
        if self._publishing is None or self.is_closed:
            state = "closed" if self.is_closed else "not open; expected `await outbox.open()`"
            raise Closed(f"the outbox {self.name!r} is {state}")
        return self._publishing

    # --- what the line tells ------------------------------------------------------------------------

    def _handed(self, publication: Publication, names: Sequence[str], number: int) -> None:
        """It subscribes to nothing."""

    def _dropped(self, count: int) -> None:
        """The same."""

    def _refused(self, request: str, reason: str) -> None:
        """The next process, or the next attempt, begins with what was refused."""
        publisher, _, number = request.rpartition(":")
        is_event = publisher == self.publisher
        what = f"event {number}" if is_event else "an advertisement"
        what = f"{what} of the outbox {self.name!r}"
        self._line.fail(partial(Refused, what, reason, events=int(is_event)))

    def _attached(self, resumed: bool) -> None:
        """The machine knows how to go on."""

    def _detached(self, reason: str) -> None:
        """The line dials again."""

    def _failed(self) -> None:
        """Whoever publishes or flushes hears of it."""
