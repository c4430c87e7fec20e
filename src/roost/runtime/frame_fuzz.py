"""Hostile streams of bytes: what a broker must bear from whoever reaches its port.

A stream is made from a seed and nothing else. Most begin as a real session would, with a login and a
greeting, so that they get past the door: a broker that refused everything at the preface would pass any
other test. Then they break a rule, by one of three roads:

    bytes       frames of a real session with bits flipped, cut short, spliced, sent twice or in another
                order, with lengths that are wrong or huge, with values of other types, or deep inside each
                other; or no frames at all
    protocol    whole frames that nobody may send now: events before a greeting, acknowledgements of what
                was never sent, numbers out of order, messages that only brokers say
    manners     whole frames in order that are somebody else's business: names, sessions and ids of others,
                events that were not advertised, filters that are hard work

The first two end the connection, so a stream holds few of them, and as much before them as a session would.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from msgspec import Raw, Struct, msgpack

from roost.broker.messages import (
    DATA,
    PROTOCOL_VERSION,
    Ack,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Dropped,
    EndSession,
    Frame,
    HandOver,
    LinkHello,
    Login,
    Marker,
    MarkerEcho,
    Message,
    Note,
    Parcel,
    Ping,
    Pong,
    Probe,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Settle,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    priority_of,
)
from roost.language import Event, Value, parse_advertisement, parse_subscription
from roost.wire import DEFAULT_LIMITS, PREFACE, encode

PREFIX_SIZE = 4
FILTER_ITEM = 5  # of a subscription: behind tag, class, number, hops and id
FRAMES_MAX = 80  # in a session, before a rule is broken
INT_MAX = 2**63 - 1

# How a stream is left: read to its end, left at once, cut off, or neither read nor left for a while.
Ending: TypeAlias = Literal["read", "close", "reset", "deaf"]
ENDINGS: dict[Ending, int] = {"read": 80, "close": 9, "reset": 9, "deaf": 2}


class Cast(Struct, frozen=True):
    """Who plays: the names that a stream may use, and those that are none of its business."""

    user: str
    token: str
    neighbour: str  # a broker that this one is linked to, and also a user
    neighbour_token: str
    # Of those who mind their own business: clients, sessions, ids of what they asked for.
    others: Sequence[str]


class Stream(Struct, frozen=True):
    """All that one connection says."""

    kind: str
    pieces: Sequence[bytes]  # each is written by itself
    frames: int  # whole or not
    ending: Ending


def stream(seed: int, number: int, cast: Cast) -> Stream:
    """One of the streams of a seed."""
    rng = random.Random(f"{seed}/{number}")
    weights = [weight for _, weight in KINDS.values()]
    (kind,) = rng.choices(list(KINDS), weights)
    frames = KINDS[kind][0](rng, cast)
    opening = PREFACE if kind != "stranger" and rng.random() < 0.97 else _no_preface(rng)
    (ending,) = rng.choices(list(ENDINGS), list(ENDINGS.values()))
    data = opening + b"".join(frames)
    return Stream(kind, _cut(rng, data), len(frames), ending)


def _cut(rng: random.Random, data: bytes) -> list[bytes]:
    """In pieces: mostly one, sometimes a few, now and then a trickle."""
    draw = rng.random()
    if draw < 0.6 or len(data) < 2:
        return [data]
    if draw < 0.95 or len(data) > 400:
        places = sorted(rng.randrange(1, len(data)) for _ in range(rng.randint(1, 5)))
    else:
        places = list(range(1, len(data), rng.randint(1, 7)))
    bounds = [0, *places, len(data)]
    return [data[a:b] for a, b in pairwise(bounds) if a < b]


def _no_preface(rng: random.Random) -> bytes:
    return rng.choice(
        [
            b"",
            PREFACE[: rng.randrange(len(PREFACE))],
            PREFACE.replace(b"\x01", b"\x02"),
            PREFACE.replace(b"\r\n", b"\n"),
            PREFACE + PREFACE,
            b"GET / HTTP/1.1\r\nHost: roost\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(40),
            b"SSH-2.0-OpenSSH_9.6\r\n",
            rng.randbytes(rng.randint(1, 64)),
        ]
    )


# --- sessions as they should be -------------------------------------------------------------------


class Script:
    """The parcels of a session, with their numbers."""

    def __init__(self, rng: random.Random, cast: Cast) -> None:
        self.rng = rng
        self.cast = cast
        self.name = f"{cast.user}~{rng.randrange(64)}"
        self.parcels: list[Parcel] = []
        self.numbers = [0, 0]

    def say(self, message: Message) -> None:
        priority = priority_of(message)
        self.numbers[priority] += 1
        self.parcels.append(Frame(priority, self.numbers[priority], message))

    def greet(self) -> None:
        """A login and an attachment: mostly as they should be."""
        rng, cast = self.rng, self.cast
        draw = rng.random()
        if draw < 0.95:
            self.parcels.append(Login(cast.user, cast.token))
        elif draw < 0.97:
            wrong = rng.choice([cast.token[:-1], "", "x" * 1_000])
            self.parcels.append(Login(rng.choice([cast.user, cast.neighbour, "nobody"]), wrong))
        durable = rng.random() < 0.2
        self.parcels.append(
            Attach(
                version=PROTOCOL_VERSION,
                client=self.name,
                session=f"{self.name}/{rng.randrange(4)}",
                resume=rng.random() < 0.1,
                control_received=0,
                data_received=0,
                durable=durable,
                process=str(rng.randrange(3)) if durable else "",
            )
        )

    def id(self) -> str:
        """One of a few, so that some are used twice."""
        return f"{self.name}/{self.rng.randrange(12)}"

    def filter(self) -> str:
        return self.rng.choice(FILTERS).format(n=self.rng.randrange(20))

    def publication(self, number: int) -> Publication:
        rng = self.rng
        attributes: dict[str, Value] = {"class": rng.choice(("noise", "good")), "n": number % 20}
        for _ in range(rng.randrange(4)):
            attributes[rng.choice("abcxyz")] = rng.choice(ODD_NUMBERS)
        payload = rng.randbytes(rng.choice((0, 0, 0, 10, 300)))
        return Publication(self.name, number, Event(attributes), payload)

    def request(self) -> Message:
        """Something that a client may ask for."""
        rng = self.rng
        draw = rng.randrange(10)
        if draw < 3:
            return Subscribe(self.id(), parse_subscription(self.filter()), self.name)
        if draw < 5:
            return Advertise(self.id(), parse_advertisement(self.filter()), self.name)
        if draw == 5:
            return Unsubscribe(self.id(), self.name)
        if draw == 6:
            return Unadvertise(self.id(), self.name)
        if draw == 7:
            return Settle(str(rng.randrange(9)), self.name)
        return self.publication(rng.randrange(1, 1_000))


# Most of a broker's work is with plain ones.
FILTERS = (
    "class = 'noise'",
    "class = 'noise' and n = {n}",
    "class = 'noise' and n > {n}",
    "n < {n} or a > {n} or b present",
    "class in ('good', 'noise') and n >= {n}",
    "class prefix 'no' and x > 1.5 and y <= {n}",
    "class = 'good'",
    "*",
)
ODD_NUMBERS: tuple[Value, ...] = (
    *(0, -1, 1.5, True, "", "x", "größe", "\0", 2**53, INT_MAX, -(2**63)),
    *(float("nan"), float("inf"), -0.0, 1e308),
)


def _session(rng: random.Random, cast: Cast) -> Script:
    """A client at work."""
    script = Script(rng, cast)
    script.greet()
    script.say(Advertise(f"{script.name}/a", parse_advertisement("class = 'noise'"), script.name))
    first = rng.randrange(1_000_000)
    for number in range(rng.randrange(FRAMES_MAX)):
        if rng.random() < 0.6:
            script.say(script.publication(first + number))
        else:
            script.say(script.request())
    if rng.random() < 0.3:
        script.say(rng.choice((EndSession, HandOver))(script.name))
    return script


def _link(rng: random.Random, cast: Cast) -> Script:
    """A neighbour at work."""
    script = Script(rng, cast)
    script.parcels.append(Login(cast.neighbour, cast.neighbour_token))
    hello = LinkHello(PROTOCOL_VERSION, cast.neighbour, f"i{rng.randrange(3)}", "", 0, 0)
    script.parcels.append(hello)
    for number in range(rng.randrange(FRAMES_MAX)):
        draw = rng.random()
        marker = f"m{rng.randrange(4)}"
        if draw < 0.3:
            script.say(script.publication(rng.randrange(1_000_000)))
        elif draw < 0.4:
            script.say(Marker(marker, script.name))
        elif draw < 0.5:
            script.say(MarkerEcho(marker, script.name))
        elif draw < 0.6:
            interest = parse_advertisement(script.filter())
            script.say(Advertise(script.id(), interest, script.name, number))
        elif draw < 0.7:
            script.say(Unadvertise(script.id(), script.name, rng.randrange(number + 1)))
        elif draw < 0.8:
            # Nothing that is published: what waits for a neighbour is kept.
            wanted = parse_subscription(f"class = 'nothing' and n = {number}")
            script.say(Subscribe(script.id(), wanted, script.name))
        elif draw < 0.9:
            script.say(Unsubscribe(script.id(), script.name))
        else:
            script.parcels.append(Ack(0, 0))
    return script


# --- the road of bytes ----------------------------------------------------------------------------


def mutated_session(rng: random.Random, cast: Cast) -> list[bytes]:
    return _mutate(rng, _session(rng, cast))


def mutated_link(rng: random.Random, cast: Cast) -> list[bytes]:
    return _mutate(rng, _link(rng, cast))


def _mutate(rng: random.Random, script: Script) -> list[bytes]:
    """A few frames changed, mostly towards the end: all before them is heard."""
    frames = [encode(parcel) for parcel in script.parcels]
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = max(rng.randrange(len(frames)), rng.randrange(len(frames)))
        frames[at : at + 1] = rng.choice(MUTATIONS)(rng, frames, at)
    return frames


def _flip(rng: random.Random, frames: list[bytes], at: int) -> list[bytes]:
    """Bits, in the body or in the length."""
    data = bytearray(frames[at])
    first = 0 if rng.random() < 0.1 else PREFIX_SIZE
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(min(first, len(data) - 1), len(data))
        data[place] ^= 1 << rng.randrange(8)
    return [bytes(data)]


def _truncate(rng: random.Random, frames: list[bytes], at: int) -> list[bytes]:
    """With a length that says so, or still says more."""
    data = frames[at]
    kept = data[: rng.randrange(min(PREFIX_SIZE, len(data)), len(data) + 1)]
    return [kept if rng.random() < 0.3 else framed(kept[PREFIX_SIZE:])]


def _twice(rng: random.Random, frames: list[bytes], at: int) -> list[bytes]:
    return [frames[at]] * rng.choice((2, 2, 3, 20))


def _swap(rng: random.Random, frames: list[bytes], at: int) -> list[bytes]:
    other = rng.randrange(len(frames))
    mine, frames[other] = frames[other], frames[at]
    return [mine]


def _splice(rng: random.Random, frames: list[bytes], at: int) -> list[bytes]:
    """The first part of one, and the last of another."""
    one, other = frames[at][PREFIX_SIZE:], rng.choice(frames)[PREFIX_SIZE:]
    return [framed(one[: rng.randrange(len(one) + 1)] + other[rng.randrange(len(other) + 1) :])]


def _wrong_length(rng: random.Random, frames: list[bytes], at: int) -> list[bytes]:
    body = frames[at][PREFIX_SIZE:]
    length = max(0, len(body) + rng.choice((-len(body), -2, -1, 1, 2, 100)))
    return [length.to_bytes(PREFIX_SIZE, "big") + body]


def _huge_length(rng: random.Random, frames: list[bytes], at: int) -> list[bytes]:
    """Of more than is allowed, or of the most that is, of which nothing comes."""
    most = DEFAULT_LIMITS.frame_bytes_max
    length = rng.choice((most, most + 1, 2**31, 2**32 - 1, rng.randrange(most, 2**32)))
    return [length.to_bytes(PREFIX_SIZE, "big") + frames[at][PREFIX_SIZE:]]


def _retype(rng: random.Random, frames: list[bytes], at: int) -> list[bytes]:
    """One value is of another type, or out of bounds, or a filter that is none."""
    return [retyped(rng, frames[at], odd_value(rng))]


def _random(rng: random.Random, frames: list[bytes], at: int) -> list[bytes]:
    """Bytes, as a frame or as they are."""
    data = rng.randbytes(rng.choice((1, 5, 20, 400)))
    return [data if rng.random() < 0.3 else framed(data), frames[at]]


MUTATIONS: tuple[Callable[[random.Random, list[bytes], int], list[bytes]], ...] = (
    *(_flip, _flip, _truncate, _twice, _swap, _splice, _wrong_length, _huge_length),
    *(_retype, _retype, _retype, _random),
)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(PREFIX_SIZE, "big") + body


def retyped(rng: random.Random, frame: bytes, value: bytes) -> bytes:
    """The frame with one of its values replaced; of a publication, one of its own as well."""
    try:
        items = msgpack.decode(frame[PREFIX_SIZE:], type=list[Raw])
        inner = msgpack.decode(items[-1], type=list[Raw]) if _is_array(items[-1]) else []
    except (ValueError, IndexError, RecursionError):
        return frame  # it is broken already
    if inner and rng.random() < 0.5:
        inner[rng.randrange(len(inner))] = Raw(value)
        items[-1] = Raw(_array(inner))
    else:
        items[rng.randrange(len(items))] = Raw(value)
    return framed(_array(items))


def _is_array(item: Raw) -> bool:
    return bytes(item)[0] & 0xF0 == 0x90


def _array(items: Sequence[Raw]) -> bytes:
    return bytes((0x90 + len(items) % 16,)) + b"".join(map(bytes, items))


def odd_value(rng: random.Random) -> bytes:
    """A value that is seldom wanted, as bytes of MessagePack."""
    return rng.choice(ODD_VALUES)


def _odd_values() -> list[bytes]:
    plain: list[Any] = [None, True, -1, 0, 2**62, INT_MAX, 2**63, 2**64 - 1, -(2**63), 1e308]
    plain += ["", "x" * 2_000, "\0", b"", b"x" * 100, [], {}, ["a"] * 20, {"a": 1}, {1: 2}, [[[]]]]
    plain += ["~", "/", ":", "a/b~c:d", float("nan"), msgpack.Ext(7, b"x")]
    plain += hard_filters()
    encoded = [msgpack.encode(value) for value in plain]
    # Arrays, maps and extensions inside each other; strings and arrays that declare more than there is.
    encoded += [b"\x91" * depth + b"\xc0" for depth in (10, 500, 5_000)]
    encoded += [b"\x81\xa0" * depth + b"\xc0" for depth in (10, 500, 5_000)]
    encoded += [b"\xdb\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"]
    encoded += [b"\xa2\xff\xfe", b"\xa3\xed\xa0\x80", b"\xc1", b""]
    return encoded


def hard_filters() -> list[str]:
    """Filters that are none, or that are much work for what they are."""
    many = range(40)
    return [
        "",
        "(" * 300,
        "(" * 60 + "a = 1" + ")" * 60,
        "a = ",
        "a = '" + "x" * 5_000,
        " and ".join(f"(a{n} = 1 or b{n} = 1)" for n in many),
        " or ".join(f"a{n} > {n} and b{n} prefix '{n}'" for n in many),
        " and ".join(f"a contains '{n}' and b suffix '{n}'" for n in many),
        " and ".join(f"a != {n}" for n in many),
        "a in (" + ", ".join(map(str, range(1_000))) + ")",
        "a > 5 and a < 3",
        "a = 99999999999999999999999999",
        "a > 1e400",
        "[class,eq,'noise'],[a,>,3]",
        "\x00 = 1",
    ]


ODD_VALUES = _odd_values()


# --- the road of protocol -------------------------------------------------------------------------


def out_of_order(rng: random.Random, cast: Cast) -> list[bytes]:
    """A session in which something comes that nobody may say now."""
    script = _session(rng, cast)
    parcels = script.parcels
    draw = rng.randrange(6)
    if draw == 0:  # before the greeting, or without any
        del parcels[0 if rng.random() < 0.3 else 1]
    elif draw == 1:  # a second greeting
        parcels.insert(rng.randint(2, len(parcels)), rng.choice(parcels[:2]))
    elif draw == 2:
        parcels.insert(rng.randint(1, len(parcels)), _never_sent(rng))
    elif draw == 3:
        parcels.append(_wrong_number(rng, script))
    elif draw == 4:
        script.say(rng.choice(_not_for_brokers(script)))
    else:
        parcels.insert(rng.randint(1, len(parcels)), rng.choice(_greetings(rng, script)))
    return [encode(parcel) for parcel in parcels]


def _never_sent(rng: random.Random) -> Ack:
    """An acknowledgement of it."""
    return Ack(rng.choice((0, 5, INT_MAX)), rng.choice((1_000_000, 2**32, INT_MAX)))


def _wrong_number(rng: random.Random, script: Script) -> Frame:
    last = script.numbers[DATA]
    number = max(0, rng.choice((0, 1, last - 1, last + 2, 2**32 - 1, 2**32, INT_MAX)))
    return Frame(DATA, number, script.publication(1), rng.choice((0, 127, 128, INT_MAX)))


def _not_for_brokers(script: Script) -> list[Message]:
    name = script.name
    return [
        Delivery(script.publication(1), (name, name)),
        SessionEnded("goodbye"),
        Redirect(name, name),
        Note("grape", name.encode(), name),
        Probe(INT_MAX, (name,)),
        Refused(name, "no"),
        Settled(name),
        Dropped(INT_MAX),
        Marker(name, name),
        MarkerEcho(name, name),
    ]


def _greetings(rng: random.Random, script: Script) -> list[Parcel]:
    name = script.name
    number = rng.choice((0, 1, INT_MAX))
    return [
        LinkHello(PROTOCOL_VERSION, script.cast.neighbour, name, name, number, number),
        LinkHello(PROTOCOL_VERSION + 1, name, name, name, number, number),
        Attach(PROTOCOL_VERSION, name, name, True, number, number, True, name),
        Attach(PROTOCOL_VERSION + 1, name, name, False, number, number),
        Attached(name, True, number, number),
        AttachRefused("no", name),
        Ping(number),
        Pong(number),
        Login(script.cast.user, script.cast.token),
    ]


def anything(rng: random.Random, cast: Cast) -> list[bytes]:
    """Frames of every kind in any order, with any number."""
    script = Script(rng, cast)
    if rng.random() < 0.9:
        script.greet()
    for _ in range(rng.randrange(12)):
        script.say(script.request())
    for _ in range(rng.randint(1, 4)):
        messages = [script.request(), HandOver(""), *_not_for_brokers(script)]
        wrong = Frame(rng.choice((0, 1)), rng.choice((0, 1, 2, INT_MAX)), rng.choice(messages))
        choices = [wrong, _wrong_number(rng, script), _never_sent(rng), *_greetings(rng, script)]
        script.parcels.append(rng.choice(choices))
    return [encode(parcel) for parcel in script.parcels]


# --- the road of manners --------------------------------------------------------------------------


def impostor(rng: random.Random, cast: Cast) -> list[bytes]:
    """In order, and as somebody else, or with what is somebody else's."""
    script = Script(rng, cast)
    script.greet()
    if rng.random() < 0.3:
        client, session = (rng.choice((script.name, *cast.others)) for _ in range(2))
        resume, durable = rng.random() < 0.5, rng.random() < 0.5
        script.parcels[-1] = Attach(1, client, session, resume, 0, 0, durable, "")
    everything = parse_subscription("*")
    for number in range(rng.randrange(FRAMES_MAX)):
        other = rng.choice(cast.others)
        theirs = script.publication(number)
        script.say(
            rng.choice(
                [
                    Publication(other, INT_MAX - number, theirs.event),
                    Subscribe(other, everything, other),
                    Advertise(other, parse_advertisement("*"), other),
                    Unsubscribe(other, other),
                    Unadvertise(other, other),
                    Settle(other.replace("/", ""), other),
                    theirs,
                    script.request(),
                ]
            )
        )
    return [encode(parcel) for parcel in script.parcels]


