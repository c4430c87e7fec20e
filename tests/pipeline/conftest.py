"""One Spark session for all tests of the pipeline: it takes seconds to start, and a gigabyte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from roost.pipeline.session import spark_session
from tests.pipeline.hurried import HURRIED


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Two cores whatever the machine has, so that every machine tests the same partitions.
    with spark_session("local[2,3]", HURRIED) as session:
        yield session
