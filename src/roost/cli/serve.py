"""`roost serve`: a partitioned service on this machine, a process for each dispatcher and matcher.

`roost provision` adds matchers to it and takes them away, as its dispatchers wish.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from roost.cli.console import print_json
from roost.cli.up import DEFAULT_STATE, StateOption, facts, show

# How often a service that is told no dimensions looks for some.
CHOOSE_S = 30.0

EXAMPLES = """\b
Clients connect to a dispatcher, as to a broker. Events are matched by matchers, each of which has a
part of all subscriptions along every DIMENSION: an attribute, and where its values are expected. Without
any, all matchers have everything until the service has found attributes that are worth it.
A SPACE has dispatchers of its own (trading.D0), and nothing of it reaches another; its own DIMENSIONs are
SPACE/NAME:LOW:HIGH.
`roost status`, `roost top` and `roost down` are those of a federation. docs/PARTITION.md.

\b
Examples:
  roost serve --matchers 4 --dispatchers 2 --dimension price:0:1000 --dimension volume:0:1e6
  roost serve --matchers 2 --dispatchers 1 --dimension x:0:1 --durable --state /tmp/service
  roost serve --dimension x:0:1 --delivery direct
  roost serve --matchers 4
  roost serve --space trading:2:4 --space chat --matchers 2 --dimension trading/price:0:1000
"""


PROVISION_EXAMPLES = """\b
Runs until the service ends, or you do. A dispatcher is saturated when its response time keeps growing; its
figures are in `roost status`, and what it has wished for in `roost decisions`.

\b
Examples:
  roost provision --max 8
  roost provision --min 2 --max 4 --state /tmp/service
"""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("serve", epilog=EXAMPLES)(serve)
    app.command("provision", epilog=PROVISION_EXAMPLES)(provision)


def serve(
    dimension: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:LOW:HIGH",
            help="A searchable attribute; several. Without any the service finds them itself.",
        ),
    ] = None,
    choose: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Look so often whether other attributes are worth a dimension. 30 without --dimension.",
        ),
    ] = None,
    matchers: Annotated[int, typer.Option(metavar="N", help="How many match.")] = 2,
    dispatchers: Annotated[int, typer.Option(metavar="N", help="How many have clients.")] = 1,
    space: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:D[:M]]",
            help="An application with D dispatchers, and M matchers of its own or those of --matchers.",
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="Who is asked: drift, counting, adaptive, response, amount, random.")
    ] = "drift",
    delivery: Annotated[
        str,
        typer.Option(
            help="ordered; or direct: matchers deliver, nothing is promised of order or loss."
        ),
    ] = "ordered",
    durable: Annotated[
        bool, typer.Option("--durable", help="With stores: what is accepted survives a crash.")
    ] = False,
    state: StateOption = DEFAULT_STATE,
    base_port: Annotated[
        int | None,
        typer.Option(metavar="P", help="Ports from here on, two a server. Else any free ones."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start dispatchers and matchers on this machine, and wait until all are linked."""
    from roost.errors import UserError
    from roost.partition.direct import DELIVERIES
    from roost.partition.forwarding import POLICIES
    from roost.partition.naming import SpacePlan, parse_space, plan_spaces
    from roost.partition.settings import parse_dimensions
    from roost.runtime.federation import start

    if policy not in POLICIES:
        raise UserError(f"--policy {policy}; expected one of {', '.join(POLICIES)}")
    if delivery not in DELIVERIES:
        raise UserError(f"--delivery {delivery}; expected one of {', '.join(DELIVERIES)}")
    said = dimension or []
    spaces = [parse_space(text, said, dispatchers) for text in space or ()]
    if not spaces:
        dimensions = parse_dimensions(",".join(said)) if said else []
        spaces = [SpacePlan("", dispatchers, matchers, dimensions)]
    plan = plan_spaces(
        spaces,
        matchers,
        f"policy={policy} delivery={delivery}",
        choose_s=choose if choose is not None else 0.0 if said else CHOOSE_S,
    )
    servers = f"{sum(each.dispatchers for each in spaces)} dispatchers"
    names = ", ".join(each.name for each in spaces if each.name)
    if sys.stderr.isatty():
        print(f"starting {len(plan.names)} servers ...", file=sys.stderr)
    federation = start(
        Path(state),
        plan.names,
        plan.links,
        title=f"{servers}, {len(plan.names)} servers" + (f" ({names})" if names else ""),
        durable=durable,
        base_port=base_port,
        machines=plan.machines,
    )
    if json_:
        print_json(facts(federation, state))
    else:
        show(federation, state)


def provision(
    most: Annotated[int, typer.Option("--max", metavar="N", help="The most matchers.")],
    fewest: Annotated[int, typer.Option("--min", metavar="N", help="The fewest.")] = 1,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Add matchers to a service that runs, and take them away, as its dispatchers wish."""
    from roost.partition.provisioning import Bounds
    from roost.runtime.federation import running_federation
    from roost.runtime.provisioning import provide

    running_federation(Path(state))
    provide(Path(state), Bounds(matchers_min=fewest, matchers_max=most), typer.echo)
