"""Whoever waits for kernels to be compiled is told; what is read from disk is not told of."""

from __future__ import annotations

import numba
import pytest

from roost.matching.compiling import compiling_told
from roost.runtime.warming import Compiling


def test_each_kernel_is_told_of_when_it_is_compiled() -> None:
    @numba.njit  # type: ignore[untyped-decorator,unused-ignore]
    def inner(x: int) -> int:
        return x + 1

    @numba.njit  # type: ignore[untyped-decorator,unused-ignore]
    def outer(x: int) -> int:
        return int(inner(x))

    told: list[int] = []
    with compiling_told(told.append):
        assert outer(1) == 2
        count = len(told)
        assert outer(2) == 3  # which is compiled by now
    assert count >= 2
    assert told == list(range(1, count + 1))
    inner(1.5)  # nobody listens any more
    assert len(told) == count


def test_it_is_said_once_and_when_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    compiling = Compiling(said.append, is_watched=False)
    compiling.over()
    assert said == []
    for count in (1, 2, 3):
        compiling.begun(count)
    compiling.over()
    assert len(said) == 2
    assert said[0].startswith("compiling the matcher for this machine")
    assert said[1].startswith("compiled 3 kernels in ")
    assert capsys.readouterr() == ("", "")
