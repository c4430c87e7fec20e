"""`roost context`, and commands that go by one."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.cli import contexts
from roost.cli.contexts import Book, Context, book_text, contexts_file, login, read_book
from roost.cli.fleet import fleet_of
from roost.errors import UserError
from tests.cli.live import Live, live_brokers
from tests.cli.support import Roost
from tests.cli.test_publish_subscribe import in_a_thread
from tests.client.support import url_of
from tests.client.test_security import secured, user

ADMIN = "https://b0.example:7412"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with live_brokers() as live:
        yield live


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ROOST_URL", "ROOST_USER", "ROOST_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_noted_used_and_forgotten(roost: Roost, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    added = ("--admin", ADMIN, "--user", "ops", "--token", "roost_secret", "--ca", "ca.pem")
    assert roost("context", "add", "prod", *added).out == "noted prod, which is in use\n"
    assert roost("context", "add", "lab", "--url", "roost://10.0.0.1").out == "noted lab\n"
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(contexts_file().parent.stat().st_mode) == 0o700
    first, second = roost("context", "list", "--json").json["contexts"]
    assert (first["context"], first["in_use"], first["url"]) == ("lab", False, "roost://10.0.0.1")
    assert (second["context"], second["in_use"], second["token"]) == ("prod", True, True)
    assert second["authority"] == str(tmp_path / "ca.pem")
    assert "roost_secret" not in roost("context", "list").out
    assert roost("context", "use", "lab").out == "lab is in use\n"
    assert read_book().current == "lab"
    assert roost("context", "remove", "lab").code == 0
    assert (read_book().current, list(read_book().contexts)) == ("", ["prod"])
    assert roost("context", "use", "prod").code == 0
    assert roost("context", "use", "--none").out == "no context is in use\n"
    assert read_book().current == ""


def test_commands_go_by_it(
    roost: Roost, live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    roost("context", "add", "one", "--admin", live.urls[0])
    roost("context", "add", "both", *live.options)

    def seen(*options: str) -> list[str]:
        return [broker["broker"] for broker in roost("status", "--json", *options).json["brokers"]]

    assert seen() == ["B0"]
    assert seen("--context", "both") == ["B0", "B1"]
    monkeypatch.setenv("ROOST_CONTEXT", "both")
    assert seen() == ["B0", "B1"]
    assert seen("--admin", live.urls[1]) == ["B1"]  # which says it all
    ran = roost("status", "--admin", live.urls[1], "--context", "both")
    assert ran.err == "error: --admin and --context say different brokers; expected one of them\n"
    monkeypatch.delenv("ROOST_CONTEXT")
    # In a folder with a federation of its own, nobody can know which of the two is meant.
    (tmp_path / ".roost").mkdir()
    (tmp_path / ".roost" / "federation.json").write_text(
        '{"title": "chain", "durable": false, "members": [], "links": []}'
    )
    ran = roost("drain", "B1")
    assert (ran.code, "the context one is in use, and a federation was" in ran.err) == (2, True)
    assert seen("--context", "both") == ["B0", "B1"]


def test_clients_go_by_it(roost: Roost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = secured(tmp_path, alice=user())
    (tmp_path / "alice.token").write_text("secret\n")
    with in_a_thread(settings) as broker:
        where = ("--url", url_of(broker), "--user", "alice", "--token-file", "alice.token")
        assert roost("context", "add", "desk", *where).code == 0
        monkeypatch.chdir("/")  # files are found from anywhere
        assert roost("publish", "x=7").err == "1 event acknowledged\n"
        monkeypatch.setenv("ROOST_URL", "roost://127.0.0.1:9")  # goes before the one in use
        assert roost("publish", "x=7").code == 2
        assert roost("publish", "x=7", "--context", "desk").err == "1 event acknowledged\n"
        ran = roost("publish", "x=7", "--context", "desk", "--user", "bob")
        assert (ran.code, "nobody has logged in" in ran.err) == (2, True), (
            ran.err
        )  # her token is not his
        (tmp_path / "alice.token").unlink()
        ran = roost("publish", "x=7", "--context", "desk")
        assert ran.code == 2
        assert "alice.token: No such file or directory; expected a token" in ran.err


def test_a_token_goes_where_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Context(admin=(ADMIN,), user="ops", token="roost_secret")
    with contexts.changed_contexts() as book:
        book.contexts["prod"], book.current = mine, "prod"
    assert (fleet_of().access.user, fleet_of().access.token) == ("ops", "roost_secret")
    elsewhere = fleet_of(admin=["https://other.example:7412"]).access
    assert (elsewhere.user, elsewhere.token) == ("", "")
    assert login("eve", None, mine) == ("eve", "")
    assert login("ops", None, mine) == ("ops", "roost_secret")
    assert login(None, "roost_new", mine) == ("ops", "roost_new")
    monkeypatch.setenv("ROOST_USER", "env")
    monkeypatch.setenv("ROOST_TOKEN", "roost_env")
    assert login(None, None, mine) == ("ops", "roost_secret")
    assert login("eve", None, mine) == ("eve", "roost_env")
    assert login(None, None, Context(admin=(ADMIN,))) == ("env", "roost_env")
    assert "roost_secret" not in repr(mine)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "x"), "nothing says where it is; expected --admin URL or --url URL"),
        (("add", "x", "--admin", "ftp://b0"), "'ftp://b0' is no address of a broker"),
        (("add", "x", "--url", "http://b0"), "expected roost://host:7411"),
        (("add", " x", "--admin", ADMIN), "' x' is no name of a context"),
        (("add", "prod", "--admin", ADMIN), "there is a context prod already; --force replaces it"),
        (("add", "x", "--admin", ADMIN, "--ca", "no.pem"), "--authority no.pem: there is no such"),
        (("use", "prd"), "there is no context 'prd'; did you mean prod?"),
        (("use",), "expected the name of a context, or --none"),
        (("remove", "other"), "there is no context 'other'; expected one of prod"),
    ],
)
def test_what_makes_no_sense(roost: Roost, words: tuple[str, ...], message: str) -> None:
    roost("context", "add", "prod", "--admin", ADMIN)
    before = contexts_file().read_bytes()
    ran = roost("context", *words)
    assert ran.code == 2
    assert message in ran.err
    assert contexts_file().read_bytes() == before


def test_what_a_context_lacks_is_not_looked_for_elsewhere(
    roost: Roost, monkeypatch: pytest.MonkeyPatch
) -> None:
    roost("context", "add", "prod", "--admin", ADMIN)
    assert "error: the context prod says no --url; expected one: roost context add prod" in (
        roost("publish", "x=7").err
    )
    roost("context", "add", "prod", "--url", "roost://b0.example", "--force")
    assert "error: the context prod says no --admin" in roost("status").err
    monkeypatch.setenv("ROOST_CONTEXT", "prud")
    ran = roost("status")
    assert ran.err == "error: ROOST_CONTEXT: there is no context 'prud'; did you mean prod?\n"


def test_the_file_may_be_changed_by_hand(roost: Roost) -> None:
    book = Book(contexts={"a b": Context(admin=(ADMIN,), user='say "x"')}, current="a b")
    path = contexts_file()
    path.parent.mkdir(parents=True)
    path.write_text(book_text(book))
    assert read_book() == book
    path.write_text('[contexts.prod]\nadmin = ["x"]\nuser = 5\n')
    with pytest.raises(UserError, match=r"contexts.toml:3: \[contexts.prod\] user is 5"):
        read_book()
    path.write_text('[contexts.prod]\nadmin = ["https://x"]\ntoken = "roost_s"\n')
    path.chmod(0o644)
    ran = roost("context", "list")
    assert "there are tokens in it, and others can read it" in ran.err
    path.chmod(0o600)
    assert roost("context", "list").err == ""
