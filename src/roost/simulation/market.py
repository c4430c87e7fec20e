"""Quotes of shares: what publishers publish.

The papers replay daily bars of Yahoo! Finance (001 section 5.1, 000 section 5.1). A market gives every
symbol an endless sequence of such quotes, the same whenever it is asked: from bars that are made up
(`SyntheticMarket`), or from a file of the user (`BarMarket`). When the bars run out they start again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from roost.errors import UserError
from roost.language import Advertisement, Event, Filter, Kind, Operator, Predicate
from roost.simulation.bars import CLASS, PRICES, Bars, read_bars, synthetic_bars, written_dates

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Has no factor in common with the number of words of any length, so that its multiples reach each of them.
STRIDE = 170_537
# fmt: off
KNOWN_TICKERS = (
    "YHOO", "MSFT", "INTC", "CSCO", "ORCL", "DELL", "AAPL", "AMZN", "EBAY", "QCOM", "SUNW",
    "AMAT", "IBM", "HPQ", "TXN", "MOT", "NOK", "ADBE", "SYMC", "NTAP", "JDSU", "CIEN",
    "COMS", "NOVL", "PSFT", "BEAS", "VRTS", "ADCT", "SNDK", "RHAT", "SIRI", "CMGI", "LU",
    "EMC", "GTW", "AMD", "MU", "XLNX", "ALTR", "LLTC", "MXIM", "KLAC", "LRCX", "NVLS",
    "AMGN", "BGEN", "GENZ", "CHIR", "MEDI", "GILD", "SBUX", "COST", "SPLS", "BBBY", "PAYX",
    "FISV", "CTAS", "INTU", "ERTS", "GE", "KO", "PEP", "WMT", "MCD", "DIS", "JNJ",
    "PFE", "MRK", "XOM", "CVX", "BA", "CAT", "MMM", "UTX", "JPM", "WFC", "BAC",
    "AXP", "MER",
)
# fmt: on
# The days of the synthetic market start with that of 001's example.
FIRST_DAY = "1996-04-12"
MISSING_SHOWN = 8


def tickers() -> Iterator[str]:
    """Distinct symbols without end: known ones, then words of four letters, of five, and so on."""
    yield from KNOWN_TICKERS
    for length in count(4):
        for i in range(len(LETTERS) ** length):
            code = i * STRIDE % len(LETTERS) ** length
            digits = (code // len(LETTERS) ** place % len(LETTERS) for place in range(length))
            word = "".join(LETTERS[digit] for digit in digits)
            if word not in KNOWN_TICKERS:
                yield word


def advertisement_of(symbol: str) -> Advertisement:
    """What a publisher of a symbol's quotes advertises (001 section 2.1.2)."""
    equal = [
        Predicate("class", Operator.EQ, CLASS),
        Predicate("symbol", Operator.EQ, symbol),
    ]
    numbers = [Predicate(name, Operator.PRESENT, Kind.NUMBER) for name in (*PRICES, "volume")]
    date = Predicate("date", Operator.PRESENT, Kind.STRING)
    return Advertisement([Filter([*equal, *numbers, date])])


def quote_columns(bars: Bars) -> dict[str, NDArray[Any] | list[str]]:
    """A quote a bar, in columns: the attributes of 001 and those that 000 derives from them.

    The differences are relative and rounded as in 000's example: that of high and low to the low (to the high
    it would not be 0.014). That of open and close is taken to the open, and without its sign: the example
    leaves both open, but "> 0.025" is to let half of the quotes pass, and signed it would be half as many.
    """
    opening, high, low, close = bars[:4]
    return {
        **bars._asdict(),
        "openClose%Diff": (np.abs(close - opening) / opening).round(3),
        "highLow%Diff": ((high - low) / low).round(3),
        "closeEqualsLow": np.where(close == low, "true", "false"),
        "closeEqualsHigh": np.where(close == high, "true", "false"),
    }


class Quotes(Sequence[Event]):
    """A quote a bar, made when it is asked for: of most symbols few are ever published."""

    def __init__(self, symbol: str, bars: Bars) -> None:
        columns = quote_columns(bars)
        self._symbol = symbol
        self._names = ("class", "symbol", *columns)
        self._columns: dict[str, list[Any]] = {
            name: column if isinstance(column, list) else column.tolist()
            for name, column in columns.items()
        }
        self._made: list[Event | None] = [None] * len(bars.volume)

    def column(self, name: str) -> list[Any]:
        """What all quotes say of an attribute."""
        return self._columns[name]

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...

    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        quote = self._made[index]
        if quote is None:
            row = (column[index] for column in self._columns.values())
            values = dict(zip(self._names, (CLASS, self._symbol, *row), strict=True))
            quote = self._made[index] = Event.trusted(values)
        return quote


class Market(ABC):
    """Quotes by symbol. Their events are shared between all who ask: they are not to be changed."""

    symbols: tuple[str, ...]

    def __init__(self) -> None:
        self._quotes: dict[str, Quotes] = {}

    @abstractmethod
    def bars(self, symbol: str) -> Bars:
        """The bars of a symbol; at least one."""

    def quotes(self, symbol: str) -> Quotes:
        """All quotes of a symbol, before they start again."""
        if symbol not in self._quotes:
            self._quotes[symbol] = Quotes(symbol, self.bars(symbol))
        return self._quotes[symbol]

    def quote(self, symbol: str, n: int) -> Event:
        """The quote of a symbol that comes after n others."""
        quotes = self._quotes.get(symbol) or self.quotes(symbol)
        return quotes[n % len(quotes)]


class SyntheticMarket(Market):
    """Quotes from bars that are made up, for any symbol; those of a symbol depend on it and the seed only."""

    def __init__(self, seed: int, symbols: int = 100, days: int = 2_500) -> None:
        super().__init__()
        self.symbols = tuple(islice(tickers(), symbols))
        self._seed = seed
        weekdays = np.busday_offset([FIRST_DAY], np.arange(days), "forward")
        self._dates = written_dates(weekdays)

    def bars(self, symbol: str) -> Bars:
        """Made anew each time that somebody asks."""
        # The letters themselves are the seed: nothing collides, and Python's hash has no part in it.
        letters = int.from_bytes(symbol.encode(), "big")
        rng = np.random.Generator(np.random.PCG64([self._seed, letters]))
        return synthetic_bars(rng, self._dates)


class BarMarket(Market):
    """Quotes from a user's file of bars, in the order of the file; see `bars.read_bars`."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._all_bars = read_bars(path)
        self.symbols = tuple(self._all_bars)

    def bars(self, symbol: str) -> Bars:
        """Those of the file."""
        if symbol not in self._all_bars:
            shown = ", ".join(self.symbols[:MISSING_SHOWN])
            more = len(self.symbols) - MISSING_SHOWN
            rest = f" and {more} more" if more > 0 else ""
            raise UserError(f"{self._path}: no bars of {symbol!r}; there are {shown}{rest}")
        return self._all_bars[symbol]
