"""A program: on a cluster of two executors, something once undisturbed and once with an executor killed.

    python -m tests.pipeline.lost_executor match|stream|sweep FOLDER

It is a program of its own because a process has one session of Spark. It says what came of both, as JSON. The
executor is killed when some of the work is done and some is not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from roost import pipeline
from roost.pipeline.sweeps.folder import SweepFolder
from roost.pipeline.sweeps.grid import cells_of, read_axes, read_seeds
from roost.pipeline.sweeps.spark import SparkTasks
from roost.pipeline.sweeps.sweep import open_sweep
from roost.pipeline.sweeps.tasks import load_task

MASTER = "local-cluster[2,1,1024]"
PARTS, EVENTS = 24, 40_000
SIM = "roost.pipeline.sweeps.sim:SIM"
POLL_S = 0.05


def executors(spark: SparkSession) -> list[int]:
    """The processes of the executors, which the JVM of the session has started."""
    assert spark._jvm is not None
    ours = str(spark._jvm.java.lang.ProcessHandle.current().pid())
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            if (
                parent == ours
                and b"CoarseGrainedExecutorBackend" in (path / "cmdline").read_bytes()
            ):
                found.append(int(path.name))
        except OSError:
            continue
    return sorted(found)


class Killing(threading.Thread):
    """Kills an executor as soon as `is_half_way`; whether it has."""

    def __init__(self, spark: SparkSession, is_half_way: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self._spark = spark
        self._is_half_way = is_half_way
        self._over = threading.Event()
        self.killed = 0

    def run(self) -> None:
        while not self._over.wait(POLL_S):
            if self._is_half_way():
                self.killed = executors(self._spark)[0]
                os.kill(self.killed, signal.SIGKILL)
                return

    def stop(self) -> bool:
        self._over.set()
        self.join()
        return self.killed > 0


def tasks_are_half_way(spark: SparkSession) -> bool:
    """Whether a stage has done some of its tasks, and has not begun them all."""
    tracker = spark.sparkContext.statusTracker()
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        if info is not None and info.numTasks >= PARTS // 2 and info.numCompletedTasks > 2:
            return info.numTasks - info.numCompletedTasks > 4
    return False


def matched(spark: SparkSession, _: Path) -> Any:
    """How many pairs, and a hash of them all."""
    events = spark.range(0, EVENTS, 1, PARTS).select(
        F.col("id").alias("publication"), (F.col("id") % 1_000).alias("x")
    )
    wanted = spark.range(0, 2_000, 1, 4).selectExpr(
        "id as subscription", "concat('x > ', id div 2, ' and x < ', id div 2 + 9) as filter"
    )
    found = pipeline.match(events, wanted)
    row = found.agg(F.count("*"), F.bit_xor(F.xxhash64("publication", "subscription"))).first()
    assert row is not None
    return [row[0], row[1]]


def streamed(spark: SparkSession, folder: Path) -> Any:
    """The rows that a stream has written, in batches of a file."""
    log = pipeline.SubscriptionLog(folder / "log")
    log.add([(n, f"x > {100 * n}") for n in range(10)])
    incoming = folder / "incoming"
    if not incoming.exists():
        events = spark.range(0, 4_000, 1, 8).selectExpr("id as publication", "id % 1000 as x")
        events.write.parquet(str(incoming))
    arriving = spark.readStream.schema("publication bigint, x bigint").option(
        "maxFilesPerTrigger", 1
    )
    out = folder / f"out-{len(list(folder.glob('out-*')))}"
    query = (
        pipeline.match_stream(arriving.parquet(str(incoming)), log)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(out / "rows"))
    )
    query.awaitTermination()
    rows = spark.read.parquet(str(out / "rows"))
    return sorted(map(tuple, rows.collect()))


def swept(spark: SparkSession, folder: Path) -> Any:
    """The figures of a sweep, without what depends on where and when it ran."""
    axes = ("generator=tree", "brokers=3", "publishers=2", "subscribers=20,40", "until_s=8")
    cells = cells_of(SIM, load_task(SIM), read_axes(axes), read_seeds("7"))
    out = folder / f"sweep-{len(list(folder.glob('sweep-*')))}"
    with open_sweep(SweepFolder(out), SIM, cells) as sweep:
        sweep.run(SparkTasks(spark))
        outcome = sweep.finish()
    rows = spark.read.parquet(str(outcome.table)).drop("seconds", "worker", "code")
    return sorted(map(str, rows.collect()))


WORK = {"match": matched, "stream": streamed, "sweep": swept}


def main(what: str, folder: Path) -> None:
    """Both, beside each other."""
    with pipeline.spark_session(MASTER, {"spark.driver.memory": "1g"}) as spark:
        calm = WORK[what](spark, folder)
        done = len(list(folder.rglob("rows/*.parquet")))

        def is_half_way() -> bool:
            if what == "stream":
                return done + 1 < len(list(folder.rglob("rows/*.parquet"))) < 2 * done - 1
            return tasks_are_half_way(spark)

        killing = Killing(spark, is_half_way)
        killing.start()
        hit = WORK[what](spark, folder)
        killed = killing.stop()
    print(json.dumps({"killed": killed, "same": calm == hit, "rows": len(calm)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
