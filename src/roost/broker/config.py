"""The settings of a broker and of a client: one place, units in the names, a line of why for each.

Settings that people can change are annotated (see `roost.settings`): the settings file and the simulator
derive theirs from these. What has only a comment is decided by whoever runs the broker.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from roost.broker.messages import PROTOCOL_VERSION, SESSION_VERSION
from roost.settings import Count, Positive, Seconds, SomeSeconds, why

# At the bound of a store: refuse new events, or drop what is for clients that are away.
StorePolicy = Literal["refuse", "drop"]


class FederationSettings(Struct, frozen=True, kw_only=True):
    """How the brokers of a federation behave, live and in the simulator."""

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
    ack_delay_s: Annotated[
        Seconds, why("An acknowledgement waits this long for more to acknowledge. 0: not at all.")
    ] = 0.0
    session_outbox_max: Annotated[
        Positive, why("How many deliveries may wait for a client, there or away.")
    ] = 100_000
    session_outbox_policy: Annotated[
        Literal["drop", "end"],
        why(
            "What becomes of one more: it is dropped, and the client told how many were; or the session"
            " ends, and the client is told why."
        ),
    ] = "end"
    link_outbox_max: Annotated[
        Positive,
        why(
            "How many messages may wait for a neighbour. At the bound, whoever could add to them is read no"
            " further, and so on back to the publishers."
        ),
    ] = 100_000
    absence_grace_s: Annotated[
        Seconds,
        why(
            "How long what subscribers ask for waits for a neighbour that is lost: longer than it takes both"
            " ends to notice that, and a word to cross the federation."
        ),
    ] = 5.0


class BrokerSettings(FederationSettings, frozen=True, kw_only=True):
    """What else a live broker can be told in [broker]."""

    durable_linger_s: Annotated[
        Seconds, why("linger_s of a client with a durable session; a week, unless said otherwise.")
    ] = 7 * 86_400.0
    ack_every: Annotated[
        Positive,
        why("Messages that one acknowledgement waits for: more save traffic, fewer save memory."),
    ] = 64
    session_outbox_bytes_max: Annotated[
        Positive,
        why("How many bytes may wait for a client, while it is away or does not read."),
    ] = 32_000_000
    session_memory_max: Annotated[
        Positive,
        why(
            "With a store: how many deliveries for a client with a durable session are in memory too. All"
            " others are in the store only, and such a session has no other bound."
        ),
    ] = 10_000
    spare_max: Annotated[
        Positive,
        why(
            "When so many messages wait for a neighbour that is away, what it has not asked for is kept no"
            " longer: who subscribes there from then on may miss events until it is back."
        ),
    ] = 50_000
    redial_min_s: Annotated[
        SomeSeconds,
        why("How long to wait before dialling a neighbour again; doubles each time in vain ..."),
    ] = 0.5
    redial_max_s: Annotated[SomeSeconds, why("... up to this.")] = 30.0
    watermarks_max: Annotated[
        Positive,
        why("Publishers whose last event is remembered, to know one that comes a second time."),
    ] = 100_000


class UserQuotas(Struct, frozen=True, kw_only=True):
    """How much one user may have at a broker (see `quotas`)."""

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
    answers: Annotated[
        Positive, why("Answers that wait for a session that asks, and does not listen.")
    ] = 2_000


class Leases(Struct, frozen=True, kw_only=True):
    """How long a client is somebody's, if several optimisers want to move it (see `arbiter`)."""

    rest_s: Annotated[
        Seconds,
        why("How long nobody moves a client that was moved, whichever optimiser wants to."),
    ] = 10.0
    lease_s: Annotated[
        SomeSeconds, why("How long a move that was granted may take before it counts as abandoned.")
    ] = 120.0


class BrokerConfig(BrokerSettings, frozen=True, kw_only=True):
    """What a broker has to know before it starts."""

    broker: str  # its name in the federation
    # New whenever it starts without its store: neighbours tell by it that it remembers nothing.
    incarnation: str

    # The version of the protocol that it greets with; an older one for as long as some neighbour needs it.
    version: int = PROTOCOL_VERSION

    # Whether brokers tell each other who is behind them, so that no link closes a circle (see `membership`).
    members: bool = True

    # Whether it keeps its state in a store, and waits for it before it says anything.
    durable: bool = False

    # Whether connections have to be identified (`Identified`), and may do only what they are permitted.
    secured: bool = False

    # When the store is full (`StoreFilled`).
    store_full_policy: StorePolicy = "refuse"

    quotas: UserQuotas = UserQuotas()
    leases: Leases = Leases()

    # How many subscriptions a session may have.
    subscriptions_max: int = 100_000

    # So many bytes of a frame are left for the ids of the subscriptions that a delivery is for. If they take
    # more, it comes in parts.
    delivery_ids_bytes_max: int = 60_000

    @property
    def session_version(self) -> int:
        """The latest version of what clients say that it understands."""
        return SESSION_VERSION if self.version == PROTOCOL_VERSION else self.version


class ClientConfig(Struct, frozen=True, kw_only=True):
    """What a client has to know before it starts."""

    # The version of the protocol that it greets with, before it learns that its broker's is older.
    version: int = SESSION_VERSION

    client: str  # its name: the publisher of its events
    session: str  # nobody else's; sessions to come are numbered behind it
    # Acknowledgements of deliveries are sent for so many, or after so long. With 0 s, at once.
    ack_every: int = 64
    ack_delay_s: float = 0.0
    redial_s: float = 0.5
    # A move to another broker that takes longer is abandoned, as long as that is possible.
    move_timeout_s: float = 60.0
    # The session outlives this process; the next one of the same session takes over what it was sent and
    # has not acknowledged. `process` is a word that no other one has.
    durable: bool = False
    process: str = ""
    # Deliveries are acknowledged when the application has said `Handled`, not when they have come.
    waits_for_application: bool = False
    # A durable publisher, whose session is durable: whose events they are and the number of the last one,
    # if the broker knows of none. It withdraws none of its advertisements.
    publisher: str = ""
    published: int = 0
