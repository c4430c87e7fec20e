"""The edge of the pipeline: the one place where a Spark session is made.

Everything else in this package takes DataFrames, and from them the session. Local by default, any master
by one argument: `local[4]`, `spark://host:7077`, `yarn`, `k8s://...`, or `sc://host:15002` for Spark Connect.
`local-cluster[2,1,1024]` is a cluster of this machine: two executors, each a process with one core and 1,024
MB. Under `spark-submit` the master, and whatever else it sets, is its own.

A failed task is tried three times in local mode too, which plain `local[N]` does not do.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from roost.errors import UserError
from roost.pipeline.arguments import arguments_checked
from roost.pipeline.java import WITHOUT_ZIP, find_java, java_home
from roost.pipeline.memory import total_memory
from roost.pipeline.parsing import NO_ROOST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_TRIES = 3
# Of the memory that there is, for the JVM in local mode; the Python workers need most of the rest.
MEMORY_SHARE, MEMORY_MAX_MB = 0.25, 8_192
REACHED_S = 5.0
# How long another Python may take to say that it has Roost.
WORKER_S = 60.0
PARTITIONS_A_CORE = 2

MASTERS = (
    "local[2], local-cluster[2,1,1024], spark://host:7077, yarn, k8s://https://host:6443, or"
    " sc://host:15002 (Spark Connect)"
)
_MASTER = re.compile(
    r"(local(\[([0-9]+|\*)(, *[0-9]+)?\])?|local-cluster\[[1-9][0-9]*(, *[1-9][0-9]*){2}\]"
    r"|yarn|(spark|sc|k8s)://.+)"
)
_LOCAL_CLUSTER = re.compile(r"local-cluster\[([0-9]+), *([0-9]+), *([0-9]+)\]")
_DEFAULT_PORTS = {"spark": 7077, "sc": 15002}

# The JVM says only what went wrong.
QUIET = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"

# What holds for every session of ours, wherever it runs.
EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # Attributes of events that differ in case are different.
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}


@arguments_checked
@contextmanager
def spark_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, app: str = "roost"
) -> Iterator[SparkSession]:
    """A session that is stopped at the end; without a master, the one that runs already, if there is one.

    That one is whoever started it to stop: a notebook, say.
    """
    running = _running() if master is None else None
    if running is not None:
        for key, value in (conf or {}).items():
            _set(running, key, value)
        yield running
        return
    session = start_session(master, conf, app=app)
    try:
        yield session
    except (KeyboardInterrupt, SystemExit):
        _say_nothing(session)
        raise
    finally:
        session.stop()


def _say_nothing(session: SparkSession) -> None:
    """What is broken off on purpose is no failure, of which the JVM would tell a page for every job."""
    with suppress(Exception):  # of one that has no JVM of ours, or whose JVM has gone already
        session.sparkContext.setLogLevel("OFF")


def _running() -> SparkSession | None:
    """The session of this process, if there is one."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession  # noqa: PLC0415

    session: SparkSession | None = SparkSession.getActiveSession()
    return session


def _set(session: SparkSession, key: str, value: str) -> None:
    """A setting of a session that runs: those of its start can't be changed any more."""
    if session.conf.isModifiable(key):
        session.conf.set(key, value)


@arguments_checked
def start_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, app: str = "roost"
) -> SparkSession:
    """A session; `conf` are settings of Spark's, which win over ours.

    A master that is no such thing, or that nobody answers at, is refused before anything is started.
    """
    master = master or (None if submitted() else local_master())
    if master is not None:
        check_master(master)
    settings = {**settings_for(master), **(conf or {})}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master is not None and master.startswith("local"):
        python = settings.get("spark.pyspark.python") or os.environ["PYSPARK_PYTHON"]
        check_workers(python)
    if submitted() or (master is not None and master.startswith("sc://")):
        return _started(master, settings, app)  # whose JVM runs already
    settings["spark.driver.extraJavaOptions"] = " ".join(
        [QUIET, settings.get("spark.driver.extraJavaOptions", "")]
    ).strip()
    with _environment(java_environment(master)):
        return _started(master, settings, app)


def _started(master: str | None, settings: Mapping[str, str], app: str) -> SparkSession:
    from pyspark.errors import PySparkException  # noqa: PLC0415 (a session is rarely needed)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    logging.getLogger().addFilter(_is_no_interrupt)
    builder: Any = SparkSession.builder.appName(app)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    session: SparkSession | None = None
    try:
        with signals_later():
            session = builder.getOrCreate()
    except (KeyboardInterrupt, SystemExit):
        if session is not None:
            session.stop()
        raise
    except ImportError as bad:
        raise UserError(f"{master}: Spark Connect can't be used: {bad}") from None
    except PySparkException as bad:
        raise UserError(
            f"Spark does not start{_at(master)}: {str(bad).splitlines()[0]}; --master and --conf are"
            " what it was given"
        ) from None
    except Exception as bad:  # what the JVM throws has no common type
        if type(bad).__module__.startswith("py4j"):
            raise UserError(f"Spark does not start{_at(master)}: {_jvm_words(bad)}") from None
        raise
    assert session is not None
    return session


