"""The pipeline benchmark: the plans of the bulk match against each other, and how they grow.

Each session runs in a process of its own, because a process has one JVM. Matches are written to files, and
the files of all plans must hold the same pairs: their number and a hash that does not depend on the order
are compared before anything is worth measuring.

*First* is the first match of a session: its workers have yet to start. *Cold* is any later one that has a new
index: from the text of the filters to the last file. *Warm* is the same match again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roost.bench import pipeline_sql
from roost.bench.fresh import resident_bytes
from roost.bench.machine import commit, machine
from roost.bench.match import DisagreementError
from roost.bench.report import Result, Table, run_name
from roost.bench.timing import Say, elapsed_s, silent
from roost.bench.workloads import workload_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from roost.pipeline.matching.broadcast import Carried
    from roost.pipeline.parsing import Batches, Work

FILES = 8
GROWTH = (1, 4, 16)
# Of what takes little, the best of so many.
ROUNDS = 2
PLANS = ("broadcast", "partitioned", "join")


@dataclass(frozen=True)
class Sizes:
    """How much is matched."""

    subscriptions: int
    publications: int
    stock_subscriptions: int
    stock_publications: int


def run(sizes: Sizes, seed: int, say: Say = silent, *, cores: int = 2, grow: bool = True) -> Result:
    """Measure all plans on `cores` cores; with `grow` also on one, and with more publications."""
    with tempfile.TemporaryDirectory(prefix="roost-bench-") as folder:
        say("writing the workloads")
        write_workloads(Path(folder), sizes, seed, grow=grow)
        figures = _child(Path(folder), cores, "everything" if grow else "plans", say)
        if grow and cores > 1:
            say("the same on one core")
            alone = _child(Path(folder), 1, "warm", say)
            figures["broadcast_warm_one_core_s"] = alone["broadcast_warm_s"]
    return {
        "bench": "pipeline",
        "config": {
            "workload": "bluedove and stock",
            **asdict(sizes),
            "cores": cores,
            "seed": seed,
            "commit": commit(),
            "machine": machine(),
        },
        "results": figures,
        "ratios": _ratios(figures),
    }


def write_workloads(folder: Path, sizes: Sizes, seed: int, *, grow: bool) -> None:
    """The tables as Parquet files, as a user has them: filters are texts."""
    times = GROWTH if grow else ()
    rows = {sizes.publications, *(_grown(sizes.publications, n) for n in times)}
    for publications in sorted(rows):
        load = workload_of("bluedove", seed, 1, publications)
        _write(folder / f"bluedove-{publications}", {"publication": None, **load.columns})
    for name, subscriptions, publications in (
        ("bluedove", sizes.subscriptions, 1),
        ("stock", sizes.stock_subscriptions, sizes.stock_publications),
    ):
        load = workload_of(name, seed, subscriptions, publications)
        filters = [str(filter_) for filter_ in load.filters()]
        _write(folder / f"{name}-filters", {"subscription": None, "filter": filters})
        if name == "stock":
            _write(folder / "stock", {"publication": None, **load.columns})
            few = max(1, subscriptions // pipeline_sql.SHARE)
            pipeline_sql.write_wanted(folder, workload_of(name, seed, few, publications))
    (folder / "sizes.json").write_text(json.dumps(asdict(sizes)))


def _grown(publications: int, times: int) -> int:
    """So that the middle of the growth is the usual size."""
    return max(1, publications * times // GROWTH[1])


def _write(folder: Path, columns: dict[str, Any]) -> None:
    """A table in several files; the first column counts the rows."""
    first, *rest = columns
    n = len(columns[rest[0]])
    table = pa.table({first: np.arange(n), **{name: columns[name] for name in rest}})
    folder.mkdir()
    size = -(-n // FILES)
    for number in range(FILES):
        part = table.slice(number * size, size)
        if part.num_rows:
            pq.write_table(part, folder / f"{number}.parquet")


# --- in a process of its own ----------------------------------------------------------------------


def _child(folder: Path, cores: int, what: str, say: Say) -> dict[str, float]:
    """What a fresh process measures; what it says on the way is passed on."""
    code = f"from roost.bench.pipeline import measure; measure({str(folder)!r}, {cores}, {what!r})"
    figures: dict[str, float] = {}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child,
    ):
        assert child.stdout is not None
        for line in child.stdout:
            told = json.loads(line)
            if "say" in told:
                say(told["say"])
            else:
                figures = told
        if child.wait():
            errors.seek(0)
            raise RuntimeError(f"a child process failed:\n{errors.read()[-4_000:]}")
    return figures


def measure(folder: str, cores: int, what: str) -> None:
    """Runs in the child: prints what it does, and at last the figures."""
    from roost.pipeline.session import local_master, spark_session  # noqa: PLC0415 (only here)

    def say(text: str) -> None:
        print(json.dumps({"say": text}), flush=True)

    sizes = Sizes(**json.loads((Path(folder) / "sizes.json").read_text()))
    with spark_session(local_master(cores)) as spark:
        figures = Bench(spark, Path(folder), sizes, cores, say).figures(what)
    print(json.dumps(figures), flush=True)


class Written(NamedTuple):
    """What is in files of matches: their number, and a hash that no order changes."""

    matches: int
    hash: int


NOTHING = Written(0, 0)


class Writing(NamedTuple):
    """How long it took to write matches, and what they were."""

    seconds: float
    written: Written


class Bench:
    """The measurements of one session."""

    def __init__(
        self, spark: SparkSession, folder: Path, sizes: Sizes, cores: int, say: Say
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._sizes = sizes
        self._cores = cores
        self._say = say

    def figures(self, what: str) -> dict[str, float]:
        """What is asked for: warm matches only, all plans, or everything."""
        if what == "warm":
            return self.warm()
        figures = self.plans() | self.stock() | self.by_hand()
        return figures | self.growth() if what == "everything" else figures

    def plans(self) -> dict[str, float]:
        """Every plan, as pairs to Parquet files; broadcast also as lists."""
        self._say("broadcast, the first match of the session")
        first = self._matched("broadcast")
        figures = {"broadcast_first_s": first.seconds, "matches": float(first.written.matches)}
        for plan in PLANS:
            self._say(f"{plan}, cold and warm")
            cold = self._matched(plan, same_as=first.written)
            figures |= {f"{plan}_cold_s": cold.seconds, f"{plan}_prepare_s": cold.prepare_s}
            figures[f"{plan}_warm_s"] = self._warm(cold.frame, 1 if plan == "join" else ROUNDS)
        self._say("broadcast, as lists")
        lists = self._matched("broadcast", form="lists", same_as=first.written)
        figures["lists_cold_s"] = lists.seconds
        figures["lists_warm_s"] = self._warm(lists.frame)
        return figures

    def warm(self) -> dict[str, float]:
        """Broadcast alone."""
        matched = self._matched("broadcast")
        return {"broadcast_warm_s": self._warm(matched.frame)}

    def _warm(self, frame: DataFrame, rounds: int = ROUNDS) -> float:
        return min(self._write(frame).seconds for _ in range(rounds))

    def stock(self) -> dict[str, float]:
        """Many subscriptions: how long until every worker has them, and how quick they are then."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 (only in the child)

        from roost.pipeline.matching.broadcast import hold, match_held  # noqa: PLC0415
        from roost.pipeline.matching.inputs import checked_inputs  # noqa: PLC0415

        n = self._sizes.stock_subscriptions
        self._say(f"indexing {n:,} subscriptions from their text")
        quotes = self._read("stock")
        one_each = quotes.select("publication").limit(self._cores).repartition(self._cores)
        inputs = checked_inputs(quotes, self._read("stock-filters"), form="lists")
        start = time.perf_counter()
        held = hold(inputs)
        loaded = one_each.mapInArrow(_loading(held.carried), "bytes bigint").collect()
        figures = {"stock_ready_s": time.perf_counter() - start}
        figures["stock_worker_bytes"] = float(max(row[0] for row in loaded))
        self._say(f"matching {self._sizes.stock_publications:,} quotes")
        frame = match_held(inputs, held)
        matched = min(elapsed_s(lambda: _no_operation(frame)) for _ in range(ROUNDS))
        figures["stock_match_s"] = matched
        figures["stock_publications_per_s"] = self._sizes.stock_publications / matched
        row = frame.agg(F.sum(F.size("subscriptions"))).first()
        assert row is not None
        figures["stock_matches"] = float(row[0] or 0)
        return figures

    def by_hand(self) -> dict[str, float]:
        """The stock workload beside SQL that knows what its subscriptions look like."""
        self._say("match beside SQL in Spark")
        figures, found = pipeline_sql.spark_figures(self._spark, self._folder)
        self._say("SQL in DuckDB")
        return figures | pipeline_sql.duckdb_figures(self._folder, self._cores, found)

    def growth(self) -> dict[str, float]:
        """Broadcast with fewer and more publications, as lists to nowhere."""
        figures = {}
        for times in GROWTH:
            publications = _grown(self._sizes.publications, times)
            self._say(f"{publications:,} publications")
            frame = self._prepared("broadcast", "lists", publications)
            took = min(elapsed_s(lambda: _no_operation(frame)) for _ in range(ROUNDS))  # noqa: B023 (used at once)
            figures[f"lists_{times}x_publications_per_s"] = publications / took
        return figures

    # ------------------------------------------------------------------ one match

    def _read(self, name: str) -> DataFrame:
        return self._spark.read.parquet(str(self._folder / name))

    def _prepared(self, plan: str, form: str, publications: int) -> DataFrame:
        from roost.pipeline.matching import match  # noqa: PLC0415 (only in the child)

        events = self._read(f"bluedove-{publications}")
        return match(events, self._read("bluedove-filters"), plan=plan, form=form)

    def _matched(
        self, plan: str, *, form: str = "pairs", same_as: Written | None = None
    ) -> Matched:
        """One match from the text of the filters to files; the files are compared."""
        start = time.perf_counter()
        frame = self._prepared(plan, form, self._sizes.publications)
        prepared = time.perf_counter() - start
        seconds, written = self._write(frame, form)
        if same_as is not None and written != same_as:
            raise DisagreementError(
                f"{plan} as {form} wrote {written.matches:,} matches with the hash {written.hash},"
                f" broadcast as pairs {same_as.matches:,} with {same_as.hash}"
            )
        return Matched(frame, prepared + seconds, prepared, written)

    def _write(self, frame: DataFrame, form: str | None = None) -> Writing:
        """Writes files and removes them; what was in them, if their form is given."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            out = f"{folder}/matches"
            seconds = elapsed_s(lambda: frame.write.parquet(out))
            return Writing(seconds, NOTHING if form is None else self._written(out, form))

    def _written(self, out: str, form: str) -> Written:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 (only in the child)

        frame = self._spark.read.parquet(out)
        if form == "lists":
            frame = frame.select("publication", F.explode("subscriptions").alias("subscription"))
        pair = F.xxhash64("publication", "subscription")
        row = frame.agg(F.count(F.lit(1)), F.bit_xor(pair)).first()
        assert row is not None
        return Written(row[0], row[1] or 0)


class Matched(NamedTuple):
    """A match that was written, and how long that took."""

    frame: DataFrame
    seconds: float
    prepare_s: float
    written: Written


def _no_operation(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _loading(carried: Carried) -> Work:
    """For a worker: to get the index, and by how much its process grows."""

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        before = resident_bytes()
        index = carried.value
        yield pa.record_batch({"bytes": [max(index.memory_bytes(), resident_bytes() - before)]})

    return work


def _ratios(figures: dict[str, float]) -> dict[str, float]:
    ratios = {
        "join_over_broadcast_cold": figures["join_cold_s"] / figures["broadcast_cold_s"],
        "join_over_broadcast_warm": figures["join_warm_s"] / figures["broadcast_warm_s"],
        "join_over_partitioned_cold": figures["join_cold_s"] / figures["partitioned_cold_s"],
        "lists_over_pairs_warm": figures["lists_warm_s"] / figures["broadcast_warm_s"],
    }
    if "broadcast_warm_one_core_s" in figures:
        alone = figures["broadcast_warm_one_core_s"]
        ratios["one_core_over_all_warm"] = alone / figures["broadcast_warm_s"]
    if "lists_16x_publications_per_s" in figures:
        largest, smallest = (f"lists_{n}x_publications_per_s" for n in (GROWTH[-1], GROWTH[0]))
        ratios["rate_16x_over_1x"] = figures[largest] / figures[smallest]
    return ratios


# --- for people -----------------------------------------------------------------------------------


def table(result: Result) -> Table:
    """The result for people: a row a plan."""
    config, figures, ratios = result["config"], result["results"], result["ratios"]
    rows = [
        [
            f"{plan}, as pairs",
            *(_seconds(figures[f"{plan}_{what}_s"]) for what in ("prepare", "cold", "warm")),
        ]
        for plan in PLANS
    ]
    lists = (_seconds(figures[f"lists_{what}_s"]) for what in ("cold", "warm"))
    rows.append(["broadcast, as lists", "", *lists])
    return Table(
        run_name(result),
        f"Pipeline: {config['subscriptions']:,} bluedove subscriptions x"
        f" {config['publications']:,} publications on Spark, {config['cores']} cores",
        ["to Parquet files", "index ready, s", "cold, s", "warm, s"],
        rows,
        list(_notes(config, figures, ratios)),
    )


def _notes(
    config: dict[str, Any], figures: dict[str, float], ratios: dict[str, float]
) -> Iterator[str]:
    yield (
        f"{figures['matches']:,.0f} matches; all plans wrote the same. Cold is from the text of the"
        f" filters to the last file; the first match of the session took"
        f" {_seconds(figures['broadcast_first_s'])} s."
    )
    yield (
        f"A join takes {ratios['join_over_broadcast_cold']:.1f} times as long as broadcast, cold"
        f" ({ratios['join_over_broadcast_warm']:.1f} warm); lists take"
        f" {ratios['lists_over_pairs_warm']:.2f} of the time of pairs."
    )
    yield (
        f"{config['stock_subscriptions']:,} stock subscriptions are indexed on all workers after"
        f" {_seconds(figures['stock_ready_s'])} s and take"
        f" {figures['stock_worker_bytes'] / 1e6:,.0f} MB in each;"
        f" {config['stock_publications']:,} quotes then find {figures['stock_matches']:,.0f}"
        f" matches, as lists, in {_seconds(figures['stock_match_s'])} s."
    )
    yield pipeline_sql.note(figures)
    if "broadcast_warm_one_core_s" in figures:
        yield (
            f"On one core broadcast takes {_seconds(figures['broadcast_warm_one_core_s'])} s warm,"
            f" {ratios['one_core_over_all_warm']:.2f} times as long as on {config['cores']}."
        )
    if "rate_16x_over_1x" in ratios:
        rates = (f"{figures[f'lists_{n}x_publications_per_s']:,.0f}" for n in GROWTH)
        counts = (f"{_grown(config['publications'], n):,}" for n in GROWTH)
        yield (
            f"With {', '.join(counts)} publications, as lists to nowhere: {', '.join(rates)}"
            " publications/s."
        )


def _seconds(figure: float) -> str:
    return f"{figure:,.2f}" if figure < 100 else f"{figure:,.0f}"
