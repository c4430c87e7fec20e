"""What README.md and docs/ tell people to type is typed: a document from top to bottom, in one folder.

Commands are run as they stand, but for words that are longer or larger than a test wants (`INSTEAD`) and for
what only the reader knows (a port, the name of a client). A document that takes up a federation where it is
has one begun for it (`BEFORE`). What can't be run here, as it takes minutes or wants files, certificates or
servers of somebody's, is in `ELSEWHERE`, each with the test that does it instead: nothing is passed over.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow.json
import pyarrow.parquet as pq
import pytest

from roost.runtime import federation
from tests.cli.support import Roost, make_roost
from tests.docs.blocks import ROOT, Block, lines_of
from tests.docs.commands import programs_of
from tests.docs.test_blocks import LINES

# How commands begin that are not run here, and the test that runs them.
ELSEWHERE = {
    "script/demo": "tests/cli/test_demo.py",
    "script/test": "script/test",
    "pip install": "tests/installed/test_plain.py",
    "chmod": "tests/docs/test_security_example.py",
    "roost backup": "tests/runtime/test_backup.py",
    "roost bench": "tests/cli/test_bench.py",
    "roost broker --": "tests/runtime/test_config.py",
    "roost chaos": "tests/cli/test_chaos.py",
    "roost context": "tests/cli/test_context.py",
    "roost decisions --explain": "tests/cli/test_decisions.py",
    "roost decisions --lake": "tests/cli/test_decisions.py",
    "roost experiment run": "tests/experiments/test_running.py",
    "roost experiment show": "tests/experiments/test_running.py",
    "roost fuzz": "tests/cli/test_fuzz.py",
    "roost gateway": "tests/cli/test_gateway.py",
    "roost keys": "tests/docs/test_security_example.py",
    "roost pipeline": "tests/pipeline/test_walk_through.py",
    "roost plan": "tests/pipeline/plans/test_planning.py",
    "roost apply": "tests/pipeline/plans/test_applying.py",
    "roost undo": "tests/pipeline/plans/test_applying.py",
    "roost provision": "tests/runtime/test_provisioning.py",
    "roost report": "tests/pipeline/reports/test_report.py",
    "roost redirect desk": "tests/cli/test_decisions.py",
    "roost restore": "tests/runtime/test_backup.py",
    "roost sim run tree.workload --module my_package": "tests/example/test_example.py",
    "roost subscribe \"class = 'STOCK'\" --": "tests/cli/test_publish_subscribe.py",
    "roost sweep": "tests/cli/test_sweep.py",
    "roost trace on /var": "tests/cli/test_status.py",
    "roost up tree --module": "tests/example/test_example.py",
    "roost users": "tests/docs/test_security_example.py",
    "ROOST_USER=": "tests/docs/test_security_example.py",
    "tail -f quotes.ndjson": "tests/cli/test_publish_subscribe.py",
}
# Words as they stand in documents, and those that are run.
INSTEAD = {
    r"until_s=60": "until_s=30",
    r"subscribers=200": "subscribers=20",
    r"--seeds \d+$": "--seeds 1",
    r"--seeds \d+ (--jobs|--save|--chunks)": r"--seeds 1 \1",
    r"--moves 10000": "--moves 1",
    r"--jobs \d+": "--jobs 1",
    r"^roost top$": "roost top --once",
    r"^roost broker$": "roost broker --port 0 --admin-port -1",
    r"cluster:2x3x4": "cluster:2x1x1",
    r"tree:15:3": "tree:4:3",
    r"tree --brokers 15": "tree --brokers 4",
}
# What the reader has done already on coming to a command of a document.
BEFORE = {
    ("OPERATING.md", "roost status"): "roost up chain --brokers 7",
    ("HIERARCHIES.md", "roost routing tree"): "roost up cluster:2x1",
    ("OPERATING.md", "roost drain"): "roost up peer:1x4 --optimise balancing",
}
BLOCKS = {
    name: [block for block in LINES if block.document.name == name]
    for name in dict.fromkeys(block.document.name for block in LINES)
}
# Whose exit code 1 is no failure: an event does not match; who has just changed is not well yet.
NO_IS_AN_ANSWER = ("explain", "status")


def commands_of(blocks: list[Block]) -> Iterator[str]:
    for block in blocks:
        for line in lines_of(block):
            if line.kind == "command":
                piped = "|" in re.sub(r"'[^']*'|\"[^\"]*\"", "", line.text)
                yield from [line.text] if piped else re.split(r"; (?=roost)", line.text)


def elsewhere(command: str) -> str | None:
    return next((where for start, where in ELSEWHERE.items() if command.startswith(start)), None)


class Shell:
    """Somebody who types what is said."""

    def __init__(self, roost: Roost, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self._roost = roost
        self._patch = patch
        self._stack = stack
        self._readers: list[subprocess.Popen[str]] = []

    def type(self, command: str) -> None:
        """One command, with all that it is piped from."""
        for said, instead in INSTEAD.items():
            command = re.sub(said, instead, command)
        stdin = b""
        for words in programs_of(self._filled(command)):
            if words[0] == "tail":
                stdin = Path(words[-1]).read_bytes()
            elif words[1] in ("broker", "subscribe"):
                self._start(words[1:])
            else:
                self._run(words[1:], stdin)

    def _run(self, words: list[str], stdin: bytes) -> None:
        if words[0] in ("up", "serve"):
            self._roost("down")  # which a reader would be told to
        ran = self._roost(*words, stdin=stdin)
        fine = (0, 1) if words[0] in NO_IS_AN_ANSWER else (0,)
        assert ran.code in fine, f"roost {' '.join(words)}: {ran.err}"
        if words[0] == "publish":
            out = self._readers[-1].stdout
            assert out is not None
            assert json.loads(out.readline())["attributes"]["volume"] == 400_000

    def _start(self, words: list[str]) -> None:
        """What goes on until it is told to end."""
        command = [sys.executable, "-m", "roost", *words]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._stack.callback(process.communicate)
        self._stack.callback(process.send_signal, signal.SIGTERM)
        assert process.stderr is not None
        if words[0] == "subscribe":
            assert process.stderr.readline().startswith("subscribed at ")
            self._readers.append(process)
        else:
            where = next(line for line in process.stderr if "listens on" in line)
            self._patch.setenv("ROOST_URL", f"roost://{where.split()[-1]}")

    def _filled(self, command: str) -> str:
        """What only the reader knows."""
        if "PORT_OF" in command:
            brokers = self._roost("status", "--json").json["brokers"]
            command = command.replace("PORT_OF_ONE", str(brokers[0]["port"]))
            command = command.replace("PORT_OF_ANOTHER", str(brokers[-1]["port"]))
        if "CLIENT" in command:
            (session,) = self._roost("sessions", "--json").json["sessions"]
            command = command.replace("CLIENT", session["client"])
        return command


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    """In a folder with files as README takes them for granted; nothing is left running."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.delenv("ROOST_URL", raising=False)
    data = ROOT / "src" / "roost" / "data"
    shutil.copy(data / "subscriptions.ndjson", "subs.ndjson")
    events = pyarrow.json.read_json(data / "events.ndjson")
    pq.write_table(events, "events.parquet")
    Path("subs.csv").write_text("id,filter\n1,\"class = 'STOCK'\"\n2,low < 30.5\n")
    with ExitStack() as stack:
        stack.callback(federation.end, Path(".roost"))
        yield Shell(make_roost(capsys, monkeypatch), monkeypatch, stack)


def test_what_is_not_run_here_is_run_somewhere() -> None:
    said = [command for blocks in BLOCKS.values() for command in commands_of(blocks)]
    for start, where in ELSEWHERE.items():
        assert any(command.startswith(start) for command in said), start
        assert (ROOT / where).is_file(), where
    assert sum(elsewhere(command) is None for command in said) > 60


@pytest.mark.parametrize("name", BLOCKS)
def test_what_documents_say(name: str, shell: Shell) -> None:
    before = {command: first for (where, command), first in BEFORE.items() if where == name}
    for command in commands_of(BLOCKS[name]):
        for start in [start for start in before if command.startswith(start)]:
            shell.type(before.pop(start))
        if elsewhere(command) is None:
            shell.type(command)
    assert before == {}
