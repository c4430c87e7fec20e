"""What documents tell people to type does what they say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import roost
from roost.errors import UserError
from roost.simulation.workload_file import parse_workload
from tests.docs.blocks import blocks_of, kind_of
from tests.edges.kit import WITHIN_S, BrokenPromise, Stage, case

# Whoever moves while events pass: what has to keep its place behind them is counted with them.
MOVING = """\
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 link add B0 B1
0.0 link add B1 B2
0.1 publisher add P YHOO 600 B0
0.2 subscriber add S B2 class = 'STOCK'
5.0 client redirect S B0
9.0 client redirect S B1
13.0 client redirect S B2
20.0 end
"""
# Spark starts in less, on a machine that has nothing else to do.
SPARK_S = 3 * WITHIN_S
# A client that is connected, has published and is done takes less.
ENDS_S = 30.0


def document(name: str) -> Path:
    """That of the tree which is tried."""
    return Path(roost.__file__).parents[2] / name


def python_of(name: str, beginning: str) -> str:
    return next(
        block.text for block in blocks_of(document(name)) if block.text.startswith(beginning)
    )


@case(once="RAISED NameError")
async def readmes_example_of_matching(stage: Stage) -> str:
    """README's example in Python runs as it stands there."""
    (stage.folder / "example.py").write_text(python_of("README.md", "from roost.language import"))
    ran = await stage.run("example.py", within_s=SPARK_S)
    if ran.returncode:
        raise BrokenPromise(f"RAISED {ran.stderr.splitlines()[-1]}")
    return "it runs"


@case(once="GOES ON for ever")
async def readmes_example_of_a_client(stage: Stage) -> str:
    """README's example of a client comes to its end."""
    text = python_of("README.md", "import asyncio, roost")
    text = text.replace("roost://127.0.0.1:7411", "memory://")
    (stage.folder / "example.py").write_text(text)
    try:
        ran = await stage.run("example.py", within_s=ENDS_S)
    except subprocess.TimeoutExpired:
        raise BrokenPromise("GOES ON for ever") from None
    if ran.returncode:
        raise BrokenPromise(f"RAISED {ran.stderr.splitlines()[-1]}")
    return ran.stdout


@case(once="UNREADABLE is '.* federation ")
async def workloads_of_the_manual_of_relocation(_: Stage) -> str:
    """A line of a workload in the manual is one that a workload may have."""
    lines = [
        line.partition("#")[0].strip()
        for block in blocks_of(document("docs/RELOCATION.md"))
        if not block.language and kind_of(block) in ("lines", "filter")
        for line in block.text.splitlines()
        if " federation " in line
    ]
    if not lines:
        raise RuntimeError("the manual has no such line")
    for line in lines:
        try:
            parse_workload(line, "RELOCATION.md", None)
        except UserError as error:
            raise BrokenPromise(f"UNREADABLE is {line!r}: {error}") from None
    return f"{len(lines)} are read"


@case(once="UNKNOWN is roost pipeline subscriptions add")
async def subscriptions_of_a_file(stage: Stage) -> str:
    """Subscriptions are added from a file by the command that the manual has for it."""
    manual = document("docs/PIPELINE.md").read_text("utf-8")
    said = re.search(
        r"^ *roost (pipeline subscriptions add .*alerts\.csv.*)$", manual, re.MULTILINE
    )
    if said is None:
        raise RuntimeError("the manual has no such command")
    words = said[1].split()
    (stage.folder / "alerts.csv").write_text("subscription,filter\n1,x > 1\n")
    ran = await stage.run("-m", "roost", *words, within_s=SPARK_S)
    if ran.returncode:
        raise BrokenPromise(f"UNKNOWN is roost {' '.join(words)}: {ran.stderr}")
    return "they are added"


@case(once="NOWHERE is said where the token of 'b1' goes")
async def the_example_of_security(_: Stage) -> str:
    """A user for a link is called as its broker is, and settings say where its token is.

    That they link is what tests/docs/test_security_example.py shows of today's.
    """
    text = document("docs/OPERATING.md").read_text("utf-8")
    users = re.findall(r"^ +roost users add (\S+) .*--link\b", text, re.MULTILINE)
    if not users:
        raise RuntimeError("the manual adds no user for a link")
    for name in users:
        if not re.search(rf'^ +name = "{name}"$', text, re.MULTILINE):
            raise BrokenPromise(f"NOWHERE is said where the token of {name!r} goes")
    if not re.search(r"^ +token(_file)? = ", text, re.MULTILINE):
        raise BrokenPromise("NOWHERE is a token among settings")
    return f"said for {', '.join(users)}"


@case(once=r"UNSAID: \d+ were sent as data, \d+ of them publications")
async def what_the_table_of_links_counts(stage: Stage) -> str:
    """Where a trace counts more than publications among the data of links, the manual says what else."""
    (stage.folder / "moving.workload").write_text(MOVING)
    ran = await stage.run("-m", "roost", "sim", "run", "moving.workload", "--trace", "traces")
    if ran.returncode:
        raise RuntimeError(ran.stderr)

    def rows(table: str) -> list[dict[str, Any]]:
        (part,) = stage.folder.glob(f"traces/{table}/run=*/part-0.parquet")
        found: list[dict[str, Any]] = pq.ParquetFile(part).read().to_pylist()
        return found

    # Of each link the last row has all.
    sent = {(r["broker"], r["neighbour"]): r["sent"] for r in rows("links") if r["class"] == "data"}
    count, forwarded = sum(sent.values()), sum(r["forwarded"] for r in rows("deliveries"))
    if count <= forwarded:
        raise RuntimeError(f"only the {forwarded} publications were counted, {count}")
    manual = document("docs/SIMULATION.md").read_text("utf-8")
    if not re.search(r"more is `sent` in it than publications\s+have passed", manual):
        raise BrokenPromise(f"UNSAID: {count} were sent as data, {forwarded} of them publications")
    return f"{count} were sent as data, {forwarded} of them publications, and the manual says why"