def hard_work(rng: random.Random, cast: Cast) -> list[bytes]:
    """A client that asks for much: large events, filters that take long."""
    script = Script(rng, cast)
    script.greet()
    script.say(Advertise(f"{script.name}/a", parse_advertisement("*"), script.name))
    frames = [encode(parcel) for parcel in script.parcels]
    for number in range(rng.randrange(8)):
        script.say(Subscribe(f"{script.name}/h{number}", parse_subscription("a > 1"), ""))
        items = msgpack.decode(encode(script.parcels[-1])[PREFIX_SIZE:], type=list[Raw])
        items[FILTER_ITEM] = Raw(msgpack.encode(rng.choice(HARD_FILTERS)))
        frames.append(framed(_array(items)))
    if rng.random() < 0.2:
        size = rng.choice((100_000, 2**19 - 1, 2**19, 2**19 + 1, 2**20 - 100))
        event = Event({"class": "noise", "n": 1})
        script.say(Publication(script.name, 1, event, bytes(size)))
        frames.append(encode(script.parcels[-1]))
    attributes: dict[str, Value] = {f"a{n}": "x" * rng.choice((1, 100)) for n in range(200)}
    script.say(Publication(script.name, 2, Event(attributes)))
    frames.append(encode(script.parcels[-1]))
    return frames


HARD_FILTERS = hard_filters()


def stranger(rng: random.Random, _: Cast) -> list[bytes]:
    """Not the protocol at all."""
    return [rng.randbytes(rng.choice((1, 10, 100, 5_000))) for _ in range(rng.randint(1, 3))]


KINDS: dict[str, tuple[Callable[[random.Random, Cast], list[bytes]], int]] = {
    "mutated session": (mutated_session, 35),
    "mutated link": (mutated_link, 10),
    "out of order": (out_of_order, 20),
    "anything": (anything, 10),
    "impostor": (impostor, 15),
    "hard work": (hard_work, 5),
    "stranger": (stranger, 5),
}
