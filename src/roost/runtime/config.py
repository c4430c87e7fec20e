"""The settings of a live broker: one file, `roost.toml`, and what each of its lines is for.

A table of the file is a struct, and a key a field, whose type says what is allowed and whose description why
one would set it. From these come the checks, the messages and the commented file that `documented` writes:
there is no second list. Everything has a default, with which a broker runs on this machine only.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import msgspec
from msgspec import Meta, Struct
from msgspec import inspect as types

from roost.broker.config import BrokerConfig
from roost.broker.registry import make_module, parse_order
from roost.broker.routers import check_router
from roost.errors import UserError
from roost.language.literals import abbreviate
from roost.optimising.worth import Terms
from roost.relocation.grape_module import GrapeConfig
from roost.runtime.toml_file import (
    TomlFile,
    expected,
    instead,
    objection_to_value,
    read_table,
    read_toml,
    shown,
    toml_value,
)
from roost.wire.limits import DEFAULT_LIMITS, Limits

# What a value may be. Bounds are there to catch a slip (a time in milliseconds), not to advise.
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
Positive = Annotated[int, Meta(ge=1, le=1 << 62)]
FrameBytes = Annotated[int, Meta(ge=1, le=(1 << 32) - 1)]  # a frame's length has 32 bits
Port = Annotated[int, Meta(ge=0, le=65_535)]
PortOrOff = Annotated[int, Meta(ge=-1, le=65_535)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
SomeSeconds = Annotated[float, Meta(gt=0, le=1e9)]
Rate = Annotated[float, Meta(ge=0, le=1e9)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Share = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(min_length=1, max_length=DEFAULT_LIMITS.name_length_max)]
# Relative to the file that says it; "" is none.
File = Annotated[str, Meta(extra={"file": True})]
# Several of them.
Folders = Annotated[tuple[str, ...], Meta(extra={"file": True})]
# Never shown, in messages or elsewhere.
Secret = Annotated[str, Meta(extra={"secret": True})]


def why(text: str) -> Meta:
    """What a field is for, as `documented` says it above the field."""
    return Meta(description=text)


# --- the tables -----------------------------------------------------------------------------------


class Table(Struct, frozen=True, kw_only=True):
    """A table of the file."""


class BrokerTable(Table, frozen=True, kw_only=True):
    """The broker itself: where it listens, what it keeps, how much may wait in it."""

    name: Annotated[Name, why("Its name in the federation, where no other has it.")] = "B0"
    host: Annotated[
        Name,
        why("Where clients and neighbours connect. 0.0.0.0 and :: are all addresses there are."),
    ] = "127.0.0.1"
    port: Annotated[Port, why("0 lets the system choose a free one.")] = 7411
    advertised: Annotated[
        str,
        why(
            "Where clients reach it that are sent here by other brokers, as host:port. Empty: the host and"
            " port above, or this machine's name for all addresses."
        ),
    ] = ""
    data: Annotated[
        File,
        why(
            "The folder of its store. With one, what was accepted survives a crash. Empty: nothing does,"
            " and nothing waits for a disk."
        ),
    ] = ""
    routing: Annotated[
        str,
        why(
            "How events find their way: subscriptions follow advertisements, or go everywhere (flooding), or"
            " by a router of your own (package.module:Class). The same in the whole federation."
        ),
    ] = "advertisement"
    covering: Annotated[
        bool, why("Subscriptions that others cover are kept back: smaller tables, fewer messages.")
    ] = True
    advertisement_covering: Annotated[
        bool, why("The same for advertisements, of which there are fewer, so that it pays less.")
    ] = False
    linger_s: Annotated[
        Seconds, why("How long a client that is away is remembered, and what is for it kept.")
    ] = 60.0
    durable_linger_s: Annotated[
        Seconds, why("The same for a client with a durable session; a week, unless said otherwise.")
    ] = 7 * 86_400.0
    ack_every: Annotated[
        Positive,
        why("Messages that one acknowledgement waits for: more save traffic, fewer save memory."),
    ] = 64
    ack_delay_s: Annotated[
        Seconds, why("An acknowledgement waits this long for more to acknowledge. 0: not at all.")
    ] = 0.0
    session_outbox_max: Annotated[
        Positive, why("How many deliveries may wait for a client, there or away.")
    ] = 100_000
    session_outbox_bytes_max: Annotated[
        Positive, why("How many bytes of them, while the client is away or does not read.")
    ] = 32_000_000
    session_outbox_policy: Annotated[
        Literal["drop", "end"],
        why(
            "What becomes of one more: it is dropped, and the client told how many were; or the session"
            " ends, and the client is told why."
        ),
    ] = "end"
    session_memory_max: Annotated[
        Positive,
        why(
            "With a store: how many deliveries for a client with a durable session are in memory too. All"
            " others are in the store only, and such a session has no other bound."
        ),
    ] = 10_000
    link_outbox_max: Annotated[
        Positive,
        why(
            "How many messages may wait for a neighbour. At the bound, whoever could add to them is read no"
            " further, and so on back to the publishers."
        ),
    ] = 100_000
    spare_max: Annotated[
        Positive,
        why(
            "When so many messages wait for a neighbour that is away, what it has not asked for is kept no"
            " longer: who subscribes there from then on may miss events until it is back."
        ),
    ] = 50_000
    absence_grace_s: Annotated[
        Seconds,
        why(
            "How long what subscribers ask for waits for a neighbour that is lost: longer than it takes both"
            " ends to notice that, and a word to cross the federation."
        ),
    ] = 5.0
    redial_min_s: Annotated[
        SomeSeconds,
        why("How long to wait before dialling a neighbour again; doubles each time in vain ..."),
    ] = 0.5
    redial_max_s: Annotated[SomeSeconds, why("... up to this.")] = 30.0
    watermarks_max: Annotated[
        Positive,
        why("Publishers whose last event is remembered, to know one that comes a second time."),
    ] = 100_000


class LinksTable(Table, frozen=True, kw_only=True):
    """The other brokers of the federation that this one is linked to."""

    neighbours: Annotated[
        dict[str, str],
        why(
            "For each neighbour its address if we dial it, or an empty one if it dials us:"
            ' { B1 = "10.0.0.2:7411", B2 = "" }, or a table [links.neighbours]. Links form no circle.'
        ),
    ] = {}


class LimitsTable(Table, frozen=True, kw_only=True):
    """How much a peer may ask of this broker, so that none can take it from the others."""

    connections_max: Annotated[
        Positive, why("Connections at a time; one more is closed at once. Each is an open file.")
    ] = 10_000
    greeting_s: Annotated[
        SomeSeconds, why("How long a connection may take to say who it is, TLS included.")
    ] = 5.0
    frame_s: Annotated[
        SomeSeconds,
        why("How long a frame may take to arrive once it has begun; a trickle holds memory."),
    ] = 30.0
    idle_s: Annotated[
        Seconds, why("A connection that says nothing for so long is closed. 0: never.")
    ] = 0.0
    keepalive_s: Annotated[
        Seconds,
        why(
            "A peer that says nothing for so long is asked whether it is there, and closed as dead after"
            " three times as long. 0: never; a peer that has lost its power is then never noticed."
        ),
    ] = 3.0
    publish_rate_max: Annotated[
        Rate,
        why("Events a second that a connection may publish; it is read no faster. 0: any number."),
    ] = 0.0
    publish_burst: Annotated[
        Positive, why("Events that it may publish at once, after a pause, whatever the rate.")
    ] = 1_000
    subscriptions_max: Annotated[
        Positive, why("Subscriptions of a session; each costs memory here and at other brokers.")
    ] = 10_000
    write_buffer_bytes: Annotated[
        Positive,
        why("Bytes that wait to be written to a connection, above which it counts as congested."),
    ] = 1_000_000
    stalled_s: Annotated[
        SomeSeconds, why("How long a connection may stay congested before it is closed.")
    ] = 60.0

    # From here on as in `wire.Limits`.
    frame_bytes_max: Annotated[
        FrameBytes,
        why("The body of a frame. Neighbours need the same, or they refuse each other's."),
    ] = DEFAULT_LIMITS.frame_bytes_max
    publication_bytes_max: Annotated[
        FrameBytes,
        why(
            "An event with its payload. Less than a frame, which has to hold the ids of the subscriptions"
            " that a delivery is for as well."
        ),
    ] = DEFAULT_LIMITS.publication_bytes_max
    payload_bytes_max: Annotated[Count, why("The payload of an event.")] = (
        DEFAULT_LIMITS.payload_bytes_max
    )
    headers_max: Annotated[Count, why("Headers of an event.")] = DEFAULT_LIMITS.headers_max
    header_length_max: Annotated[
        Positive, why("Characters in the name or the value of a header.")
    ] = DEFAULT_LIMITS.header_length_max
    name_length_max: Annotated[
        Positive, why("Characters in names of brokers and clients, ids, causes, content types.")
    ] = DEFAULT_LIMITS.name_length_max
    reason_length_max: Annotated[
        Positive, why("Characters in the reason of a refusal or an end.")
    ] = DEFAULT_LIMITS.reason_length_max
    filter_length_max: Annotated[
        Positive, why("Characters in a subscription or an advertisement, as text.")
    ] = DEFAULT_LIMITS.filter_length_max


class QuotasTable(Table, frozen=True, kw_only=True):
    """How much one user may have at this broker, so that it can't take it from the others.

    Brokers and administrators are not counted. Where nobody logs in, a user is the name of a client.
    """

    sessions: Annotated[Positive, why("Sessions, also of clients that are away.")] = 200
    subscriptions: Annotated[Positive, why("Subscriptions and advertisements in all of them.")] = (
        100_000
    )
    kept_bytes: Annotated[
        Count,
        why(
            "Bytes that wait in the store for its durable sessions. Beyond it a large one of them ends, which"
            " is logged, and its client is told. 0: any number, or a quarter of [store] retained_bytes_max."
        ),
    ] = 1_000_000_000
    events_per_s: Annotated[
        Rate,
        why(
            "Events a second that it may publish, on all its connections together; they are read no faster."
            " [limits] publish_burst at once are free. 0: any number."
        ),
    ] = 0.0
    answers: Annotated[
        Positive, why("Answers that wait for a session that asks, and does not listen.")
    ] = 2_000


class StoreTable(Table, frozen=True, kw_only=True):
    """The store, if [broker] data names a folder for it."""

    retained_bytes_max: Annotated[
        Count, why("Bytes of events that the store may hold for those who are away. 0: any number.")
    ] = 0
    policy_at_limit: Annotated[
        Literal["refuse", "drop"],
        why(
            "At that bound: refuse new events, so that publishers know; or drop what waits for those who"
            " are away, and tell them."
        ),
    ] = "refuse"
    accept_older: Annotated[
        bool,
        why(
            "Whether to start with a store that is older than it was: without its -wal, or one that was put"
            " back. It begins anew then, and what it lacks is lost. Better said once, with --accept-older."
        ),
    ] = False


class AdminTable(Table, frozen=True, kw_only=True):
    """Health, metrics and control, over HTTP."""

    host: Annotated[Name, why("Whoever reaches it can see how the broker fares.")] = "127.0.0.1"
    port: Annotated[PortOrOff, why("-1: off. 0 lets the system choose a free one.")] = 7412


class TlsTable(Table, frozen=True, kw_only=True):
    """TLS. With a certificate every connection is encrypted, those to neighbours too."""

    certificate: Annotated[
        File, why("PEM; the broker's certificate, and those between it and its authority.")
    ] = ""
    key: Annotated[File, why("PEM, without a passphrase; the key of that certificate.")] = ""
    authority: Annotated[
        File,
        why(
            "PEM; the authority that certificates of peers are checked against. Empty: for neighbours that"
            " we dial, those that the system trusts; from clients, no certificate is asked for."
        ),
    ] = ""
    require_client_certificate: Annotated[
        bool, why("Nobody connects without a certificate of that authority. Else one is optional.")
    ] = False


class SecurityTable(Table, frozen=True, kw_only=True):
    """Who may do what."""

    enabled: Annotated[
        bool,
        why(
            "Whether peers have to log in, and may do only what they were granted; else all do all."
        ),
    ] = False
    users: Annotated[File, why("The users file, as `roost users` writes it.")] = ""
    user: Annotated[
        str, why("Who this broker is to neighbours that it dials. Empty: its name, as above.")
    ] = ""
    token: Annotated[
        Secret,
        why("What it proves that with, unless token_file has it. This file then wants mode 0600."),
    ] = ""
    token_file: Annotated[File, why("A file that holds nothing but that token.")] = ""
    refusals: Annotated[
        File, why("Where refusals are written, as JSON lines. Empty: in the log only.")
    ] = ""

    def __repr__(self) -> str:
        """Without the token: settings get logged."""
        return f"SecurityTable(enabled={self.enabled}, users={self.users!r}, user={self.user!r})"


class TraceTable(Table, frozen=True, kw_only=True):
    """What the broker records of its traffic, for the pipeline."""

    folder: Annotated[File, why("Where traces go, as Parquet. Empty: nothing is recorded.")] = ""
    allowed: Annotated[
        Folders,
        why(
            "Where operators may have traces written, by `roost trace on` or POST /trace: in these folders,"
            " the one above, and below them. If there is none of both: in [broker] data."
        ),
    ] = ()
    rows_a_group: Annotated[
        Positive, why("Rows that are written at once; until then they are in memory only.")
    ] = 50_000


class OptimisersTable(Table, frozen=True, kw_only=True):
    """Modules of your own, or of packages that you have installed."""

    modules: Annotated[
        dict[str, str],
        why(
            'What each is to do, and its settings: { "my_package.crowd:Crowd" = "acting limit=10" }. The name'
            " is that of a class, or what its package calls it. The state is off, observing or acting."
        ),
    ] = {}
    rest_s: Annotated[
        Seconds,
        why("How long nobody moves a client that was moved, whichever optimiser wants to."),
    ] = 10.0
    lease_s: Annotated[
        SomeSeconds, why("How long a move that was granted may take before it counts as abandoned.")
    ] = 120.0


class LogTable(Table, frozen=True, kw_only=True):
    """What the broker says of itself: starts, links, sessions, moves, refusals, trouble."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        why("The least that is worth a line; debug has every session that begins and ends."),
    ] = "info"
    format: Annotated[Literal["text", "json"], why("Lines for people, or for programs.")] = "text"
    file: Annotated[
        File,
        why(
            "Where they go. At 16 MB it is renamed to end in .1, in place of the one before. Empty: to"
            " standard error."
        ),
    ] = ""


