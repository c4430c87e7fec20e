"""Functions of the pipeline refuse arguments of a wrong type by their names, before anything is started.

Found by introspection, as in tests/test_public.py. Nothing of Spark runs: what stands in for a frame or a
session is never used.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from roost import pipeline
from roost.errors import UserError
from roost.pipeline.arguments import arguments_checked
from tests.test_public import check, methods_of


class Stand:
    """Has what a frame and a session of Spark's are known by."""

    mapInArrow = createDataFrame = None  # noqa: N815 (Spark's names)


# What arguments may be that have to be given.
FINE: dict[str, Any] = {
    "publications": Stand(),
    "subscriptions": Stand(),
    "frame": Stand(),
    "spark": Stand(),
    "table": "loads",
    "path": "events.csv",
    "log": "log",
    "run": "monday",
    "name": "monday",
    "kind": "mine",
    "rows": 1,
    "files": [],
    "ids": [1],
    "version": 0,
    "known": None,
    "query": "query",
}


@pytest.mark.parametrize("name", pipeline.__all__)
def test_everything_refuses_what_can_not_be(name: str, tmp_path: Path) -> None:
    thing = getattr(pipeline, name)
    if inspect.isfunction(thing):
        assert check(thing, fine=FINE) >= 1
        return
    assert check(thing, fine=FINE) == 1
    one = thing(tmp_path)
    checked = sum(check(getattr(one, method), fine=FINE) for method, _ in methods_of(thing))
    assert checked >= 8


def test_what_is_meant_is_said() -> None:
    pandas = pytest.importorskip("pandas")
    wanted = r"^publications is a DataFrame; expected a DataFrame of Spark's$"
    with pytest.raises(TypeError, match=wanted):
        pipeline.match(pandas.DataFrame(), FINE["frame"])
    with pytest.raises(TypeError, match=r"^keep is a str; expected a list of texts$"):
        pipeline.match(FINE["frame"], FINE["frame"], keep="symbol")
    with pytest.raises(TypeError, match=r"^seed is a bool; expected a whole number or None$"):
        pipeline.Lake("lake").write(FINE["frame"], "loads", "monday", kind="mine", seed=True)
    with pytest.raises(UserError, match=r"there is no table 'laods'; expected one of .*loads"):
        pipeline.spark_schema("laods")


def test_an_annotation_that_nobody_knows_is_noticed() -> None:
    def odd(x: complex) -> None: ...

    with pytest.raises(KeyError, match="complex"):
        arguments_checked(odd)
