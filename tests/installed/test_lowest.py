"""The lowest versions that pyproject.toml allows are ones that work: `script/test -m long tests/installed`.

An environment gets the wheel with everything, each of its direct dependencies as old as it may be (what these
need in turn is pip's choice), and runs tests of every part with it. That takes minutes, so it is done once
for each change of the ranges: `requirements/lowest.txt` has the versions that it was last done with, and is
compared each time.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.installed.kit import CONSTRAINTS, ROOT, Environment, built, unpacked

# With these it was done.
TRIED = ROOT / "requirements" / "lowest.txt"
# What the tests themselves are run with; it is no part of what is installed.
TOOLS = ("hypothesis", "pytest", "pytest-xdist")
# Every part, and of each what says most in a minute.
TESTS = (
    "tests/wire",
    "tests/language/test_lines.py",
    "tests/matching/test_index.py",
    "tests/traces",
    "tests/runtime/test_admin.py",
    "tests/runtime/test_config.py",
    "tests/runtime/test_store.py",
    "tests/client/test_client.py",
    "tests/client/test_security.py",
    "tests/client/test_sync.py",
    "tests/gateway/test_live.py",
    "tests/cli/test_main.py",
    "tests/cli/test_match.py",
    "tests/cli/test_publish_subscribe.py",
    "tests/cli/test_status.py",
    "tests/cli/test_users.py",
    "tests/simulation/test_world.py",
    "tests/pipeline/matching",
    "tests/pipeline/test_streaming.py",
    "tests/pipeline/test_workload.py",
)


def lowest(requirements: list[str]) -> dict[str, str]:
    """The version that each begins with."""
    found = {}
    for text in requirements:
        if matched := re.match(r"(?P<name>[\w-]+)>=(?P<version>[0-9.]+)", text):
            found[matched["name"]] = matched["version"]
    return found


def as_old_as_may_be() -> str:
    """All that Roost asks for, a line each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    old = lowest([*project["dependencies"], *extras["broker"], *extras["pipeline"]])
    assert len(old) > 15
    return "".join(f"{name}=={version}\n" for name, version in sorted(old.items()))


def write_constraints(path: Path) -> None:
    """These, and the tools as they always are."""
    exact = CONSTRAINTS.read_text("utf-8").splitlines()
    tools = "\n".join(line for line in exact if line.partition("==")[0] in TOOLS)
    path.write_text(as_old_as_may_be() + tools)


def test_the_lowest_versions_have_been_tried() -> None:
    again = "script/test -m long tests/installed, which writes it"
    assert as_old_as_may_be() == TRIED.read_text("utf-8"), again


@pytest.mark.long
def test_everything_works_with_the_lowest_versions(tmp_path: Path) -> None:
    write_constraints(constraints := tmp_path / "lowest.txt")
    wheel = built(tmp_path)
    environment = Environment(tmp_path / "venv")
    # Of Spark there is only a source package.
    from_source = ("--no-binary", "pyspark")
    environment.install(*from_source, f"{wheel}[all]", *TOOLS, constraints=constraints)
    # The tests of the sdist, beside which there is no other Roost than the installed one.
    tests = unpacked(tmp_path)
    (tests / "src").rename(tests / "not-the-sources")
    # What old versions warn of is not ours to mend.
    ran = environment.run(
        "python", "-m", "pytest", "-p", "no:cacheprovider", "-W", "default", *TESTS, at=tests
    )
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout
    TRIED.write_text(as_old_as_may_be())


@pytest.mark.long
def test_a_broker_is_an_extra_of_its_own(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(f"{built(tmp_path)}[broker]", constraints=CONSTRAINTS)
    with environment.start("roost", "broker", "--port", "0", "--admin-port", "-1") as broker:
        assert broker.stderr is not None
        where = next(line for line in broker.stderr if "listens on" in line)
        url = f"roost://{where.split()[-1]}"
        published = environment.run("roost", "publish", "--url", url, "x=7")
        broker.terminate()
        broker.communicate()
    assert (published.returncode, broker.returncode) == (0, 0)
    assert environment.run("python", "-c", "import pyspark").returncode != 0
