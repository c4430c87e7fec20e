"""The edge: masters that are refused, and settings. test_walk_through.py has a session without any Java."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

import pyspark
import pytest
from pyspark.sql import SparkSession

from roost.cli.spark import settings_of
from roost.errors import UserError
from roost.pipeline.java import WITHOUT_ZIP
from roost.pipeline.session import (
    check_master,
    check_workers,
    java_environment,
    local_cores,
    local_master,
    settings_for,
    signals_later,
)


def test_the_session_is_quiet_local_and_retries(spark: SparkSession) -> None:
    context = spark.sparkContext
    assert context.master == "local[2,3]"
    assert context.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"


@pytest.mark.usefixtures("spark")
def test_an_interrupt_is_no_story_of_py4j(caplog: pytest.LogCaptureFixture) -> None:
    """It raises it as well, and whoever presses Ctrl-C wants no traceback of a library."""
    from py4j.java_gateway import GatewayClient

    class Interrupted:
        socket = None

        def send_command(self, _: str) -> str:
            raise KeyboardInterrupt

    client = GatewayClient()
    client._get_connection = Interrupted
    with pytest.raises(KeyboardInterrupt):
        client.send_command("anything")
    assert caplog.records == []

    class Within(Interrupted):
        """PySpark's handler of the signal asks for something in the midst of an answer."""

        def send_command(self, _: str) -> str:
            try:
                raise RuntimeError("reentrant call inside <_io.BufferedReader name=3>")
            except RuntimeError as error:
                raise ValueError("Error while sending or receiving") from error

    client._get_connection = Within
    with pytest.raises(ValueError, match="sending"):
        client.send_command("anything")
    assert caplog.records == []
    logging.error("this is ours")
    assert [record.message for record in caplog.records] == ["this is ours"]


def test_a_python_without_roost_is_refused_before_spark_starts(tmp_path: Path) -> None:
    check_workers(sys.executable)
    program = tmp_path / "python"
    for text, said in (
        ("#!/bin/sh\nexit 1\n", "python: Spark's workers have no Roost: expected it"),
        ("#!/no/such/shell\n", "python: No such file or directory; expected a Python for"),
        ("#!/bin/sh\nexit 0\n", ""),
    ):
        program.write_text(text)
        program.chmod(0o700)
        if said:
            with pytest.raises(UserError, match=said):
                check_workers(str(program))
        else:
            check_workers(str(program))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_spark_has_started(number: signal.Signals) -> None:
    """Before that, nobody could end the JVM, and it would stay."""

    def leave(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    steps = []

    def start() -> None:
        with signals_later():
            os.kill(os.getpid(), number)
            steps.append("has started")

    before = signal.signal(number, leave)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert steps == ["has started"]
        assert signal.getsignal(number) is leave
    finally:
        signal.signal(number, before)


def test_workers_are_this_interpreter_with_its_kernels(spark: SparkSession) -> None:
    def look(batches):  # type: ignore[no-untyped-def]
        import pyarrow as pa

        from roost.matching.kernels import jit

        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"python": [sys.executable], "kernels": [str(jit._DIRECTORY)]}
            )

    from roost.matching.kernels import jit

    row = spark.range(1).mapInArrow(look, "python string, kernels string").first()
    assert row is not None
    assert (row.python, row.kernels) == (sys.executable, str(jit._DIRECTORY))


def test_workers_start_warm(spark: SparkSession) -> None:
    """They have what tasks need from the process that they are forked from, and pyspark not from its zip."""

    def look(batches):  # type: ignore[no-untyped-def]
        import gc

        loaded = "pandas" in sys.modules and "roost.matching.index" in sys.modules
        for _ in batches:
            import pyarrow as pa
            import pyspark

            yield pa.RecordBatch.from_pydict(
                {"warm": [loaded and gc.get_freeze_count() > 10_000], "file": [pyspark.__file__]}
            )

    row = spark.range(1).mapInArrow(look, "warm boolean, file string").first()
    assert row is not None
    assert (row.warm, row.file) == (True, pyspark.__file__)


def test_other_interpreters_get_pyspark_from_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have none. And so may those of a cluster."""
    assert java_environment("local[2]")[WITHOUT_ZIP]
    assert not java_environment("spark://host:7077")[WITHOUT_ZIP]
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    assert not java_environment("local[2]")[WITHOUT_ZIP]


@pytest.mark.parametrize(
    "master",
    [
        "",
        "local[]",
        "local[x]",
        "local-cluster",
        "local-cluster[2,1]",
        "local-cluster[0,1,1024]",
        "spark:/host",
        "http://host",
        "localhost:7077",
        "spark://:7077",
        "spark://host:seven",
        "sc://",
    ],
)
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(UserError, match="is not a Spark master; expected local"):
        check_master(master)


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[2]",
        "local[2,3]",
        "local-cluster[2,1,1024]",
        "yarn",
    ],
)
def test_masters_that_need_nobody_to_answer(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_master_that_nobody_answers_at_is_refused_at_once(scheme: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(UserError, match=f"no Spark master answers at 127.0.0.1:{port}"):
        check_master(f"{scheme}://127.0.0.1:{port}")


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        places = [f"127.0.0.1:{s.getsockname()[1]}" for s in (unused, there)]
        check_master(f"spark://{','.join(places)}")


def test_settings_are_those_of_a_machine_only_where_it_is_ours() -> None:
    assert settings_for("local[3,3]")["spark.sql.shuffle.partitions"] == "6"
    assert re.fullmatch(r"\d+m", settings_for("local")["spark.driver.memory"])
    assert "spark.driver.memory" not in settings_for("spark://host:7077")
    assert "spark.driver.memory" not in settings_for(None)
    assert local_cores("local") == 1
    assert local_cores(local_master(5)) == 5


def test_a_local_cluster_has_executors_that_fill_their_workers() -> None:
    settings = settings_for("local-cluster[2,3,512]")
    assert settings["spark.executor.cores"] == "3"
    assert settings["spark.executor.memory"] == "512m"
    assert settings["spark.sql.shuffle.partitions"] == "12"
    assert not java_environment("local-cluster[2,3,512]")[WITHOUT_ZIP]


@pytest.mark.parametrize("text", ["spark.a", "a=b", "=b", ""])
def test_settings_on_the_command_line_are_checked(text: str) -> None:
    with pytest.raises(UserError, match=r"expected KEY=VALUE with a KEY that starts with spark\."):
        settings_of([text])


def test_settings_may_hold_an_equals_sign() -> None:
    assert settings_of(["spark.x=-Da=b"]) == {"spark.x": "-Da=b"}
