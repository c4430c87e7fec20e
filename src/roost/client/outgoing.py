"""What an application hands in to be published, checked before the machine numbers it.

Once an event has a number it has to arrive, so whatever the wire or a broker would choke on must be found
here. `Event(attributes)` looks at every name and value carefully. Most events look like earlier ones, and
get by with a glance: names in the same order as before, and values that are plain, short and no NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import msgpack

from roost.broker.events import PublishRequested
from roost.client.advertising import CLASS, Shape, shape_of
from roost.language import Event, LanguageError, Value
from roost.language.values import INT_MAX, INT_MIN
from roost.wire import Limits

# A request, its shape, and about how many bytes it takes.
Checked: TypeAlias = tuple[PublishRequested, Shape, int]

# What a glance is enough for: all of it together stays far below what a publication may take.
PLAIN_NAMES_MAX = 32
PLAIN_LENGTH_MAX = 512
# How many orders of names are remembered.
KNOWN_MAX = 1_024
# About what an event takes that has nothing unusual in it.
PLAIN_BYTES = 256
# What stands around the attributes, the payload and the headers.
FRAME_BYTES = 2_048


class Outgoing:
    """Checks events. The same from any thread."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # Names in the order of an earlier event -> the same, and sorted.
        self._known: dict[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._none: Mapping[str, str] = {}
        self._size_max = limits.publication_bytes_max - FRAME_BYTES
        self._extra_max = self._size_max - 4 * PLAIN_NAMES_MAX * (PLAIN_LENGTH_MAX + 256)

    def check(
        self,
        attributes: Mapping[str, Value],
        payload: bytes,
        content_type: str,
        headers: Mapping[str, str] | None,
    ) -> Checked:
        """LanguageError if it can't be published."""
        if type(payload) is not bytes or len(payload) > self._limits.payload_bytes_max:
            payload = self._payload(payload)
        extra = len(payload)
        if content_type or type(content_type) is not str:
            self._check_text("the content type", content_type, self._limits.name_length_max)
        if headers is not None:
            headers, size = self._headers(headers)
            extra += size
        else:
            headers = self._none
        if type(attributes) is dict and extra <= self._extra_max:
            glanced = self._glance(attributes)
            if glanced is not None:
                event, shape = glanced
                request = PublishRequested(event, payload, content_type, headers)
                return request, shape, PLAIN_BYTES + extra
        event = Event(attributes)
        if any(type(name) is not str for name in event.attributes):
            exact = {str.__str__(name): value for name, value in event.attributes.items()}
            event = Event.trusted(exact)
        size = len(msgpack.encode(event.attributes)) + extra
        if size > self._size_max:
            raise LanguageError(f"event: {size:,} bytes; at most {self._size_max:,} are allowed")
        self._remember(tuple(event.attributes))
        shape = shape_of(event.attributes)
        return PublishRequested(event, payload, content_type, headers), shape, size

    def _glance(self, attributes: dict[str, Value]) -> tuple[Event, Shape] | None:
        """An event that needs no second look, and its shape."""
        known = self._known.get(tuple(attributes))
        if known is None:
            return None
        for value in attributes.values():
            kind = type(value)
            if kind is str:
                if len(value) > PLAIN_LENGTH_MAX or not value.isascii():  # type: ignore[arg-type, union-attr]
                    return None
            elif kind is float:
                if value != value:  # noqa: PLR0124  # NaN
                    return None
            elif kind is int:
                if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
                    return None
            elif kind is not bool:
                return None
        names, in_order = known
        class_ = attributes.get(CLASS)
        # A copy, as the application may change what it has; and one of shared names.
        event = Event.trusted(dict(zip(names, attributes.values(), strict=True)))
        return event, (class_ if type(class_) is str else None, in_order)

    def _remember(self, names: tuple[str, ...]) -> None:
        if len(names) <= PLAIN_NAMES_MAX:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[names] = (names, tuple(sorted(names)))

    def _payload(self, payload: object) -> bytes:
        if not isinstance(payload, bytes | bytearray | memoryview):
            hint = " (encode the text first)" if isinstance(payload, str) else ""
            what = f"the payload is a {type(payload).__name__}; expected bytes{hint}"
            raise LanguageError(f"event: {what}")
        payload = bytes(payload)
        size_max = self._limits.payload_bytes_max
        if len(payload) > size_max:
            raise LanguageError(
                f"event: the payload has {len(payload):,} bytes; at most {size_max:,} are allowed"
            )
        return payload

    def _headers(self, headers: Mapping[str, str]) -> tuple[dict[str, str], int]:
        if not isinstance(headers, Mapping):
            raise LanguageError(f"event: headers are {type(headers).__name__}; expected a mapping")
        if len(headers) > self._limits.headers_max:
            raise LanguageError(
                f"event: {len(headers):,} headers; at most {self._limits.headers_max:,} are allowed"
            )
        size = 0
        for name, value in headers.items():
            size += self._check_text("a header", name, self._limits.header_length_max)
            size += self._check_text(f"header {name!r}", value, self._limits.header_length_max)
        return {str.__str__(name): str.__str__(text) for name, text in headers.items()}, size

    def _check_text(self, what: str, text: object, length_max: int) -> int:
        """How many bytes it takes."""
        if not isinstance(text, str):
            raise LanguageError(f"event: {what} is {type(text).__name__}; expected a string")
        if len(text) > length_max:
            have = f"{len(text):,} characters; at most {length_max:,} are allowed"
            raise LanguageError(f"event: {what} has {have}")
        try:
            return len(text.encode())
        except UnicodeEncodeError:
            raise LanguageError(f"event: {what} has half of a surrogate pair in it") from None
