"""Users and their tokens: the file, logging in, and the log of refusals."""

from __future__ import annotations

import io
import json
import os
import stat
import threading
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker.permissions import Permission
from roost.errors import UserError
from roost.language import parse_subscription
from roost.runtime import security
from roost.runtime.private_file import write_private
from roost.runtime.security import (
    NOT_RIGHT,
    Hardness,
    RefusalLog,
    User,
    Users,
    changed_users,
    digest_token,
    hash_token,
    new_token,
    read_users,
    users_of,
    users_text,
)
from roost.runtime.toml_file import parse_toml

SOFT = Hardness(time_cost=1, memory_kib=8, parallelism=1)
HASH = hash_token("right", SOFT)


class Clock:
    """A clock that stands still."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.toml"


def write(file: Path, **users: User) -> None:
    file.write_text(users_text(users), "utf-8")


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hashes that argon2 was asked about."""
    asked: list[str] = []
    is_right = security._is_right

    def watched(token: str, token_hash: str) -> bool:
        asked.append(token_hash)
        return is_right(token, token_hash)

    monkeypatch.setattr(security, "_is_right", watched)
    return asked


# --- the file -------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(
    lambda name: not security.objection_to_principal(name)
)


@given(
    st.dictionaries(
        NAMES,
        st.builds(
            User,
            token_hash=st.sampled_from(["", HASH]),
            token_digest=st.sampled_from(["", digest_token("right")]),
            publish=st.sampled_from(["", "*", "class = 'STOCK' and \"a b\" > 1"]),
            subscribe=st.sampled_from(["", "name = 'quo\\'te' or x prefix 'y'"]),
            link=st.booleans(),
            administer=st.booleans(),
            monitor=st.booleans(),
            expires=st.none() | st.dates(),
        ),
        max_size=4,
    )
)
def test_what_is_written_is_read_back(users: dict[str, User]) -> None:
    read = users_of(parse_toml(users_text(users), "users.toml"))
    assert {name: known.user for name, known in read.items()} == users


def test_filters_become_permissions(file: Path) -> None:
    write(
        file,
        all=User(publish="*", subscribe="[class,eq,'STOCK']", link=True, administer=True),
        none=User(),
    )
    read = read_users(file)
    stock = parse_subscription("class = 'STOCK'")
    assert read["all"].permission == Permission("all", parse_subscription("*"), stock, True, True)
    assert read["none"].permission == Permission("none")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[users.a]\nlink = 1\n", 2, "[users.a] link is 1; expected true or false"),
        ("[users.a]\npublsh = ''\n", 2, "[users.a] has no publsh; did you mean publish?"),
        ("\n[user.a]\n", 2, "'user' is unknown; expected only tables [users.NAME]"),
        ("users = 1\n", 1, "users is no table; expected tables [users.NAME]"),
        ("[users]\na = 1\n", 2, "a is 1; expected a table, [users.a]"),
        ("[users.a]\n[users.a]\n", 2, "column 9: Cannot declare ('users', 'a') twice"),
        ('[users.""]\n', 1, "the user's name is ''; expected a name of 1 to 256 visible"),
        ('[users." a"]\n', 1, "the user's name is ' a'; expected a name of 1 to 256 visible"),
        ('[users."a~b"]\n', 1, "the user's name is 'a~b'; expected one without '~' and '/'"),
        ('[users."a/b"]\n', 1, "the user's name is 'a/b'; expected one without '~' and '/'"),
        ("[users.a]\n\npublish = 'x >'\n", 3, "publish: line 1, column 4: found the end of the"),
        ("[users.a]\nexpires = 'soon'\n", 2, '[users.a] expires is "soon"; expected a date, such'),
        ("[users.a]\nexpires = 3\n", 2, "[users.a] expires is 3; expected a date, such as"),
        ("[users.a]\ncertificates = 'x'\n", 2, 'certificates is "x"; expected a list of texts'),
        (
            "[users.a]\ntoken_digest = 'secret'\n",
            2,
            "token_digest is no digest; `roost users renew",
        ),
        ("[users.a]\ntoken_hash = 'secret'\n", 2, "token_hash is no hash of argon2; `roost users"),
        (
            "[users.a]\ncertificates = ['x']\n[users.b]\ncertificates = ['y', 'x']\n",
            4,
            "the certificate 'x' stands for 'a' already; expected one user for each name",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    file: Path, text: str, line: int, message: str
) -> None:
    file.write_text(text, "utf-8")
    with pytest.raises(UserError) as refused:
        Users.load(file)
    assert str(refused.value).startswith(f"{file}:{line}: ")
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["expires = 2030-12-31", 'expires = "2030-12-31"'])
def test_a_date_may_stand_in_quotes(file: Path, text: str) -> None:
    file.write_text(f"[users.a]\n{text}\n")
    assert read_users(file)["a"].user.expires == date(2030, 12, 31)


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(UserError, match="No such file or directory; expected a users file"):
        Users.load(file)