@contextmanager
def signals_later() -> Iterator[None]:
    """What signals do to this program they do when Spark has started, or has failed to.

    A JVM that is half started is known to nobody yet: it would neither be ended nor end by itself. Signals
    that no code of Python's handles are left as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = {number: handler for number, handler in before.items() if callable(handler)}
    for number in ours:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in ours.items():
            if signal.getsignal(number) is note:  # and not Spark's own by now
                signal.signal(number, handler)
    for first in came[:1]:
        ours[signal.Signals(first)](first, None)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Whether a record is anything but py4j's story of an interrupt, which it then raises as well.

    It tells it to the root of all loggers, so that it comes with a traceback wherever nobody has asked for
    a log. And it tells it three times where this thread waits for Java: PySpark's handler of the signal would
    cancel all jobs by the connection that is being read.
    """
    is_theirs = Path(record.pathname).parent.name == "py4j"
    error = record.exc_info[1] if record.exc_info else None
    return not (is_theirs and any(map(_is_interrupt, _story_of(error))))


def _is_interrupt(error: BaseException) -> bool:
    """Also what comes of asking for something in the midst of an answer, which a handler alone can do."""
    is_within = isinstance(error, RuntimeError) and "reentrant call" in str(error)
    return is_within or isinstance(error, KeyboardInterrupt)


def _story_of(error: BaseException | None) -> Iterator[BaseException]:
    """It, and what it came of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _at(master: str | None) -> str:
    return "" if master is None else f" at {master}"


def _jvm_words(error: Exception) -> str:
    """The first line of what the JVM said."""
    java = getattr(error, "java_exception", None)
    return str(java.toString() if java is not None else error).splitlines()[0]


def submitted() -> bool:
    """Whether `spark-submit` started this program, and with it a JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def local_master(cores: int | None = None) -> str:
    """This machine, with so many tasks at a time."""
    return f"local[{cores or len(os.sched_getaffinity(0))},{TASK_TRIES}]"


def settings_for(master: str | None) -> dict[str, str]:
    """Our settings for a master."""
    settings = dict(EVERYWHERE)
    if master is None or not master.startswith("local"):
        return settings
    cores = local_cores(master)
    settings |= {
        # Nothing of a local session is anybody else's business, and no name has to be resolved for it.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{_memory_mb()}m",
        "spark.sql.shuffle.partitions": str(PARTITIONS_A_CORE * cores),
        "spark.default.parallelism": str(PARTITIONS_A_CORE * cores),
        # The workers of Python run here, where Roost is: they start warm, and what is little data does not
        # wait for TCP to acknowledge it.
        "spark.python.daemon.module": "roost.pipeline.worker_daemon",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        _, each, megabytes = cluster.groups()
        # An executor is the whole of its worker: by default it would want a gigabyte, and all cores.
        settings |= {"spark.executor.cores": each, "spark.executor.memory": f"{megabytes}m"}
    return settings


def local_cores(master: str) -> int:
    """How many tasks a local master runs at a time."""
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster[1]) * int(cluster[2])
    found = re.match(r"local\[([0-9]+|\*)", master)
    if found is None:
        return 1
    return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])


def _memory_mb() -> int:
    return max(1_024, min(int(MEMORY_SHARE * total_memory()) >> 20, MEMORY_MAX_MB))


def java_environment(master: str | None) -> dict[str, str]:
    """The environment that Spark's JVM starts in."""
    # Its Python workers are this interpreter, which finds pyspark by itself.
    ours = os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable
    # A local cluster needs SPARK_HOME, to start its executors.
    alone = ours and master is not None and re.match(r"local(\[|$)", master) is not None
    return {"JAVA_HOME": str(java_home(find_java())), WITHOUT_ZIP: "yes" if alone else ""}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """For what is started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def check_workers(python: str) -> None:
    """Refuses a Python for workers of this machine that does not run, or has no Roost in it.

    A worker would say so as well, three times over and with all of Spark's stack around it.
    """
    if python == sys.executable:
        return
    command = [python, "-c", "import roost"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=WORKER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as bad:
        why = getattr(bad, "strerror", None) or f"no answer within {WORKER_S:g} s"
        raise UserError(f"{python}: {why}; expected a Python for Spark's workers") from None
    if done.returncode:
        raise UserError(f"{python}: {NO_ROOST}")


def check_master(master: str) -> None:
    """Refuses what is no master, or is one that nobody answers at."""
    if not _MASTER.fullmatch(master):
        raise UserError(f"{master!r} is not a Spark master; expected {MASTERS}")
    scheme, _, rest = master.partition("://")
    if scheme not in _DEFAULT_PORTS:
        return
    failures = []
    # A standalone cluster may have several masters, of which one leads.
    for place in rest.partition("/")[0].split(","):
        host, _, port = place.partition(":")
        if not host or (port and not port.isdecimal()):
            raise UserError(f"{master!r} is not a Spark master; expected {MASTERS}")
        number = int(port or _DEFAULT_PORTS[scheme])
        try:
            socket.create_connection((host, number), timeout=REACHED_S).close()
        except (OSError, OverflowError) as bad:
            failures.append(f"{host}:{number} ({getattr(bad, 'strerror', None) or bad})")
        else:
            return
    raise UserError(f"no Spark master answers at {', '.join(failures)}; --master was {master}")