class RelocationTable(Table, frozen=True, kw_only=True):
    """Clients move to where their messages go. The same in the whole federation."""

    mode: Annotated[
        Literal["off", "observing", "acting"],
        why("Observing: decisions are made and recorded, and nobody is moved."),
    ] = "off"
    algorithm: Annotated[
        Literal["grape", "pop"],
        why("GRAPE looks at all brokers, with a goal; POP goes from one to the next."),
    ] = "grape"
    priority: Annotated[
        Literal["delay", "load"], why("GRAPE: what is to be made small first, and ...")
    ] = "delay"
    weight: Annotated[
        Percent, why("... by how much of the way, in %; the rest is left to the other.")
    ] = 100.0
    subscribers: Annotated[
        bool, why("GRAPE: whether subscribers are moved to their publishers, too.")
    ] = False
    session: Annotated[
        Positive, why("Publications of a publisher that are traced before it is decided for.")
    ] = 100
    memory: Annotated[
        Positive, why("GRAPE: of how many such sessions, the last ones, a decision is made.")
    ] = GrapeConfig().memory
    horizon_s: Annotated[
        SomeSeconds, why("A move has to pay within this time, for which statistics are trusted.")
    ] = Terms().horizon_s
    margin: Annotated[Rate, why("How many times its cost it has to save by then.")] = Terms().margin
    share_min: Annotated[Share, why("... and what share of what there is now, 0 to 1.")] = (
        Terms().share_min
    )
    rest_s: Annotated[Seconds, why("How long a client stays after a move.")] = Terms().rest_s


