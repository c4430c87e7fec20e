"""The settings of a broker and of a client: one place, units in the names, a line of why for each."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from roost.broker.messages import PROTOCOL_VERSION


class BrokerConfig(Struct, frozen=True, kw_only=True):
    """What a broker has to know before it starts."""

    broker: str  # its name in the federation
    # New whenever it starts without its store: neighbours tell by it that it remembers nothing.
    incarnation: str

    # The version of the protocol that it greets with; an older one for as long as some neighbour needs it.
    version: int = PROTOCOL_VERSION

    # How events find their way (001 section 2.1.3). The same in the whole federation.
    routing: str = "advertisement"  # see `routers`
    # Whether subscriptions that others cover are kept back.
    covering: bool = True
    # The same for advertisements, of which there are fewer, so that it pays less.
    advertisement_covering: bool = False

    # Whether brokers tell each other who is behind them, so that no link closes a circle (see `membership`).
    members: bool = True

    # Whether it keeps its state in a store, and waits for it before it says anything.
    durable: bool = False

    # Whether connections have to be identified (`Identified`), and may do only what they are permitted.
    secured: bool = False

    # How long a client that is away is remembered.
    linger_s: float = 60.0
    # The same for one whose session is durable.
    durable_linger_s: float = 7 * 86_400.0

    # Acknowledgements are sent for so many messages, or after so long. With 0 s, at once.
    ack_every: int = 64
    ack_delay_s: float = 0.0

    # How long to wait before dialling again; doubles each time in vain.
    redial_min_s: float = 0.5
    redial_max_s: float = 30.0

    # What settles waits so long for a neighbour that is lost: longer than it takes both ends to notice
    # that, and a word to cross the federation (see `absence`).
    absence_grace_s: float = 5.0

    # How many messages may wait for a neighbour. At the bound, whoever could add to them is read no
    # further (acknowledgements and control still are), and so on back to the publishers.
    link_outbox_max: int = 100_000
    # So many messages wait for a neighbour that is away, and what it has not asked for is kept no longer.
    spare_max: int = 50_000
    # How many deliveries may wait for a client, there or away ...
    session_outbox_max: int = 100_000
    # ... or bytes of them, while it is away or does not read ...
    session_outbox_bytes_max: int = 32_000_000
    # ... and what happens to one more: it is not kept, and the client is told how many; or the session
    # ends, and the client is told why.
    session_outbox_policy: Literal["drop", "end"] = "end"

    # When the store is full (`StoreFilled`): refuse new events; or take them, and keep none of them for
    # clients that are away.
    store_full_policy: Literal["refuse", "drop"] = "refuse"

    # What one user may have here (see `quotas`): sessions, subscriptions, and bytes that wait for it in the
    # store. With 0, any number of those.
    user_sessions_max: int = 200
    user_subscriptions_max: int = 100_000
    user_kept_bytes_max: int = 1_000_000_000
    # How many answers may wait for a client that asks, and does not listen.
    answers_max: int = 2_000

    # So many bytes of a frame are left for the ids of the subscriptions that a delivery is for. If they take
    # more, it comes in parts.
    delivery_ids_bytes_max: int = 60_000

    # How long a change that an optimiser was granted may take, and how long its subject rests after it:
    # nobody else moves it in that time, unless it is more urgent (see `arbiter`).
    lease_s: float = 120.0
    rest_s: float = 10.0

    # How many subscriptions a session may have.
    subscriptions_max: int = 100_000

    # With a store, so many deliveries that wait for a client with a durable session are in memory, and all
    # others in the store only. Such a session has no other bound than the store's.
    session_memory_max: int = 10_000

    # Publishers whose last event is remembered, to know an event that comes a second time.
    watermarks_max: int = 100_000


class ClientConfig(Struct, frozen=True, kw_only=True):
    """What a client has to know before it starts."""

    # The version of the protocol that it greets with, before it learns that its broker's is older.
    version: int = PROTOCOL_VERSION

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
