"""The plain wheel: the client and the commands that need nothing else, and what the others say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_publish_subscribe import in_a_thread
from tests.installed.kit import CONSTRAINTS, Environment, built

MEGABYTES_MAX = 40
IMPORT_S_MAX = 0.1
HEAVY = ("numpy", "numba", "llvmlite", "pyarrow", "pyspark", "starlette", "cryptography")

ROUND_TRIP = """
import asyncio, sys, roost

async def main(url):
    async with roost.connect(url) as client:
        async with client.subscribe("class = 'STOCK' and volume > 300000") as subscription:
            await subscription.ready()
            await client.publish({"class": "STOCK", "volume": 1})
            await client.publish({"class": "STOCK", "volume": 400_000}, payload=b"...")
            event = await subscription.get()
            print(event["volume"], event.payload)

asyncio.run(main(sys.argv[1]))
with roost.connect_sync(sys.argv[1]) as client:
    with client.subscribe("*") as subscription:
        client.publish({"x": 1})
        print(subscription.get()["x"])
print(sorted(set(sys.argv[2:]) & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and what it depends on."""
    wheel = built(tmp_path_factory.mktemp("built"))
    environment = Environment(tmp_path_factory.mktemp("fresh") / "venv")
    environment.install(str(wheel), constraints=CONSTRAINTS)
    return environment


def test_it_is_small_and_publishes_and_subscribes(plain: Environment) -> None:
    assert plain.megabytes < MEGABYTES_MAX
    with in_a_thread() as broker:
        url = f"roost://127.0.0.1:{broker.port}"
        talked = plain.run("python", "-c", ROUND_TRIP, url, *HEAVY)
        assert (talked.stderr, talked.stdout) == ("", "400000 b'...'\n1\n[]\n")
        with plain.start("roost", "subscribe", "x > 1", "--url", url, "--count", "1") as reader:
            assert reader.stderr is not None
            assert reader.stdout is not None
            assert reader.stderr.readline() == f"subscribed at {url}\n"
            assert plain.run("roost", "publish", "--url", url, "x=7").returncode == 0
            assert json.loads(reader.stdout.readline())["attributes"] == {"x": 7}
        assert reader.returncode == 0


def test_importing_it_loads_nothing_else(plain: Environment) -> None:
    code = "import sys; before = {*sys.modules, '__future__'}; import roost; print(*{*sys.modules} - before)"
    assert plain.run("python", "-c", code).stdout == "roost\n"


def test_importing_it_takes_no_time(plain: Environment) -> None:
    """A tenth of a second of the processor; that of the wall is the machine's, and may be somebody else's."""
    code = (
        "import time; began = time.process_time(); import roost;"
        f" print(time.process_time() - began < {IMPORT_S_MAX})"
    )
    assert plain.run("python", "-c", code).stdout == "True\n"


def test_spark_is_told_of_no_source_that_can_not_be_loaded(plain: Environment) -> None:
    """It imports whatever is called `pyspark_...`; what failed there would fail every session."""
    code = "import pyspark_roost; print(hasattr(pyspark_roost, 'DefaultSource'))"
    ran = plain.run("python", "-c", code)
    assert (ran.stdout, ran.stderr) == ("False\n", "")


def test_commands_that_need_nothing_else_work(plain: Environment) -> None:
    covered = plain.run("roost", "covers", "volume > 1000", "volume > 3000")
    assert (covered.returncode, covered.stderr) == (0, "")
    drawn = plain.run("roost", "topology", "draw", "chain:3")
    assert (drawn.returncode, drawn.stderr) == (0, "")
    # They came as far as to ask, and nobody answers there.
    nowhere = ("--admin", "127.0.0.1:1")
    for asking in (("status",), ("decisions",), ("redirect", "desk", "B1"), ("sessions",)):
        asked = plain.run("roost", *asking, *nowhere)
        assert "127.0.0.1:1" in asked.stdout + asked.stderr, asking
        assert "Traceback" not in asked.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("broker", "broker"),
        ("up chain", "broker"),
        ("match --subscriptions none.csv --events none.csv", "broker"),
        ("sim fuzz --seeds 1", "broker"),
        ("keys authority keys", "broker"),
        ("lake list", "broker"),
        ("demo", "pipeline"),
        ("pipeline workload stock --out stock", "pipeline"),
    ],
)
def test_a_command_says_which_extra_it_lacks(
    plain: Environment, command: str, extra: str, tmp_path: Path
) -> None:
    words = command.replace("none.csv", str(tmp_path / "none.csv")).split()
    (tmp_path / "none.csv").write_text("id,filter\n1,x > 1\n")
    said = plain.run("roost", *words)
    assert (said.returncode, said.stdout) == (2, "")
    (line,) = said.stderr.splitlines()
    assert line.startswith(f"error: roost {words[0]} needs ")
    assert line.endswith(f"which is not installed: pip install 'roost[{extra}]'")


def test_a_broker_in_the_process_is_an_extra(plain: Environment) -> None:
    code = "import roost\nwith roost.connect_sync('memory://') as client: pass"
    failed = plain.run("python", "-c", code)
    assert failed.stderr.splitlines()[-1] == (
        "roost.extras.MissingExtraError: memory://, a broker in this process, needs numpy,"
        " which is not installed: pip install 'roost[broker]'"
    )
