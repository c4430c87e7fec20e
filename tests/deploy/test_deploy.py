"""What stands in deploy/: settings a broker starts with, five brokers that link, and files that parse."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from roost.client import Client, connect
from roost.runtime.config import config_of
from roost.runtime.in_process import running
from roost.runtime.server import BrokerServer
from roost.runtime.toml_file import parse_toml
from tests.cli.support import Roost, make_roost
from tests.client.support import in_loop, numbers, take, until
from tests.deploy.yaml_part import read_yaml
from tests.docs.commands import check_program

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose"
BROKERS = [f"b{number}" for number in range(5)]


@pytest.fixture
def roost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    return make_roost(capsys, monkeypatch)


@pytest.fixture
def prepared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A copy of the folder in which `prepare` has been run; with what it says to do next, checked."""
    folder = tmp_path / "compose"
    shutil.copytree(COMPOSE, folder)
    runpy.run_path(str(folder / "prepare"), run_name="__main__")
    head, *steps = capsys.readouterr().out.splitlines()
    assert head == "made keys, users and tokens; next:"
    for line in steps:
        words = line.replace("'*'", "*").split()
        assert words[0] in ("docker", "roost")
        if words[0] == "roost":
            check_program(words, ROOT)
    return folder


def test_every_file_of_settings_will_do(roost: Roost, prepared: Path) -> None:
    files = sorted(DEPLOY.rglob("*.toml"))
    assert len(files) == 6
    for file in files:
        copy = prepared / file.relative_to(COMPOSE) if file.is_relative_to(COMPOSE) else file
        ran = roost("broker", "--check", copy)
        assert (ran.code, ran.err) == (0, ""), file  # nothing is exposed, either
        assert ran.out.endswith("will do\n")


def test_a_check_finds_what_a_broker_would(roost: Roost, prepared: Path) -> None:
    file = prepared / "b1" / "roost.toml"
    (prepared / "b1" / "broker.key").write_bytes((prepared / "b2" / "broker.key").read_bytes())
    ran = roost("broker", "--check", file)
    assert ran.code == 2
    assert "broker.key" in ran.err
    (prepared / "b1" / "broker.token").unlink()
    assert "broker.token: No such file" in roost("broker", "--check", file).err
    file.write_text('[broker]\nhost = "0.0.0.0"\n[tls]\ncertificat = "x"\n')
    assert "roost.toml:4: [tls] has no certificat; did you mean" in (
        roost("broker", "--check", file).err
    )
    file.write_text('[broker]\nhost = "0.0.0.0"\n')
    ran = roost("broker", "--check", file)
    assert (ran.code, ran.err[:21]) == (0, "warning: no security:")


def test_prepare_replaces_nothing(prepared: Path) -> None:
    before = (prepared / "b0" / "broker.token").read_bytes()
    with pytest.raises(SystemExit, match=r"error: .*authority.pem"):
        runpy.run_path(str(prepared / "prepare"), run_name="__main__")
    assert (prepared / "b0" / "broker.token").read_bytes() == before
    ignored = (COMPOSE / ".gitignore").read_text().split()
    assert {"/keys/", "/users/", "/data/", "*.key", "*.token", "/.env"} <= set(ignored)


def test_the_five_link_with_tls_and_pass_events_on(prepared: Path) -> None:
    """In this process, at other ports; names of hosts that only compose resolves are replaced."""
    link_and_publish(prepared)


@in_loop
async def link_and_publish(folder: Path) -> None:
    started: dict[str, BrokerServer] = {}

    def settings(name: str) -> Any:
        text = (folder / name / "roost.toml").read_text().replace('"0.0.0.0"', '"127.0.0.1"')
        text = text.replace('host = "127.0.0.1"', 'host = "127.0.0.1"\nport = 0', 1)
        text = text.replace("port = 7412", "port = -1")
        text = text.replace('"/var/lib/roost"', f'"../data/{name}"')
        for other, server in started.items():
            text = text.replace(f'"{other}:7411"', f'"127.0.0.1:{server.port}"')
        return config_of(parse_toml(text, name), folder / name)

    async with AsyncExitStack() as stack:
        for name in BROKERS:
            entered = running(settings(name), within_s=1.0)
            started[name] = await stack.enter_async_context(entered)

        def linked() -> bool:
            links = (link for each in started.values() for link in each.status()["links"].values())
            return all(link["up"] for link in links)

        await until(linked, "all are linked")
        assert sorted(started["b1"].status()["links"]) == ["B0", "B3"]
        token = (folder / "app.token").read_text().strip()
        trust = folder / "keys" / "authority.pem"

        async def connected(name: str) -> Client:
            url = f"roosts://127.0.0.1:{started[name].port}"
            return await stack.enter_async_context(connect(url, user="app", token=token, tls=trust))

        first, second = await connected("b3"), await connected("b4")
        subscription = first.subscribe("n > 0")
        await subscription.ready()
        await second.publish({"n": 1})
        assert numbers(await take(subscription, 1)) == [1]


