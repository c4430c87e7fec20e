"""Workload files: what is written is read back, and what is wrong is said where it is wrong."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.broker.module import ModuleState
from roost.broker.registry import ModuleOrder
from roost.errors import UserError
from roost.language import parse_advertisement, parse_event, parse_subscription
from roost.simulation import statements as say
from roost.simulation.settings import Settings
from roost.simulation.statements import Statement
from roost.simulation.workload_check import check_workload
from roost.simulation.workload_file import (
    Workload,
    WorkloadError,
    parse_workload,
    read_workload,
    write_workload,
)
from tests.simulation.workload_strategies import tree, workloads

TYPES = Statement.__subclasses__()

# A small federation, B0 - B1 - B2 and B3 apart, with a client of each kind: lines 1 to 8.
START = """\
0 broker add B0 500 16 10
0 broker add B1 500 16 10
0 broker add B2 500 16 10
0 broker add B3 500 16 10
0 link add B0 B1
0 link add B1 B2
0 publisher add P1 YHOO 10 B0
0 subscriber add S1 B1 *
"""
AFTER_START = START.count("\n") + 1


def parse(text: str) -> Workload:
    return parse_workload(text, "mesh.txt", None)


def statements_of(text: str) -> tuple[Statement, ...]:
    """What the text says, whatever the lines it says it on."""
    return tuple(msgspec.structs.replace(s, line=0) for s in parse(text).statements)


def refused(text: str) -> str:
    with pytest.raises(WorkloadError) as caught:
        parse(text)
    return str(caught.value)


# --- what the lines say ---------------------------------------------------------------------------


def test_the_lines_of_the_thesis() -> None:
    """001 section 5.1 shows these three."""
    text = (
        "1.0 broker add B0 500 16 10\n"
        "1.0 publisher add P1 YHOO 10 B0\n"
        "60.0 publisher chrate P1 20\n"
    )
    assert parse(text).statements == (
        say.AddBroker("B0", 500.0, 16.0, 10.0, at=1.0, line=1),
        say.AddPublisher("P1", "YHOO", 10.0, "B0", at=1.0, line=2),
        say.ChangeRate("P1", 20.0, at=60.0, line=3),
    )
    assert write_workload(parse(text).statements) == text


# What has to be there before the example of a statement, in its docstring, makes sense.
STAGE = """\
0.0 broker add B0 1 1 1
0.0 broker add B1 1 1 1
0.0 broker add B2 1 1 1
0.0 broker add B3 1 1 1
0.0 broker add B5 1 1 1
0.0 link add B0 B1
0.0 publisher add P1 YHOO 10 B0
0.0 subscriber add S1 B1 *
"""
STAGES: dict[type[Statement], str] = {
    say.AddBroker: "",
    say.AddLink: STAGE.replace("0.0 link add B0 B1\n", ""),
    say.MoveLink: f"{STAGE}0.0 link add B0 B2\n",
    say.AddPublisher: STAGE.replace("0.0 publisher add P1 YHOO 10 B0\n", ""),
    say.AddSubscriber: STAGE.replace("0.0 subscriber add S1 B1 *\n", ""),
    say.AddDurableSubscriber: STAGE.replace("0.0 subscriber add S1 B1 *\n", ""),
    say.RestartSubscriber: STAGE.replace("subscriber add S1", "subscriber durable S1"),
    say.Unadvertise: STAGE + "0.0 publisher advertise P1 news *\n",
    say.Unsubscribe: STAGE + "0.0 subscriber subscribe S1 dips *\n",
    say.RestartBroker: STAGE + "0.0 broker crash B1 lose\n",
    say.HealLink: STAGE + "0.0 link cut B0 B1\n",
    say.ReturnClient: STAGE + "0.0 client vanish S1\n",
}


@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.__name__)
def test_the_example_that_documents_a_statement(type_: type[Statement]) -> None:
    example = re.match(r"`(.*?)`", type_.__doc__ or "")
    assert example
    workload = parse(STAGES.get(type_, STAGE) + example[1])
    if type_ is say.Set:
        assert workload.settings == Settings(routing="flooding")
    elif type_ is say.UseOptimiser:
        order = ModuleOrder("pop", ModuleState.OBSERVING, {"traces": "50"})
        assert workload.settings.modules == (order,)
    else:
        last = workload.statements[-1]
        assert type(last) is type_
        assert write_workload([last]) == f"{example[1]}\n"


def test_statements_are_sorted_by_time_and_else_in_the_order_of_the_file() -> None:
    text = "7 end\n2 broker add B1 1 1 1\n1.5 broker add B2 1 1 1\n2 broker add B0 1 1 1\n"
    assert [(s.at, s.line) for s in parse(text).statements] == [(1.5, 3), (2, 2), (2, 4), (7, 1)]


def test_settings_are_folded_in() -> None:
    text = "0 federation set covering off\n0.0 federation set linger_s 5\n3 end"
    assert parse(text) == Workload(
        "mesh.txt", Settings(covering=False, linger_s=5.0), (say.End(at=3.0, line=3),)
    )


def test_a_file_that_says_nothing() -> None:
    for text in ("", "\n", "# nothing\n\n   # at all"):
        assert parse(text) == Workload("mesh.txt", Settings(), ())


def test_comments_blanks_and_ends_of_lines() -> None:
    text = (
        "# the head\r\n"
        "\r\n"
        "\t1.0   broker\tadd B0 500 16 10   # it's the head\r\n"
        "  #2.0 broker add B1 500 16 10\r\n"
        "2e0 subscriber add S1 B0 a = 'x # y' and b#c > 1 #d = \"\r\n"
        "3 subscriber add S2 B0 \"#\" = 'it''s # not' # \"a\" = 1\r\n"
        "4. publisher add P1 - 0 B0   [a,isPresent,'#'] # none\n"
        '5 publisher publish P1 {"a": "it\'s #1"}  # JSON\n'
    )
    assert statements_of(text) == (
        say.AddBroker("B0", 500.0, 16.0, 10.0, at=1.0),
        say.AddSubscriber("S1", "B0", parse_subscription("a = 'x # y' and b#c > 1"), at=2.0),
        say.AddSubscriber("S2", "B0", parse_subscription("\"#\" = 'it\\'s # not'"), at=3.0),
        say.AddPublisher("P1", None, 0.0, "B0", parse_advertisement("a present string"), at=4.0),
        say.Publish("P1", parse_event("[a,'it\\'s #1']"), at=5.0),
    )


def test_a_line_ends_where_editors_end_it() -> None:
    text = START + "1 subscriber add S2 B0 a = 'x\u2028y\x0c'\n1 end now"
    assert refused(text).startswith(f"mesh.txt:{AFTER_START + 1}: ")


def test_what_has_no_main_advertisement_can_be_given_one() -> None:
    parse(START + "1 publisher add P2 - 0 B0\n2 publisher advertise P2 main *")
    parse(START + "1 publisher unadvertise P1 main\n2 publisher advertise P1 main *")


def test_what_is_over_can_start_again() -> None:
    parse(
        START
        + "1 broker crash B0 keep\n2 broker restart B0\n3 broker crash B0 lose\n"
        + "1 client vanish S1\n2 client return S1\n3 client vanish S1\n"
        + "1 link cut B0 B1\n2 link heal B0 B1\n3 link cut B1 B0\n4 partition heal\n5 link cut B0 B1\n"
        + "6 link remove B0 B1\n7 link add B1 B0\n8 link cut B0 B1\n"
        + "1 subscriber subscribe S1 x *\n2 subscriber unsubscribe S1 x\n3 subscriber subscribe S1 x *\n"
        + "0.5 partition heal\n"
    )


def test_a_broker_can_go_when_its_clients_have_gone() -> None:
    workload = parse(
        START
        + "1 client redirect S1 B3\n2 broker remove B1\n3 link add B0 B2\n"
        + "4 publisher remove P1\n5 broker remove B0\n"
    )
    assert workload.statements[-1] == say.RemoveBroker("B0", at=5.0, line=AFTER_START + 4)


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["quotes.parquet", "../a b/it's #1.parquet", "ü\\\n", ""])
def test_paths_round_trip(path: str) -> None:
    both = (say.UseBars(path, at=0.0), say.UseLatencies(path, at=0.0))
    assert statements_of(write_workload(both)) == both


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mesh.txt"
    absolute = (tmp_path / "rtt.npz").as_posix()
    file.write_text(
        f"0.0 market bars 'the quotes.parquet'\n0.0 latency matrix {absolute}\n", "utf-8"
    )
    assert read_workload(file) == Workload(
        str(file),
        Settings(),
        (
            say.UseBars(str(tmp_path / "the quotes.parquet"), at=0.0, line=1),
            say.UseLatencies(str(tmp_path / "rtt.npz"), at=0.0, line=2),
        ),
    )


# --- round trips ----------------------------------------------------------------------------------


@settings(derandomize=True)
@given(workloads(), st.lists(st.text(max_size=10), max_size=3))
def test_what_is_written_is_read_back(statements: list[Statement], comments: list[str]) -> None:
    assert statements_of(write_workload(statements, comments)) == tuple(statements)


def test_the_round_trips_reach_every_statement() -> None:
    seen: set[type[Statement]] = set()

    @settings(derandomize=True, max_examples=200, database=None)
    @given(workloads())
    def look(statements: list[Statement]) -> None:
        seen.update(map(type, statements))

    look()
    assert seen == set(TYPES) - {say.Set, say.UseOptimiser}


def test_comments_are_written_above() -> None:
    written = write_workload([say.End(at=5000.0)], ["made by hand", "two\nlines", ""])
    assert written == "# made by hand\n# two\n# lines\n#\n5000.0 end\n"


def test_settings_are_written_too() -> None:
    written = write_workload([say.Set("routing", "flooding", at=0.0)])
    assert written == "0.0 federation set routing flooding\n"


@pytest.mark.parametrize(
    ("statement", "slot"),
    [
        (say.AddBroker("B 0", 1.0, 1.0, 1.0, at=0.0), "BROKER is 'B 0'"),
        (say.AddBroker("B0", float("nan"), 1.0, 1.0, at=0.0), "CPU is 'nan'"),
        (say.AddPublisher("P", "-", 1.0, "B", at=0.0), r"SYMBOL\|- is '-'"),
        (say.Partition((), at=0.0), "BROKER,BROKER,... is ''"),
        (say.End(at=-1.0), "TIME is '-1.0'"),
    ],
)
def test_what_no_file_can_say_is_not_written(statement: Statement, slot: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be written: {slot}; expected"):
        write_workload([statement])


# --- what is wrong with a line --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x broker add B9 1 1 1", "column 1: the time is 'x'; expected a time in seconds, from 0"),
        ("broker add B9 1 1 1", "the time is 'broker'; expected a time"),
        ("-1 end", "the time is '-1'; expected a time"),
        ("inf end", "the time is 'inf'; expected a time"),
        ("nan end", "the time is 'nan'; expected a time"),
        ("1e999 end", "the time is '1e999'; expected a time"),
        ("1_0 end", "the time is '1_0'; expected a time"),
        ("1", "column 2: the noun is missing; expected one of broker, client, end,"),
        ("1 brokr add B9 1 1 1", "unknown noun 'brokr'; expected one of\ndid you mean broker?"),
        ("1 xyzzy", "column 3: unknown noun 'xyzzy'; expected one of broker, client, end,"),
        (
            "1 broker",
            "the verb of broker is missing; expected one of add, ask, crash, fill, free, remove, restart",
        ),
        ("1 link ad B0 B3", "unknown verb of link 'ad'; expected one of\ndid you mean add?"),
        ("1 Broker add B9 1 1 1", "unknown noun 'Broker'\ndid you mean broker?"),
        (
            "1 broker add B9 1 1",
            "too few arguments; expected TIME broker add BROKER CPU MEMORY BAND",
        ),
        ("1 subscriber add S9 B0", "too few arguments; expected TIME subscriber add SUBSCRIBER"),
        ("1 publisher chrate P1 2 3", "column 25: too many arguments; expected TIME publisher chr"),
        ("1 end now", "column 7: too many arguments; expected TIME end"),
        ("1 partition cut B1, B2", "too many arguments; expected TIME partition cut BROKER,BROKER"),
        (
            "1 broker add B9 fast 1 1",
            "CPU is 'fast'; expected a number above 0\nwrite TIME broker add",
        ),
        ("1 broker add B9 0 1 1", "column 17: CPU is '0'; expected a number above 0"),
        ("1 broker add B9 1 -1 1", "MEMORY is '-1'; expected a number above 0"),
        ("1 broker add B9 1 1 inf", "BANDWIDTH is 'inf'; expected a number above 0"),
        ("1 broker slow B0 0", "FACTOR is '0'; expected a number above 0"),
        ("1 publisher add P9 X -1 B0", "RATE is '-1'; expected a number from 0 on"),
        ("1 publisher chrate P1 -2", "RATE is '-2'; expected a number from 0 on"),
        ("1 link add B0 B3 -5", "LATENCY is '-5'; expected a number from 0 on"),
        ("1 link delay B0 B1 -5 1", "EXTRA_MS is '-5'; expected a number from 0 on"),
        ("1 link delay B0 B1 5 0", "SECONDS is '0'; expected a number above 0"),
        ("1 broker crash B0 maybe", "keep|lose is 'maybe'; expected keep or lose"),
        (
            "1 broker add B/9 1 1 1",
            "BROKER is 'B/9'; expected a name of at most 64 letters, digits",
        ),
        ("1 broker add Bé 1 1 1", "BROKER is 'Bé'; expected a name of at most 64 letters, digits"),
        (f"1 broker add {'B' * 65} 1 1 1", "expected a name of at most 64 letters, digits"),
        ("1 subscriber subscribe S1 a=b *", "NAME is 'a=b'; expected a name"),
        ("1 publisher add P9 'X' 1 B0", "SYMBOL|- is \"'X'\"; expected a symbol"),
        ("1 partition cut B1,,B2", "BROKER,BROKER,... is 'B1,,B2'; expected different brokers"),
        ("1 partition cut B1,B1", "BROKER,BROKER,... is 'B1,B1'; expected different brokers"),
        ("0 market bars my quotes.parquet", "expected a path, in quotes if it has blanks"),
        ("1 subscriber add S9 B0 a =", "column 27: found the end of the text; expected a value"),
        (
            "1 subscriber add S9 B0 a = YHOO",
            "found the word YHOO; expected a value\nhint: a string",
        ),
        ("1 publisher publish P1 [a", "found the end of the text; expected ','"),
        ("1 publisher publish P1 a = 1", "expected an event"),
        ("1 publisher add P9 X 1 B0 [a,eq", "found the end of the text; expected ','"),
        (r"0 market bars 'a\q'", r"column 15: found the escape \q"),
    ],
)
def test_a_line_that_cannot_be_read(line: str, words: str) -> None:
    message = refused(f"{START}\n{line}  # what?\n1 end")
    assert message.startswith(f"mesh.txt:{AFTER_START + 1}: column ")
    for part in words.split("\n"):
        assert part in message


def test_an_error_points_at_the_column_of_the_line() -> None:
    line = "  10.0 subscriber add S2 B1  class = 'STOCK' and symbol = YHOO # Yahoo"
    assert refused(START + line) == (
        "mesh.txt:9: column 59: found the word YHOO; expected a value\n"
        "    10.0 subscriber add S2 B1  class = 'STOCK' and symbol = YHOO\n"
        f"  {' ' * line.index('YHOO')}^\n"
        "hint: a string needs quotes: 'YHOO'"
    )


def test_an_error_shows_the_line_and_how_it_is_written() -> None:
    assert refused("1.0 broker add B0 fast 16 10") == (
        "mesh.txt:1: column 19: CPU is 'fast'; expected a number above 0\n"
        "  1.0 broker add B0 fast 16 10\n"
        "                    ^\n"
        "hint: write TIME broker add BROKER CPU MEMORY BANDWIDTH [MACHINE]"
    )


# --- what is wrong with the whole -----------------------------------------------------------------

DOWN = "1 broker crash B0 keep\n"
GONE = "1 client vanish S1\n"
QUIET = "1 publisher add P2 - 0 B0\n"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        # Names.
        (
            "1 broker add B0 1 1 1",
            "B0 is that of a broker already (line 1, at 0 s); expected a new id",
        ),
        ("1 broker add S1 1 1 1", "S1 is that of a subscriber already (line 8, at 0 s)"),
        ("1 publisher add B0 X 1 B1", "B0 is that of a broker already (line 1, at 0 s)"),
        ("1 subscriber add P1 B1 *", "P1 is that of a publisher already (line 7, at 0 s)"),
        (
            "1 broker remove B3\n2 broker add B3 1 1 1",
            "B3 is that of a broker already\nnone is used ag",
        ),
        ("1 broker crash B9 keep", "there is no broker B9; expected one that was added before"),
        ("1 subscriber add S9 B9 *", "there is no broker B9; expected"),
        ("1 publisher add P9 X 1 B9", "there is no broker B9; expected"),
        ("1 client vanish X", "there is no publisher or subscriber X; expected"),
        ("1 client redirect S1 B9", "there is no broker B9; expected"),
        ("1 partition cut B0,B9", "there is no broker B9; expected"),
        ("1 broker slow B9 2", "there is no broker B9; expected"),
        ("1 publisher publish S1 []", "S1 is a subscriber (line 8, at 0 s); expected a publisher"),
        ("1 broker crash P1 keep", "P1 is a publisher (line 7, at 0 s); expected a broker"),
        (
            "1 client redirect B0 B1",
            "B0 is a broker (line 1, at 0 s); expected a publisher or subscr",
        ),
        (
            "1 subscriber remove S1\n2 client vanish S1",
            "subscriber S1 was removed (line 9, at 1 s)",
        ),
        (
            "1 publisher remove P1\n2 publisher chrate P1 2",
            "publisher P1 was removed (line 9, at 1 s)",
        ),
        ("1 broker remove B3\n2 link add B2 B3", "the broker B3 was removed (line 9, at 1 s)"),
        # Links.
        ("1 link add B3 B3", "a link from B3 to itself; expected two brokers"),
        ("1 link add B1 B0", "there is a link B1 - B0 already; expected two"),
        (
            "1 link add B0 B2",
            "would close a cycle, B0 - B1 - B2 - B0; expected an overlay that is a tree",
        ),
        ("1 link add B2 B3\n2 link add B3 B0", "would close a cycle, B3 - B2 - B1 - B0 - B3;"),
        (
            "1 link remove B0 B2",
            "there is no link B0 - B2; expected one that was added\nlinked to: B1",
        ),
        ("1 link cut B0 B3", "there is no link B0 - B3; expected one that was added"),
        ("1 link heal B0 B3", "there is no link B0 - B3; expected one that was added"),
        ("1 link delay B3 B0 5 5", "there is no link B3 - B0; expected\nB3 is linked to: none"),
        ("1 link remove B1 B0\n2 link cut B0 B1", "there is no link B0 - B1; expected"),
        ("1 link cut B0 B1\n2 link cut B1 B0", "B1 - B0 is cut already (line 9, at 1 s); heal it"),
        ("1 link heal B0 B1", "the link B0 - B1 is not cut; expected one that `link cut` cut"),
        ("1 partition cut B0\n2 link heal B0 B1", "not cut\n`partition heal` ends a partition"),
        ("1 link cut B0 B1\n2 partition heal\n3 link heal B0 B1", "the link B0 - B1 is not cut"),
        # Clients.
        (
            QUIET + "2 publisher chrate P2 5",
            "P2 has no symbol (line 9, at 1 s), and so no rate; expec",
        ),
        (
            "1 publisher unadvertise P1 x",
            "P1 has no advertisement 'x'; expected one of those\n: main",
        ),
        (
            QUIET + "2 publisher unadvertise P2 main",
            "P2 has no advertisement 'main'; expected\n: none",
        ),
        (
            "1 publisher advertise P1 main *",
            "P1 has the advertisement 'main' already; expected a new",
        ),
        (
            "1 subscriber unsubscribe S1 x",
            "S1 has no subscription 'x'; expected one of those\n: main",
        ),
        (
            "1 subscriber subscribe S1 main *",
            "S1 has the subscription 'main' already; expected a new",
        ),
        (GONE + "2 client vanish S1", "S1 is gone (line 9, at 1 s); let it return first"),
        (GONE + "2 client redirect S1 B0", "S1 is gone (line 9, at 1 s); let it return first"),
        (GONE + "2 subscriber remove S1", "S1 is gone (line 9, at 1 s); let it return first"),
        ("1 client return S1", "S1 has not vanished; expected a client that is gone"),
        # Brokers.
        (DOWN + "2 broker crash B0 keep", "B0 is down (line 9, at 1 s); restart it first"),
        (DOWN + "2 broker remove B0", "B0 is down (line 9, at 1 s); restart it first"),
        ("1 broker restart B0", "B0 has not crashed; expected a broker that is down"),
        ("1 broker remove B0", "B0 still has 1 client (P1); remove or redirect its clients first"),
        (
            "1 client redirect S1 B3\n2 broker remove B3",
            "B3 still has 1 client (S1); remove or redi",
        ),
        (
            "".join(f"1 subscriber add X{i} B2 *\n" for i in range(5)) + "2 broker remove B2",
            "B2 still has 5 clients (X0, X1, X2, ...); remove or redirect its clients first",
        ),
        # The run.
        ("1 end\n2 end", "a second end, after line 9, at 1 s; expected only one"),
        ("0 federation set speed 3", "unknown setting 'speed'; there are routing, covering,"),
        ("0 federation set covering maybe", "setting covering: 'maybe' will not do"),
        ("1 federation set covering off", "covering is set at 1 s; expected time 0.0"),
    ],
)
def test_a_line_that_does_not_follow_from_those_before(lines: str, words: str) -> None:
    message = refused(START + lines)
    assert message.startswith(f"mesh.txt:{AFTER_START + lines.count(chr(10))}: ")
    for part in words.split("\n"):
        assert part in message


def test_time_counts_and_not_the_order_of_the_file() -> None:
    text = "5 link add B0 B1\n9 broker add B1 1 1 1\n2 broker add B0 1 1 1\n"
    assert refused(text) == (
        "mesh.txt:1: B1 is used before it is added (line 2, at 9 s); expected a broker that is there\n"
        "  5 link add B0 B1"
    )
    parse(text.replace("9 ", "4 "))


def test_a_long_cycle_is_cut_short() -> None:
    brokers = "".join(f"0 broker add B{i} 1 1 1\n" for i in range(30))
    chain = "".join(f"1 link add B{i} B{i + 1}\n" for i in range(29))
    assert (
        "a cycle, B0 - B1 - B2 - B3 - B4 - B5 - ... - B25 - B26 - B27 - B28 - B29 - B0; expected"
    ) in refused(f"{brokers}{chain}2 link add B0 B29")


@settings(derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40))
def test_a_link_is_refused_when_there_is_a_way_already(pairs: list[tuple[int, int]]) -> None:
    """Every pair is linked, or unlinked if it is linked, as far as that is allowed."""
    accepted: list[Statement] = [say.AddBroker(f"B{i}", 1.0, 1.0, 1.0, at=0.0) for i in range(7)]
    links: list[tuple[str, str]] = []
    for a, b in ((f"B{min(pair)}", f"B{max(pair)}") for pair in pairs):
        if (a, b) in links:
            links.remove((a, b))
            accepted.append(say.RemoveLink(b, a, at=0.0))
        elif b not in tree(links, a):
            links.append((a, b))
            accepted.append(say.AddLink(a, b, at=0.0))
        else:
            with pytest.raises(WorkloadError, match=r"itself|would close a cycle"):
                check_workload([*accepted, say.AddLink(a, b, at=0.0)], "made")
    check_workload(accepted, "made")


def test_statements_that_come_from_no_file_can_be_checked() -> None:
    made = [say.RestartBroker("B0", at=2.0), say.AddBroker("B0", 1.0, 1.0, 1.0, at=3.0)]
    with pytest.raises(WorkloadError) as caught:
        check_workload(made, "generated")
    assert str(caught.value) == (
        "generated: B0 is used before it is added (at 3 s); expected a broker that is there"
    )


WORDS = "0 1 -1 1e999 broker link publisher subscriber client partition federation market end add remove"
MORE_WORDS = (
    "crash cut heal set bars redirect B0 B1 B2 B3 P1 S1 X keep - * [a,1] a = ' \" # covering off"
)


@settings(derandomize=True)
@given(
    st.lists(
        st.one_of(st.sampled_from(f"{WORDS} {MORE_WORDS} \n".split(" ")), st.text(max_size=3)),
        max_size=20,
    )
)
def test_whatever_the_text_is_it_is_read_or_refused(words: list[str]) -> None:
    text = START + " ".join(words)
    message = None
    try:
        parse(text)
    except WorkloadError as error:
        message = str(error)
    assert message is None or re.match(r"mesh\.txt:[1-9][0-9]*: .*; \w+", message)


# --- files ----------------------------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        WorkloadError, match=r"none\.txt: No such file or directory; expected a work"
    ):
        read_workload(tmp_path / "none.txt")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"Is a directory; expected a workload file"):
        read_workload(tmp_path)


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "latin.txt"
    file.write_bytes(b"# one\n# gr\xfcn\n")
    with pytest.raises(WorkloadError, match=r"latin\.txt:2: the byte 0xfc is not UTF-8; expected"):
        read_workload(file)


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "mesh.txt"
    file.write_bytes(b"\xef\xbb\xbf7 end\n")
    assert read_workload(file).statements == (say.End(at=7.0, line=1),)


def test_the_errors_are_for_people_and_can_be_pickled() -> None:
    with pytest.raises(UserError) as caught:
        parse("1 end now")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_only_a_durable_subscriber_is_restarted() -> None:
    message = refused(STAGE + "1 subscriber restart S1")
    assert "the subscriber S1 is not durable (line 8, at 0 s)" in message
