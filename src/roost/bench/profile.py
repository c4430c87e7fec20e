"""The benchmark of profiles: how many rows of recorded traffic a second each takes in, and how that grows.

The traffic is made up, in the shape that a federation leaves behind: publications of many publishers, each
seen by a few brokers and delivered to a client at the last of them. It is written as segments, so that Spark
reads it as it reads what brokers have recorded. *Cold* is the first time that a profile is computed in a
session, *warm* the best of the next two. What comes out is collected, as it is when it is kept.

`traffic` and `loads` are of other tables, which have a row a link or broker and second: a thousandth.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
    from pyspark.sql import DataFrame, SparkSession

    from roost.pipeline.profiles import Profile

RUN = "bench"
BROKERS, PUBLISHERS, HOPS = 63, 200, 4
ROWS_A_FILE = 1_000_000
# Of rows of deliveries, a row of links and loads.
SPARSER = 1_000
ROUNDS = 2


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
                for table in ("deliveries", "links", "loads"):
                    write_table(lake, table, rows, seed)
                for name, profile in PROFILES.items():
                    say(f"{name}, {rows:,} rows")
                    cold, warm, there = measured(spark, lake, profile)
                    figures[f"{name}_{rows}_cold_s"] = cold
                    figures[f"{name}_{rows}_warm_s"] = warm
                    figures[f"{name}_{rows}_rows_per_s"] = there / warm
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
        "ratios": ratios(figures, list(PROFILES), sizes),
    }


def ratios(
    figures: dict[str, float], names: Sequence[str], sizes: Sequence[int]
) -> dict[str, float]:
    """How much longer the most rows take than the fewest, beside how many more they are."""
    low, high = min(sizes), max(sizes)
    if low == high:
        return {}
    found = {"rows": high / low}
    for name in names:
        found[f"{name}_time"] = figures[f"{name}_{high}_warm_s"] / figures[f"{name}_{low}_warm_s"]
    return found


def measured(spark: SparkSession, lake: Path, profile: Profile) -> tuple[float, float, int]:
    """Seconds cold and warm, and how many rows it took in."""
    from roost.pipeline.lake import Lake  # noqa: PLC0415

    there = Lake(lake)
    rows = sum(table.rows for table in there.tables(RUN) if table.table == profile.table)

    def work() -> DataFrame:
        frame = there.read(spark, profile.table, RUN, needs=profile.needs).drop("run")
        profile.of(frame).toArrow()
        return frame

    cold = elapsed_s(work)
    return cold, min(elapsed_s(work) for _ in range(ROUNDS)), rows


# --- traffic that was made up -----------------------------------------------------------------------


def write_table(lake: Path, table: str, rows: int, seed: int) -> None:
    """A table of a run with so many rows, or a thousandth of them, as segments."""
    make = {"deliveries": deliveries, "links": links, "loads": loads}[table]
    count = rows if table == "deliveries" else max(1_000, rows // SPARSER)
    for number, first in enumerate(range(0, count, ROWS_A_FILE), 1):
        made = make(first, min(ROWS_A_FILE, count - first), np.random.default_rng([seed, first]))
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
        "time": publication * 1e-4 + age,
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
            f"{figures[f'{name}_{size}_rows_per_s']:,.0f}",
        ]
        for size in config["rows"]
        for name in names
    ]
    notes = [
        "The tables of `traffic` and `loads` have a thousandth of the rows: what they take is"
        " Spark's own."
    ]
    if (found := result["ratios"]) and "rows" in found:
        slowest = max((n for n in found if n != "rows"), key=lambda n: found[n])
        notes.append(
            f"{found['rows']:g} times the rows take {found[slowest]:.1f} times as long at most"
            f" ({slowest.removesuffix('_time')})."
        )
    return Table(
        run_name(result),
        f"Profiles of recorded traffic on Spark, {config['cores']} cores",
        ["profile", "rows", "cold, s", "warm, s", "rows a second, warm"],
        rows,
        notes,
    )