class ServerConfig(Struct, frozen=True, kw_only=True):
    """All of it."""

    broker: BrokerTable = BrokerTable()
    links: LinksTable = LinksTable()
    limits: LimitsTable = LimitsTable()
    quotas: QuotasTable = QuotasTable()
    store: StoreTable = StoreTable()
    admin: AdminTable = AdminTable()
    tls: TlsTable = TlsTable()
    security: SecurityTable = SecurityTable()
    trace: TraceTable = TraceTable()
    relocation: RelocationTable = RelocationTable()
    optimisers: OptimisersTable = OptimisersTable()
    log: LogTable = LogTable()


# --- what others need of it -----------------------------------------------------------------------


def broker_config(server: ServerConfig, incarnation: str) -> BrokerConfig:
    """What the machine of the broker has to know; settings of the same name are the same."""
    table, quotas = server.broker, server.quotas
    same = set(BrokerConfig.__struct_fields__) & set(BrokerTable.__struct_fields__)
    return BrokerConfig(
        broker=table.name,
        incarnation=incarnation,
        durable=bool(table.data),
        secured=server.security.enabled,
        store_full_policy=server.store.policy_at_limit,
        subscriptions_max=server.limits.subscriptions_max,
        user_sessions_max=quotas.sessions,
        user_subscriptions_max=quotas.subscriptions,
        # One user who is away must not fill the store for all.
        user_kept_bytes_max=min(
            filter(None, (quotas.kept_bytes, server.store.retained_bytes_max // 4)), default=0
        ),
        answers_max=quotas.answers,
        rest_s=server.optimisers.rest_s,
        lease_s=server.optimisers.lease_s,
        **{name: getattr(table, name) for name in same},
    )


def limits_of(server: ServerConfig) -> Limits:
    """The limits of what is read from a connection."""
    return Limits(**{name: getattr(server.limits, name) for name in Limits.__struct_fields__})


def login_of(server: ServerConfig) -> tuple[str, str] | None:
    """The user and the token that this broker presents to neighbours; None if it has no token."""
    table = server.security
    token = table.token
    if table.token_file:
        try:
            token = Path(table.token_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as bad:
            what = (isinstance(bad, OSError) and bad.strerror) or "not a text in UTF-8"
            raise UserError(f"{table.token_file}: {what}; expected a file with a token") from None
        if not token:
            raise UserError(f"{table.token_file}: it is empty; expected a token")
    return (table.user or server.broker.name, token) if token else None


_host_and_port = re.compile(
    r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]+)):([0-9]{1,5})", re.ASCII
).fullmatch


