"""`roost broker`: one live broker, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.errors import UserError

if TYPE_CHECKING:
    from roost.runtime.tables import ServerConfig


EXAMPLES = """\b
It runs until SIGTERM or Ctrl-C, which end it in order. docs/OPERATING.md is the manual.

\b
Examples:
  roost broker
  roost broker --name B1 --port 7511 --data store --neighbour B0=127.0.0.1:7411
  roost broker --print-config > roost.toml
  roost broker --check roost.toml
  roost broker --config roost.toml
  roost broker --name B3 --port 7411 --data one --pair 127.0.0.1:7499
  roost broker --standby-of B3 --port 7412 --data two --admin-port 7481 --pair 127.0.0.1:7499
"""

ModuleOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE",
        help="package.module:Class, or what its package calls it; with =ORDER what it is to do, as in"
        " my:Crowd='observing limit=10'. May be repeated.",
    ),
]


def modules_of(options: list[str]) -> dict[str, str]:
    """What `--module` says: what each module is to do."""
    return {name: order for name, _, order in (text.partition("=") for text in options)}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("broker", epilog=EXAMPLES)(broker)


def broker(
    config: Annotated[
        Path | None, typer.Option("--config", help="Its settings; see --print-config.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Its name in the federation.")] = None,
    host: Annotated[str | None, typer.Option(help="Where it listens.")] = None,
    port: Annotated[int | None, typer.Option(help="0 lets the system choose.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="The folder of its store: what is accepted is kept.")
    ] = None,
    admin_port: Annotated[
        int | None, typer.Option(help="Health, metrics and control; -1 for none.")
    ] = None,
    neighbour: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=HOST:PORT, whom it dials, or NAME=, who dials it. May be repeated."
        ),
    ] = None,
    module: ModuleOption = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="MACHINE",
            help="What runs in place of a broker: package.module:Class, or what its package calls it; its"
            " settings may follow, as in 'my:Ring next=B1'.",
        ),
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Record its traffic in this folder.")] = None,
    allow_traces: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="`roost trace on` may name this folder. May be repeated."),
    ] = None,
    standby_of: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Be the standby of this broker: take over as that broker when it fails. With --pair.",
        ),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the broker and its standby meet: it listens there, the standby dials it.",
        ),
    ] = None,
    accept_older: Annotated[
        bool,
        typer.Option(
            "--accept-older",
            help="Start with a store that is older than it was: what it lacks is lost.",
        ),
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="FILE",
            help="Check these settings and the files they name; run nothing.",
        ),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print all settings with their defaults.")
    ] = False,
) -> None:
    """Run a broker. With no options at all it serves this machine only, on port 7411."""
    from roost.runtime.config import check_config, documented, read_config

    if print_config:
        typer.echo(documented(), nl=False)
        return
    if check is not None:
        check_file(check)
        return
    settings = read_config(config)
    if standby_of is not None and name is not None:
        raise UserError(
            f"--standby-of {standby_of} --name {name}: a standby has the name of its broker"
        )
    changes: dict[str, dict[str, object]] = {
        "broker": {
            "name": name or standby_of,
            "host": host,
            "port": port,
            "data": data and str(data),
            "machine": machine,
        },
        "store": {"accept_older": accept_older or None},
        "standby": {
            "role": "standby" if standby_of else "primary" if pair else None,
            "address": pair,
        },
        "admin": {"port": admin_port},
        "trace": {
            "folder": trace and str(trace),
            "allowed": tuple(map(str, allow_traces)) if allow_traces else None,
        },
    }
    if module:
        changes["optimisers"] = {"modules": settings.optimisers.modules | modules_of(module)}
    settings = changed(settings, changes, neighbour or [])
    check_config(settings)

    import uvloop

    from roost.runtime.main import Beside, serve
    from roost.runtime.pair import serve_pair

    beside: Beside | None = None
    if settings.gateway.port >= 0:
        from roost.gateway.ws_eventing.beside import gateway_beside

        beside = gateway_beside
    run = serve_pair if settings.standby.role else serve
    uvloop.run(run(settings, config, beside))


def check_file(file: Path) -> None:
    """Says that a broker would start with these settings, and what would be open to others."""
    from roost.cli.console import warn
    from roost.runtime.checking import check_all
    from roost.runtime.config import read_config

    settings = read_config(file)
    for found in check_all(settings, file):
        warn(f"{found.what}: {found.detail}")
    typer.echo(f"{file}: the settings of {settings.broker.name} will do")


def changed(
    settings: ServerConfig, changes: dict[str, dict[str, object]], neighbours: list[str]
) -> ServerConfig:
    """The settings with what the command line says instead."""
    from msgspec.structs import replace

    for table, fields in changes.items():
        said = {key: value for key, value in fields.items() if value is not None}
        if said:
            settings = replace(settings, **{table: replace(getattr(settings, table), **said)})
    if neighbours:
        links = dict(settings.links.neighbours)
        for text in neighbours:
            name, equals, address = text.partition("=")
            if not name or not equals or (address and not address.rpartition(":")[2].isdigit()):
                raise UserError(f"--neighbour {text!r}: expected NAME=HOST:PORT, or NAME=")
            links[name] = address
        settings = replace(settings, links=replace(settings.links, neighbours=links))
    return settings
