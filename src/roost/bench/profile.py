"""The benchmark of profiles: how many rows of recorded traffic a second each takes in, and how that grows.

The traffic is made up, in the shape that a federation leaves behind: publications of many publishers, each
seen by a few brokers and delivered to a client at the last of them. It is written as segments, so that Spark
reads it as it reads what brokers have recorded. *Cold* is the first time that a profile is computed in a
session, *warm* the best of the next three. What comes out is collected, as it is when it is kept. Beside the
clock stands what Spark's JVM and this process had of the processors: on a machine that has other things to
do, that says more.

`traffic`, `loads` and `sample` are of other tables, which here have a thousandth of the rows. Beside
the profiles stands `compare`, of two halves of the run. And a run that grows by an hour a time, of `HOURS`,
says whether the last costs more to take in than the first.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table, run_name
from roost.bench.timing import Say, elapsed_s, silent
from roost.relocation.collecting import NO_LOAD
from roost.traces.rows import load_row
from roost.traces.run import part_path
from roost.traces.schemas import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from roost.pipeline.profiles import Profile

RUN, GROWING = "bench", "growing"
TABLES = ("deliveries", "links", "loads")
MADE = (*TABLES, "events")
BROKERS, PUBLISHERS, HOPS = 63, 200, 4
ROWS_A_FILE = 1_000_000
# Of rows of deliveries, a row of links and loads.
SPARSER = 1_000
ROUNDS = 3
# Publications a second of all publishers.
RATE = 10_000
COMPARE = "compare"
HOURS = 24


class Measured(NamedTuple):
    """What it took, in seconds: the first time, and the best of those behind it."""

    cold: float
    warm: float
    processor: float


def run(
    sizes: Sequence[int], seed: int, say: Say = silent, *, cores: int = 2, memory: str = ""
) -> Result:
    """Measure all profiles with so many rows, each size in the same session."""
    from roost.pipeline.profiles import PROFILES  # noqa: PLC0415 (Spark is slow to load)
    from roost.pipeline.session import spark_session  # noqa: PLC0415

    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="roost-bench-") as folder:
        conf = {"spark.driver.memory": memory} if memory else {}
        with spark_session(f"local[{cores}]", conf) as spark:
            for rows in sizes:
                say(f"writing {rows:,} rows")
                lake = Path(folder) / str(rows)
                for table in MADE:
                    write_table(lake, table, rows, seed)
                for name, profile in PROFILES.items():
                    say(f"{name}, {rows:,} rows")
                    there = rows_of(lake, profile.table)
                    _note(figures, f"{name}_{rows}", profiled(spark, lake, profile), there)
                say(f"{COMPARE}, {rows:,} rows")
                _note(figures, f"{COMPARE}_{rows}", compared(spark, lake, rows), rows)
            say(f"{HOURS} hours, one at a time")
            hours = growing(spark, Path(folder) / GROWING, min(sizes), seed)
            figures |= {f"hour_{number}_processor_s": hours[number - 1] for number in (2, HOURS)}
    return {
        "bench": "profile",
        "config": {
            "workload": "made up",
            "subscriptions": 0,
            "rows": list(sizes),
            "cores": cores,
            "seed": seed,
            "commit": commit(),
            "machine": machine(),
        },
        "results": figures,
        "ratios": ratios(figures, [*PROFILES, COMPARE], sizes),
    }


def ratios(
    figures: dict[str, float], names: Sequence[str], sizes: Sequence[int]
) -> dict[str, float]:
    """How much longer the most rows take than the fewest, beside how many more they are."""
    low, high = min(sizes), max(sizes)
    found = {"hours_time": figures[f"hour_{HOURS}_processor_s"] / figures["hour_2_processor_s"]}
    if low == high:
        return found
    found["rows"] = high / low
    for name in names:
        found[f"{name}_time"] = figures[f"{name}_{high}_warm_s"] / figures[f"{name}_{low}_warm_s"]
    return found


def _note(figures: dict[str, float], name: str, took: Measured, rows: int) -> None:
    figures[f"{name}_cold_s"] = took.cold
    figures[f"{name}_warm_s"] = took.warm
    figures[f"{name}_processor_s"] = took.processor
    figures[f"{name}_rows_per_s"] = rows / took.warm


def rows_of(lake: Path, table: str) -> int:
    """How many there are."""
    from roost.pipeline.lake import Lake  # noqa: PLC0415

    return sum(each.rows for each in Lake(lake).tables(RUN) if each.table == table)


def measured(spark: SparkSession, work: Callable[[], object]) -> Measured:
    """How long it takes again and again."""
    cold = elapsed_s(work)
    walls, processors = [], []
    for _ in range(ROUNDS):
        before = processor_s(spark)
        walls.append(elapsed_s(work))
        processors.append(processor_s(spark) - before)
    return Measured(cold, min(walls), min(processors))


def processor_s(spark: SparkSession) -> float:
    """What the processors have done for Spark's JVM, which runs on this machine, and for this process."""
    assert spark._jvm is not None
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{jvm}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # of the user and of the system, as `man proc` counts
    times = os.times()
    return ticks / os.sysconf("SC_CLK_TCK") + times.user + times.system


