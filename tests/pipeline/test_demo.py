"""The part of `roost demo` that runs on Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from roost.cli import demo_pipeline
from roost.cli.console import people


@pytest.mark.usefixtures("spark")
def test_it_matches_in_bulk_and_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_pipeline, "QUOTES", 500)
    monkeypatch.setattr(demo_pipeline, "SUBSCRIPTIONS", 100)
    demo_pipeline.show_pipeline(people())
    out = capsys.readouterr().out
    assert "500 quotes x 100 filters" in out
    assert "most of them for" in out
    # It was somebody else's session.
    assert SparkSession.getActiveSession() is not None
