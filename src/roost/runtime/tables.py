"""The tables of a live broker's settings, `roost.toml`: what each line of it is for.

A table of the file is a struct, and a key a field, whose type says what is allowed and whose description why
one would set it. From these come the checks, the messages and the commented file (see `config`): there is no
second list. What the machine or the wire have to know as well is declared there, and a table derives from it.
Everything has a default, with which a broker runs on this machine only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, defstruct

from roost.broker.config import BrokerSettings, Leases, StorePolicy, UserQuotas
from roost.broker.names import Rank
from roost.broker.registry import module_class
from roost.built_in import BUILT_IN, MODULES
from roost.optimising.worth import Terms
from roost.relocation.grape_module import GrapeConfig
from roost.runtime.gateway_settings import GatewaySettings
from roost.settings import Count, Positive, Seconds, SomeSeconds, why
from roost.traces.segments import ROWS_A_GROUP, SEGMENT_ROWS, SEGMENT_S
from roost.wire.limits import DEFAULT_LIMITS, Limits

Port = Annotated[int, Meta(ge=0, le=65_535)]
PortOrOff = Annotated[int, Meta(ge=-1, le=65_535)]
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
Mode = Annotated[
    Literal["off", "observing", "acting"],
    why("Observing: decisions are made and recorded, and nothing is changed."),
]


class Table(Struct, frozen=True, kw_only=True):
    """A table of the file."""


class BrokerTable(Table, BrokerSettings, frozen=True, kw_only=True):
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
    bandwidth_mbps: Annotated[
        Rate,
        why(
            "What it may send, in Mbit/s, for optimisers: how much of it is in use. 0: nobody knows, and none"
            " of it is. Nothing is sent more slowly for that."
        ),
    ] = 0.0
    cpu_share: Annotated[
        Share,
        why(
            "What it may take of one processor, for the same: 0.5 is half of it. 0: one of its own. It"
            " takes what the system lets it take, all the same."
        ),
    ] = 0.0
    machine: Annotated[
        str,
        why(
            "What runs here: a broker, or a machine of your own, with its settings"
            " (package.module:Class KEY=VALUE ...). Its neighbours are dialled as a broker's are."
        ),
    ] = "broker"
    chunks: Annotated[
        bool,
        why(
            "Publications that come in one read are taken together, by compiled code: many times as fast."
            " What is delivered is the same either way."
        ),
    ] = True


class LinksTable(Table, frozen=True, kw_only=True):
    """The other brokers of the federation that this one is linked to."""

    neighbours: Annotated[
        dict[str, str],
        why(
            "For each neighbour its address if we dial it, or an empty one if it dials us:"
            ' { B1 = "10.0.0.2:7411", B2 = "" }, or a table [links.neighbours]. Links form no circle. One'
            ' that has a standby has two: "10.0.0.2:7411,10.0.0.3:7411".'
        ),
    ] = {}
    super: Annotated[
        str,
        why(
            "Where routing is cluster: which neighbour is the controller above this broker. Empty at the top."
        ),
    ] = ""
    peers: Annotated[
        list[str],
        why(
            "Where routing is cluster, at the top: the neighbours that are controllers there, too, each"
            " linked with every other. All other neighbours are below this broker."
        ),
    ] = []

    def rank(self, neighbour: str) -> Rank:
        """What a neighbour is, where brokers have ranks."""
        if neighbour == self.super:
            return "super"
        return "peer" if neighbour in self.peers else "sub"


class LimitsTable(Table, Limits, frozen=True, kw_only=True):
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


class QuotasTable(Table, UserQuotas, frozen=True, kw_only=True):
    """How much one user may have at this broker, so that it can't take it from the others.

    Brokers and administrators are not counted. Where nobody logs in, a user is the name of a client.
    """

    events_per_s: Annotated[
        Rate,
        why(
            "Events a second that it may publish, on all its connections together; they are read no faster."
            " [limits] publish_burst at once are free. 0: any number."
        ),
    ] = 0.0


class StoreTable(Table, frozen=True, kw_only=True):
    """The store, if [broker] data names a folder for it."""

    retained_bytes_max: Annotated[
        Count, why("Bytes of events that the store may hold for those who are away. 0: any number.")
    ] = 0
    policy_at_limit: Annotated[
        StorePolicy,
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


class GatewayTable(Table, GatewaySettings, frozen=True, kw_only=True):
    """WS-Eventing in front of this broker, for those who speak SOAP (docs/GATEWAYS.md)."""

    port: Annotated[PortOrOff, why("-1: off. 0 lets the system choose a free one.")] = -1


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
    run: Annotated[
        str,
        why(
            "The name of the run that goes into the folder above. Empty: a new one, which a broker with"
            " [broker] data goes on with when it is started again."
        ),
    ] = ""
    content: Annotated[
        bool, why("Whether the events themselves are recorded there, too: they may be private.")
    ] = False
    segment_s: Annotated[
        SomeSeconds,
        why(
            "After this time a file is closed and shown. Who is killed loses the one that is open."
        ),
    ] = SEGMENT_S
    segment_rows: Annotated[Positive, why("... and after so many rows.")] = SEGMENT_ROWS
    rows_a_group: Annotated[
        Positive, why("Rows that are written at once; until then they are in memory only.")
    ] = ROWS_A_GROUP


class OptimisersTable(Table, Leases, frozen=True, kw_only=True):
    """Modules of your own, or of packages that you have installed.

    One of Roost's that is named here, too, is as it says here, and not as in a table of its own.
    """

    modules: Annotated[
        dict[str, str],
        why(
            'What each is to do, and its settings: { "my_package.crowd:Crowd" = "acting limit=10" }. The name'
            " is that of a class, or what its package calls it. The state is off, observing or acting."
        ),
    ] = {}


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

    mode: Mode = "off"
    algorithm: Annotated[
        Literal["grape", "pop", "both"],
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
    session_rest_s: Annotated[
        Seconds,
        why(
            "GRAPE: how long a publisher is left alone between two of these; a fast one would be decided for"
            " thousands of times a second."
        ),
    ] = 1.0
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


# Modules of Roost's that have [relocation] in common; each of the others has a table of its own name.
RELOCATING = ("grape", "pop")
MODULE_TABLES = tuple(name for name in BUILT_IN[MODULES] if name not in RELOCATING)


class ModuleTable(Table, frozen=True, kw_only=True):
    """What the table of a module says: what it is to do, and its settings, None for the defaults."""

    mode: Mode = "off"
    settings: Struct | None = None


def table_of_module(name: str) -> type[Struct]:
    """The table of one of `MODULE_TABLES`: `mode`, and what the module itself has declared (`Config`)."""
    config = module_class(name).Config
    return defstruct(
        f"{name}Table",
        [("mode", Mode, "off")],
        bases=(Table,) if config is None else (Table, config),
        namespace={"__doc__": config and config.__doc__},
        frozen=True,
        kw_only=True,
    )


class StandbyTable(Table, frozen=True, kw_only=True):
    """A standby: a second node with a store of its own, which goes on as this broker when it fails.

    Both nodes have the settings of the same broker, but for where they listen and what they keep.
    """

    role: Annotated[
        Literal["", "primary", "standby"],
        why(
            "Which of the two this node is, at the very first start; afterwards they know. Empty: there is no"
            " standby."
        ),
    ] = ""
    address: Annotated[
        str,
        why("Where the two meet, as host:port: the primary listens there, the standby dials it."),
    ] = ""
    alone: Annotated[
        bool,
        why(
            "Whether the broker goes on while its standby is away. false: it is silent then, and the standby"
            " takes over by itself whenever it hears nothing. true: it goes on, and the standby takes over"
            " only by hand, or with a witness. The same at both."
        ),
    ] = False
    witness: Annotated[
        str,
        why(
            "With alone: the address of a witness, which says which of the two goes on when they have lost"
            " sight of each other. Empty: none. The same at both."
        ),
    ] = ""
    takeover_s: Annotated[
        SomeSeconds, why("How long one of them hears nothing of the other until it acts.")
    ] = 1.5
    beside: Annotated[
        str,
        why(
            "Where clients find the other node, as host:port, for those that connect before it has said so"
            " itself."
        ),
    ] = ""
    witness_for: Annotated[
        str,
        why(
            "Where this broker, which must have a store, is itself a witness, as host:port, for pairs that"
            " it is not one of. Empty: nowhere."
        ),
    ] = ""


class ServerConfig(Struct, frozen=True, kw_only=True):
    """All of it."""

    broker: BrokerTable = BrokerTable()
    links: LinksTable = LinksTable()
    limits: LimitsTable = LimitsTable()
    quotas: QuotasTable = QuotasTable()
    store: StoreTable = StoreTable()
    standby: StandbyTable = StandbyTable()
    admin: AdminTable = AdminTable()
    gateway: GatewayTable = GatewayTable()
    tls: TlsTable = TlsTable()
    security: SecurityTable = SecurityTable()
    trace: TraceTable = TraceTable()
    relocation: RelocationTable = RelocationTable()
    optimisers: OptimisersTable = OptimisersTable()
    log: LogTable = LogTable()
    # By the name of the table; what is as by default is not there.
    modules: Mapping[str, ModuleTable] = {}


# The tables that are there whatever modules there are.
TABLES = tuple(name for name in ServerConfig.__struct_fields__ if name != "modules")
