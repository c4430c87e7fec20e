"""Every way to write a thing, next to the thing."""

from __future__ import annotations

import math

import pytest

from roost.language import (
    Advertisement,
    Constant,
    Event,
    Filter,
    Kind,
    Operator,
    Predicate,
    Subscription,
    Value,
    parse_advertisement,
    parse_event,
    parse_filter,
    parse_subscription,
    to_bracket,
    to_readable,
)
from roost.language.literals import RESERVED
from roost.language.terms import OPERATORS

SPELLINGS: list[tuple[Operator, Constant, str]] = [
    (Operator.EQ, 5, "x = 5|x eq 5|x EQ 5|[x,=,5]|[x,eq,5]|[x,Eq,5]"),
    (Operator.NE, 5, "x != 5|x <> 5|x neq 5|[x,!=,5]|[x,<>,5]|[x,neq,5]"),
    (Operator.LT, 5, "x < 5|x<5|[x,<,5]"),
    (Operator.LE, -5, "x <= -5|x<=-5|[x,<=,-5]"),
    (Operator.LT, "a", "[x,str-lt,'a']|x str-lt 'a'"),
    (Operator.LE, "a", "[x,str-le,'a']|x STR-LE 'a'"),
    (Operator.GT, "a", "x > 'a'|x>'a'|[x,>,'a']|[x,str-gt,'a']"),
    (Operator.GE, "a", "[x,str-ge,'a']"),
    (Operator.GE, 5, "x >= 5|x>=5|[x,>=,5]"),
    (Operator.PREFIX, "a", "x prefix 'a'|x PREFIX'a'|x str-prefix 'a'|[x,str-prefix,'a']"),
    (Operator.SUFFIX, "a", "x suffix 'a'|x str-suffix 'a'|[x,suffix,'a']"),
    (Operator.SUFFIX, "a", "[x,str-suffix,'a']|[x,str-postfix,'a']"),
    (Operator.CONTAINS, "a", "x contains 'a'|x str-contains 'a'|[x,str-contains,'a']"),
    (
        Operator.IN,
        (3, "A"),
        "x in (3, 'A')|x IN('A',3,3.0)|[x,in,('A',3)]|[ x , in , ( 3 , 'A' ) ]",
    ),
    (Operator.PRESENT, None, "x present|x isPresent|x = *|[x,eq,*]|[x,=,*]|[x,isPresent,*]"),
    (Operator.PRESENT, Kind.NUMBER, "x present number|x PRESENT Number|[x,isPresent,0]"),
    (Operator.PRESENT, Kind.NUMBER, "[x,present,-2.5e3]|[x,ISPRESENT,inf]"),
    (Operator.PRESENT, Kind.STRING, "x present string|[x,isPresent,'00-00-00']|[x,isPresent,\"\"]"),
    (Operator.PRESENT, Kind.BOOL, "x present bool|[x,isPresent,true]|[x,isPresent,FALSE]"),
]


@pytest.mark.parametrize(
    ("operator", "constant", "text"),
    [(op, constant, text) for op, constant, texts in SPELLINGS for text in texts.split("|")],
)
def test_spellings_of_operators(operator: Operator, constant: Constant, text: str) -> None:
    assert parse_filter(text) == Filter([Predicate("x", operator, constant)])


def test_every_operator_has_a_row() -> None:
    assert {op for op, _, _ in SPELLINGS} == set(Operator)
    written = "|".join(texts for _, _, texts in SPELLINGS).lower()
    assert not [spelling for spelling in OPERATORS if spelling not in written]


