"""Every page of help has examples, and they are commands that there are."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.docs.blocks import ROOT, without_comment
from tests.docs.commands import check_program, pages, programs_of

PAGES = dict(pages())


def examples_of(page: Any) -> list[str]:
    """The commands under `Examples:`, each in one line."""
    _, there_are, below = (page.epilog or "").partition("Examples:\n")
    assert there_are, "no examples"
    joined = re.sub(r"\\\n\s*", "", below)
    lines = [without_comment(line.strip()) for line in joined.splitlines()]
    return [line for line in lines if line not in ("", "\b")]


@pytest.mark.parametrize("path", PAGES)
def test_there_are_examples_that_are_understood(path: str) -> None:
    examples = examples_of(PAGES[path])
    assert any(path in example for example in examples), examples
    for example in examples:
        for words in programs_of(example):
            if words[0] in ("roost", "tail"):
                check_program(words, ROOT)


def test_there_are_many_pages() -> None:
    assert len(PAGES) > 60