def address_of(text: str) -> tuple[str, int]:
    """`host:port`, or `[::1]:port`, to its parts; ValueError if it is none."""
    found = _host_and_port(text)
    if not found or not 0 < int(found[3]) < 65_536:
        raise ValueError(f"{text!r} is no address")
    return found[1] or found[2], int(found[3])


# --- whether it makes sense together --------------------------------------------------------------


def check_config(server: ServerConfig) -> None:
    """For settings that did not come from a file alone; UserError says what will not do."""
    for table in msgspec.structs.fields(ServerConfig):
        for field in msgspec.structs.fields(table.type):
            value = getattr(getattr(server, table.name), field.name)
            if objection := objection_to_value(value, field.type):
                raise UserError(f"[{table.name}] {field.name} {objection}")
    for (name, *_), what in objections(server):
        raise UserError(f"[{name}] {what}")


def objections(server: ServerConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    """What does not go together: the path of the key that it shows in, and what is wrong."""
    broker, limits, tls, security = server.broker, server.limits, server.tls, server.security
    if broker.redial_max_s < broker.redial_min_s:
        what = f"redial_max_s is {broker.redial_max_s:g}; expected at least redial_min_s"
        yield ("broker", "redial_max_s"), f"{what}, which is {broker.redial_min_s:g}"
    try:
        check_router(broker.routing)
    except UserError as error:
        yield ("broker", "routing"), str(error)
    for reference, words in server.optimisers.modules.items():
        try:
            make_module(parse_order(reference, words.split()))
        except UserError as error:
            yield ("optimisers", "modules", reference), str(error)
    for name, address in server.links.neighbours.items():
        place = ("links", "neighbours", name)
        if name in ("", broker.name):
            what = "the broker's own name" if name else "empty"
            yield place, f"a neighbour's name is {what}; expected that of another broker"
        try:
            address_of(address or "us:1")
        except ValueError:
            what = f"the address of {name} is {shown(address)}"
            yield place, f'{what}; expected "host:port" to dial it, or "" if it dials us'
    for small, large in (
        ("publication_bytes_max", "frame_bytes_max"),
        ("payload_bytes_max", "publication_bytes_max"),
    ):
        have, bound = getattr(limits, small), getattr(limits, large)
        if have >= bound:
            what = f"{small} is {have}; expected less than {large}, which is {bound}"
            yield ("limits", small), what
    if server.admin.port > 0 and server.admin.port == broker.port:
        what = f"port is {broker.port}, which is the broker's own; expected another, or -1 for none"
        yield ("admin", "port"), what
    if tls.key and not tls.certificate:
        yield ("tls", "key"), "there is a key; expected a certificate for it"
    if tls.certificate and not tls.key:
        yield ("tls", "certificate"), "there is a certificate; expected the key for it"
    if tls.require_client_certificate and not (tls.certificate and tls.authority):
        what = "require_client_certificate is true; expected a certificate, a key and an authority"
        yield ("tls", "require_client_certificate"), what
    if security.enabled and not security.users:
        yield ("security", "enabled"), "enabled is true; expected users, the path of the users file"
    if security.token and security.token_file:
        yield ("security", "token_file"), "there are token and token_file; expected one of them"


# --- reading --------------------------------------------------------------------------------------


def read_config(path: Path | None) -> ServerConfig:
    """The settings of a file, checked; without one, the defaults."""
    if path is None:
        return ServerConfig()
    return config_of(read_toml(path, "a config file"), path.parent)


def config_of(file: TomlFile, folder: Path) -> ServerConfig:
    """The settings that a text says; paths in it are relative to the folder."""
    tables = {field.name: field.type for field in msgspec.structs.fields(ServerConfig)}
    read = {}
    for name in file.tree:
        if name not in tables:
            _refuse_table(file, name, tables)
        read[name] = read_table(file, (name,), tables[name], folder)
    server = ServerConfig(**read)
    for place, what in objections(server):
        file.refuse(place, f"[{place[0]}] {what}")
    return server


def _refuse_table(file: TomlFile, name: str, tables: Mapping[str, type[Struct]]) -> NoReturn:
    if not isinstance(file.tree[name], dict):
        having = [table for table, kind in tables.items() if name in kind.__struct_fields__]
        where = " or ".join(f"[{table}]" for table in having or tables)
        file.refuse(
            (name,), f"{abbreviate(name)} stands outside of a table; expected it in {where}"
        )
    raise file.refusal(
        (name,), f"there is no table [{abbreviate(name)}]; {instead(name, tables, '[{}]')}"
    )


# --- writing --------------------------------------------------------------------------------------

WIDTH = 100
HEADER = "The settings of a Roost broker, with their defaults. Leave out what you do not change."


def documented() -> str:
    """The defaults as a file, with what each setting is for; `read_config` gives them back."""
    lines = list(_comment(HEADER))
    default = ServerConfig()
    for table in msgspec.structs.fields(ServerConfig):
        kind: type[Struct] = table.type
        lines += ["", *_comment((kind.__doc__ or "").strip()), f"[{table.name}]"]
        for field in msgspec.structs.fields(kind):
            info = types.type_info(field.type)
            assert isinstance(info, types.Metadata)
            said = (info.extra_json_schema or {})["description"]
            if isinstance(info.type, types.LiteralType):
                said = f"{said} Either {expected(info.type)}."
            value = getattr(getattr(default, table.name), field.name)
            lines += ["", *_comment(said), f"{field.name} = {toml_value(value)}"]
    return "".join(f"{line}\n" for line in lines)


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False):
        yield f"# {line}"
