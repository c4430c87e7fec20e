"""Every block of code of README.md and docs/ is understood by what it is for; what can be run here is run.

    commands            their options and arguments are parsed by `roost` itself; test_shell.py runs them, and
                        has a list of those that another test runs
    lines of workloads  parsed by the simulator's grammar
    settings            read and checked as those of a broker
    filters, events     parsed
    Python              run, with what stands around it given (`surroundings`), in a folder of its own

Blocks between fences that other tests run are left to these: LANGUAGE.md to tests/language, TESTING.md to
tests/testing, the walk-through of PIPELINE.md to tests/pipeline, and SOAP in GATEWAYS.md to tests/gateway.
The pipeline's `text` blocks want a broker and Spark at once: commands in them are parsed, and their Python is
compiled.
"""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from roost.language import parse_event, parse_subscription
from roost.runtime.config import check_config, config_of
from roost.runtime.toml_file import parse_toml
from roost.simulation.workload_file import parse_workload
from tests.docs.blocks import DOCUMENTS, PROSE, ROOT, Block, blocks_of, kind_of, lines_of
from tests.docs.commands import check_program, programs_of
from tests.docs.surroundings import SURROUNDINGS

BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]
BARE = [block for block in BLOCKS if not block.language]
LINES = [block for block in BARE if kind_of(block) == "lines"]
# Run by tests of their own, see above.
ELSEWHERE = {"LANGUAGE.md", "TESTING.md", "PIPELINE.md"}


def of_kind(kind: str) -> list[Block]:
    return [block for block in BARE if kind_of(block) == kind]


def python() -> list[Block]:
    fenced = [b for b in BLOCKS if b.language == "python" and b.document.name not in ELSEWHERE]
    return [*of_kind("python"), *fenced]


def test_there_are_blocks_of_everything() -> None:
    kinds = {"lines", "python", "filter", "event", "prose", "foreign"}
    assert {kind_of(block) for block in BARE} == kinds
    languages = {block.language for block in BLOCKS if block.document.name not in ELSEWHERE}
    assert languages == {"", "python"}


def test_what_is_no_code_is_still_there() -> None:
    beginnings = [block.text.lstrip() for block in of_kind("prose")]
    for beginning in PROSE:
        assert any(text.startswith(beginning) for text in beginnings), beginning


@pytest.mark.parametrize("block", LINES, ids=str)
def test_commands(block: Block) -> None:
    for line in lines_of(block):
        if line.kind == "command":
            for words in programs_of(line.text):
                check_program(words, ROOT)


@pytest.mark.parametrize("block", LINES, ids=str)
def test_lines_of_workloads(block: Block) -> None:
    lines = [line.text for line in lines_of(block) if line.kind == "workload"]
    # Modules and machines of somebody's own are examples of names.
    known = [line for line in lines if "my_package" not in line]
    parse_workload("\n".join(known), str(block), None)
    for line in lines:
        if line not in known:
            assert re.match(
                r"0\.0 (federation optimiser|broker add \w+ 500 16 10) my_package", line
            )


@pytest.mark.parametrize("block", LINES, ids=str)
def test_settings(block: Block, tmp_path: Path) -> None:
    lines = [line.text for line in lines_of(block) if line.kind == "setting"]
    if not lines or "my_package" in "".join(lines):
        return
    for name in re.findall(r'"([\w/.]+\.(?:pem|key|toml|token))"', "\n".join(lines)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    if "[broker]" not in lines:
        lines = ["[broker]", 'name = "one"', *lines]
    check_config(config_of(parse_toml("\n".join(lines), str(block)), tmp_path))


@pytest.mark.parametrize("block", [*of_kind("filter"), *of_kind("event")], ids=str)
def test_filters_and_events(block: Block) -> None:
    parse = parse_subscription if kind_of(block) == "filter" else parse_event
    parse(block.text)


@pytest.mark.parametrize("block", python(), ids=str)
def test_python(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    around = next((found for found in SURROUNDINGS if block.text.startswith(found.begins)), None)
    names: dict[str, Any] = {"__name__": "example"}
    text = block.text
    if around is not None:
        around.prepare(names)
        for said, instead in around.instead:
            assert said in text, said
            text = text.replace(said, instead)
        if around.is_async:
            text = f"async def main(client):\n{textwrap.indent(text, '    ')}"
    exec(compile(text, str(block), "exec"), names)
    if around is not None and around.is_async:
        asyncio.run(asyncio.wait_for(around.drive(names), 30.0))
    if around is not None:
        around.judge(names)


def test_pieces_of_the_pipeline() -> None:
    pieces = [b for b in BLOCKS if b.document.name == "PIPELINE.md" and b.language == "text"]
    assert len(pieces) == 2
    for piece in pieces:
        if piece.text.startswith("roost "):
            for line in piece.text.splitlines():
                for words in programs_of(line):
                    check_program(words, ROOT)
        else:
            compile(piece.text, str(piece), "exec")
