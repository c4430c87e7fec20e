"""What an application hands in to be published, checked before the machine numbers it.

Once an event has a number it has to arrive, so whatever the wire or a broker would choke on must be found
here. `Event(attributes)` looks at every name and value carefully. Most events look like earlier ones, and
get by with a glance: the same names in the same order, with values of the same plain kinds. Such an event is
not even copied: it is turned into bytes on the spot (`running`), and those are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import isnan
from typing import Final, NamedTuple, TypeAlias

from msgspec import msgpack

from roost.client.advertising import CLASS, Shape, shape_of
from roost.errors import type_of
from roost.language import Event, LanguageError, Value
from roost.language.values import CONSTANT_LENGTH_MAX, INT_MAX, STRING_LENGTH_MAX
from roost.wire import Limits

# The attributes in MessagePack, their shape, payload, content type and headers.
Checked: TypeAlias = tuple[bytes, Shape, bytes, str, Mapping[str, str]]

# What a glance is enough for. In so few bytes, which are counted when there are any, no string is too long.
PLAIN_NAMES_MAX = 32
PLAIN_BYTES_MAX = STRING_LENGTH_MAX
PLAIN_KINDS = frozenset((bool, int, float, str))
# How many orders of names, with kinds, are remembered.
KNOWN_MAX = 1_024
# So many events are looked at together.
TOGETHER = 1_024
_NO_PAYLOAD: Final = b""
_NO_TYPE: Final = ""
# What stands around the attributes, the payload and the headers.
FRAME_BYTES = 2_048


class Glanced(NamedTuple):
    """What events of the same names and kinds of values have in common."""

    names: tuple[str, ...]  # in order, for the shape
    has_class: bool  # that is part of it
    ints: tuple[str, ...]
    floats: tuple[str, ...]


encode = msgpack.Encoder().encode
UNWRITABLE = (ValueError, TypeError, OverflowError)


def event_of(raw: bytes) -> Event:
    """The event of attributes that were checked."""
    return Event.trusted(msgpack.decode(raw))


class Outgoing:
    """Checks events. The same from any thread."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # The names of an earlier event in their order, and the kinds of its values -> what to look at.
        self._known: dict[tuple[str | type, ...], Glanced] = {}
        self._none: Mapping[str, str] = {}
        self.size_max = limits.publication_bytes_max - FRAME_BYTES
        self._plain_max = min(PLAIN_BYTES_MAX, self.size_max)

    def check(
        self,
        attributes: Mapping[str, Value],
        payload: bytes,
        content_type: str,
        headers: Mapping[str, str] | None,
    ) -> Checked:
        """LanguageError if it can't be published."""
        if payload is _NO_PAYLOAD and headers is None and content_type is _NO_TYPE:
            shape = self._glance(attributes) if type(attributes) is dict else None
            if shape is not None:
                try:
                    raw = encode(attributes)
                    if len(raw) <= self._plain_max:
                        return raw, shape, _NO_PAYLOAD, _NO_TYPE, self._none
                except UNWRITABLE:
                    pass  # what is wrong with it will be said below
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
        if type(attributes) is dict:
            shape = self._glance(attributes)
            if shape is not None:
                try:
                    raw = encode(attributes)
                except UNWRITABLE:
                    pass  # what is wrong with it will be said below
                else:
                    if len(raw) <= PLAIN_BYTES_MAX and len(raw) + extra <= self.size_max:
                        return raw, shape, payload, content_type, headers
        event = Event(attributes)
        if any(type(name) is not str for name in event.attributes):
            exact = {str.__str__(name): value for name, value in event.attributes.items()}
            event = Event.trusted(exact)
        raw = encode(event.attributes)
        size = len(raw) + extra
        if size > self.size_max:
            raise LanguageError(f"event: {size:,} bytes; at most {self.size_max:,} are allowed")
        self._remember(event.attributes)
        return raw, shape_of(event.attributes), payload, content_type, headers

    def check_many(self, events: Iterable[Mapping[str, Value]]) -> list[Checked]:
        """All of them; LanguageError if one can't be published, which says which one it is."""
        many: list[Checked] = []
        rest = iter(events)
        while part := list(islice(rest, TOGETHER)):
            alike = self._alike(part)
            if alike is not None:
                many += alike
                continue
            for event in part:
                try:
                    many.append(self.check(event, b"", "", None))
                except LanguageError as error:
                    where = f"event {len(many) + 1} of those to be published"
                    raise LanguageError(f"{where}: {error}") from None
        return many

    def _alike(self, events: Sequence[Mapping[str, Value]]) -> list[Checked] | None:
        """Events that look like one before, and all the same: glanced at by column. None if they don't."""
        if set(map(type, events)) != {dict} or len(set(map(tuple, events))) != 1:
            return None
        names = tuple(events[0])
        rows = (event.values() for event in events)
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        kinds = [set(map(type, column)) for column in columns.values()]
        if any(len(each) > 1 for each in kinds):
            return None
        glanced = self._known.get((*names, *(each.pop() for each in kinds)))
        if (
            glanced is None
            or any(max(columns[name]) > INT_MAX for name in glanced.ints)
            # Infinities of both signs are looked at one by one, too.
            or any(isnan(sum(columns[name])) for name in glanced.floats)
        ):
            return None
        try:
            raws = list(map(encode, events))
        except UNWRITABLE:
            return None
        if max(map(len, raws)) > self._plain_max:
            return None
        none, classes = self._none, columns[CLASS] if glanced.has_class else ()
        if not classes:
            shape: Shape = None, glanced.names
            return [(raw, shape, b"", "", none) for raw in raws]
        if max(map(len, classes)) > CONSTANT_LENGTH_MAX:
            return None
        shapes: dict[str, Shape] = {class_: (class_, glanced.names) for class_ in set(classes)}
        return [
            (raw, shapes[class_], b"", "", none) for raw, class_ in zip(raws, classes, strict=True)
        ]

    def _glance(self, attributes: dict[str, Value]) -> Shape | None:
        """The shape of an event that needs no second look but at its bytes."""
        glanced = self._known.get((*attributes, *map(type, attributes.values())))
        if glanced is None:
            return None
        names, has_class, ints, floats = glanced
        for name in ints:
            if attributes[name] > INT_MAX:  # type: ignore[operator]
                return None
        for name in floats:
            value = attributes[name]
            if value != value:  # noqa: PLR0124  # NaN is as good as absent, which is another shape
                return None
        if not has_class:
            return None, names
        class_: str = attributes[CLASS]  # type: ignore[assignment]
        return (class_, names) if len(class_) <= CONSTANT_LENGTH_MAX else None

    def _remember(self, attributes: dict[str, Value]) -> None:
        kinds = tuple(map(type, attributes.values()))
        if len(kinds) > PLAIN_NAMES_MAX or not PLAIN_KINDS.issuperset(kinds):
            return
        names = tuple(attributes)
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[(*names, *kinds)] = Glanced(
            tuple(sorted(names)),
            type(attributes.get(CLASS)) is str,
            tuple(name for name, kind in zip(names, kinds, strict=True) if kind is int),
            tuple(name for name, kind in zip(names, kinds, strict=True) if kind is float),
        )

    def _payload(self, payload: object) -> bytes:
        if not isinstance(payload, bytes | bytearray | memoryview):
            hint = " (encode the text first)" if isinstance(payload, str) else ""
            what = f"the payload is {type_of(payload)}; expected bytes{hint}"
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
            raise LanguageError(f"event: headers are {type_of(headers)}; expected a mapping")
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
            raise LanguageError(f"event: {what} is {type_of(text)}; expected a string")
        if len(text) > length_max:
            have = f"{len(text):,} characters; at most {length_max:,} are allowed"
            raise LanguageError(f"event: {what} has {have}")
        try:
            return len(text.encode())
        except UnicodeEncodeError:
            raise LanguageError(f"event: {what} has half of a surrogate pair in it") from None
