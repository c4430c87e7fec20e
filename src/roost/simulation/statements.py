"""What a workload says: one statement a line, each at a time of the virtual clock.

The grammar is the thesis' (001 section 5.1), `time noun verb arguments`, extended by links, filters,
removal and faults. A statement is a plain value: `workload_file` reads and writes the text,
`generators` make them, `World` carries them out.
"""

from __future__ import annotations

from msgspec import Struct

from roost.language import Advertisement, Event, Subscription


class Statement(Struct, frozen=True, kw_only=True):
    """Something that happens at a time."""

    at: float  # seconds of virtual time
    line: int = 0  # where it stands in its file; 0 when it was not read from one


# --- the federation -------------------------------------------------------------------------------


class Set(Statement, frozen=True):
    """`0.0 federation set routing flooding`: a setting of the whole run; see `settings.Settings`."""

    key: str
    value: str


class UseOptimiser(Statement, frozen=True):
    """`0.0 federation optimiser pop observing traces=50`: a module in every broker.

    Behind its class (`my_package.crowd:Crowd`), or what its package calls it, stand its state and its
    settings, if it has any.
    """

    reference: str
    order: str | None = None


class UseBars(Statement, frozen=True):
    """`0.0 market bars quotes.parquet`: publishers take their quotes from this file of daily bars."""

    path: str


class UseLatencies(Statement, frozen=True):
    """`0.0 latency matrix rtt.npz`: links without a latency of their own take it from this matrix."""

    path: str


class AddBroker(Statement, frozen=True):
    """`1.0 broker add B0 500 16 10`: CPU speed in MHz, memory in MB, bandwidth in Mbit/s.

    `1.0 broker add R0 500 16 10 my_package.ring:Ring next=R1`: another machine instead, and its settings.
    """

    broker: str
    cpu_mhz: float
    memory_mb: float
    bandwidth_mbps: float
    machine: str | None = None


class RemoveBroker(Statement, frozen=True):
    """`9.0 broker remove B3`: it leaves for good, in order: its links and clients are told."""

    broker: str


class AskBroker(Statement, frozen=True):
    """`9.0 broker ask B3 drain within_s=60`: an operator wants something of its optimisers."""

    broker: str
    request: str
    arguments: str | None = None


class SwitchBroker(Statement, frozen=True):
    """`9.0 broker switch B3 tree`: which way it goes from now on, in a hierarchy; or `cluster`."""

    broker: str
    way: str


class AddLink(Statement, frozen=True):
    """`1.0 link add B0 B1 5`: neighbours from now on; the latency in ms, one way, is optional."""

    a: str
    b: str
    latency_ms: float | None = None


class AddPeerLink(AddLink, frozen=True):
    """`1.0 link peer B0 B1 5`: the same, of two controllers at the top of a hierarchy (routing `cluster`).

    Of any other link there the first broker is the super of the second.
    """


class RemoveLink(Statement, frozen=True):
    """`9.0 link remove B0 B1`: neighbours no longer."""

    a: str
    b: str


# --- clients --------------------------------------------------------------------------------------


class AddPublisher(Statement, frozen=True):
    """`1.0 publisher add P1 YHOO 10 B0`: quotes of a symbol, at a rate a minute, to a broker.

    With `-` for the symbol it publishes only what `Publish` says. An advertisement may follow; without
    one it is the thesis' for that symbol.
    """

    publisher: str
    symbol: str | None
    rate_per_min: float
    broker: str
    advertisement: Advertisement | None = None


class ChangeRate(Statement, frozen=True):
    """`60.0 publisher chrate P1 20`"""

    publisher: str
    rate_per_min: float


class Publish(Statement, frozen=True):
    """`7.5 publisher publish P1 [a,7]`: one event, there and then."""

    publisher: str
    event: Event


class Advertise(Statement, frozen=True):
    """`8.0 publisher advertise P1 news class = 'NEWS'`: one more advertisement, under a name."""

    publisher: str
    name: str
    advertisement: Advertisement


class Unadvertise(Statement, frozen=True):
    """`9.0 publisher unadvertise P1 news` (the one it was added with is called `main`)."""

    publisher: str
    name: str


class RemovePublisher(Statement, frozen=True):
    """`90.0 publisher remove P1`: it says goodbye, behind all that it has published."""

    publisher: str


