"""The stock workload by hand: SQL that joins by the symbol first, in Spark and in DuckDB, beside `match`.

Whoever knows what all subscriptions look like can write them down as columns: the symbol, and a bound an
attribute, null where there is none. Most name a symbol, so a hash join by it leaves few subscriptions for
each quote; the others ask for volumes alone, or for all of a class, which are joins of their own. `match` is
told nothing of the kind: it has the texts of the filters.

Three forms: `count` of the matches, `pairs` and `lists` to Parquet files. Subscriptions are prepared before
the clock starts, as columns there and as an index here, and what is measured is the best of some rounds. All
have to find the same: how many, and a sum over the pairs.

DuckDB is for whoever has it (`pip install duckdb`): without it there are no figures of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roost.bench.match import DisagreementError
from roost.bench.timing import elapsed_s
from roost.bench.workloads import Workload
from roost.language import Operator
from roost.pipeline.workload.stock import BOUND_OPERATORS, BOUNDED_SHARES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUOTES, FILTERS, WANTED = "stock", "sql-filters", "sql-wanted"
# Of the subscriptions that an index takes, so many are few enough for SQL.
SHARE = 10
FORMS = ("count", "pairs", "lists")
ROUNDS = 2
SIGNS = {Operator.LT: "<", Operator.LE: "<=", Operator.GT: ">", Operator.GE: ">="}
# How each bounded attribute is compared.
BOUNDS: Mapping[str, str] = {name: SIGNS[BOUND_OPERATORS[name]] for name in BOUNDED_SHARES}
# Of the pairs, whatever their order; small enough for 64 bits.
SUM = "sum(publication * 31 + subscription * 17)"


class Found(NamedTuple):
    """What a query finds."""

    matches: int
    sum: int


def write_wanted(folder: Path, load: Workload) -> None:
    """The subscriptions as texts, and as columns."""
    count = load.subscription_count
    names = ("class", "symbol", *BOUNDS)
    columns: dict[str, list[object]] = {name: [None] * count for name in names}
    for ids, predicates in load.templates:
        for name, operator, constants in predicates:
            if operator is not Operator.EQ and SIGNS[operator] != BOUNDS.get(name):
                raise ValueError(f"{name} {operator} ...; expected {BOUNDS}")
            values = constants if isinstance(constants, list) else constants.tolist()
            for id_, value in zip(ids.tolist(), values, strict=True):
                columns[name][id_] = value
    texts = {"filter": [str(filter_) for filter_ in load.filters()]}
    for name, told in ((WANTED, columns), (FILTERS, texts)):
        (folder / name).mkdir()
        table = pa.table({"subscription": np.arange(count), **told})
        pq.write_table(table, folder / name / "0.parquet")


def query(quotes: str, wanted: str) -> str:
    """Pairs, of these two tables."""
    bounds = " and ".join(
        f"(s.{name} is null or p.{name} {BOUNDS[name]} s.{name})" for name in BOUNDS
    )
    parts = {
        "p.symbol = s.symbol": "symbol is not null",
        # An inequality by itself, for which DuckDB has a join of its own.
        f"p.volume {BOUNDS['volume']} s.volume": "symbol is null and volume is not null",
        "p.class = s.class": "symbol is null and volume is null",
    }
    return " union all ".join(
        "select p.publication as publication, s.subscription as subscription"
        f" from {quotes} p join (select * from {wanted} where {which}) s on {how}"
        + (f" where {bounds}" if how == "p.symbol = s.symbol" else "")
        for how, which in parts.items()
    )


# --- Spark ------------------------------------------------------------------------------------------


def spark_figures(spark: SparkSession, folder: Path) -> tuple[dict[str, float], Found]:
    """`match`, and the query, in this session."""
    from roost.pipeline.matching.broadcast import hold, match_held  # noqa: PLC0415 (only in a child)
    from roost.pipeline.matching.inputs import checked_inputs  # noqa: PLC0415

    quotes = spark.read.parquet(str(folder / QUOTES))
    filters = spark.read.parquet(str(folder / FILTERS))
    inputs = {form: checked_inputs(quotes, filters, form=form) for form in ("pairs", "lists")}
    held = hold(inputs["pairs"])
    ours = {form: match_held(given, held) for form, given in inputs.items()}
    quotes.createOrReplaceTempView("quotes")
    spark.read.parquet(str(folder / WANTED)).cache().createOrReplaceTempView("wanted")
    theirs = {"pairs": spark.sql(query("quotes", "wanted"))}
    theirs["lists"] = theirs["pairs"].groupBy("publication").agg({"subscription": "collect_list"})
    found = _found(ours["pairs"])
    _check("Spark SQL", _found(theirs["pairs"]), found)
    figures = {"stock_sql_subscriptions": float(filters.count())}
    for name, frames in (("match", ours), ("spark_sql", theirs)):
        for form in FORMS:
            work = _counting(frames) if form == "count" else _writing(frames[form], folder)
            figures[f"stock_{name}_{form}_s"] = _best(work)
    return figures, found


def _counting(frames: Mapping[str, DataFrame]) -> Callable[[], object]:
    return frames["pairs"].count


def _writing(frame: DataFrame, folder: Path) -> Callable[[], object]:
    def work() -> None:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            columns = [f"c{place}" for place in range(len(frame.columns))]
            frame.toDF(*columns).write.parquet(f"{out}/matches")

    return work


def _found(pairs: DataFrame) -> Found:
    row = pairs.selectExpr("count(*) as matches", f"{SUM} as sum").first()
    assert row is not None
    return Found(int(row[0]), int(row[1] or 0))


# --- DuckDB -----------------------------------------------------------------------------------------


def duckdb_figures(folder: Path, cores: int, expected: Found) -> dict[str, float]:
    """The query in DuckDB; nothing where that is not installed."""
    try:
        import duckdb  # type: ignore[import-not-found, unused-ignore] # noqa: PLC0415
    except ImportError:
        return {}
    with duckdb.connect(config={"threads": cores}) as database:
        for name, files in (("quotes", QUOTES), ("wanted", WANTED)):
            database.execute(
                f"create table {name} as select * from read_parquet('{folder / files}/*.parquet')"
            )
        pairs = query("quotes", "wanted")
        row = database.execute(f"select count(*), {SUM} from ({pairs})").fetchone()
        assert row is not None
        _check("DuckDB", Found(int(row[0]), int(row[1] or 0)), expected)
        lists = f"select publication, list(subscription) from ({pairs}) group by publication"
        with tempfile.TemporaryDirectory(dir=folder) as out:
            work = {
                "count": f"select count(*) from ({pairs})",
                "pairs": f"copy ({pairs}) to '{out}/pairs.parquet'",
                "lists": f"copy ({lists}) to '{out}/lists.parquet'",
            }
            return {
                f"stock_duckdb_{form}_s": _best(lambda: database.execute(work[form]).fetchall())  # noqa: B023 (used at once)
                for form in FORMS
            }


def _best(work: Callable[[], object]) -> float:
    work()
    return min(elapsed_s(work) for _ in range(ROUNDS))


def _check(who: str, found: Found, expected: Found) -> None:
    if found != expected:
        raise DisagreementError(
            f"{who} finds {found.matches:,} matches with the sum {found.sum}, `match` {expected.matches:,}"
            f" with {expected.sum}"
        )


# --- for people -------------------------------------------------------------------------------------


def note(figures: Mapping[str, float]) -> str:
    """Beside each other."""
    names = {"match": "match", "spark_sql": "that SQL in Spark", "duckdb": "in DuckDB"}
    told = []
    for name, words in names.items():
        if f"stock_{name}_count_s" in figures:
            seconds = [f"{figures[f'stock_{name}_{form}_s']:.1f}" for form in FORMS]
            told.append(f"{words} {', '.join(seconds)}")
    return (
        f"{figures['stock_sql_subscriptions']:,.0f} stock subscriptions beside SQL that joins by symbol"
        f" first, warm, in s to count, and to write pairs and lists: {'; '.join(told)}."
    )
