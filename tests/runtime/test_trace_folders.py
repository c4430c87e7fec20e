"""Traces stay where the settings want them: real folders, real links, and a real broker that is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.errors import UserError
from roost.runtime.config import config_of
from roost.runtime.tables import BrokerTable, ServerConfig, TraceTable
from roost.runtime.toml_file import parse_toml
from roost.runtime.trace_folders import ElsewhereError, allowed_folders, checked_folder
from tests.runtime.test_admin import Broker, check


def test_which_folders_are_allowed(tmp_path: Path) -> None:
    text = '[broker]\ndata = "d"\n'
    for more, expected in (
        ("", ["d"]),
        ('[trace]\nfolder = "t"\n', ["t"]),
        ('[trace]\nallowed = ["a", "/b"]\n', ["a", "/b"]),
        ('[trace]\nfolder = "t"\nallowed = ["a"]\n', ["t", "a"]),
    ):
        config = config_of(parse_toml(text + more, "roost.toml"), tmp_path)
        assert allowed_folders(config) == [tmp_path / each for each in expected]
    assert allowed_folders(ServerConfig()) == []


def test_links_and_dots_are_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside / "deep", outside):
        folder.mkdir(parents=True)
    (inside / "leak").symlink_to(outside)
    (tmp_path / "short").symlink_to(inside)
    config = ServerConfig(trace=TraceTable(allowed=(str(inside),)))

    def checked(folder: Path | str, run: str = "r1") -> Path:
        return checked_folder(config, str(folder), run, "B0")

    assert checked(inside) == inside
    assert checked(inside / "new" / "er") == inside / "new" / "er"
    assert checked(inside / "deep" / ".." / "x") == inside / "x"
    assert checked(tmp_path / "short" / "deep") == inside / "deep"
    for elsewhere in (
        outside,
        tmp_path,
        "/",
        f"{inside}-not",
        inside / "..",
        inside / "deep" / ".." / ".." / "out",
        inside / "leak",
        inside / "leak" / "new",
    ):
        with pytest.raises(
            ElsewhereError, match=r"is not for traces; expected /.*/in, or a folder"
        ):
            checked(elsewhere)
    # The settings themselves may name a link.
    config = ServerConfig(trace=TraceTable(allowed=(str(tmp_path / "short"),)))
    assert checked(inside / "deep") == inside / "deep"
    with pytest.raises(UserError, match="a run can't be called"):
        checked(inside, "../../../x")


@pytest.mark.parametrize("planted", ["loads", "loads/run=r1", "runs/run=r1"])
def test_links_in_place_of_what_is_written(tmp_path: Path, planted: str) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    outside.mkdir()
    (inside / planted).parent.mkdir(parents=True)
    (inside / planted).symlink_to(outside)
    config = ServerConfig(trace=TraceTable(allowed=(str(inside),)))
    with pytest.raises(ElsewhereError):
        checked_folder(config, str(inside), "r1", "B0")
    assert checked_folder(config, str(inside / "other"), "r1", "B0") == inside / "other"


def test_links_in_place_of_files_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "out"
    outside.write_text("precious")
    for name in ("part-B0-000001.parquet", ".part-B0-000001.parquet.writing"):
        for table in ("loads", "runs"):
            (tmp_path / "in" / table / "run=r1").mkdir(parents=True, exist_ok=True)
            (tmp_path / "in" / table / "run=r1" / name).symlink_to(outside)

    async def work(started: Broker) -> None:
        order = {"on": True, "folder": str(tmp_path / "in"), "run": "r1"}
        assert (await started.post("/trace", order)).status == 200
        await started.post("/trace", {"on": False})

    check(work, trace=TraceTable(allowed=(str(tmp_path),)))
    assert outside.read_text() == "precious"


def test_a_broker_writes_nowhere_else(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "leak").symlink_to(outside)

    async def work(started: Broker) -> None:
        for folder in (outside, inside / "leak", inside / ".." / "out", "/etc"):
            order = {"on": True, "folder": str(folder), "run": "r1"}
            answer = await started.post("/trace", order)
            assert (answer.status, started.server.recorder.recording) == (403, False)
            assert "is not for traces; expected " in answer.json["error"]
        assert not list(outside.iterdir())
        order = {"on": True, "folder": str(inside / "new"), "run": "r1"}
        assert (await started.post("/trace", order)).status == 200
        await started.post("/trace", {"on": False})
        assert (inside / "new" / "loads" / "run=r1" / "part-B0-000001.parquet").is_file()

    check(work, trace=TraceTable(allowed=(str(inside),)))


def test_without_a_folder_in_the_settings(tmp_path: Path) -> None:
    async def with_a_store(started: Broker) -> None:
        for folder, status in ((tmp_path / "data" / "traces", 200), (tmp_path / "other", 403)):
            answer = await started.post("/trace", {"on": True, "folder": str(folder)})
            assert answer.status == status
            await started.post("/trace", {"on": False})

    check(with_a_store, broker=BrokerTable(port=0, data=str(tmp_path / "data")))

    async def without(started: Broker) -> None:
        answer = await started.post("/trace", {"on": True, "folder": str(tmp_path)})
        assert answer.status == 403
        expected = (
            "the settings of this broker name no folder for traces; expected [trace] folder or"
        )
        assert answer.json["error"].startswith(expected)

    check(without)
