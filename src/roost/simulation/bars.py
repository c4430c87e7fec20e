"""Daily bars: one symbol's open, high, low, close, volume and date, day by day.

They come from a user's file (CSV, JSON lines or Parquet, by the end of its name) or from a model of prices
(`synthetic_bars`). The model is the usual one of stochastic volatility: the logarithm of a day's volatility
follows a slow autoregression, so that wild days come in clusters; a day's returns are Student's t, so that
the tails are fat; volume is log-normal, remembers the day before, and rises with the day's volatility. The
highest and lowest price of a day are those of a Brownian bridge from its open to its close.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from numpy.typing import NDArray

from roost.errors import UserError

Floats = NDArray[np.float64]

PRICES = ("open", "high", "low", "close")
NEEDED = ("symbol", *PRICES, "volume", "date")
CLASS = "STOCK"
_is_symbol = re.compile(r"(?!-$)[^\s'\"#]{1,64}").fullmatch
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Bars(NamedTuple):
    """The days of one symbol, in columns."""

    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: NDArray[np.int64]
    date: list[str]


def written_dates(days: NDArray[np.datetime64]) -> list[str]:
    """Days as the papers write them, such as 12-Apr-96."""
    return [
        f"{day.day}-{MONTHS[day.month - 1]}-{day.year % 100:02}"
        for day in days.astype("datetime64[D]").tolist()
    ]


# --- the model ------------------------------------------------------------------------------------

# Chosen so that the statistics come near those of a hundred shares of NASDAQ, 1996 to 2004: volatility,
# kurtosis, autocorrelation of absolute returns, spread of prices and volumes, share of the overnight gap.
DAILY_VOLATILITY = 0.064
VOLATILITY_SPREAD = 0.25  # of its logarithm, across symbols
CLUSTER_PERSISTENCE = 0.94
CLUSTER_DEVIATION = 0.95  # of the logarithm of a day's variance
TAIL_DEGREES = 8.0
GAP_DEGREES = 2.7  # news come overnight: their tails are fatter
GAP_SHARE = (0.4, 0.75)  # of the variance, across symbols
GREATEST_GAP = 1.0  # of the logarithm
PULL = 0.004  # a day, towards the symbol's base, so that prices neither vanish nor explode
LOG_PRICE, LOG_PRICE_SPREAD = 1.8, 0.95
LOG_VOLUME, LOG_VOLUME_SPREAD = 11.5, 3.0
VOLUME_PERSISTENCE = 0.85
VOLUME_DEVIATION, VOLUME_NOISE = 1.1, 0.5
VOLUME_OF_VOLATILITY = (
    1.4  # how much of the logarithm of the volatility is seen in that of the volume
)
CENT = 0.01
LOT = 100  # shares


def synthetic_bars(rng: np.random.Generator, dates: list[str]) -> Bars:
    """Bars of one symbol for these days; its price, volume and volatility are drawn, too."""
    days = len(dates)
    typical = DAILY_VOLATILITY * rng.lognormal(0, VOLATILITY_SPREAD)
    gap_share = rng.uniform(*GAP_SHARE)
    base = rng.normal(LOG_PRICE, LOG_PRICE_SPREAD)
    calm = _stationary(rng, days, CLUSTER_PERSISTENCE, CLUSTER_DEVIATION) / 2
    # Mixed over a normal draw this makes Student's t with a variance of one.
    mixing = np.sqrt((TAIL_DEGREES - 2) / rng.chisquare(TAIL_DEGREES, days))
    relative = np.exp(calm - CLUSTER_DEVIATION**2 / 4) * mixing
    gap_deviation = typical * relative * np.sqrt(gap_share * (GAP_DEGREES - 2) / GAP_DEGREES)
    gap = (gap_deviation * rng.standard_t(GAP_DEGREES, days)).clip(-GREATEST_GAP, GREATEST_GAP)
    day_deviation = typical * relative * np.sqrt(1 - gap_share)
    move = day_deviation * rng.standard_normal(days)
    log_close = base + _autoregression(gap + move, 1 - PULL)
    log_open = log_close - move
    rise, fall = (_extreme(rng, sign * move, day_deviation) for sign in (1, -1))
    return Bars(
        _prices(log_open),
        _prices(log_open + rise),
        _prices(log_open - fall),
        _prices(log_close),
        _volumes(rng, relative),
        dates,
    )


def _extreme(rng: np.random.Generator, move: Floats, deviation: Floats) -> Floats:
    """How far a Brownian bridge from 0 to `move` rises; the inverse of its distribution."""
    exponential = rng.standard_exponential(len(move))
    return (move + np.sqrt(move**2 + 2 * deviation**2 * exponential)) / 2


def _volumes(rng: np.random.Generator, relative_volatility: Floats) -> NDArray[np.int64]:
    days = len(relative_volatility)
    log_volume = (
        rng.normal(LOG_VOLUME, LOG_VOLUME_SPREAD)
        + _stationary(rng, days, VOLUME_PERSISTENCE, VOLUME_DEVIATION)
        + rng.normal(0, VOLUME_NOISE, days)
        + VOLUME_OF_VOLATILITY * np.log(relative_volatility)
    )
    return np.ceil(np.exp(log_volume) / LOT).astype(np.int64) * LOT


def _prices(logarithms: Floats) -> Floats:
    return np.maximum(np.exp(logarithms).round(2), CENT)


def _stationary(
    rng: np.random.Generator, days: int, persistence: float, deviation: float
) -> Floats:
    """An autoregression of this deviation that has gone on for ever."""
    shocks = rng.normal(0, deviation, days)
    shocks[1:] *= np.sqrt(1 - persistence**2)
    return _autoregression(shocks, persistence)


def _autoregression(shocks: Floats, persistence: float) -> Floats:
    steps = accumulate(shocks.tolist(), lambda before, shock: persistence * before + shock)
    return np.fromiter(steps, np.float64, len(shocks))


# --- files ----------------------------------------------------------------------------------------


def read_bars(path: str) -> dict[str, Bars]:
    """The bars of a file (or a folder of Parquet files) by symbol, both in the order of the file.

    Whatever is wrong is a `UserError` that starts with the file and, if it is about one, the row; rows are
    counted from 1, without the header. Prices above 0, whole volumes from 0 on: no more is asked of them,
    since real data are not always consistent.
    """
    if Path(path).is_dir():
        return bars_of(path, _read_folder(path))
    suffix = Path(path).suffix.lower()
    if suffix not in _READERS:
        *others, last = _READERS
        raise UserError(
            f"{path}: expected a file of bars that ends in {', '.join(others)} or {last}"
        )
    return bars_of(path, _opened(path, _READERS[suffix]))


def bars_of(path: str, table: pa.Table) -> dict[str, Bars]:
    """The bars of a table that was read from there, checked."""
    _need_columns(path, table.column_names)
    if not table.num_rows:
        raise UserError(f"{path}: there are no bars in it")
    if "class" in table.column_names:
        _check_class(path, _texts(path, table, "class"))
    opening, high, low, close = (_prices_of(path, table, column) for column in PRICES)
    volume = _volumes_of(path, table)
    date = _dates_of(path, table)
    by_symbol = _grouped(_texts(path, table, "symbol"))
    _check_symbols(path, by_symbol)
    return {
        symbol: Bars(
            opening[rows], high[rows], low[rows], close[rows], volume[rows], [date[r] for r in rows]
        )
        for symbol, rows in by_symbol.items()
    }


def _grouped(symbols: Iterable[str]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, symbol in enumerate(symbols):
        rows.setdefault(symbol, []).append(row)
    return rows


def _check_symbols(path: str, by_symbol: Mapping[str, list[int]]) -> None:
    for symbol, rows in by_symbol.items():
        if not _is_symbol(symbol):
            raise UserError(
                f"{path}, row {rows[0] + 1}: the symbol is {symbol!r}; expected a word of at most 64"
                " characters, without quotes and #, for a workload to name it"
            )


def _opened(path: str, read: Callable[[IO[bytes]], pa.Table]) -> pa.Table:
    try:
        with Path(path).open("rb") as file:
            table = read(file)
        table.validate(full=True)
    except OSError as bad:
        raise UserError(f"{path}: {bad.strerror or bad}") from None
    except pa.ArrowException as bad:
        raise UserError(f"{path}: not a file of bars that can be read: {bad}") from None
    return table


def _read_csv(file: IO[bytes]) -> pa.Table:
    """The columns of bars as texts: a symbol of digits is a symbol."""
    return pa_csv.read_csv(
        file,
        # In one thread an error knows its row.
        read_options=pa_csv.ReadOptions(use_threads=False),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(("class", *NEEDED), pa.string())
        ),
    )


def _read_json(file: IO[bytes]) -> pa.Table:
    """An empty file has no columns to be missed; Arrow would say that it is no JSON."""
    if not file.read(1):
        return pa.table({})
    file.seek(0)
    return pa_json.read_json(file, read_options=pa_json.ReadOptions(use_threads=False))


_READERS: dict[str, Callable[[IO[bytes]], pa.Table]] = {
    ".csv": _read_csv,
    ".ndjson": _read_json,
    ".jsonl": _read_json,
    ".parquet": pq.read_table,
}


def _read_folder(path: str) -> pa.Table:
    """The Parquet files of a folder, as Spark writes them, in the order of their names."""
    files = sorted(file for file in Path(path).glob("*.parquet") if file.name[0] not in "._")
    if not files:
        raise UserError(f"{path}: there are no Parquet files in it")
    tables = [_opened(str(file), pq.read_table) for file in files]
    try:
        return pa.concat_tables(tables)
    except pa.ArrowException as bad:
        raise UserError(f"{path}: its files differ: {bad}") from None


def _need_columns(path: str, names: list[str]) -> None:
    there = ", ".join(map(repr, names)) or "none"
    for column in ("class", *NEEDED):
        if names.count(column) > 1:
            raise UserError(f"{path}: the column {column!r} comes twice; there are {there}")
        if column in NEEDED and column not in names:
            raise UserError(f"{path}: no column {column!r}; there are {there}")


def _check_class(path: str, classes: list[str]) -> None:
    for row, found in enumerate(classes, 1):
        if found != CLASS:
            raise UserError(f"{path}, row {row}: the class is {found!r}; expected {CLASS!r}")


def _texts(path: str, table: pa.Table, column: str) -> list[str]:
    values = table.column(column)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise UserError(f"{path}: the column {column!r} holds {kind}; expected texts")
    texts: list[str] = values.to_pylist()
    for row, text in enumerate(texts, 1):
        if not text:
            raise UserError(f"{path}, row {row}: the {column} is missing")
    return texts


def _dates_of(path: str, table: pa.Table) -> list[str]:
    values = table.column("date")
    if not (pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)):
        return _texts(path, table, "date")
    if values.null_count:
        row = values.is_null().to_numpy().argmax() + 1
        raise UserError(f"{path}, row {row}: the date is missing")
    return written_dates(values.to_numpy())


_NUMBER_TYPES = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


def _prices_of(path: str, table: pa.Table, column: str) -> Floats:
    numbers = _numbers(path, table, column)
    _refuse(path, column, numbers, numbers <= 0, "a price above 0")
    return numbers


def _volumes_of(path: str, table: pa.Table) -> NDArray[np.int64]:
    numbers = _numbers(path, table, "volume")
    wrong = (numbers < 0) | (numbers != np.floor(numbers)) | (numbers > 2**53)
    _refuse(path, "volume", numbers, wrong, "a whole number of shares")
    return numbers.astype(np.int64)


def _numbers(path: str, table: pa.Table, column: str) -> Floats:
    values = table.column(column)
    if pa.types.is_string(values.type) and path.lower().endswith(".csv"):
        values = _parsed(path, column, values)
    if not any(is_number(values.type) for is_number in _NUMBER_TYPES):
        raise UserError(f"{path}: the column {column!r} holds {values.type}; expected numbers")
    # What is missing becomes NaN.
    numbers: Floats = values.cast(pa.float64(), safe=False).to_numpy()
    _refuse(path, column, numbers, ~np.isfinite(numbers), "a finite number")
    return numbers


def _parsed(path: str, column: str, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        for row, text in enumerate(texts, 1):
            try:
                text.cast(pa.float64())
            except pa.ArrowInvalid:
                raise UserError(
                    f"{path}, row {row}: the {column} is {text.as_py()!r}; expected a number"
                ) from None
        raise


def _refuse(
    path: str, column: str, numbers: Floats, wrong: NDArray[np.bool_], expected: str
) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        found = "missing or NaN" if np.isnan(numbers[row]) else f"{numbers[row]:g}"
        raise UserError(f"{path}, row {row + 1}: the {column} is {found}; expected {expected}")
