"""What is kept of subscriptions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from roost.errors import UserError
from roost.gateway.ws_eventing.addressing import Endpoint
from roost.gateway.ws_eventing.records import FILE, Record, Records

RECORD = Record(
    id="1",
    user="alice",
    token="secret",
    filter="a > 1",
    notify=Endpoint("http://x/", ("<a/>",)),
    end=None,
    version="2011",
    soap="1.2",
    addressing="2005",
    wrapped=False,
    expires_at=7.5,
    expires_as_date=True,
    manager="http://here/",
)


def test_they_are_there_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    records = Records(folder)
    records.put(RECORD)
    records.put(replace(RECORD, id="2"))
    records.put(replace(RECORD, id="3"))
    records.put(replace(RECORD, id="2", user="bob"))
    records.drop("3")
    records.close()
    assert Records(folder).all() == [RECORD, replace(RECORD, id="2", user="bob")]
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600


def test_without_a_folder_they_are_not() -> None:
    records = Records(None)
    records.put(RECORD)
    assert records.all() == [RECORD]
    assert not Records(None).all()


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(RECORD)


def test_one_gateway_a_folder(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.put(RECORD)
    with pytest.raises(UserError, match="expected the file of one gateway"):
        Records(tmp_path)
    records.close()
    Records(tmp_path).close()


def test_files_of_others(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no database, but a text that is long enough to be one")
    with pytest.raises(UserError, match=FILE):
        Records(tmp_path)
    (tmp_path / FILE).unlink()
    with closing(sqlite3.connect(tmp_path / FILE)) as base, base:
        base.execute("PRAGMA user_version = 9")
    with pytest.raises(UserError, match="format 9; expected 1"):
        Records(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="expected a folder"):
        Records(tmp_path / "file")