def test_operators_that_are_words_are_reserved() -> None:
    assert {word for word in OPERATORS if word[0].isalpha()} | {"and", "or", "not"} == RESERVED


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("007", 7),
        ("0" * 5000 + "7", 7),
        ("-" + "0" * 5000 + "7", -7),
        ("0" * 5000, 0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("+9223372036854775807", 2**63 - 1),
        ("30.25", 30.25),
        ("30.", 30.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        ("2.5e-3", 0.0025),
        ("1e308", 1e308),
        ("1e-400", 0.0),
        ("9223372036854775808.0", 2.0**63),
        ("inf", math.inf),
        ("+inf", math.inf),
        ("-Inf", -math.inf),
        ("true", True),
        ("TRUE", True),
        ("False", False),
        ("'a'", "a"),
        ('"a"', "a"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ('"say ""hi"""', 'say "hi"'),
        ("'say \"\"hi'", 'say ""hi'),
        ("\"it''s\"", "it''s"),
        (r"'it\'s'", "it's"),
        (r"'\''", "'"),
        (r"'\\'", "\\"),
        (r"'\"\\\n\r\t\0'", '"\\\n\r\t\0'),
        (r"'\0123'", "\x00123"),
        (r"'\x41\u0041\U00000041'", "AAA"),
        (r"'\U0001f600'", "\U0001f600"),
        ("'two\nlines'", "two\nlines"),
        ("'] or ['", "] or ["),
        ("'größe'", "größe"),
    ],
)
def test_spellings_of_values(text: str, value: Value) -> None:
    predicate = Predicate("x", Operator.EQ, value)
    assert repr(parse_filter(f"x={text}")) == repr(Filter([predicate]))
    assert repr(parse_filter(f"[x,eq,{text}]")) == repr(Filter([predicate]))
    assert repr(parse_event(f"[x,{text}]")) == repr(Event({"x": value}))


def test_nan_is_a_value_of_events_only() -> None:
    assert repr(parse_event("[x,nan],[y,NaN]")) == "Event({'x': nan, 'y': nan})"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("_", "_"),
        ("_x1", "_x1"),
        ("a.b-c", "a.b-c"),
        ("openClose%Diff", "openClose%Diff"),
        ("urn:a/b@c#d$e", "urn:a/b@c#d$e"),
        ("名前", "名前"),
        ("number", "number"),
        ('"class"', "class"),
        ('"a b"', "a b"),
        ('"and"', "and"),
        ('"*"', "*"),
        (r'"\"\u0041"', '"A'),
        ('""""', '"'),
    ],
)
def test_spellings_of_names(text: str, name: str) -> None:
    assert parse_filter(f"{text} > 1").predicates[0].attribute == name
    assert parse_filter(f"[{text},>,1]").predicates[0].attribute == name
    assert parse_event(f"[{text},1]").attributes == {name: 1}


def test_reserved_words_need_quotes_in_the_readable_syntax_only() -> None:
    for word in sorted(RESERVED):
        expected = Filter([Predicate(word, Operator.EQ, 1)])
        assert parse_filter(f'"{word}" = 1') == parse_filter(f"[{word},eq,1]") == expected


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("a = 1 or b = 2", "a=1|b=2"),
        ("a = 1 and b = 2 or c = 3", "a=1,b=2|c=3"),
        ("a = 1 or b = 2 and c = 3", "a=1|b=2,c=3"),
        ("(a = 1 and b = 2) or (c = 3)", "a=1,b=2|c=3"),
        ("((a = 1)) AND (b = 2)", "a=1,b=2"),
        ("a = 1 and (b = 2 or c = 3)", "a=1,b=2|a=1,c=3"),
        ("(a = 1 or b = 2) and c = 3", "a=1,c=3|b=2,c=3"),
        (
            "(a = 1 or b = 2) and (c = 3 or d = 4) and e = 5",
            "a=1,c=3,e=5|a=1,d=4,e=5|b=2,c=3,e=5|b=2,d=4,e=5",
        ),
        ("a = 1 and (b = 2 and (c = 3 or d = 4))", "a=1,b=2,c=3|a=1,b=2,d=4"),
        ("*", ""),
        ("* and a = 1 and *", "a=1"),
        ("a = 1 and (*)", "a=1"),
        ("* or a = 1", "|a=1"),
        ("a = 1 and (* or b = 2)", "a=1|a=1,b=2"),
        ("[a,eq,1],[b,eq,2] or [c,eq,3]", "a=1,b=2|c=3"),
        ("[a,eq,1]\n,\n[b,eq,2]\nOR\n[*]", "a=1,b=2|"),
        ("[*],[a,eq,1]", "a=1"),
    ],
)
def test_conjunctions_and_disjunctions(text: str, filters: str) -> None:
    expected = [
        Filter(
            Predicate(p.split("=")[0], Operator.EQ, int(p.split("=")[1]))
            for p in conjunction.split(",")
            if p
        )
        for conjunction in filters.split("|")
    ]
    assert parse_subscription(text) == Subscription(expected)
    assert parse_advertisement(text) == Advertisement(expected)


