"""The settings of a live broker: read, refused with their line, and written with what they are for."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker.config import BrokerConfig, Leases, UserQuotas
from roost.built_in import BUILT_IN, MODULES
from roost.errors import UserError
from roost.overlay.organising import OverlaySettings
from roost.runtime.config import (
    address_of,
    broker_config,
    check_config,
    documented,
    limits_of,
    login_of,
    read_config,
)
from roost.runtime.optimisers import Optimisers
from roost.runtime.tables import (
    MODULE_TABLES,
    TABLES,
    AdminTable,
    BrokerTable,
    LimitsTable,
    LinksTable,
    ModuleTable,
    OptimisersTable,
    QuotasTable,
    SecurityTable,
    ServerConfig,
    StoreTable,
    TlsTable,
    TraceTable,
    table_of_module,
)
from roost.runtime.toml_file import lines_of, toml_key, toml_value
from roost.traces.segments import ROWS_A_GROUP
from roost.wire.limits import Limits
from tests.example.crowd import Crowd


def read(folder: Path, text: str) -> ServerConfig:
    file = folder / "roost.toml"
    file.write_text(text, "utf-8")
    return read_config(file)


# --- defaults -------------------------------------------------------------------------------------


def test_without_a_file_there_are_defaults_on_this_machine_only() -> None:
    config = read_config(None)
    assert config == ServerConfig()
    assert (config.broker.host, config.admin.host) == ("127.0.0.1", "127.0.0.1")
    assert not config.security.enabled
    check_config(config)


def test_what_is_documented_is_read_as_the_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, documented()) == ServerConfig()


def test_every_setting_is_documented_under_its_reason() -> None:
    text = documented()
    said = tomllib.loads(text)
    kinds = {table.name: table.type for table in msgspec.structs.fields(ServerConfig)}
    tables = {name: kinds[name] for name in TABLES}
    tables |= {name: table_of_module(name) for name in MODULE_TABLES}
    assert list(said) == list(tables)
    for name, kind in tables.items():
        assert sorted(said[name]) == sorted(kind.__struct_fields__)
    assert list(said["broker"])[:2] == ["name", "host"]  # its own first
    lines = text.splitlines()
    keys = [number for number, line in enumerate(lines) if " = " in line and line[0] != "#"]
    assert all(lines[number - 1].startswith("# ") for number in keys)
    assert max(map(len, lines)) <= 100


def test_the_machine_of_the_broker_gets_all_its_settings() -> None:
    made = {"broker", "incarnation", "durable", "secured", "store_full_policy", "subscriptions_max"}
    made |= {"version", "members", "delivery_ids_bytes_max", "quotas", "leases"}
    assert set(BrokerConfig.__struct_fields__) - made <= set(BrokerTable.__struct_fields__)
    assert broker_config(ServerConfig(), "i1") == BrokerConfig(
        broker="B0", incarnation="i1", subscriptions_max=LimitsTable().subscriptions_max
    )


def test_what_is_set_reaches_the_machine() -> None:
    server = ServerConfig(
        broker=BrokerTable(name="B7", data="/var/b7", linger_s=5, session_outbox_policy="drop"),
        limits=LimitsTable(subscriptions_max=3),
        security=SecurityTable(enabled=True, users="users.toml"),
        quotas=QuotasTable(answers=7),
        optimisers=OptimisersTable(rest_s=3),
    )
    assert broker_config(server, "i2") == BrokerConfig(
        broker="B7",
        incarnation="i2",
        durable=True,
        secured=True,
        subscriptions_max=3,
        linger_s=5,
        session_outbox_policy="drop",
        quotas=UserQuotas(answers=7),
        leases=Leases(rest_s=3),
    )


@pytest.mark.parametrize(
    ("kept", "retained", "bound"), [(0, 0, 0), (8, 0, 8), (0, 40, 10), (8, 40, 8), (80, 40, 10)]
)
def test_one_user_can_not_fill_the_store(kept: int, retained: int, bound: int) -> None:
    server = ServerConfig(
        quotas=QuotasTable(kept_bytes=kept), store=StoreTable(retained_bytes_max=retained)
    )
    assert broker_config(server, "i1").quotas.kept_bytes == bound


def test_limits_are_those_of_the_wire() -> None:
    assert limits_of(ServerConfig()) == Limits()
    changed = ServerConfig(limits=LimitsTable(headers_max=3))
    assert limits_of(changed) == Limits(headers_max=3)


def test_traces_are_written_as_elsewhere() -> None:
    assert TraceTable().rows_a_group == ROWS_A_GROUP


# --- reading --------------------------------------------------------------------------------------


def test_a_file_changes_what_it_says(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [broker]
        name = "north"
        linger_s = 5  # whole numbers are numbers

        [links.neighbours]
        south = "10.0.0.2:7411"
        "B 1" = ""

        [admin]
        port = -1
        """,
    )
    assert config == ServerConfig(
        broker=BrokerTable(name="north", linger_s=5.0),
        links=LinksTable(neighbours={"south": "10.0.0.2:7411", "B 1": ""}),
        admin=AdminTable(port=-1),
    )


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        broker = { data = "store" }
        tls = { certificate = "/etc/b.pem", key = "../b.key" }
        trace = { folder = "" }
        """,
    )
    assert config.broker.data == str(tmp_path / "store")
    assert config.tls == TlsTable(certificate="/etc/b.pem", key=str(tmp_path / "../b.key"))
    assert config.trace.folder == ""


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        # Not TOML.
        ("[broker]\nname = \n", 2, "column 8: Invalid value; expected TOML"),
        ('[broker]\nname = "B', 2, "Unterminated string; expected TOML"),
        ("[broker]\n[tls]\n[broker]\n", 3, "column 8: Cannot declare ('broker',) twice; expected"),
        # Unknown.
        ("\n[brokr]\n", 2, "there is no table [brokr]; did you mean [broker]?"),
        ("[brokr.x]\n", 1, "there is no table [brokr]; did you mean [broker]?"),
        ("[x]\n", 1, "there is no table [x]; expected one of [broker], [links], [limits], "),
        ("\nport = 1\n", 2, "port stands outside of a table; expected it in [broker] or [admin]"),
        ("broker = 5\n", 1, "broker is 5; expected a table, [broker]"),
        ("[broker]\n\nprot = 1\n", 3, "[broker] has no prot; did you mean port?"),
        ("[broker]\nPort = 1\n", 2, "[broker] has no Port; did you mean port?"),
        ("[admin]\nzzz = 1\n", 2, "[admin] has no zzz; expected one of host, port"),
        ("[admin]\nport = 1\n[broker]\nport.x = 1\n", 4, "[broker] port is a table; expected a wh"),
        # Of another type, or out of bounds.
        (
            '[broker]\nport = "7"\n',
            2,
            '[broker] port is "7"; expected a whole number from 0 to 65535',
        ),
        (
            "[broker]\nport = 65536\n",
            2,
            "[broker] port is 65536; expected a whole number from 0 to",
        ),
        ("[broker]\nport = true\n", 2, "[broker] port is true; expected a whole number"),
        ("[broker]\nport = 1.5\n", 2, "[broker] port is 1.5; expected a whole number"),
        ("[admin]\nport = -2\n", 2, "[admin] port is -2; expected a whole number from -1 to 65535"),
        (
            '[broker]\nname = ""\n',
            2,
            '[broker] name is ""; expected a text of 1 to 1024 characters',
        ),
        ("[broker]\nlinger_s = -1\n", 2, "[broker] linger_s is -1; expected a number from 0 to"),
        ("[broker]\nlinger_s = nan\n", 2, "[broker] linger_s is nan; expected a number"),
        ("[broker]\nlinger_s = inf\n", 2, "[broker] linger_s is inf; expected a number"),
        (
            "[broker]\nredial_min_s = 0\n",
            2,
            "[broker] redial_min_s is 0; expected a number above 0",
        ),
        (
            "[broker]\nack_every = 0\n",
            2,
            "[broker] ack_every is 0; expected a whole number of 1 or",
        ),
        ("[broker]\ncovering = 1\n", 2, "[broker] covering is 1; expected true or false"),
        ("[broker]\ndata = []\n", 2, "[broker] data is a list; expected a text, in quotes"),
        ("[broker]\ndata = 07:32:00\n", 2, "[broker] data is a time; expected a text, in quotes"),
        ('[store]\npolicy_at_limit = "x"\n', 2, '; expected "drop" or "refuse"'),
        ("[links]\nneighbours = 3\n", 2, "[links] neighbours is 3; expected a table of name ="),
        (
            "[links.neighbours]\nB1 = 3\n",
            2,
            "[links] neighbours: B1 is 3; expected a text, in quot",
        ),
        # Not together.
        ("[broker]\nredial_max_s = 0.1\n", 2, "[broker] redial_max_s is 0.1; expected at least re"),
        ('[links.neighbours]\nB1 = ""\nB0 = ""\n', 3, "[links] a neighbour's name is the broker's"),
        ('[links.neighbours]\n"" = ""\n', 2, "[links] a neighbour's name is empty; expected"),
        ('[links.neighbours]\nB1 = "x"\n', 2, '[links] the address of B1 is "x"; expected "host:p'),
        (
            '[links]\nneighbours = { B1 = "x" }\n',
            2,
            '[links] the address of B1 is "x"; expected "h',
        ),
        ("[limits]\nframe_bytes_max = 99\n", 1, "[limits] publication_bytes_max is 983040; expect"),
        ("[limits]\npayload_bytes_max = 983040\n", 2, "[limits] payload_bytes_max is 983040; expe"),
        ("[admin]\nport = 7411\n", 2, "[admin] port is 7411, which is the broker's own; expected"),
        (
            "[gateway]\nport = 7412\n",
            2,
            "[gateway] port is 7412, which is the broker's own; expected",
        ),
        ('[gateway]\nkey = "x"\n', 2, "[gateway] there is a key; expected certificate and key"),
        (
            '[gateway]\nport = 0\n[tls]\ncertificate = "x"\nkey = "x"\nauthority = "x"\n'
            "require_client_certificate = true\n",
            2,
            "[gateway] port is 0, and the broker asks clients for certificates",
        ),
        ('[tls]\nkey = "x"\n', 2, "[tls] there is a key; expected a certificate for it"),
        ('[tls]\ncertificate = "x"\n', 2, "[tls] there is a certificate; expected the key for it"),
        (
            "[tls]\nrequire_client_certificate = true",
            2,
            "[tls] require_client_certificate is true;",
        ),
        ("[security]\nenabled = true\n", 2, "[security] enabled is true; expected users, the path"),
        (
            '[security]\ntoken = "a"\ntoken_file = "b"\n',
            3,
            "[security] there are token and token_f",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    with pytest.raises(UserError) as refused:
        read(tmp_path, text)
    place, _, said = str(refused.value).partition(": ")
    assert place == f"{tmp_path / 'roost.toml'}:{line}"
    assert message in said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"none\.toml: No such file or directory; expected a config"
    ):
        read_config(tmp_path / "none.toml")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "roost.toml"
    file.write_bytes(b'[broker]\nname = "\xff"\n')
    with pytest.raises(UserError, match=r"roost\.toml:2: the byte 0xff is not UTF-8; expected"):
        read_config(file)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            ServerConfig(security=SecurityTable(enabled=True)),
            "[security] enabled is true; expected users, the path of the users file",
        ),
        (
            ServerConfig(broker=BrokerTable(port=65_536)),
            "[broker] port is 65536; expected a whole number from 0 to 65535",
        ),
        (
            ServerConfig(limits=LimitsTable(stalled_s=0)),
            "[limits] stalled_s is 0; expected a number above 0, up to 1000000000",
        ),
    ],
)
def test_settings_from_elsewhere_are_checked_too(config: ServerConfig, message: str) -> None:
    with pytest.raises(UserError) as refused:
        check_config(config)
    assert str(refused.value) == message


# --- lines ----------------------------------------------------------------------------------------


def test_lines_of_keys() -> None:
    text = '''a = 1
# b = 2
"c d" = 3 # = 4
e.f = 5
g = """
h = 6
""" # the end
i = \'\'\'j = 7\'\'\'
[k]
l = [
  "m = 8",
  [9],
]
  [k.n] # o
'p' = { q = 10 }
[[r]]
s = 11
'''
    tomllib.loads(text)
    assert lines_of(text) == lines_of(text.replace("\n", "\r\n"))
    assert lines_of(text) == {
        ("a",): 1,
        ("c d",): 3,
        ("e",): 4,
        ("e", "f"): 4,
        ("g",): 5,
        ("i",): 8,
        ("k",): 9,
        ("k", "l"): 10,
        ("k", "n"): 14,
        ("k", "n", "p"): 15,
        ("r",): 16,
        ("r", "s"): 17,
    }


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=5,
)


@given(st.text(st.characters(codec="utf-8")), VALUES)
def test_what_is_written_is_read_back(name: str, value: object) -> None:
    assert tomllib.loads(f"{toml_key(name)} = {toml_value(value)}") == {name: value}


# --- addresses and tokens -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:7411", ("localhost", 7411)),
        ("10.0.0.2:1", ("10.0.0.2", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("", None),
        ("localhost", None),
        (":7411", None),
        ("x:", None),
        ("x:0", None),
        ("x:65536", None),
        ("::1:7411", None),
        ("x:٣", None),
        ("a b:1", None),
        ("x:1\n", None),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    if address is None:
        with pytest.raises(ValueError, match="is no address"):
            address_of(text)
    else:
        assert address_of(text) == address


def test_a_broker_logs_in_by_its_name_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("roost_abc\n")
    assert login_of(ServerConfig()) is None
    assert login_of(read(tmp_path, '[security]\ntoken = "t"')) == ("B0", "t")
    text = '[security]\nuser = "me"\ntoken_file = "token"'
    assert login_of(read(tmp_path, text)) == ("me", "roost_abc")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory; expected a file with a token"),
        (b" \n", "it is empty; expected a token"),
        (b"\xff", "not a text in UTF-8; expected a file with a token"),
    ],
)
def test_a_token_file_that_has_none(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    config = read(tmp_path, '[security]\ntoken_file = "token"')
    with pytest.raises(UserError) as refused:
        login_of(config)
    assert str(refused.value) == f"{tmp_path / 'token'}: {message}"


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    config = read(tmp_path, '[security]\ntoken = "hidden"')
    assert "hidden" not in repr(config)
    with pytest.raises(UserError) as refused:
        read(tmp_path, "[security]\ntoken = 123456")
    assert "123456" not in str(refused.value)


# --- tables of modules ----------------------------------------------------------------------------


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the module of the example were one of Roost's."""
    names = {**BUILT_IN[MODULES], "crowd": "tests.example.crowd:Crowd"}
    monkeypatch.setitem(cast(dict[str, object], BUILT_IN), MODULES, names)
    monkeypatch.setattr("roost.runtime.config.MODULE_TABLES", ("crowd",))
    monkeypatch.setattr("roost.runtime.optimisers.MODULE_TABLES", ("crowd",))


