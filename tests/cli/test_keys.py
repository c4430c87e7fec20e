"""`roost keys`: an authority, what it issues, and what can be seen of it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from roost.runtime.tables import TlsTable
from roost.runtime.tls import client_context, server_context
from tests.cli.support import Roost


@pytest.fixture
def folder(roost: Roost, tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    assert roost("keys", "authority", folder).code == 0
    return folder


def test_from_nothing_to_contexts(roost: Roost, folder: Path) -> None:
    hosts = ("--host", "localhost", "--host", "127.0.0.1")
    ran = roost("keys", "issue", "B0", *hosts, "--dir", folder, "--days", "30")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"wrote {folder / 'B0.pem'}\nwrote {folder / 'B0.key'}\n"
    files = {"authority.pem", "authority.key", "B0.pem", "B0.key"}
    assert {file.name for file in folder.iterdir()} == files
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    table = TlsTable(
        certificate=str(folder / "B0.pem"),
        key=str(folder / "B0.key"),
        authority=str(folder / "authority.pem"),
        require_client_certificate=True,
    )
    server_context(table)
    client_context(table)


def test_show(roost: Roost, folder: Path) -> None:
    roost("keys", "issue", "B0", "--host", "::1", "--host", "b0.example", "--dir", folder)
    ran = roost("keys", "show", folder / "B0.pem")
    assert (ran.code, ran.err) == (0, "")
    lines = dict(line.split(":", 1) for line in ran.out.splitlines())
    assert lines["subject"].strip() == "CN=B0"
    assert lines["issuer"].strip() == "CN=Roost"
    assert lines["names"].strip() == "B0, ::1, b0.example"
    assert lines["use"].strip() == "peer"
    assert lines["now"].strip() == "valid"
    (facts,) = roost("keys", "show", folder / "B0.pem", "--json").json["certificates"]
    assert facts["names"] == ["B0", "::1", "b0.example"]
    assert facts["begins"] < facts["ends"]
    (facts,) = roost("keys", "show", folder / "authority.pem", "--json").json["certificates"]
    assert facts["use"] == "authority"


def test_what_is_there_stays_unless_told_otherwise(roost: Roost, folder: Path) -> None:
    issue = ("keys", "issue", "B0", "--dir", folder)
    assert roost(*issue).code == 0
    before = (folder / "B0.key").read_bytes()
    ran = roost(*issue)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {folder / 'B0.pem'}: it is there already")
    assert (folder / "B0.key").read_bytes() == before
    assert roost(*issue, "--replace").code == 0
    assert (folder / "B0.key").read_bytes() != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("authority", "keys"), "error: keys/authority.pem: it is there already"),
        (
            ("issue", "B0", "--dir", "none"),
            "error: none/authority.pem: not there; `roost keys auth",
        ),
        (("issue", "a/b", "--dir", "keys"), "error: the name is 'a/b'; expected 1 to 64 visible"),
        (("issue", "B0", "--dir", "keys", "--host", "x:1"), "error: the host is 'x:1'; expected a"),
        (("show", "none.pem"), "error: none.pem: No such file or directory; expected a certif"),
        (("show", "keys/authority.key"), "error: keys/authority.key: it can't be read; expected a"),
    ],
)
def test_bad_input(
    roost: Roost,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(folder.parent)
    ran = roost("keys", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(message)


def test_days_have_bounds(roost: Roost, folder: Path) -> None:
    assert roost("keys", "issue", "B0", "--dir", folder, "--days", "0").code == 2
    ran = roost("keys", "issue", "B0", "--dir", folder, "--days", "9999")
    assert ran.code == 2
    assert "the authority itself ends in 3649, expected no more" in ran.err