def test_one_conjunction_may_have_parentheses() -> None:
    assert parse_filter("(a = 1 and (b = 2))") == parse_filter("a = 1 and b = 2")


def test_a_filter_that_is_distributed_is_not_tied_to_its_neighbour() -> None:
    both = parse_subscription("a = 1 and (b = 2 or c = 3) and d = 4")
    assert [len(f.predicates) for f in both.filters] == [3, 3]


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        (' { "class" : "STOCK" , "volume":400000}\n', {"class": "STOCK", "volume": 400000}),
        ('{"a": 1.0, "b": -0.0, "c": 1e3}', {"a": 1.0, "b": -0.0, "c": 1000.0}),
        ('{"a": true, "b": false}', {"a": True, "b": False}),
        (r'{"\u0041": "\ud83d\ude00\n"}', {"A": "\U0001f600\n"}),
        ('{"a": 9223372036854775807}', {"a": 2**63 - 1}),
        ("{ }", {}),
        ("[ ]", {}),
        ('["a", 1]', {"a": 1}),
    ],
)
def test_events(text: str, attributes: dict[str, Value]) -> None:
    assert repr(parse_event(text)) == repr(Event(attributes))


def test_the_papers_event() -> None:
    """001 section 2.1.2."""
    event = parse_event(
        "[class,'STOCK'],[symbol,'YHOO'],[open,30.25],[high,31.75],[low,30.00],[close,31.62],"
        "[volume,203400],[date,'1-May-96']"
    )
    assert event.attributes == {
        "class": "STOCK",
        "symbol": "YHOO",
        "open": 30.25,
        "high": 31.75,
        "low": 30.0,
        "close": 31.62,
        "volume": 203400,
        "date": "1-May-96",
    }
    assert isinstance(event.attributes["low"], float)
    assert isinstance(event.attributes["volume"], int)


def test_the_papers_advertisement() -> None:
    """001 section 2.1.2: `isPresent` says that an attribute is there, by an example of its type."""
    advertisement = parse_advertisement(
        """

        [class,eq,'STOCK'],[symbol,eq,'YHOO'],[open,isPresent,0],[high,isPresent,0],
        [low,isPresent,0],[close,isPresent,0],[volume,isPresent,0],
        [date,isPresent,'00-00-00']

        """
    )
    (conjunction,) = advertisement.filters
    numbers = [
        Predicate(name, Operator.PRESENT, Kind.NUMBER)
        for name in ("open", "high", "low", "close", "volume")
    ]
    assert conjunction.predicates == (
        Predicate("class", Operator.EQ, "STOCK"),
        Predicate("symbol", Operator.EQ, "YHOO"),
        *numbers,
        Predicate("date", Operator.PRESENT, Kind.STRING),
    )


def test_the_papers_subscriptions() -> None:
    """001 section 2.1.2; 000 section 5, where an attribute has a % in its name."""
    assert str(parse_subscription("[class,eq,'STOCK'],[symbol,eq,'YHOO'],[volume,>,300000]")) == (
        "class = 'STOCK' and symbol = 'YHOO' and volume > 300000"
    )
    medium = (
        "[class,=, 'STOCK'], [symbol,=, 'YHOO'], [volume, >, 1000000], [openClose%Diff, >, 0.025]"
    )
    assert str(parse_subscription(medium)) == (
        "class = 'STOCK' and symbol = 'YHOO' and volume > 1000000 and openClose%Diff > 0.025"
    )
    assert parse_subscription("[class,eq,*]") == parse_subscription("class present")


def test_printed_forms() -> None:
    text = "(class = 'STOCK' and x in (1, 'A')) or b prefix 'q' or y present bool"
    subscription = parse_subscription(text)
    assert to_readable(subscription) == str(subscription) == text
    assert to_bracket(subscription) == (
        "[class,eq,'STOCK'],[x,in,(1,'A')] or [b,str-prefix,'q'] or [y,isPresent,false]"
    )
