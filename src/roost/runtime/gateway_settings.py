"""The settings of a WS-Eventing gateway: what `roost gateway ws-eventing` and `[gateway]` have in common."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from roost.settings import Positive, SomeSeconds, why

PORT = 7413


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """WS-Eventing, for those who speak SOAP (docs/GATEWAYS.md)."""

    host: Annotated[str, why("Whoever reaches it can ask for subscriptions.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=-1, le=65_535), why("-1: off. 0 lets the system choose a free one.")
    ] = PORT
    url: Annotated[
        str,
        why("Where others reach it, if not under the name that they call it by: behind a proxy."),
    ] = ""
    data: Annotated[
        str,
        Meta(extra={"file": True}),
        why(
            "The folder in which subscriptions are kept, and the tokens of their users. Empty: they end when"
            " the gateway stops, and their subscribers are told."
        ),
    ] = ""
    certificate: Annotated[
        str, Meta(extra={"file": True}), why("PEM; with it and the key, HTTPS is served.")
    ] = ""
    key: Annotated[str, Meta(extra={"file": True}), why("PEM; the key of that certificate.")] = ""
    authority: Annotated[
        str,
        Meta(extra={"file": True}),
        why("PEM; what certificates of sinks are checked against. Empty: what the system trusts."),
    ] = ""
    allow_private: Annotated[
        bool,
        why(
            "Whether sinks may be on this machine or in its network (loopback, private addresses). Else a"
            " stranger could have it send to what only it can reach."
        ),
    ] = False
    subscriptions_max: Annotated[Positive, why("Subscriptions of all users together.")] = 1_000
    subscriptions_a_user: Annotated[
        Positive, why("Subscriptions of one user; each is a session at the broker, see [quotas].")
    ] = 100
    expires_max_s: Annotated[
        SomeSeconds, why("How long a subscription lasts at most, unless it is renewed.")
    ] = 7 * 86_400.0
    body_bytes_max: Annotated[
        Positive, why("Bytes of a message; a payload of the broker's is as long at most.")
    ] = 1 << 19
    body_s: Annotated[SomeSeconds, why("How long a message may take to arrive.")] = 10.0
    connections_max: Annotated[
        Positive, why("Connections at a time; one host has half of them at most.")
    ] = 512
    broker_s: Annotated[SomeSeconds, why("How long the broker may take to answer.")] = 10.0
    sink_s: Annotated[SomeSeconds, why("How long a sink may take to answer.")] = 10.0
    retry_min_s: Annotated[
        SomeSeconds,
        why("How long to wait before a notification is sent again; doubles each time in vain ..."),
    ] = 0.5
    retry_max_s: Annotated[SomeSeconds, why("... up to this.")] = 60.0
    give_up_s: Annotated[
        SomeSeconds,
        why("A sink that takes nothing for so long has its subscription ended (DeliveryFailure)."),
    ] = 86_400.0
