"""The quotes that all servers carry: the same for the same seed.

As a payload, a quote is a JSON object of 200 bytes, whatever is lacking filled up with spaces. Ahead of the
quote's own attributes it has two texts of hexadecimal digits at fixed places, which the publisher writes
over: the number of the message, by which subscribers know that none is missing, and when it was sent.
"""

from __future__ import annotations

import datetime
import json
from typing import Final, TypeAlias

import numpy as np

Quote: TypeAlias = dict[str, str | float | int]

PAYLOAD_BYTES: Final = 200
# How many different ones there are. A multiple of any number of symbols that is asked for.
QUOTES: Final = 4_000
CLASS: Final = "STOCK"

_STAMPS: Final = {"sequence": "0" * 8, "sent_at": "0" * 16}
STAMPS: Final = json.dumps(_STAMPS, separators=(",", ":")).encode("ascii")
# Where they stand in a payload.
SEQUENCE: Final = slice(13, 21)
SENT_AT: Final = slice(34, 50)

_FIRST_DAY: Final = datetime.date(2024, 1, 2)
_DAYS: Final = 500


def symbol(number: int) -> str:
    """The name of a stock; all are as long."""
    return f"S{number:04}"


def quotes(symbols: int, seed: int) -> list[Quote]:
    """`QUOTES` of them, the symbols in turn: any `symbols` in a row have each of them once.

    Every encoding of them has one length, if it gives floats and 32-bit numbers one.
    """
    if QUOTES % symbols:
        raise ValueError(f"{QUOTES} quotes can't be about {symbols} symbols equally often")
    rng = np.random.default_rng(seed)
    order = rng.permutation(symbols)
    prices = np.sort(rng.uniform(10, 90, (QUOTES, 4)).round(2), axis=1)
    volumes = rng.integers(100_000, 1_000_000, QUOTES)
    days = rng.integers(0, _DAYS, QUOTES)
    return [
        {
            "class": CLASS,
            "symbol": symbol(int(order[row % symbols])),
            "open": float(opening),
            "high": float(high),
            "low": float(low),
            "close": float(close),
            "volume": int(volume),
            "date": (_FIRST_DAY + datetime.timedelta(days=int(day))).isoformat(),
        }
        for row, ((low, opening, close, high), volume, day) in enumerate(
            zip(prices, volumes, days, strict=True)
        )
    ]


def payload(quote: Quote) -> bytes:
    """The quote as the rivals carry it, with room for the publisher's stamps."""
    text = json.dumps(_STAMPS | quote, separators=(",", ":"))
    assert len(text) <= PAYLOAD_BYTES, "a quote has room for its stamps"
    return f"{text[:-1]:<{PAYLOAD_BYTES - 1}}}}".encode("ascii")
