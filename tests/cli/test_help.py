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


# Names that an option had before all commands called the same thing the same: they are still understood.
ONCE = {"--ca": "--authority", "--broker": "--url", "--rows": "--limit", "--most": "--limit"}
# Where such a word means something else.
MEANS_ELSE = {("roost sessions", "--broker"), ("roost bench profile", "--rows")}


@pytest.mark.parametrize("path", PAGES)
def test_options_have_one_name_everywhere(path: str) -> None:
    for parameter in getattr(PAGES[path], "params", ()):
        name, *others = [word for word in parameter.opts if word.startswith("--")] or [""]
        assert (path, name) in MEANS_ELSE or name not in ONCE, f"{path} {name}"
        assert all(ONCE[other] == name for other in others), f"{path} {name}"


def test_there_are_many_pages() -> None:
    assert len(PAGES) > 60
