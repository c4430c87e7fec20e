"""Quotes look like quotes, are always the same, and a bad file of bars is refused with its place."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roost.errors import UserError
from roost.language import overlaps, parse_advertisement, parse_event, parse_subscription
from roost.simulation.bars import Bars
from roost.simulation.market import (
    BarMarket,
    Quotes,
    SyntheticMarket,
    advertisement_of,
    tickers,
)

NUMBERS = ("open", "high", "low", "close", "volume")
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def market() -> SyntheticMarket:
    return SyntheticMarket(1, symbols=30)


def column(market: SyntheticMarket, symbol: str, name: str) -> Any:
    return np.array([quote.attributes[name] for quote in market.quotes(symbol)])


# --- quotes ---------------------------------------------------------------------------------------


def test_the_quote_of_000() -> None:
    """000 section 5.1, with its derived attributes."""
    level, high = np.array([18.37]), np.array([18.62])
    bars = Bars(level, high, level, level, np.array([6200]), ["5-Sep-96"])
    (quote,) = Quotes("YHOO", bars)
    expected = parse_event(
        "[class,'STOCK'],[symbol,'YHOO'],[open,18.37],[high,18.62],[low,18.37],[close,18.37],"
        "[volume,6200],[date,'5-Sep-96'],[openClose%Diff,0.0],[highLow%Diff,0.014],"
        "[closeEqualsLow,'true'],[closeEqualsHigh,'false']"
    )
    assert quote == expected
    assert list(quote.attributes) == list(expected.attributes)


def test_the_difference_of_open_and_close_has_no_sign() -> None:
    opening, high, low, close = np.array([[10.0, 10.0], [11.0, 10.0], [10.0, 9.0], [11.0, 9.0]])
    bars = Bars(opening, high, low, close, np.array([1, 1]), ["a", "b"])
    assert [q.attributes["openClose%Diff"] for q in Quotes("X", bars)] == [0.1, 0.1]


def test_the_advertisement_of_001() -> None:
    """001 section 2.1.2."""
    assert advertisement_of("YHOO") == parse_advertisement(
        "[class,eq,'STOCK'],[symbol,eq,'YHOO'],[open,isPresent,0],[high,isPresent,0],"
        "[low,isPresent,0],[close,isPresent,0],[volume,isPresent,0],[date,isPresent,'00-00-00']"
    )


def test_quotes_match_their_advertisement(market: SyntheticMarket) -> None:
    assert all(advertisement_of("YHOO").matches(quote) for quote in market.quotes("YHOO"))
    assert not advertisement_of("MSFT").matches(market.quote("YHOO", 0))
    derived = parse_subscription("symbol = 'YHOO' and highLow%Diff > 0.1")
    assert overlaps(advertisement_of("YHOO"), derived)


# --- the synthetic market -------------------------------------------------------------------------


def test_the_quotes_never_change(market: SyntheticMarket) -> None:
    """A value that is written down, so that another process with other hashes has to find it, too."""
    assert str(market.quote("YHOO", 7)) == (
        "[class,'STOCK'],[symbol,'YHOO'],[open,3.62],[high,3.65],[low,3.55],"
        "[close,3.57],[volume,1300],[date,'23-Apr-96'],"
        "[openClose%Diff,0.014],[highLow%Diff,0.028],[closeEqualsLow,'false'],[closeEqualsHigh,'false']"
    )


def test_the_quotes_of_a_symbol_depend_on_it_and_the_seed_only(market: SyntheticMarket) -> None:
    few = SyntheticMarket(1, symbols=2)
    few.quote("MSFT", 5)
    assert list(few.quotes("YHOO")) == list(market.quotes("YHOO"))
    assert list(SyntheticMarket(2).quotes("YHOO")) != list(market.quotes("YHOO"))
    assert (
        market.quotes("MSFT")[0].attributes["open"] != market.quotes("YHOO")[0].attributes["open"]
    )


def test_the_quotes_start_again(market: SyntheticMarket) -> None:
    assert len(market.quotes("YHOO")) == 2_500
    assert market.quote("YHOO", 5_007) is market.quote("YHOO", 7)


def test_any_symbol_will_do(market: SyntheticMarket) -> None:
    assert "ÜBER.L" not in market.symbols
    assert market.quote("ÜBER.L", 3).attributes["symbol"] == "ÜBER.L"


def test_symbols_are_distinct_words_without_end() -> None:
    symbols = SyntheticMarket(1, symbols=5_000).symbols
    assert symbols[0] == "YHOO"
    assert len(set(symbols)) == 5_000
    assert all(symbol.isalpha() and symbol.isupper() for symbol in symbols)
    assert tuple(islice(tickers(), 100)) == SyntheticMarket(9).symbols


def test_bars_are_consistent(market: SyntheticMarket) -> None:
    for symbol in market.symbols:
        opening, high, low, close, volume = (column(market, symbol, name) for name in NUMBERS)
        assert np.all(low <= np.minimum(opening, close))
        assert np.all(high >= np.maximum(opening, close))
        assert low.min() >= 0.01
        assert volume.min() > 0
        for prices in (opening, high, low, close):
            assert np.all(prices == prices.round(2))
        kinds = {tuple(map(type, quote.attributes.values())) for quote in market.quotes(symbol)}
        texts_and_numbers = (*[float] * 4, int, str, float, float, str, str)
        assert kinds == {(str, str, *texts_and_numbers)}


def test_dates_are_weekdays_from_that_of_001_on(market: SyntheticMarket) -> None:
    dates = column(market, "YHOO", "date").tolist()
    assert dates[:3] == ["12-Apr-96", "15-Apr-96", "16-Apr-96"]
    days = [datetime.datetime.strptime(date, "%d-%b-%y") for date in dates]
    assert days == sorted(set(days))
    assert {day.weekday() for day in days} == set(range(5))


def test_returns_have_fat_tails_and_come_in_clusters(market: SyntheticMarket) -> None:
    """What real bars show: see the constants of `bars`."""
    kurtosis, memory, chance = [], [], []
    for symbol in market.symbols:
        returns = np.diff(np.log(column(market, symbol, "close")))
        kurtosis.append(np.mean((returns - returns.mean()) ** 4) / returns.var() ** 2 - 3)
        memory.append(np.corrcoef(np.abs(returns[1:]), np.abs(returns[:-1]))[0, 1])
        chance.append(np.corrcoef(returns[1:], returns[:-1])[0, 1])
    assert np.median(kurtosis) > 5
    assert 0.08 < np.median(memory) < 0.3
    assert abs(np.median(chance)) < 0.03


def test_volume_is_skewed_across_symbols_and_follows_the_move(market: SyntheticMarket) -> None:
    typical, follows = [], []
    for symbol in market.symbols:
        volume = np.log(column(market, symbol, "volume"))
        returns = np.diff(np.log(column(market, symbol, "close")))
        typical.append(np.median(volume))
        follows.append(np.corrcoef(np.abs(returns), volume[1:])[0, 1])
    assert 2 < np.std(typical) < 4
    assert 0.15 < np.median(follows) < 0.4


# --- a file of bars -------------------------------------------------------------------------------


def rows() -> Rows:
    """Two symbols, not one after the other."""
    prices = {"open": 18.37, "high": 18.62, "low": 18.37, "close": 18.37}
    return [
        {"symbol": "YHOO", **prices, "volume": 6200, "date": "5-Sep-96"},
        {"symbol": "7203", **prices, "volume": 0, "date": "5-Sep-96"},
        {"symbol": "YHOO", **prices, "close": 18.5, "volume": 70, "date": "6-Sep-96"},
    ]


def csv_file(folder: Path, rows: Rows) -> str:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path = folder / "bars.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def parquet_file(folder: Path, rows: Rows) -> str:
    path = folder / "bars.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


Write = Callable[[Path, Rows], str]
both = pytest.mark.parametrize("write", [csv_file, parquet_file])


@both
def test_bars_of_a_file(tmp_path: Path, write: Write) -> None:
    market = BarMarket(write(tmp_path, rows()))
    assert market.symbols == ("YHOO", "7203")
    assert [market.quote("YHOO", n).attributes["volume"] for n in range(3)] == [6200, 70, 6200]
    assert market.quote("YHOO", 0).attributes["highLow%Diff"] == 0.014
    assert market.quote("7203", 0).attributes["volume"] == 0
    assert type(market.quote("7203", 0).attributes["volume"]) is int


@both
def test_other_columns_do_not_matter_and_the_class_may_be_said(
    tmp_path: Path, write: Write
) -> None:
    said = [{"class": "STOCK", **row, "day": 1} for row in rows()]
    expected = list(BarMarket(write(tmp_path, rows())).quotes("YHOO"))
    assert list(BarMarket(write(tmp_path, said)).quotes("YHOO")) == expected


def test_dates_of_a_parquet_file_may_be_dates(tmp_path: Path) -> None:
    for day in (datetime.date(1996, 9, 5), datetime.datetime(1996, 9, 5, 16)):
        market = BarMarket(parquet_file(tmp_path, [{**row, "date": day} for row in rows()]))
        assert market.quote("YHOO", 0).attributes["date"] == "5-Sep-96"


def changed(row: int, **values: object) -> Rows:
    """The rows with one of them changed."""
    return [{**r, **values} if i == row else r for i, r in enumerate(rows())]


@both
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (changed(2, close=float("nan")), "row 3: the close is missing or NaN; expected a finite"),
        (changed(1, high=float("inf")), "row 2: the high is inf; expected a finite number"),
        (changed(0, low=0.0), "row 1: the low is 0; expected a price above 0"),
        (changed(1, open=-2.5), "row 2: the open is -2.5; expected a price above 0"),
        (changed(2, volume=-7), "row 3: the volume is -7; expected a whole number of shares"),
        (
            [{**row, "volume": 0.5} for row in rows()],
            "row 1: the volume is 0.5; expected a whole number of shares",
        ),
        (changed(1, date=""), "row 2: the date is missing"),
        (changed(2, symbol=""), "row 3: the symbol is missing"),
        (changed(2, symbol="BRK B"), "row 3: the symbol is 'BRK B'; expected a word"),
        (
            [{**row, "class": "BOND"} for row in rows()],
            "row 1: the class is 'BOND'; expected 'STOCK'",
        ),
        (
            [{"symbol": "A", "low": 1.0}],
            ": no column 'open'; there are 'symbol', 'low'",
        ),
    ],
)
def test_bad_bars_are_refused(tmp_path: Path, write: Write, bad: Rows, message: str) -> None:
    path = write(tmp_path, bad)
    with pytest.raises(UserError) as refused:
        BarMarket(path)
    assert str(refused.value).startswith(path)
    assert message in str(refused.value)


def test_a_cell_that_is_no_number_is_refused(tmp_path: Path) -> None:
    for bad in ("abc", ""):
        with pytest.raises(UserError, match=f"row 2: the low is '{bad}'; expected a number"):
            BarMarket(csv_file(tmp_path, changed(1, low=bad)))


def test_columns_of_the_wrong_type_are_refused(tmp_path: Path) -> None:
    texts = [{**row, "high": str(row["high"])} for row in rows()]
    with pytest.raises(UserError, match="the column 'high' holds string; expected numbers"):
        BarMarket(parquet_file(tmp_path, texts))
    numbers = [{**row, "symbol": 7} for row in rows()]
    with pytest.raises(UserError, match="the column 'symbol' holds int64; expected texts"):
        BarMarket(parquet_file(tmp_path, numbers))


def test_missing_cells_of_a_parquet_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="row 2: the volume is missing or NaN"):
        BarMarket(parquet_file(tmp_path, changed(1, volume=None)))
    days = [{**row, "date": datetime.date(1996, 9, 5)} for row in rows()]
    days[2]["date"] = None
    with pytest.raises(UserError, match="row 3: the date is missing"):
        BarMarket(parquet_file(tmp_path, days))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bars.txt", "", "ends in .csv, .ndjson, .jsonl or .parquet"),
        ("bars.csv", "", "not a file of bars that can be read"),
        ("bars.csv", "symbol,open\nA\n", "not a file of bars that can be read"),
        ("bars.csv", "symbol,symbol,open\nA,B,1\n", "the column 'symbol' comes twice"),
        ("bars.csv", "symbol,open,high,low,close,volume,date\n", "there are no bars in it"),
        ("bars.parquet", "PAR1", "not a file of bars that can be read"),
    ],
)
def test_files_that_cannot_be_read_are_refused(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    with pytest.raises(UserError) as refused:
        BarMarket(str(path))
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        BarMarket(str(tmp_path / "gone.csv"))


def test_a_symbol_without_bars_is_refused(tmp_path: Path) -> None:
    market = BarMarket(csv_file(tmp_path, rows()))
    with pytest.raises(UserError, match=r"no bars of 'MSFT'; there are YHOO, 7203$"):
        market.quote("MSFT", 0)
