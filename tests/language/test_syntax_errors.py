"""A text that is refused: where, why, what was probably meant; and that it is refused quickly."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from roost.errors import UserError
from roost.language import (
    LanguageError,
    ParseError,
    parse_advertisement,
    parse_event,
    parse_filter,
    parse_subscription,
)
from roost.language.cursor import TEXT_LENGTH_MAX
from roost.language.event import ATTRIBUTES_MAX
from roost.language.filter import FILTERS_MAX, PREDICATES_MAX
from roost.language.predicate import MEMBERS_MAX
from roost.language.readable import NESTING_MAX
from roost.language.values import CONSTANT_LENGTH_MAX, NAME_LENGTH_MAX, STRING_LENGTH_MAX

PARSERS: list[Callable[[str], object]] = [
    parse_filter,
    parse_subscription,
    parse_advertisement,
    parse_event,
]

# text, line, column, part of what was found and expected, part of the hint ("" where there is none)
FILTERS = [
    # unquoted strings, and other things that are no values
    ("class = STOCK", 1, 9, "the word STOCK, expected a value", "needs quotes: 'STOCK'"),
    ("[class,eq,STOCK]", 1, 11, "the word STOCK, expected a value", "needs quotes: 'STOCK'"),
    ("x = null", 1, 5, "the word null", "there is no null"),
    ("x = None", 1, 5, "the word None", "there is no null"),
    ("x = nan", 1, 5, "the word nan", "NaN compares with nothing"),
    ("[x,>,NaN]", 1, 6, "the word NaN", "NaN compares with nothing"),
    ("x in (1, nan)", 1, 10, "the word nan", "NaN compares with nothing"),
    ("x = -nan", 1, 5, "'-nan', expected a value", "a number looks like"),
    ("x = infinity", 1, 5, "the word infinity", "written inf"),
    ("x = 1e400", 1, 5, "1e400, expected a number up to 1.79", ""),
    ("x = 9223372036854775808", 1, 5, "expected an integer of 64 bits", "as a float"),
    ("[x,<,-9223372036854775809]", 1, 6, "expected an integer of 64 bits", "as a float"),
    ("x = 5k", 1, 5, "'5k', expected a value", "a number looks like"),
    ("x = 1.2.3", 1, 5, "'1.2.3', expected a value", "a number looks like"),
    ("x = 1_000", 1, 5, "'1_000', expected a value", "a number looks like"),
    ("x = (1, 2)", 1, 5, "'(', expected a value", "'in'"),
    ("x = ", 1, 5, "the end of the text, expected a value", ""),
    # strings
    ("class = 'STOCK", 1, 9, "a quote that is never closed", "close the string with '"),
    ('class = "STOCK', 1, 9, "a quote that is never closed", 'close the string with "'),
    ("[class,eq,'STOCK],[x,eq,1]", 1, 11, "a quote that is never closed", "close the string"),
    ("a = 'STOCK and b = 'YHOO'", 1, 21, "the word YHOO", "a ' is missing before this"),
    ("a = 'it's'", 1, 9, "the word s", "needs a backslash"),
    ("class = \u201cSTOCK\u201d", 1, 9, "'\u201c', expected a value", "straight quotes"),
    ("class = \u2018STOCK\u2019", 1, 9, "'\u2018', expected a value", "straight quotes"),
    ("\u201cclass\u201d = 1", 1, 1, "'\u201c', expected an attribute", "straight quotes"),
    (r"x = 'ab\q'", 1, 8, r"the escape \q", r"for a backslash itself write \\"),
    (r"x = '\x4'", 1, 6, r"the escape \x", r"for a backslash itself write \\"),
    (r"x = '\U00110000'", 1, 6, r"the escape \U00110000, expected a character", ""),
    (r"x = '\ud800'", 1, 5, r"\ud800, half of a surrogate pair", ""),
    ("x = '\ud800'", 1, 5, r"\ud800, half of a surrogate pair", ""),
    # operators
    ("class == 'STOCK'", 1, 7, "'==', expected an operator", "write ="),
    ("x => 5", 1, 3, "'=>', expected an operator", "write >="),
    ("x =< 5", 1, 3, "'=<', expected an operator", "write <="),
    ("x ! 5", 1, 3, "'!', expected an operator", "write !="),
    ("symbol LIKE 'Y%'", 1, 8, "the word LIKE, expected an operator", "prefix, suffix and"),
    ("symbol =~ 'Y.*'", 1, 8, "'=~', expected an operator", "prefix, suffix and"),
    ("x between 1 and 2", 1, 3, "the word between", "two predicates"),
    ("x is null", 1, 3, "the word is", "write present"),
    ("x gte 5", 1, 3, "the word gte", "write >="),
    ("volume &gt; 5", 1, 8, "'&gt;'", "HTML-escaped: write >"),
    ("symbol prefx 'Y'", 1, 8, "the word prefx", "did you mean prefix?"),
    ("symbol contain 'Y'", 1, 8, "the word contain", "did you mean contains?"),
    ("symbol isPresnt", 1, 8, "the word isPresnt", "did you mean isPresent?"),
    ("[x,isPresnt,0]", 1, 4, "the word isPresnt", "did you mean isPresent?"),
    ("[x,str-prefx,'a']", 1, 4, "the word str-prefx", "did you mean str-prefix?"),
    ("class 'STOCK'", 1, 7, "the string 'STOCK', expected an op", "missing: class = 'STOCK'"),
    ("class STOCK", 1, 7, "the word STOCK, expected an op", "missing: class = 'STOCK'"),
    ("volume 300", 1, 8, "the number 300, expected an op", "missing: volume = 300"),
    ("class", 1, 6, "the end of the text, expected an operator", "class present"),
    ("class and x = 1", 1, 7, "the word and, expected an operator", "class present"),
    ("(class,eq,'STOCK')", 1, 7, "',', expected an operator", "[class,eq,'STOCK']"),
    ("x prefix 3", 1, 10, "the number 3, expected a string after prefix", "quote it: '3'"),
    ("x suffix true", 1, 10, "the word true, expected a string after suffix", "'true'"),
    ("[x,str-contains,inf]", 1, 17, "the word inf, expected a string after contains", ""),
    ("[x,str-lt,5]", 1, 11, "the number 5, expected a string after str-lt", "quote it: '5'"),
    ("x str-GE true", 1, 10, "the word true, expected a string after str-ge", "'true'"),
    ("x < true", 1, 5, "the word true, expected a number or a string", "bools have no order"),
    ("x > *", 1, 5, "'*', expected a value", "only = takes *"),
    # in, present
    ("x in 'A'", 1, 6, "the string 'A', expected ( and the values", "('A', 'B')"),
    ("x in [1]", 1, 6, "'[', expected ( and the values", "('A', 'B')"),
    ("x in ()", 1, 7, "')', expected a value of 'in'", ""),
    ("x in ('A'", 1, 10, "the end of the text, expected ',' or ')'", "close the ("),
    ("x in ('A' 'B')", 1, 11, "the string 'B', expected ',' or ')'", "a comma"),
    ("x in ('A', B)", 1, 12, "the word B", "needs quotes: 'B'"),
    ("x present int", 1, 11, "the word int, expected number, string", "present number?"),
    ("x present sting", 1, 11, "the word sting", "present string?"),
    ("x present 0", 1, 11, "the number 0", "present number?"),
    ("[x,isPresent]", 1, 13, "']', expected ','", "[volume,isPresent,0]"),
    ("[x,isPresent,number]", 1, 14, "expected an example of the kind", ""),
    # what joins predicates
    ("a = 1 && b = 2", 1, 7, "'&&', expected 'and' or the end", "by 'and'"),
    ("a = 1 || b = 2", 1, 7, "'||', expected 'and' or the end", "by 'or'"),
    ("a = 1; b = 2", 1, 6, "';', expected 'and' or the end", "by 'and'"),
    ("a = 1, b = 2", 1, 6, "',', expected 'and' or the end", "by 'and'"),
    ("a = 1 adn b = 2", 1, 7, "the word adn, expected 'and'", "did you mean 'and'?"),
    ("a = 1 b = 2", 1, 7, "the word b, expected 'and'", "by 'and'"),
    ("volume > 300,000", 1, 13, "',', expected 'and'", "without commas"),
    ("a = 1 or b = 2", 1, 7, "the word or, expected one filter", "subscriptions"),
    ("(a = 1 or b = 2)", 1, 8, "the word or, expected one filter", "subscriptions"),
    ("[a,eq,1] or [b,eq,2]", 1, 10, "the word or, expected one filter", "subscriptions"),
    ("(a = 1", 1, 7, "the end of the text, expected 'and' or ')'", "close the ("),
    ("a = 1)", 1, 6, "')', expected 'and' or the end", "no ( that it closes"),
    ("a = 1 [b,eq,2]", 1, 7, "'[', expected 'and' or the end", "do not mix"),
    ("[a,eq,1],b = 2", 1, 10, "the word b, expected '['", "do not mix"),
    ("[a,eq,1][b,eq,2]", 1, 9, "'[', expected ',' or the end", "a comma"),
    ("[a,eq,1];[b,eq,2]", 1, 9, "';', expected ',' or the end", "a comma"),
    ("[a,eq,1] and [b,eq,2]", 1, 10, "the word and, expected ',' or the end", "a comma"),
    ("[a,eq,1],", 1, 10, "the end of the text, expected '['", ""),
    # elements of a bracket predicate
    ("[a]", 1, 3, "']', expected ','", "three elements"),
    ("[a,eq]", 1, 6, "']', expected ','", "three elements"),
    ("[class,'STOCK']", 1, 8, "the string 'STOCK', expected an operator", "three elements"),
    ("[a,eq,1,2]", 1, 8, "',', expected ']'", "three elements"),
    ("[a,,1]", 1, 4, "',', expected an operator", "three elements"),
    ("[a,eq,1", 1, 8, "the end of the text, expected ']'", "close the ["),
    ("[a,eq,1,[b,eq,2]", 1, 8, "',', expected ']'", "three elements"),
    ("[]", 1, 2, "']', expected a predicate", "[*]"),
    # names
    ("'class' = 1", 1, 1, "the string 'class', expected an attribute", '"class"'),
    ("2nd = 1", 1, 1, "'2nd', expected an attribute name", ""),
    ("5 = x", 1, 1, "the number 5, expected an attribute", "starts with its attribute"),
    ('"" = 1', 1, 1, "an empty name, expected an attribute name", ""),
    (r'"\ud800" = 1', 1, 1, "half of a surrogate pair", ""),
    ("in = 1", 1, 1, "the word in, expected an attribute name", 'written "in"'),
    ("a = 1 and Or = 2", 1, 11, "the word Or, expected an attribute name", 'written "Or"'),
    ("not a = 1", 1, 1, "the word not, expected an attribute name", "there is no 'not'"),
    ("!a = 1", 1, 1, "'!', expected an attribute name", "there is no 'not'"),
    # whole texts
    ("", 1, 1, "the end of the text, expected a filter", "every event is *"),
    (" \n\t", 2, 2, "the end of the text, expected a filter", "every event is *"),
    ('{"class": "STOCK"}', 1, 1, "'{', expected a filter", "is an event"),
    ("a = 1\nand b = 2\n  and c ~ 3", 3, 9, "'~', expected an operator", "prefix"),
    ("a = 1 and\n", 2, 1, "the end of the text, expected an attribute name", ""),
    ("[a,eq,1],\n[b,eq,\n]", 3, 1, "']', expected a value", ""),
    ("a\x07 = 1", 1, 2, r"'\x07', expected an operator", ""),
]

EVENTS = [
    ("", 1, 1, "the end of the text, expected an event", "[class,'STOCK']"),
    ("class = 'STOCK'", 1, 1, "the word class, expected an event", "[class,'STOCK']"),
    ("[class,eq,'STOCK']", 1, 8, "the word eq, expected a value", "it is a filter"),
    ("[volume,>,3]", 1, 9, "'>', expected a value", "it is a filter"),
    ("[class,STOCK]", 1, 8, "the word STOCK, expected a value", "needs quotes"),
    ("[class]", 1, 7, "']', expected ','", "two elements"),
    ("[class,'a','b']", 1, 11, "',', expected ']'", "two elements"),
    ("[a,1][b,2]", 1, 6, "'[', expected ',' or the end", "a comma"),
    ("[a,1],[b,2],[a,3]", 1, 14, "a second 'a', expected each attribute", ""),
    ("[],[a,1]", 1, 3, "',', expected the end", "without attributes"),
    ("[a,null]", 1, 4, "the word null", "leave the attribute out"),
    ('{"a": null}', 1, 7, "'null', expected a string, a number", "leave the attribute out"),
    ('{"a": {"b": 1}}', 1, 7, "'{', expected a string, a number", "flat"),
    ('{"a": [1]}', 1, 7, "'[', expected a string, a number", "flat"),
    ('{"a": 1,\n "a": 2}', 2, 2, "a second 'a', expected each attribute", ""),
    ('{"a": NaN}', 1, 7, "NaN, expected a number", "neither NaN nor"),
    ('{"a": -Infinity}', 1, 7, "-Infinity, expected a number", "neither NaN nor"),
    ('{"a": 1e400}', 1, 7, "1e400, expected a number up to", ""),
    ('{"a": 9223372036854775808}', 1, 7, "expected an integer of 64 bits", "as a float"),
    ('{"a": 1,}', 1, 9, "'}', expected an attribute name", "remove the comma"),
    ("{'a': 1}", 1, 2, '"\'", expected an attribute name', "double quotes"),
    ("{\"a\": 'x'}", 1, 7, '"\'", expected a string', "double quotes"),
    ("{a: 1}", 1, 2, "'a', expected an attribute name", 'in quotes: "a"'),
    ('{"a": True}', 1, 7, "'True', expected a string", "write true"),
    ('{"a": None}', 1, 7, "'None', expected a string", "leave the attribute out"),
    ('{"a": STOCK}', 1, 7, "'STOCK', expected a string", 'in quotes: "STOCK"'),
    ('{"a": "x}', 1, 7, "a quote that is never closed", 'with "'),
    ('{"a": "\n"}', 1, 8, r"'\n', expected an escape", ""),
    (r'{"a": "\q"}', 1, 8, "expected an escape that JSON has", r"\\"),
    (r'{"a": "\u12"}', 1, 9, "expected an escape that JSON has", r"\\"),
    (r'{"a": "\ud800"}', 1, 7, "half of a surrogate pair", ""),
    ('{"": 1}', 1, 2, "an empty name", ""),
    ('{"a" 1}', 1, 6, "'1', expected ':'", ""),
    ('{"a": 1 "b": 2}', 1, 9, "expected ',' or '}'", ""),
    ('{"a": 01}', 1, 8, "expected ',' or '}'", ""),
    ('{"a": 1} {', 1, 10, "'{', expected the end", "one object is one event"),
    ("{", 1, 2, "the end of the text, expected an attribute name", ""),
    ('{"a":', 1, 6, "the end of the text, expected a string", ""),
]


@pytest.mark.parametrize(("text", "line", "column", "message", "hint"), FILTERS)
def test_refused_filters(text: str, line: int, column: int, message: str, hint: str) -> None:
    check(parse_filter, text, (line, column), message, hint)
    if "expected one filter" not in message:
        message = message.replace("'and' or ", "'and', 'or' or ")
        message = message.replace("',' or the end", "',', 'or' or the end")
        check(parse_subscription, text, (line, column), message, hint)
        check(parse_advertisement, text, (line, column), message, hint)


@pytest.mark.parametrize(("text", "line", "column", "message", "hint"), EVENTS)
def test_refused_events(text: str, line: int, column: int, message: str, hint: str) -> None:
    check(parse_event, text, (line, column), message, hint)


def check(
    parse: Callable[[str], object], text: str, place: tuple[int, int], message: str, hint: str
) -> None:
    with pytest.raises(ParseError) as refused:
        parse(text)
    error = refused.value
    assert (error.place.line, error.place.column) == place
    assert message in f"{error.found}, expected {error.expected}"
    assert hint in (error.suggestion or "")
    lines = str(error).split("\n")
    assert lines[0].startswith(f"line {place[0]}, column {place[1]}: found ")
    assert lines[2] == " " * (1 + place[1]) + "^"


def test_a_whole_message() -> None:
    with pytest.raises(UserError) as refused:
        parse_filter("class = 'STOCK' and\nsymbol = YHOO")
    assert str(refused.value) == (
        "line 2, column 10: found the word YHOO, expected a value\n"
        "  symbol = YHOO\n"
        "           ^\n"
        "hint: a string needs quotes: 'YHOO'"
    )


LIMITS = [
    (parse_filter, f"{'n' * 257} = 1", "a name of 257", NAME_LENGTH_MAX, 1),
    (parse_filter, f'"{"n" * 257}" = 1', "a name of 257", NAME_LENGTH_MAX, 1),
    (parse_event, f"[{'n' * 257},1]", "a name of 257", NAME_LENGTH_MAX, 2),
    (parse_event, f'{{"{"n" * 257}": 1}}', "a name of 257", NAME_LENGTH_MAX, 2),
    (parse_filter, f"x = '{'v' * 4097}'", "a string of 4,097", CONSTANT_LENGTH_MAX, 5),
    (parse_filter, f"x in ('{'v' * 4097}')", "a string of 4,097", CONSTANT_LENGTH_MAX, 7),
    (parse_event, f"[x,'{'v' * 65537}']", "a string of 65,537", STRING_LENGTH_MAX, 4),
    (parse_event, f'{{"x":"{"v" * 65537}"}}', "a string of 65,537", STRING_LENGTH_MAX, 6),
    (parse_filter, f"x in ({'1,' * 4096}2)", "", MEMBERS_MAX, 7 + 2 * 4096),
    (parse_filter, "a=1 and " * 257 + "a=1", "257 predicates", PREDICATES_MAX, 256 * 8 + 1),
    (parse_filter, "[a,=,1]," * 257 + "[a,=,1]", "257 predicates", PREDICATES_MAX, 256 * 8 + 1),
    (parse_subscription, "a=1 or " * 64 + "a=1", "65 filters", FILTERS_MAX, 64 * 7 - 2),
    (parse_subscription, "[*] or " * 64 + "[*]", "65 filters", FILTERS_MAX, 64 * 7 - 2),
    (parse_subscription, " and ".join(["(a=1 or b=2)"] * 7), "128 filters", FILTERS_MAX, 103),
    (
        parse_subscription,
        f"({' and '.join(['a=1'] * 200)}) and ({' and '.join(['b=1'] * 57)})",
        "257 predicates",
        PREDICATES_MAX,
        1603,
    ),
    (parse_filter, "(" * 65 + "a=1" + ")" * 65, "'('", NESTING_MAX, 65),
    (
        parse_event,
        ",".join(f"[a{i},1]" for i in range(1025)),
        "attribute number 1,025",
        ATTRIBUTES_MAX,
        9131,
    ),
    (
        parse_event,
        f"{{{','.join(f'{chr(34)}a{i}{chr(34)}:1' for i in range(1025))}}}",
        "attribute number 1,025",
        ATTRIBUTES_MAX,
        9132,
    ),
]


@pytest.mark.parametrize(("parse", "text", "found", "limit", "column"), LIMITS)
def test_limits(
    parse: Callable[[str], object], text: str, found: str, limit: int, column: int
) -> None:
    with pytest.raises(ParseError) as refused:
        parse(text)
    assert found in refused.value.found
    assert f"at most {limit:,}" in refused.value.expected
    assert refused.value.place.column == column


def test_just_within_the_limits() -> None:
    longest = f"{'n' * NAME_LENGTH_MAX} = '{'v' * CONSTANT_LENGTH_MAX}'"
    assert len(parse_filter(" and ".join([longest] * 3)).predicates) == 3
    assert len(parse_filter(" and ".join(["a=1"] * PREDICATES_MAX)).predicates) == PREDICATES_MAX
    assert len(parse_subscription(" or ".join(["a=1"] * FILTERS_MAX)).filters) == FILTERS_MAX
    assert len(parse_subscription(" and ".join(["(a=1 or b=2)"] * 6)).filters) == FILTERS_MAX
    assert parse_filter("(" * NESTING_MAX + "a=1" + ")" * NESTING_MAX) == parse_filter("a=1")
    assert parse_filter(f"x in ({','.join(map(str, range(MEMBERS_MAX)))})")
    assert parse_event(f"[x,'{'v' * STRING_LENGTH_MAX}']")
    text = "a=1".ljust(TEXT_LENGTH_MAX)
    assert parse_filter(text) == parse_filter("a=1")


MIB = 1 << 20
HUGE = {
    "10 MB": "x" * 10_000_000,
    "10 MB in a string": f"class = '{'x' * 10_000_000}'",
    "10 MB of brackets": "[" * 10_000_000,
    "10,000 predicates": " and ".join(["volume > 300000"] * 10_000),
    "10,000 bracket predicates": ",".join(["[volume,>,300000]"] * 10_000),
    "100,000 parentheses": "(" * 100_000 + "a = 1" + ")" * 100_000,
    "100,000 brackets": "[" * 100_000,
    "100,000 nested lists in JSON": '{"a":' + "[" * 100_000,
    "100,000 nested objects": '{"a":' * 100_000,
    "blanks": " " * (MIB - 1) + "=",
    "a name": "x" * MIB,
    "an open string": "x = '" + "y" * (MIB - 5),
    "an open string of escapes": "x = '" + "\\'" * (MIB // 2 - 5),
    "an open string of quotes": "x = '" + "''" * (MIB // 2 - 5),
    "a string of quotes": "x = '" + "''" * (MIB // 2 - 5) + "'",
    "an open JSON string": '{"x": "' + '\\"' * (MIB // 2 - 5),
    "an integer": "x = " + "9" * (MIB - 4),
    "an integer in JSON": '{"x": ' + "9" * (MIB - 7) + "}",
    "no number": "x = " + "9" * (MIB - 5) + "x",
    "no number either": "x = 1." + "9" * (MIB - 8) + "e+",
    "a float": "x = ." + "9" * (MIB - 6) + "y",
    "bad escapes": "x = '" + "\\q" * (MIB // 2 - 5) + "'",
    "any values": "x in (" + "1," * (MIB // 2 - 5) + ")",
    "distribution": "(" + " or ".join(["a=1"] * 64) + ")" + " and *" * 100_000 + " and",
    "distribution of all": "(a=1 or b=2) and " * 50_000,
    "grown": "(" + " or ".join(["a=1"] * 64) + ")" + " and b=1" * 50_000,
    "no operator": "x " + "y" * (MIB - 2),
    "no kind": "x present " + "y" * (MIB - 10),
    "nothing that joins": "x = 1 " + "y" * (MIB - 6),
    "no value": "x = " + "y" * (MIB - 4),
    "no string": "x prefix " + "1" * (MIB - 9),
    "dashes": "-" * MIB,
    "equals": "=" * MIB,
    "ampersands": "x &" + "a" * (MIB - 3),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_texts_are_refused_at_once(name: str) -> None:
    for parse in PARSERS:
        started = time.process_time()  # whatever else the machine does
        with pytest.raises(ParseError) as refused:
            parse(HUGE[name])
        assert time.process_time() - started < 1
        assert len(str(refused.value)) < 1_000


def test_too_long_a_text() -> None:
    with pytest.raises(ParseError, match=r"a text of 1,048,577 characters, expected at most"):
        parse_filter("a=1".ljust(TEXT_LENGTH_MAX + 1))


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("thing", [None, b"a = 1", 3])
def test_what_is_no_text(parse: Callable[[object], object], thing: object) -> None:
    with pytest.raises(LanguageError, match="expected a text to parse, not"):
        parse(thing)