@pytest.mark.usefixtures("crowd")
def test_a_module_of_roost_has_a_table_with_its_own_settings(tmp_path: Path) -> None:
    config = read(tmp_path, '[crowd]\nmode = "observing"\nlimit = 3\n')
    table = config.modules["crowd"]
    assert (table.mode, table.settings) == ("observing", Crowd.Config(limit=3))
    check_config(config)
    found = Optimisers(config).modules
    assert {module.name for module in found} >= {"grape", "pop", "crowd"}
    assert found[-1].config.limit == 3
    assert read(tmp_path, "[crowd]\nlimit = 10\n") == ServerConfig()  # as by default
    named = read(tmp_path, '[optimisers]\nmodules = { crowd = "limit=7" }\n')
    assert Optimisers(named).modules[-1].config.limit == 7
    wrong = ServerConfig(
        modules={"crowd": ModuleTable(settings=Crowd.Config(limit=cast(int, "x")))}
    )
    with pytest.raises(UserError, match=r'\[crowd\] limit is "x"; expected a whole number'):
        check_config(wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training_s = 0\ntraining_messages = 0", "training_messages and training_s are both 0"),
        ("degree_max = 1", "degree_max is 1; expected 2 or more, or 0 for any number"),
        ('pinned = ["B1"]', "pinned has 'B1'; expected two brokers, as in 'B1 - B2'"),
        ('forbidden = ["B1 - B1"]', "forbidden has 'B1 - B1'; expected two brokers"),
        ('prices = ["B1 - B2"]', "prices has 'B1 - B2'; expected two brokers and a number above 0"),
        ('prices = ["B1 = 3"]', "prices has 'B1 = 3'; expected two brokers and a number above 0"),
        ('variant = "best"', 'variant is "best"; expected "ocbr" or "ocbr-gated" or "paper" or'),
        ("weight = 200", "weight is 200; expected a number from 0 to 100"),
        ("training_messages_max = 9", "training from 200 to 9 messages; expected 1 or more"),
    ],
)
def test_settings_of_the_overlay_that_will_not_do(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        read(tmp_path, f"[overlay]\n{text}\n")
    assert f"[overlay] {message}" in str(refused.value)


def test_the_settings_of_the_overlay(tmp_path: Path) -> None:
    text = '[overlay]\nmode = "acting"\nvariant = "paper"\npinned = ["B2 - B1", "B3--B4"]\n'
    table = read(tmp_path, text).modules["overlay"]
    assert table.mode == "acting"
    assert isinstance(table.settings, OverlaySettings)
    assert table.settings.variant == "paper"
    assert table.settings.limits().pinned == {("B1", "B2"), ("B3", "B4")}
    assert "overlay" in MODULE_TABLES


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[crowd]\nmode = "on"\n',
            '2: [crowd] mode is "on"; expected "acting" or "observing" or "off"',
        ),
        ("[crowd]\nlimit = 1.5\n", "2: [crowd] limit is 1.5; expected a whole number"),
        ("[crowd]\nlimits = 1\n", "2: [crowd] has no limits; did you mean limit?"),
        ("[crow]\n", "1: there is no table [crow]; did you mean [crowd]?"),
        (
            '[crowd]\nlimit = 1\n[optimisers]\nmodules = { crowd = "acting" }\n',
            "4: [optimisers] modules: crowd is there, and there is a table [crowd], too; expected one"
            " of them",
        ),
    ],
)
def test_tables_of_modules_that_will_not_do(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        read(tmp_path, text)
    assert str(refused.value) == f"{tmp_path / 'roost.toml'}:{message}"