def profiled(spark: SparkSession, lake: Path, profile: Profile) -> Measured:
    """A profile of all rows."""
    from roost.pipeline.lake import Lake  # noqa: PLC0415

    def work() -> None:
        frame = Lake(lake).read(spark, profile.table, RUN, needs=profile.needs)
        profile.of(frame.drop("run")).toArrow()

    return measured(spark, work)


def compared(spark: SparkSession, lake: Path, rows: int) -> Measured:
    """One half of the run beside the other."""
    from roost.pipeline.comparison import Window, compare  # noqa: PLC0415
    from roost.pipeline.lake import Lake  # noqa: PLC0415

    end = rows / HOPS / RATE + 1.0
    halves = [Window("before", -1.0, end / 2), Window("after", end / 2, end)]

    def work() -> None:
        visits, counts, samples = (Lake(lake).read(spark, table, RUN) for table in TABLES)
        compare(visits, counts, samples, halves).toArrow()

    return measured(spark, work)


def growing(
    spark: SparkSession, lake: Path, rows: int, seed: int, hours: int = HOURS
) -> list[float]:
    """What each hour costs the processors to be taken in, if a run of so many rows comes hour by hour."""
    from roost.pipeline.lake import Lake  # noqa: PLC0415
    from roost.pipeline.profiles import delivery_vectors, keep  # noqa: PLC0415

    profile, hour = delivery_vectors(), max(HOPS, rows // hours)
    costs = []
    for number in range(hours):
        made = deliveries(number * hour, hour, np.random.default_rng([seed, number]))
        _write_segment(lake, "deliveries", number + 1, made)
        before = processor_s(spark)
        keep(spark, Lake(lake), profile, RUN)
        costs.append(processor_s(spark) - before)
    return costs


# --- traffic that was made up -----------------------------------------------------------------------


def write_table(lake: Path, table: str, rows: int, seed: int) -> None:
    """A table of a run with so many rows, or a thousandth of them, as segments."""
    make = {"deliveries": deliveries, "links": links, "loads": loads, "events": events}[table]
    count = rows if table == "deliveries" else max(1_000, rows // SPARSER)
    for number, first in enumerate(range(0, count, ROWS_A_FILE), 1):
        made = make(first, min(ROWS_A_FILE, count - first), np.random.default_rng([seed, first]))
        _write_segment(lake, table, number, made)


def _write_segment(lake: Path, table: str, number: int, made: pa.Table) -> None:
    path = part_path(lake, table, RUN, f"B0-{number:06}")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(made, path, compression="zstd")


def deliveries(first: int, rows: int, draws: np.random.Generator) -> pa.Table:
    """Visits of publications, one behind the other: each goes some hops, and has a client at the last."""
    visit = np.arange(first, first + rows)
    publication, hop = np.divmod(visit, HOPS)
    publisher = publication % PUBLISHERS
    age = 0.002 * (hop + 1) + draws.exponential(0.001, rows)
    broker = (publisher + hop) % BROKERS
    ends = hop == HOPS - 1
    names = pa.array([f"B{n}" for n in range(BROKERS)])
    nobody = pa.array([[]], SCHEMAS["deliveries"].field("clients").type)
    someone = [[{"client": f"S{n}", "subscriptions": [f"S{n}/1"]}] for n in range(PUBLISHERS)]
    clients = pa.concat_arrays([nobody, pa.array(someone, nobody.type)])
    onward = pa.array([[], *([f"B{n}"] for n in range(BROKERS))], pa.list_(pa.string()))
    source = pa.array([*(f"B{n}" for n in range(BROKERS)), *(f"P{n}" for n in range(PUBLISHERS))])
    columns = {
        "time": publication / RATE + age,
        "publisher": pa.array([f"P{n}" for n in range(PUBLISHERS)]).take(pa.array(publisher)),
        "sequence": publication // PUBLISHERS + 1,
        "broker": names.take(pa.array(broker)),
        "hop": hop,
        "local_subscribers": ends.astype(np.int32),
        "forwarded": (~ends).astype(np.int32),
        "bytes": np.full(rows, 200),
        "queueing_s": draws.exponential(1e-4, rows),
        "matching_s": np.full(rows, 1e-4),
        "age_s": age,
        "source": source.take(
            pa.array(np.where(hop == 0, BROKERS + publisher, (broker - 1) % BROKERS))
        ),
        "from_client": hop == 0,
        "neighbours": onward.take(pa.array(np.where(ends, 0, (broker + 1) % BROKERS + 1))),
        "clients": clients.take(pa.array(np.where(ends, publisher + 1, 0))),
        "traced": publication % 50 == 0,
        "life": np.ones(rows, np.int64),
    }
    schema = SCHEMAS["deliveries"]
    arrays = [
        each if isinstance(each := columns[field.name], pa.Array) else pa.array(each, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def links(first: int, rows: int, draws: np.random.Generator) -> pa.Table:
    """Counts of links, which rise from second to second."""
    row = np.arange(first, first + rows)
    second, link = np.divmod(row, BROKERS - 1)
    columns = {
        "time": second.astype(float),
        "broker": [f"B{n}" for n in link],
        "neighbour": [f"B{(n - 1) // 2}" for n in link],
        "class": ["data"] * rows,
        "sent": second * 100 + draws.integers(0, 100, rows),
        "received": second * 100,
        "waiting": np.zeros(rows, np.int64),
        "queueing_s": np.zeros(rows),
        "life": np.ones(rows, np.int64),
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS["links"])


def loads(first: int, rows: int, draws: np.random.Generator) -> pa.Table:
    """Samples of brokers, one a second."""
    row = np.arange(first, first + rows)
    second, broker = np.divmod(row, BROKERS)
    idle = load_row(0.0, "", NO_LOAD)._asdict()
    columns = {name: np.full(rows, value) for name, value in idle.items() if name != "broker"}
    columns["time"] = second.astype(float)
    columns["input_utilisation"] = draws.random(rows)
    told = {**columns, "broker": [f"B{n}" for n in broker]}
    return pa.Table.from_pydict(told, schema=SCHEMAS["loads"])


def events(first: int, rows: int, draws: np.random.Generator) -> pa.Table:
    """Publications with what is in them."""
    row = np.arange(first, first + rows)
    prices = draws.integers(1, 1_000, rows).tolist()
    columns = {
        "time": row / RATE,
        "broker": [f"B{n % BROKERS}" for n in row],
        "publisher": [f"P{n % PUBLISHERS}" for n in row],
        "sequence": row // PUBLISHERS + 1,
        "event": [f'{{"class":"STOCK","price":{price}}}' for price in prices],
        "bytes": np.full(rows, 200),
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS["events"])


# --- for people -------------------------------------------------------------------------------------


def table(result: Result) -> Table:
    """A row a profile and size."""
    config, figures = result["config"], result["results"]
    names = list(dict.fromkeys(name.rsplit("_", 3)[0] for name in figures if "_cold_" in name))
    rows = [
        [
            name,
            f"{size:,}",
            f"{figures[f'{name}_{size}_cold_s']:.2f}",
            f"{figures[f'{name}_{size}_warm_s']:.2f}",
            f"{figures[f'{name}_{size}_processor_s']:.2f}",
            f"{figures[f'{name}_{size}_rows_per_s']:,.0f}",
        ]
        for size in config["rows"]
        for name in names
    ]
    notes = [
        "The tables of `traffic`, `loads` and `sample` have a thousandth of the rows: what they take"
        " is Spark's own."
    ]
    found = result["ratios"]
    notes.append(
        f"Hour {HOURS} of a run takes the processors {found['hours_time']:.2f} times what hour 2 does (the"
        " first one finds code that is not compiled yet)."
    )
    if "rows" in found:
        timed = [name for name in found if name not in ("rows", "hours_time")]
        slowest = max(timed, key=lambda name: found[name])
        notes.append(
            f"{found['rows']:g} times the rows take {found[slowest]:.1f} times as long at most"
            f" ({slowest.removesuffix('_time')})."
        )
    return Table(
        run_name(result),
        f"Profiles of recorded traffic on Spark, {config['cores']} cores",
        ["profile", "rows", "cold, s", "warm, s", "processor, s", "rows a second, warm"],
        rows,
        notes,
    )
