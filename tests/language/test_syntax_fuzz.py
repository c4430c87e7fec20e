"""Whatever the text, a parser returns or raises a `ParseError`; and what it returns is sound.

The texts are made from valid ones: their tokens recombined, repeated, dropped and replaced by
others, their characters mutated. A failure prints the text and the seed; ROOST_FUZZ_SEED repeats a
run. ROOST_HYPOTHESIS=thorough tries 100,000 texts.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from roost.language import (
    Advertisement,
    Event,
    Filter,
    ParseError,
    Subscription,
    parse_advertisement,
    parse_event,
    parse_filter,
    parse_subscription,
    to_bracket,
    to_readable,
)

THOROUGH = os.environ.get("ROOST_HYPOTHESIS") == "thorough"
TEXTS = 100_000 if THOROUGH else 5_000

VALID = [
    "class = 'STOCK' and volume > 300000",
    "(a = 1 and b <= -2.5e3) or c in ('x', \"y\", 3, true) or (d present number)",
    "a prefix 'x' and (b suffix 'y' or c contains '\\u00e9\\'') and d != inf",
    "* or \"quoted name\" = 'it''s' or x = *",
    "[class,eq,'STOCK'],[volume,>,300000]",
    "[a,in,('x',3)],[b,isPresent,'00-00-00'] or [c,neq,false] or [*]",
    "[a.b,str-prefix,'x'],[openClose%Diff,<>,-.5]",
    "[class,'STOCK'],[symbol,'YHOO'],[open,30.25],[volume,203400],[x,nan]",
    '{"class": "STOCK", "volume": 400000, "x": 1.5e3, "b": true, "s": "\\u00e9\\n"}',
]
TOKEN = re.compile(r"\s+|\w+|.", re.DOTALL)
SPARE = [
    *"()[]{},;:*=<>!'\"\\+-.&|~",
    *("==", "=>", "''", "\\u", "\\ud800", "\\U00110000", "null", "NaN", "-Infinity", "not"),
    *("1e400", "1e-400", "99999999999999999999", "0x1", "1_0", "5.5.5", ".", "and", "or", "OR"),
    *("\0", "\n", "\u201c", "\ud800", "\U0010ffff", "\u0660", "\u00bd", "e\u0301", "\ufeff"),
]


def mutant(rng: random.Random) -> str:
    """A text a few steps from a valid one."""
    tokens = TOKEN.findall(rng.choice(VALID))
    for _ in range(rng.randrange(5)):
        at = rng.randrange(len(tokens) + 1)
        match rng.randrange(5):
            case 0:
                tokens[at : at + rng.randrange(4)] = []
            case 1:
                tokens[at:at] = [rng.choice(SPARE)]
            case 2:
                tokens[at : at + 1] = [rng.choice(SPARE)]
            case 3:
                other = TOKEN.findall(rng.choice(VALID))
                start = rng.randrange(len(other))
                tokens[at:at] = other[start : start + rng.randrange(8)]
            case _:
                tokens[at:at] = tokens[at : at + 3] * rng.randrange(3)
    text = "".join(tokens)
    if text and rng.random() < 0.3:
        at = rng.randrange(len(text))
        text = (
            text[:at] + chr(rng.choice((rng.randrange(128), rng.randrange(0x110000)))) + text[at:]
        )
    return text


def test_mutated_texts() -> None:
    seed = int(os.environ.get("ROOST_FUZZ_SEED") or random.randrange(2**32))
    print(f"ROOST_FUZZ_SEED={seed}")
    rng = random.Random(seed)
    accepted = 0
    for number in range(TEXTS):
        text = mutant(rng)
        try:
            accepted += check(text)
        except Exception as error:
            raise AssertionError(f"ROOST_FUZZ_SEED={seed}, number {number}: {text!r}") from error
    # Neither all garbage nor hardly mutated: otherwise this tests little.
    assert 0.2 * TEXTS < accepted < 2.5 * TEXTS


@given(st.text(max_size=30))
def test_any_text(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from([*SPARE, "a", "b", "in", "prefix", "present", "1", "'x'", " "])))
def test_any_tokens(tokens: list[str]) -> None:
    check("".join(tokens))
    check(" ".join(tokens))


def check(text: str) -> int:
    """Whether the parsers behave on `text`; how many of them accept it."""
    accepted = 0
    filter_ = attempt(parse_filter, text)
    subscription = attempt(parse_subscription, text)
    advertisement = attempt(parse_advertisement, text)
    event = attempt(parse_event, text)
    if isinstance(filter_, Filter):
        accepted += 1
        assert subscription == Subscription([filter_])
    if isinstance(subscription, Subscription):
        accepted += 1
        assert advertisement == Advertisement(subscription.filters)
        assert parse_subscription(to_readable(subscription)) == subscription
        assert parse_subscription(to_bracket(subscription)) == subscription
    if isinstance(event, Event):
        accepted += 1
        assert repr(parse_event(to_bracket(event))) == repr(event)
        # The parser builds events without the checks of the constructor, having made them itself.
        Event(event.attributes)
    return accepted


def attempt(parse: Callable[[str], object], text: str) -> object:
    try:
        return parse(text)
    except ParseError as refused:
        error = refused
    assert 0 <= error.place.offset <= len(text)
    assert error.found
    assert error.expected
    assert "^" in str(error)
    return error