# --- containers -------------------------------------------------------------------------------------


def test_compose(prepared: Path) -> None:
    """Each has its own folder, and the ports and files that its settings name."""
    whole = read_yaml((COMPOSE / "compose.yaml").read_text())
    assert list(whole["services"]) == BROKERS
    ports = set()
    for name, service in whole["services"].items():
        assert (service["hostname"], service["user"]) == (name, "${ROOST_UID}:${ROOST_GID}")
        check_program(["roost", *service["command"]], ROOT)
        mounts = dict(volume.split(":")[:2] for volume in service["volumes"])
        settings = service["command"][-1]
        inside = {there: prepared / here for here, there in mounts.items()}
        (folder,) = (there for there in inside if settings.startswith(f"{there}/"))
        assert (inside[folder] / Path(settings).name).is_file()
        text = (inside[folder] / Path(settings).name).read_text()
        named = re.findall(r'^(?:\w+) = "([\w./]+/[\w./]+|broker\.\w+|authority\.pem)"', text, re.M)
        assert len(named) == 6, named
        for file in named:
            path = Path(folder, file)
            (mount,) = (m for m in inside if path.resolve().is_relative_to(m))
            assert (inside[mount] / path.resolve().relative_to(mount)).exists(), file
        for port in service["ports"]:
            host, outside, within = port.split(":")
            assert (host, within in ("7411", "7412")) == ("127.0.0.1", True)
            ports.add(outside)
        for other in service.get("depends_on", {}):
            assert f'"{other}:7411"' in text
        assert (COMPOSE / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()
        compile(service["healthcheck"]["test"][3], "healthcheck", "exec")
    assert len(ports) == 10
    env = dict(line.split("=") for line in (prepared / ".env").read_text().split())
    assert env.keys() == {"ROOST_UID", "ROOST_GID"}


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2", "a:\n\tb: 1", "a: [b", "a: b: c", "a: 'x'", "a: !tag x", "- a\nb: c"]
)
def test_the_reader_of_yaml_is_strict(text: str) -> None:
    with pytest.raises(AssertionError):
        read_yaml(text)


def test_the_dockerfile() -> None:
    """Its instructions, and that what it copies is there and not kept out."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and line[0] != "#"]
    known = {"FROM", "COPY", "RUN", "ENV", "USER", "EXPOSE", "VOLUME", "STOPSIGNAL"}
    assert {name for name, _ in lines} == {*known, "ENTRYPOINT", "CMD"}
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied = [words.split() for name, words in lines if name == "COPY" and "--from" not in words]
    for *sources, _ in copied:
        for source in sources:
            assert (ROOT / source).exists()
            assert source in let_in
    said = dict(lines)  # the last of each
    assert said["USER"] == "roost"
    program = [*json.loads(said["ENTRYPOINT"]), *json.loads(said["CMD"])]
    check_program(program, ROOT)
    (installed,) = re.findall(r"pip install (.*)", text)
    assert "/source/requirements/constraints.txt" in installed
    assert "'/source[broker]'" in installed


# --- systemd ----------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_the_unit_is_understood(tmp_path: Path) -> None:
    """But for the path of the program, which is not installed there."""
    unit = (DEPLOY / "systemd" / "roost.service").read_text()
    assert unit.count("/opt/roost/bin/roost ") == 2
    copy = tmp_path / "roost.service"

    def said(text: str) -> str:
        copy.write_text(text.replace("/opt/roost/bin/roost", sys.executable))
        command = ["systemd-analyze", "verify", "--man=no", str(copy)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        return "".join(line for line in ran.stderr.splitlines() if "roost.service" in line)

    assert said(unit) == ""
    assert "RestartSecs" in said(unit.replace("RestartSec", "RestartSecs"))


def test_the_unit_runs_commands_that_there_are() -> None:
    unit = (DEPLOY / "systemd" / "roost.service").read_text()
    commands = re.findall(r"^Exec\w+=\S+/(roost .*)$", unit, re.M)
    assert len(commands) == 2
    for command in commands:
        check_program(command.split(), ROOT)