def test_a_change_makes_a_private_file(file: Path) -> None:
    with changed_users(file) as users:
        users["a"] = User(publish="*")
    with changed_users(file) as users:
        assert users == {"a": User(publish="*")}
        users["b"] = User()
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert set(read_users(file)) == {"a", "b"}
    assert list(file.parent.iterdir()) == [file]


def test_an_error_changes_nothing(file: Path) -> None:
    write(file, a=User(publish="*"))
    before = file.read_bytes()
    with pytest.raises(KeyError), changed_users(file) as users:
        del users["a"], users["b"]
    with pytest.raises(UserError, match="stands for 'a' already"), changed_users(file) as users:
        users["a"] = users["b"] = User(certificates=("x",))
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_changes_at_the_same_time_wait_for_each_other(file: Path) -> None:
    def add(name: str) -> None:
        with changed_users(file) as users:
            users[name] = User()

    threads = [threading.Thread(target=add, args=(f"u{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_users(file)) == 8


def test_a_file_is_replaced_behind_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_private(link, b"new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    there = tmp_path / "none" / "users.toml"
    with pytest.raises(UserError, match=r"none: No such file or directory"), changed_users(there):
        pass
    with pytest.raises(UserError, match=r"x: can't be written: No such file or directory"):
        write_private(tmp_path / "none" / "x", b"")


# --- tokens ---------------------------------------------------------------------------------------


def test_tokens_are_random_and_hashes_salted() -> None:
    assert new_token() != new_token()
    assert len(new_token()) >= 32 + len(security.TOKEN_PREFIX)
    assert hash_token("x", SOFT) != hash_token("x", SOFT)
    assert "right" not in HASH
    assert HASH.startswith("$argon2id$v=19$m=8,t=1,p=1$")
    assert digest_token("x") != digest_token("x")


# --- logging in -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "token", "let_in"),
    [
        ("alice", "right", True),
        ("alice", "wrong", False),
        ("alice", "", False),
        ("alice", "\ud800", False),
        pytest.param("alice", HASH, False, id="alice-its hash-False"),
        ("bob", "right", False),
        ("", "", False),
        ("machine", "", False),
        ("machine", "right", False),
    ],
)
def test_tokens(file: Path, verified: list[str], user: str, token: str, let_in: bool) -> None:
    write(file, alice=User(token_hash=HASH, publish="*"), machine=User(certificates=("m",)))
    answer = Users.load(file).authenticate(user, token)
    if let_in:
        assert answer == Permission("alice", publish=parse_subscription("*"))
    else:
        assert answer == NOT_RIGHT
    # Whoever it is, argon2 is asked once, and about a hash that is as hard.
    (asked,) = verified
    assert asked.rsplit("$", 2)[0] == HASH.rsplit("$", 2)[0]


@pytest.mark.parametrize(
    ("user", "token", "let_in"),
    [
        ("alice", "right", True),
        ("alice", "wrong", False),
        ("alice", "\ud800", False),
        ("bob", "right", False),
        ("machine", "", False),
    ],
)
def test_random_tokens_are_checked_at_once(
    file: Path, verified: list[str], user: str, token: str, let_in: bool
) -> None:
    write(file, alice=User(token_digest=digest_token("right")), machine=User(certificates=("m",)))
    users = Users.load(file)
    for answer in (users.answer_at_once(user, token), users.authenticate(user, token)):
        assert answer == (Permission("alice") if let_in else NOT_RIGHT)
    assert verified == []


@pytest.mark.parametrize("user", ["new", "old", "nobody"])
def test_in_a_file_of_both_kinds_all_logins_in_vain_are_alike(
    file: Path, verified: list[str], user: str
) -> None:
    write(file, new=User(token_digest=digest_token("right")), old=User(token_hash=HASH))
    users = Users.load(file)
    assert users.answer_at_once("new", "right") == Permission("new")
    assert verified == []
    assert users.answer_at_once(user, "wrong") is None
    assert users.authenticate(user, "wrong") == NOT_RIGHT
    assert len(verified) == 1


def test_a_token_that_was_right_is_known_at_once(file: Path) -> None:
    write(file, alice=User(token_hash=HASH), B1=User(token_hash=HASH, link=True))
    users = Users.load(file)
    assert [users.is_preferred(name) for name in ("alice", "B1", "bob")] == [False, True, False]
    assert users.answer_at_once("alice", "right") is None
    assert users.authenticate("alice", "right") == Permission("alice")
    assert users.answer_at_once("alice", "right") == Permission("alice")
    assert users.is_preferred("alice")


def test_nothing_is_answered_at_once_from_a_file_that_has_changed(file: Path) -> None:
    write(file, alice=User(token_digest=digest_token("right")))
    users = Users.load(file)
    with changed_users(file) as changing:
        changing["bob"] = User(token_digest=digest_token("bobs"))
    assert users.answer_at_once("bob", "bobs") is None
    assert users.authenticate("bob", "bobs") == Permission("bob")
    assert users.answer_at_once("bob", "bobs") == Permission("bob")


def test_only_the_first_login_costs(file: Path, verified: list[str]) -> None:
    write(file, alice=User(token_hash=HASH))
    users = Users.load(file)
    for _ in range(3):
        assert users.authenticate("alice", "right") == Permission("alice")
    assert len(verified) == 1
    for _ in range(2):
        assert users.authenticate("alice", "wrong") == NOT_RIGHT
    assert len(verified) == 3
    assert users.authenticate("alice", "right") == Permission("alice")
    assert len(verified) == 3


def test_what_is_remembered_is_no_token(file: Path) -> None:
    write(file, alice=User(token_hash=HASH))
    users = Users.load(file)
    users.authenticate("alice", "right")
    assert "right" not in repr(vars(users))


def test_a_renewed_token_ends_the_old_one(file: Path) -> None:
    write(file, alice=User(token_hash=HASH))
    users = Users.load(file)
    assert users.authenticate("alice", "right") == Permission("alice")
    with changed_users(file) as changing:
        changing["alice"] = User(token_hash=hash_token("newer", SOFT), link=True)
    assert users.authenticate("alice", "right") == NOT_RIGHT
    assert users.authenticate("alice", "newer") == Permission("alice", link=True)
    assert users.revision == 1


def test_a_user_who_is_removed_is_out(file: Path) -> None:
    write(file, alice=User(token_hash=HASH))
    users = Users.load(file)
    assert users.authenticate("alice", "right") == Permission("alice")
    assert users.permission_of("alice") == Permission("alice")
    with changed_users(file) as changing:
        del changing["alice"]
    assert users.permission_of("alice") == "'alice' is no user any more"
    assert users.authenticate("alice", "right") == NOT_RIGHT


def test_a_file_that_does_not_change_is_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, alice=User(token_hash=HASH))
    users = Users.load(file)
    monkeypatch.setattr(security, "read_users", lambda _: pytest.fail("read again"))
    assert not users.refresh()
    assert users.permission_of("alice") == Permission("alice")


def test_a_change_that_cannot_be_read_changes_nothing(file: Path) -> None:
    write(file, alice=User(token_hash=HASH))
    users = Users.load(file)
    file.write_text("[users.alice\n")
    assert users.permission_of("alice") == Permission("alice")
    assert users.problem.startswith(f"{file}:1: column 13: Expected ']'")
    file.unlink()
    assert users.permission_of("alice") == Permission("alice")
    assert "No such file" in users.problem
    assert users.revision == 0
    write(file, bob=User())
    assert users.permission_of("bob") == Permission("bob")
    assert (users.problem, users.revision) == ("", 1)


LAST_DAY = datetime(2030, 6, 30, 23, 59, 59, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("now", "expired"), [(LAST_DAY, False), (LAST_DAY + 1, True)])
def test_the_last_day_is_in(file: Path, now: float, expired: bool) -> None:
    user = User(token_hash=HASH, expires=date(2030, 6, 30), certificates=("cn",))
    write(file, alice=user)
    users = Users.load(file, Clock(now))
    answer = "'alice' expired on 2030-06-30" if expired else Permission("alice", names=("cn",))
    assert users.authenticate("alice", "right") == answer
    assert users.permission_of_certificate(["cn"]) == answer
    assert users.permission_of("alice") == answer
    # Who does not know the token does not learn it.
    assert users.authenticate("alice", "wrong") == NOT_RIGHT


def test_a_token_that_expires_while_it_is_remembered(file: Path) -> None:
    write(file, alice=User(token_hash=HASH, expires=date(2030, 6, 30)))
    clock = Clock(LAST_DAY)
    users = Users.load(file, clock)
    assert users.authenticate("alice", "right") == Permission("alice")
    clock.now += 1
    assert users.authenticate("alice", "right") == "'alice' expired on 2030-06-30"


@pytest.mark.parametrize(
    ("names", "answer"),
    [
        (["B1"], Permission("B1", link=True, names=("B1", "b1.example"))),
        (["x", "b1.example"], Permission("B1", link=True, names=("B1", "b1.example"))),
        (["B1", "b1.example"], Permission("B1", link=True, names=("B1", "b1.example"))),
        (["x"], "the certificate of 'x' stands for no user"),
        (["b1"], "the certificate of 'b1' stands for no user"),
        ([], "the certificate of nobody stands for no user"),
        (["B1", "desk"], "the certificate of 'B1', 'desk' stands for several users"),
    ],
)
def test_certificates(file: Path, names: list[str], answer: Permission | str) -> None:
    write(
        file,
        B1=User(link=True, certificates=("B1", "b1.example")),
        desk=User(certificates=("desk",)),
    )
    assert Users.load(file).permission_of_certificate(names) == answer


def test_the_name_of_a_user_is_no_certificate_by_itself(file: Path) -> None:
    write(file, alice=User(token_hash=HASH))
    assert isinstance(Users.load(file).permission_of_certificate(["alice"]), str)


# --- refusals -------------------------------------------------------------------------------------


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_refusal_is_a_line(tmp_path: Path) -> None:
    path, stream = tmp_path / "refusals.ndjson", io.StringIO()
    log = RefusalLog(str(path), stream, clock=Clock(0.0))
    log.add("10.0.0.9", "alice", "subscribe to *", "not granted")
    log.close()
    assert path.read_text() == stream.getvalue()
    assert lines_of(stream.getvalue()) == [
        {
            "time": "1970-01-01T00:00:00.000+00:00",
            "address": "10.0.0.9",
            "principal": "alice",
            "asked": "subscribe to *",
            "reason": "not granted",
        }
    ]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_without_a_file_it_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    log = RefusalLog()
    log.add("h", "p", "a", "r")
    log.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert lines_of(err)[0]["address"] == "h"


def test_a_file_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "refusals.ndjson"
    for number in range(2):
        log = RefusalLog(str(path))
        log.add(str(number), "", "", "")
        log.close()
    assert [line["address"] for line in lines_of(path.read_text())] == ["0", "1"]


def test_an_address_gets_so_many_lines_a_minute() -> None:
    stream, clock = io.StringIO(), Clock(0.0)
    log = RefusalLog(stream=stream, lines_an_address=2, clock=clock)
    for _ in range(5):
        log.add("loud", "", "", "")
    log.add("quiet", "", "", "")
    assert [line["address"] for line in lines_of(stream.getvalue())] == ["loud", "loud", "quiet"]
    assert log.suppressed == 3
    clock.now = 60.0
    log.add("loud", "", "", "")
    said = lines_of(stream.getvalue())[3:]
    assert said[0] == {
        "time": "1970-01-01T00:01:00.000+00:00",
        "suppressed": 3,
        "since": "1970-01-01T00:00:00.000+00:00",
        "refusals": {"loud": 5, "quiet": 1},
    }
    assert said[1]["address"] == "loud"
    log.close()
    assert len(lines_of(stream.getvalue())) == 5


def test_what_was_suppressed_is_said_at_the_end() -> None:
    stream = io.StringIO()
    log = RefusalLog(stream=stream, lines_an_address=1, clock=Clock())
    log.add("loud", "", "", "")
    log.add("loud", "", "", "")
    log.close()
    assert lines_of(stream.getvalue())[-1]["suppressed"] == 1


def test_many_addresses_get_so_many_lines_together() -> None:
    stream, clock = io.StringIO(), Clock()
    log = RefusalLog(stream=stream, lines_in_all=10, clock=clock)
    for number in range(1_000):
        log.add(f"10.0.{number >> 8}.{number & 255}", "", "", "")
    assert len(lines_of(stream.getvalue())) == 10
    assert log.suppressed == 990
    assert len(log._refused) == 10  # nor do they fill the memory
    clock.now -= 3_600.0  # the clock may be set back
    log.add("next", "", "", "")
    assert lines_of(stream.getvalue())[-1]["address"] == "next"


def test_a_file_has_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "refusals.ndjson"
    log = RefusalLog(str(path), lines_an_address=10_000, file_bytes_max=2_000)
    for number in range(100):
        log.add("h", str(number), "", "")
    log.close()
    assert {file.name for file in tmp_path.iterdir()} == {"refusals.ndjson", "refusals.ndjson.1"}
    assert all(file.stat().st_size <= 2_000 for file in tmp_path.iterdir())
    kept = lines_of((tmp_path / "refusals.ndjson.1").read_text() + path.read_text())
    assert [line["principal"] for line in kept] == [str(n) for n in range(100 - len(kept), 100)]


def test_what_peers_say_is_short_and_plain() -> None:
    stream = io.StringIO()
    log = RefusalLog(stream=stream)
    log.add("h", "x" * 1_000_000, "\x1b[2J\n\u202e\x9b", "r")
    said = stream.getvalue()
    assert len(said) < 1_000
    assert said.count("\n") == 1
    assert said.isascii()
    assert said.rstrip("\n").isprintable()
    log.close()


def test_a_log_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    stream = io.StringIO()
    log = RefusalLog(stream=stream)
    stream.close()
    log.add("h", "", "", "")
    assert log.lost == 1
    with pytest.raises(UserError, match="can't be written: No such file or directory"):
        RefusalLog(str(tmp_path / "none" / "log"))
