"""`roost gateway`: other protocols in front of a broker, until it is told to stop."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.console import warn
from roost.cli.contexts import Reach
from roost.cli.publish import AuthorityOption, CertificateOption, KeyOption, tls_of

if TYPE_CHECKING:
    from roost.client import Tls
    from roost.runtime.gateway_settings import GatewaySettings

EXAMPLES = """\b
Whoever calls with a user and a token (HTTP basic authentication) acts at the broker as that user.
WSDL is at /2004.wsdl and /2011.wsdl. docs/GATEWAYS.md.

\b
Examples:
  roost gateway ws-eventing --url roost://127.0.0.1:7411
  roost gateway ws-eventing --url roosts://b0.example --authority authority.pem --data gateway
  roost gateway ws-eventing --host 0.0.0.0 --port 8080 --allow-private
"""


def register(app: typer.Typer) -> None:
    """Adds the command, and those below it."""
    gateways = typer.Typer(
        help="Other protocols in front of a broker.",
        no_args_is_help=True,
        rich_markup_mode=None,
        epilog=EXAMPLES,
    )
    gateways.command("ws-eventing", epilog=EXAMPLES)(ws_eventing)
    app.add_typer(gateways, name="gateway")


def ws_eventing(
    broker: Annotated[
        str | None,
        typer.Option(
            "--url",
            "--broker",
            help="Where the broker is; else ROOST_URL, or port 7411 of this machine. Who calls without a"
            " user is the one of this URL, if it has one.",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where it listens.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="0 lets the system choose.")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where others reach it, behind a proxy.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The folder in which subscriptions are kept, over restarts."),
    ] = None,
    allow_private: Annotated[
        bool,
        typer.Option(
            "--allow-private", help="Sinks may be on this machine or in its private network."
        ),
    ] = False,
    subscriptions_a_user: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many one user may have.")
    ] = None,
    give_up_s: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="S", help="A sink that takes nothing for so long is out."),
    ] = None,
    server_certificate: Annotated[
        Path | None, typer.Option(help="To serve HTTPS: the gateway's certificate, in PEM ...")
    ] = None,
    server_key: Annotated[Path | None, typer.Option(help="... and its key.")] = None,
    sink_authority: Annotated[
        Path | None, typer.Option(help="Whom to trust that sinks with HTTPS are who they say.")
    ] = None,
    authority: AuthorityOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
) -> None:
    """Serve WS-Eventing (SOAP, of 2004 and of 2011) in front of a broker."""
    from msgspec.structs import replace

    from roost.client.url import DEFAULT_URL, target_of
    from roost.errors import UserError
    from roost.loopback import is_loopback
    from roost.runtime.gateway_settings import GatewaySettings

    if (server_certificate is None) != (server_key is None):
        raise UserError("--server-certificate and --server-key go together; expected both")
    said = {
        "host": host,
        "port": port,
        "url": public_url,
        "data": data and str(data),
        "allow_private": allow_private,
        "subscriptions_a_user": subscriptions_a_user,
        "give_up_s": give_up_s,
        "certificate": server_certificate and str(server_certificate),
        "key": server_key and str(server_key),
        "authority": sink_authority and str(sink_authority),
    }
    settings = replace(
        GatewaySettings(), **{name: value for name, value in said.items() if value is not None}
    )
    broker = broker or os.environ.get("ROOST_URL") or DEFAULT_URL
    target, tls = target_of(broker), tls_of(Reach(broker, None, None, authority, certificate, key))
    if tls is not None and not target.tls:
        raise UserError(f"{target.url}: there are settings of TLS; expected roosts://")
    if not target.tls and not all(is_loopback(host) for host, _ in target.addresses):
        warn(f"{target.url}: tokens of callers go there in the clear; expected roosts://")

    import uvloop

    uvloop.run(serve(broker, settings, tls))


async def serve(broker: str, settings: GatewaySettings, tls: Tls | None) -> None:
    """Run a gateway until SIGTERM or SIGINT."""
    import asyncio

    from roost.gateway.ws_eventing import Gateway

    gateway, stop = Gateway(broker, settings, tls), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await gateway.start()
    where = f"{gateway.host}:{gateway.port}"
    print(f"WS-Eventing is served on {where}", file=sys.stderr, flush=True)
    await stop.wait()
    print("the gateway stops", file=sys.stderr, flush=True)
    await gateway.stop()
