"""`roost topology`: overlays of brokers, as simulations run on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import print_json
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.overlay.topologies import Topology

EXAMPLES = """\b
SPEC is one of
  chain:5  star:5           5 brokers in a row; 4 around B0
  tree:63  tree:63:3        each broker with 2 below it, or as many as said
  random:20:7               drawn evenly from all trees of 20, by the seed 7
  scale-free:100:7          few brokers with many neighbours, by the seed 7
  peer:3x4  peer:3x4:star   3 cluster-heads with 4 edge-brokers each
  FILE                      a line for each link, B0 B1 [LATENCY_MS]; or GraphML

\b
Examples:
  roost topology draw peer:3x4
  roost topology draw scale-free:200:1 --out overlay.svg
  roost topology draw sites.graphml --json
"""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    topology = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Overlays of brokers, to look at.",
        epilog=EXAMPLES,
    )
    topology.command("draw", epilog=EXAMPLES)(draw)
    app.add_typer(topology, name="topology")


def draw(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="The overlay; see below.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", dir_okay=False, help="Write a picture instead."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw an overlay of brokers."""
    from roost.overlay.topologies import parse_topology
    from roost.pictures.overlays import draw_text, summary

    if out is not None and out.suffix.lower() != ".svg":
        raise UserError(f"{out}: the picture is SVG; expected a file that ends in .svg")
    topology = parse_topology(spec)
    if out is not None:
        write_picture(topology, spec, out)
    if json_:
        print_json(facts(topology))
    elif out is not None:
        typer.echo(f"wrote {out}: {summary(topology)}")
    else:
        typer.echo(draw_text(topology), nl=False)
        typer.echo(f"\n{summary(topology)}")


def write_picture(topology: Topology, spec: str, out: Path) -> None:
    """Writes the SVG, whole or not at all."""
    from roost.cli.sinks import whole_file
    from roost.pictures.overlays import draw_svg

    title = Path(spec).name if Path(spec).exists() else spec
    with whole_file(out) as file:
        file.write(draw_svg(topology, title).encode())


def facts(topology: Topology) -> dict[str, Any]:
    """What programs can know of an overlay."""
    from roost.overlay.topologies import centre, diameter, roles

    return {
        "brokers": list(topology.brokers),
        "links": [{"a": x.a, "b": x.b, "latency_ms": x.latency_ms} for x in topology.links],
        "roles": roles(topology),
        "centre": centre(topology),
        "diameter": diameter(topology),
    }
