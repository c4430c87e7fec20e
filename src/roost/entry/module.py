"""Brokers that tell each other where they are, so that each of them can be an entry point: a module.

Each publishes, every period, its address, how many clients it has, and how many it can bear compared with
others. Everybody hears it, as an event of a reserved class that travels ahead of data. A broker that only
observes hears of others, and is told of to nobody: no client is sent there.

**A crowd** that comes within a period finds several entry points, and none knows whom the others have sent.
So a broker looks more often than once a period how many clients it has and has sent to brokers, and says so
at once if that is not what it has said.

What clients ask (`Locate`, which drivers answer) comes as the request `locate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args

from msgspec import Meta, Struct

from roost.broker.messages import Publication
from roost.broker.module import Module, Surroundings
from roost.built_in import ENTRY, LOCATE
from roost.entry.directory import Directory, Policy
from roost.errors import UserError
from roost.language import parse_advertisement, parse_subscription
from roost.settings import Positive, SomeSeconds, why

CLASS = "ROOST_ENTRY"
TIMER = "hello"
WANTED = f"class = '{CLASS}'"
# How often a broker looks, in a period; and by which share clients may change that it does not tell at once.
LOOKS = 8
CHANGE = 0.02


class EntrySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What operators can say: `[entry]`."""

    period_s: Annotated[
        SomeSeconds,
        why(
            "How often brokers say where they are and how many clients they have. One that is silent for"
            " three times as long is not handed out. The same in the whole federation."
        ),
    ] = 2.0
    addresses: Annotated[
        Positive, why("How many addresses a client is given, in turn or by load.")
    ] = 3
    nearest_of: Annotated[
        Positive, why("How many a client is given that looks for the nearest.")
    ] = 64
    weight: Annotated[
        float,
        Meta(gt=0),
        why("How many clients this broker can bear, compared with others: 2 is twice as many."),
    ] = 1.0


class EntryPoint(Module):
    """Knows the brokers of the federation, and is known to them."""

    name = ENTRY
    reserved: Sequence[str] = (CLASS,)
    Config = EntrySettings
    config: EntrySettings

    def __init__(self, config: EntrySettings | None = None) -> None:
        self.config = config or EntrySettings()
        self.directory = Directory(self.config.period_s)
        self._around: Surroundings
        self._looks = 0  # since it has said something
        self._said = 0  # so many clients it has, ...
        self._told = 0  # ... and has sent to brokers

    def started(self, around: Surroundings, now: float) -> None:
        self._around = around
        around.advertise(TIMER, parse_advertisement(WANTED))
        around.subscribe(TIMER, parse_subscription(WANTED))
        self._say(now)

    def timer(self, name: str, now: float) -> None:  # noqa: ARG002 (there is one)
        self._looks += 1
        changed = abs(len(self._around.clients()) - self._said) > CHANGE * self._said
        if changed or self.directory.sent > self._told or self._looks >= LOOKS:
            self._say(now)
        else:
            self._wait()

    def _wait(self) -> None:
        self._around.set_timer(TIMER, self.config.period_s / LOOKS)

    def _say(self, now: float) -> None:
        around = self._around
        self._wait()
        self._looks = 0
        if not around.acting:
            return
        clients, weight = len(around.clients()), self.config.weight
        self._said, self._told = clients, self.directory.sent
        self.directory.heard(around.broker, around.address, clients, weight, now)
        around.publish(
            {
                "class": CLASS,
                "broker": around.broker,
                "address": around.address,
                "clients": clients,
                "weight": weight,
                "sent": self._told,
            }
        )

    def heard(self, publication: Publication, subscriptions: Sequence[str], now: float) -> None:  # noqa: ARG002
        said = publication.event.attributes
        broker, address = said.get("broker"), said.get("address")
        clients, weight = said.get("clients"), said.get("weight")
        sent = said.get("sent", 0)  # an older broker does not say
        if broker == self._around.broker:
            return
        # Only brokers say so; one of a later version may say it otherwise.
        if (
            isinstance(broker, str)
            and isinstance(address, str)
            and isinstance(clients, int)
            and isinstance(weight, float)
            and weight > 0
            and isinstance(sent, int)
        ):
            self.directory.heard(broker, address, clients, weight, now, sent)

    def asked(
        self, request: str, arguments: Mapping[str, Any], now: float
    ) -> Mapping[str, Any] | None:
        if request != LOCATE:
            return None
        policy = arguments.get("by", "turn")
        if policy not in get_args(Policy):
            expected = ", ".join(get_args(Policy))
            raise UserError(f"a client asks for a broker by {policy!r}; expected {expected}")
        most = self.config.nearest_of if policy == "near" else self.config.addresses
        return {"addresses": self.directory.some(policy, most, now)}
