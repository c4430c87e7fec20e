"""`roost users`: added, listed, checked, renewed, removed."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from roost.broker.permissions import Permission
from roost.runtime import security
from roost.runtime.security import Hardness, Users, read_users
from tests.cli.support import Ran, Roost


@pytest.fixture(autouse=True)
def _soft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "HARDNESS", Hardness(time_cost=1, memory_kib=8, parallelism=1))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.toml"


def add(roost: Roost, file: Path, *arguments: str) -> Ran:
    ran = roost("users", "add", *arguments, "--file", file)
    assert ran.code == 0, ran.err
    return ran


def test_a_token_is_printed_once_and_works(roost: Roost, file: Path) -> None:
    ran = add(roost, file, "alice", "--subscribe", "class = 'STOCK'")
    token = ran.out.strip()
    assert ran.out == f"{token}\n"
    assert ran.err == "the token of alice, which is shown only now:\n"
    assert token not in file.read_text()
    permission = Users.load(file).authenticate("alice", token)
    assert isinstance(permission, Permission)
    assert str(permission.subscribe) == "class = 'STOCK'"
    assert permission.publish is None


def test_everything_that_can_be_granted(roost: Roost, file: Path) -> None:
    names = ("--certificate", "B1", "--certificate", "b1.example")
    rights = ("--publish", "*", "--subscribe", "*", "--link", "--administer")
    ran = add(roost, file, "B1", *rights, "--expires", "2999-12-31", *names, "--json")
    assert ran.json.keys() == {"principal", "token"}
    user = read_users(file)["B1"].user
    assert (user.publish, user.subscribe, user.link, user.administer) == ("*", "*", True, True)
    assert user.expires == date(2999, 12, 31)
    assert user.certificates == ("B1", "b1.example")


def test_a_new_token_ends_the_old_one(roost: Roost, file: Path) -> None:
    old = add(roost, file, "alice", "--publish", "x > 1").out.strip()
    ran = roost("users", "renew", "alice", "--expires", "2999-01-01", "--file", file)
    assert ran.code == 0
    users = Users.load(file)
    assert users.authenticate("alice", old) == security.NOT_RIGHT
    assert isinstance(users.authenticate("alice", ran.out.strip()), Permission)
    user = read_users(file)["alice"].user
    assert (user.publish, user.expires) == ("x > 1", date(2999, 1, 1))
    roost("users", "renew", "alice", "--file", file)
    assert read_users(file)["alice"].user.expires == date(2999, 1, 1)


def test_a_user_is_removed(roost: Roost, file: Path) -> None:
    add(roost, file, "alice")
    ran = roost("users", "remove", "alice", "--file", file)
    assert (ran.code, ran.out, ran.err) == (0, "removed alice\n", "")
    assert read_users(file) == {}


def test_the_list_for_programs(roost: Roost, file: Path) -> None:
    add(roost, file, "desk", "--subscribe", "x > 1", "--expires", "2999-12-31")
    add(roost, file, "B1", "--link", "--certificate", "b1")
    text = file.read_text().replace("2999-12-31", "2001-12-31")
    file.write_text(text)
    ran = roost("users", "list", "--file", file, "--json")
    assert ran.json == {
        "users": [
            {
                "principal": "B1",
                "publish": None,
                "subscribe": None,
                "link": True,
                "administer": False,
                "monitor": False,
                "expires": None,
                "certificates": ["b1"],
                "token": True,
                "expired": False,
            },
            {
                "principal": "desk",
                "publish": None,
                "subscribe": "x > 1",
                "link": False,
                "administer": False,
                "monitor": False,
                "expires": "2001-12-31",
                "certificates": [],
                "token": True,
                "expired": True,
            },
        ]
    }


def test_the_list_for_people(roost: Roost, file: Path) -> None:
    add(roost, file, "desk", "--subscribe", "[x,>,1]", "--administer")
    out = roost("users", "list", "--file", file).out
    assert "[x,>,1]" in out
    assert "nothing" in out
    assert "administrator" in out
    assert "argon2" not in out


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (
            ("--subscribe", "class = 'STOCK' and x > 1"),
            0,
            "yes: 'alice' may subscribe to what \"class = 'STOCK'\" covers, and it covers this\n",
        ),
        (
            ("--subscribe", "x > 1"),
            1,
            "no: 'alice' may only subscribe to what \"class = 'STOCK'\" covers\n  it may not be sent [x,",
        ),
        (("--publish", "x > 1"), 1, "no: 'alice' may not publish anything\n"),
        (
            ("--publish", "x > 1", "--subscribe", "class = 'STOCK'"),
            1,
            "no: 'alice' may not publish anything\nyes: 'alice' may subscribe to what",
        ),
    ],
)
def test_whether_and_why(
    roost: Roost, file: Path, asked: tuple[str, ...], code: int, said: str
) -> None:
    add(roost, file, "alice", "--subscribe", "class = 'STOCK'")
    ran = roost("users", "check", "alice", *asked, "--file", file)
    assert (ran.code, ran.err) == (code, "")
    assert ran.out.startswith(said)


def test_whether_and_why_for_programs(roost: Roost, file: Path) -> None:
    add(roost, file, "alice", "--publish", "x > 1")
    ran = roost("users", "check", "alice", "--publish", "x > 0", "--file", file, "--json")
    assert (ran.code, ran.json["allowed"]) == (1, False)
    (answer,) = ran.json["answers"]
    assert answer["reason"] == "'alice' may only advertise what 'x > 1' covers"
    assert answer["example"].startswith("[x,")


def test_a_user_who_has_expired_may_nothing(roost: Roost, file: Path) -> None:
    add(roost, file, "alice", "--publish", "*", "--expires", "2999-12-31")
    file.write_text(file.read_text().replace("2999", "2001"))
    ran = roost("users", "check", "alice", "--publish", "x > 1", "--file", file)
    assert (ran.code, ran.out) == (1, "no: 'alice' expired on 2001-12-31\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "alice"), "'alice' is a user already; `roost users renew` renews a token"),
        (("add", "a~b"), "the user's name is 'a~b'; expected one without '~' and '/'"),
        (("add", "a/b"), "the user's name is 'a/b'; expected one without '~' and '/'"),
        (("add", "bob", "--publish", "x >"), "--publish: line 1, column 4: found the end"),
        (("add", "bob", "--expires", "soon"), "--expires: 'soon' is no date; expected one such as"),
        (("add", "bob", "--expires", "2001-01-01"), "--expires: 2001-01-01 is over; expected"),
        (("add", "bob", "--certificate", "cn"), "the certificate 'cn' stands for 'alice' already"),
        (("renew", "alicia"), "there is no user 'alicia'; did you mean alice?"),
        (("remove", "zzz"), "there is no user 'zzz'; expected one of alice"),
        (("check", "zzz", "--publish", "*"), "there is no user 'zzz'; expected one of alice"),
        (("check", "alice"), "nothing to check; expected --publish FILTER or --subscribe FILTER"),
    ],
)
def test_bad_input(roost: Roost, file: Path, arguments: tuple[str, ...], message: str) -> None:
    add(roost, file, "alice", "--certificate", "cn")
    before = file.read_bytes()
    ran = roost("users", *arguments, "--file", file)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err
    assert file.read_bytes() == before


def test_a_list_of_no_file(roost: Roost, file: Path) -> None:
    ran = roost("users", "list", "--file", file)
    assert ran.code == 2
    assert ran.err.endswith("expected a users file; `roost users add` makes one\n")
