"""`roost keys`: certificates for TLS, from an authority of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import print_json

if TYPE_CHECKING:
    from cryptography import x509

EXAMPLES = """\b
Brokers and clients get authority.pem, and each its own NAME.pem and NAME.key. The file authority.key
stays where it is: whoever has it can be anybody.

\b
Examples:
  roost keys authority keys
  roost keys issue B0 --host localhost --host 127.0.0.1 --dir keys
  roost keys issue ticker --dir keys --days 30
  roost keys show keys/B0.pem
"""

DAYS_MAX = 36_500
DirOption = Annotated[
    Path, typer.Option("--dir", metavar="DIR", file_okay=False, help="Where the authority is.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    keys = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Certificates for TLS, from an authority of one's own.",
        epilog=EXAMPLES,
    )
    keys.command("authority", epilog=EXAMPLES)(authority)
    keys.command("issue", epilog=EXAMPLES)(issue)
    keys.command("show", epilog=EXAMPLES)(show)
    app.add_typer(keys, name="keys")


def authority(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", file_okay=False, help="Where its files go.")
    ],
    days: Annotated[
        int, typer.Option(metavar="N", min=1, max=DAYS_MAX, help="How long it is valid.")
    ] = 3_650,
) -> None:
    """Make an authority, which issues certificates."""
    from roost.runtime.tls import make_authority

    show_paths(make_authority(folder, days=days))


def issue(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Whom it is for: a broker or a user (its CN).")
    ],
    folder: DirOption,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A name or address that it is dialled by (its SAN)."),
    ] = None,
    days: Annotated[
        int, typer.Option(metavar="N", min=1, max=DAYS_MAX, help="How long it is valid.")
    ] = 365,
    replace: Annotated[
        bool, typer.Option("--replace", help="In place of one of that name that is there.")
    ] = False,
) -> None:
    """Issue a certificate, for both ends of a connection."""
    from roost.runtime import tls

    show_paths(tls.issue(folder, name, host or (), days=days, replace=replace))


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Certificates, in PEM.")],
    json_: Json = False,
) -> None:
    """Say whose certificate it is, for which names and how long."""
    from roost.runtime.tls import read_certificates

    found = [facts(each) for each in read_certificates(file)]
    if json_:
        print_json({"certificates": found})
        return
    for number, each in enumerate(found):
        if number:
            typer.echo()
        for key, value in each.items():
            typer.echo(f"{key + ':':13}{', '.join(value) if isinstance(value, list) else value}")


def facts(certificate: x509.Certificate) -> dict[str, Any]:
    """A certificate, in the order in which it is shown."""
    from roost.runtime.tls import facts_of, objection_to_time

    known = facts_of(certificate)
    return {
        "subject": known.subject,
        "issuer": known.issuer,
        "names": list(known.names),
        "use": "authority" if known.authority else "peer",
        "begins": known.begins.isoformat(),
        "ends": known.ends.isoformat(),
        "now": objection_to_time(certificate).partition(";")[0] or "valid",
        "fingerprint": known.fingerprint,
    }


def show_paths(paths: tuple[Path, Path]) -> None:
    for path in paths:
        typer.echo(f"wrote {path}")