class AddSubscriber(Statement, frozen=True):
    """`10.0 subscriber add S1 B1 class = 'STOCK' and volume > 300000`; the filter in either syntax."""

    subscriber: str
    broker: str
    subscription: Subscription


class Subscribe(Statement, frozen=True):
    """`12.0 subscriber subscribe S1 dips low < 20`: one more subscription, under a name."""

    subscriber: str
    name: str
    subscription: Subscription


class Unsubscribe(Statement, frozen=True):
    """`14.0 subscriber unsubscribe S1 dips` (the one it was added with is called `main`)."""

    subscriber: str
    name: str


class RemoveSubscriber(Statement, frozen=True):
    """`90.0 subscriber remove S1`"""

    subscriber: str


class AddDurableSubscriber(Statement, frozen=True):
    """`10.0 subscriber durable S1 B1 class = 'STOCK'`: one whose session outlives its process."""

    subscriber: str
    broker: str
    subscription: Subscription


class RestartSubscriber(Statement, frozen=True):
    """`20.0 subscriber restart S1`: its process is killed, and another one takes the durable session over."""

    subscriber: str


class PermitClient(Statement, frozen=True):
    """`20.0 client permit S1 class = 'STOCK'`: all that it may subscribe to and publish; `*` is everything.

    What it has and may not have any more is refused, and given up.
    """

    client: str
    filter: Subscription


class RedirectClient(Statement, frozen=True):
    """`20.0 client redirect S1 B3`: its broker sends it to another one."""

    client: str
    broker: str


# --- faults ---------------------------------------------------------------------------------------


class CrashBroker(Statement, frozen=True):
    """`30.0 broker crash B1 keep`: it stops dead; its store is kept, or lost (`lose`)."""

    broker: str
    keep_store: bool


class RestartBroker(Statement, frozen=True):
    """`35.0 broker restart B1`"""

    broker: str


class FailNode(Statement, frozen=True):
    """`30.0 node fail B1 leader stop 4`: of a broker that has a standby, something fails for so many seconds.

    The node that is the broker (leader), the other one (standby), or both: they are killed (kill), without
    their disk if the other has all (lose), or stopped, and wake up (stop). Or what is between them is cut
    (between cut).
    """

    broker: str
    node: str
    fault: str
    duration_s: float


class FillStore(Statement, frozen=True):
    """`30.0 broker fill B1`: its store is full; it takes no events of its clients."""

    broker: str


class FreeStore(Statement, frozen=True):
    """`35.0 broker free B1`: its store has room again."""

    broker: str


class SlowBroker(Statement, frozen=True):
    """`30.0 broker slow B1 10`: everything takes it this many times as long; 1 is back to normal."""

    broker: str
    factor: float


class MoveLink(Statement, frozen=True):
    """`9.0 link move B1 B0 B2`: B1 is a neighbour of B2 before long, and not of B0, which both are now.

    Asked for again until it is so: somebody may object, for the moment.
    """

    mover: str
    middle: str
    anchor: str


class ShuffleLinks(Statement, frozen=True):
    """`9.0 link shuffle`: the same with three brokers that the seed says; asked for once."""


class CutLink(Statement, frozen=True):
    """`30.0 link cut B0 B1`: what is on the way is lost, and nothing passes until it heals.

    `30.0 link cut B0 B1 1.5 4`: and B0 notices after 1.5 s, B1 after 4, as if it had become silent.
    """

    a: str
    b: str
    a_notices_s: float | None = None
    b_notices_s: float | None = None


class HealLink(Statement, frozen=True):
    """`35.0 link heal B0 B1`"""

    a: str
    b: str


class DelayLink(Statement, frozen=True):
    """`30.0 link delay B0 B1 250 5`: this many ms on top of its latency, for so many seconds."""

    a: str
    b: str
    extra_ms: float
    duration_s: float


class Partition(Statement, frozen=True):
    """`30.0 partition cut B1,B2,B5`: these brokers, and the clients at them, on one side; all others on
    the other."""

    brokers: tuple[str, ...]


class HealPartition(Statement, frozen=True):
    """`35.0 partition heal`: every cut is over, also those of single links."""


class VanishClient(Statement, frozen=True):
    """`30.0 client vanish S1`: its connection is gone without a word."""

    client: str


class ReturnClient(Statement, frozen=True):
    """`35.0 client return S1`: it comes back with its session."""

    client: str


class End(Statement, frozen=True):
    """`5000.0 end`: the run ends here, unless the command says otherwise."""
