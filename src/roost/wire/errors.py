"""What can be wrong with bytes from elsewhere, and how it is said."""

from __future__ import annotations

import re
from collections.abc import Sequence

from roost.broker.messages import Parcel

# How msgspec ends a message about a value at a place, and one about a byte.
_AT_ITEM = re.compile(r" - at (`key` in )?`\$\[(\d+)\][^`]*`$")
_AT_BYTE = re.compile(r"^MessagePack data is malformed: (.*) \(byte (\d+)\)$")


class WireError(Exception):
    """Bytes that are no parcel or record, or a value that can't be written as one.

    The message says what was wrong, where, and what was expected. `field` names the field if it is known
    (`Publication.payload`), `offset` the byte: of the body for `decode`, of the stream for `StreamDecoder`.
    """

    def __init__(self, what: str, *, field: str = "", offset: int | None = None) -> None:
        super().__init__(what)
        self.field = field
        self.offset = offset
        # Set by `StreamDecoder.feed`: the parcels of that call that stood ahead of the fault.
        self.parcels: Sequence[Parcel] = ()


def refusal(
    error: Exception, kind: str, fields: Sequence[str], read: bytes, offset: int = 0
) -> WireError:
    """What msgspec says about `read`, which starts at `offset` of the body and should be a `kind`.

    `fields` are the names of its items, as far as they are known.
    """
    text = str(error)
    if isinstance(error, RecursionError):
        return WireError(f"{kind}: nested too deeply; expected flat values", field=kind)
    if isinstance(error, UnicodeDecodeError):
        # msgspec doesn't say where the string stands, but shows the string.
        at = offset + read.find(error.object) + error.start
        return WireError(f"{kind}, byte {at}: {error.reason}; expected UTF-8", offset=at)
    if malformed := _AT_BYTE.match(text):
        at = offset + int(malformed[2])
        what = f"{malformed[1]}; expected one MessagePack array and no more"
        return WireError(f"{kind}, byte {at}: {what}", offset=at)
    if item := _AT_ITEM.search(text):
        position = int(item[2])
        field = f"{kind}.{fields[position] if position < len(fields) else f'item {position}'}"
        name = " for a name" if item[1] else ""
        return WireError(f"{field}: {_lower(text[: item.start()])}{name}", field=field)
    if "truncated" in text:
        at = offset + len(read)
        what = "the body ends in the middle of a value; expected as much as its lengths declare"
        return WireError(f"{kind}, byte {at}: {what}", offset=at)
    if len(fields) > 1 and text.startswith("Expected `array` of at"):
        # msgspec sometimes counts the tag and sometimes does not.
        text = f"expected an array of {len(fields)} items: {', '.join(fields)}"
    return WireError(f"{kind}: {_lower(text)}", field=kind)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
