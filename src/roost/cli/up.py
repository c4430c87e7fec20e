"""`roost up` and `roost down`: a federation on this machine, a process for each broker."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.built_in import BUILT_IN, MODULES
from roost.cli.broker import ModuleOption, modules_of
from roost.cli.console import print_json
from roost.cli.figures import Column, Row, fitted, wide
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.overlay.hierarchies import Hierarchy
    from roost.overlay.topologies import Topology
    from roost.runtime.federation import Federation

EXAMPLES = """\b
TOPOLOGY is chain, star or tree, with --brokers; or in full, as `roost topology draw` draws it:
chain:5, tree:7:3, random:20:7, peer:3x4. cluster:2x3x4 is a hierarchy, with 2 peers at the top,
3 brokers below each, and 4 below each of those (docs/HIERARCHIES.md). FILE is a list of links
(B0 B1 a line), GraphML, or a workload of `roost sim`, of which only brokers and links are used.

\b
Examples:
  roost up chain --brokers 3
  roost status
  roost top
  roost down
  roost up sites.graphml --durable --state /tmp/sites
  roost up tree --brokers 15 --optimise grape --goal load100 --observe
  roost up tree --brokers 15 --optimise overlay --optimise grape
  roost up peer:1x4 --optimise balancing --bandwidth 10
  roost up cluster:2x2x2
  roost up chain --brokers 3 --standbys
"""
DOWN_EXAMPLES = """\b
Examples:
  roost down
  roost down --state /tmp/sites
"""
RESTART_EXAMPLES = """\b
It ends in order, and starts with the same ports, settings, store and log; links that were moved meanwhile
stay as they are. Several are restarted one after the other. Without a store (--durable), what waits in one is
lost.

\b
Examples:
  roost restart B3
  roost restart B0 B1 B2 --state /tmp/sites
"""
BROKERS = 3
OPTIMISERS = tuple(BUILT_IN[MODULES])
# Names that say all there is to say, together with a number of brokers.
BY_NUMBER = {"chain": "", "star": "", "tree": "", "random": ":0", "scale-free": ":0"}
COLUMNS = (
    Column("broker", left=True),
    Column("for clients", left=True),
    Column("for operators", left=True),
    Column("pid", expendable=1),
    Column("log", left=True, expendable=2),
)

StateOption = Annotated[
    Path, typer.Option("--state", metavar="DIR", file_okay=False, help="All there is of it.")
]
DEFAULT_STATE = Path(".roost")
ENDINGS = {"ended": "ended", "killed": "killed, for it did not end", "gone": "had ended before"}
BEFORE = {"ended": "has ended", "killed": "did not end and was killed", "gone": "had ended before"}


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("up", epilog=EXAMPLES)(up)
    app.command("down", epilog=DOWN_EXAMPLES)(down)
    app.command("restart", epilog=RESTART_EXAMPLES)(restart)


def up(
    topology: Annotated[
        str, typer.Argument(metavar="TOPOLOGY|FILE", help="Which brokers are linked; see below.")
    ],
    brokers: Annotated[
        int | None, typer.Option(metavar="N", help="How many.", show_default=str(BROKERS))
    ] = None,
    durable: Annotated[
        bool, typer.Option("--durable", help="With stores: what is accepted survives a crash.")
    ] = False,
    standbys: Annotated[
        bool,
        typer.Option(
            "--standbys",
            help="Each broker has a standby, which goes on as that broker when it fails; with stores.",
        ),
    ] = False,
    state: StateOption = DEFAULT_STATE,
    base_port: Annotated[
        int | None,
        typer.Option(
            metavar="P",
            help="Ports from here on, two a broker, with standbys five. Else any free ones.",
        ),
    ] = None,
    optimise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(OPTIMISERS),
            help="Who rearranges it by the traffic. May be repeated. They are all there: `roost optimise`"
            " turns them on and off later, too.",
        ),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="GOAL",
            help="Of GRAPE: delay or load, and by how many % it comes first: load100, delay75.",
        ),
    ] = None,
    observe: Annotated[
        bool, typer.Option("--observe", help="They only say what they would do: `roost decisions`.")
    ] = False,
    module: ModuleOption = None,
    bandwidth: Annotated[
        float,
        typer.Option(
            metavar="MBPS",
            min=0.0,
            help="What each may send, in Mbit/s, for optimisers that share it out.",
            show_default="nobody knows",
        ),
    ] = 0.0,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start a federation of brokers on this machine, and wait until it is linked."""
    from roost.overlay.hierarchies import Hierarchy
    from roost.runtime.federation import CLUSTER, start

    overlay = overlay_of(topology, brokers)
    ranked = isinstance(overlay, Hierarchy)
    peers = overlay.peers if isinstance(overlay, Hierarchy) else ()
    optimisers = optimisers_of(optimise or [], goal, observe=observe)
    if ranked:
        refuse_in_hierarchy(optimise or [])
    if sys.stderr.isatty():
        print(f"starting {len(overlay.brokers)} brokers ...", file=sys.stderr)
    federation = start(
        state,
        overlay.brokers,
        [(link.a, link.b) for link in overlay.links],
        title=topology,
        durable=durable,
        base_port=base_port,
        optimisers=optimisers,
        modules=modules_of(module or []),
        peers=[(link.a, link.b) for link in peers],
        routing=CLUSTER if ranked else "",
        standbys=standbys,
        bandwidth_mbps=bandwidth,
    )
    if json_:
        print_json(facts(federation, state))
    else:
        show(federation, state)


def down(state: StateOption = DEFAULT_STATE) -> None:
    """End what `roost up` started, and nothing else. Logs and stores stay in the folder."""
    from roost.runtime.federation import end

    endings = end(state)
    if not endings:
        typer.echo(f"nothing to end: no federation was started from {state}")
    for member, ending in endings:
        pid = member.process.pid if member.process else 0
        typer.echo(f"{member.name} (pid {pid}): {ENDINGS[ending]}")


def restart(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Of the brokers.")],
    state: StateOption = DEFAULT_STATE,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Restart brokers that `roost up` started, and wait until they are linked."""
    from roost.runtime.restarting import restart as restart_one

    done = []
    for name in dict.fromkeys(names):
        member, ending = restart_one(state, name)
        assert member.process is not None
        done.append({"broker": name, "pid": member.process.pid, "before": ending})
        if not json_:
            typer.echo(f"{name} {BEFORE[ending]}, and runs again (pid {member.process.pid})")
    if json_:
        print_json({"brokers": done})


# --- which brokers ----------------------------------------------------------------------------------


def overlay_of(text: str, brokers: int | None) -> Topology | Hierarchy:
    """What the command line asks for."""
    from roost.overlay.hierarchies import FORM as HIERARCHY_FORM
    from roost.overlay.hierarchies import parse_hierarchy
    from roost.overlay.topologies import parse_topology

    if text in BY_NUMBER:
        count = BROKERS if brokers is None else brokers
        if count < 1:
            raise UserError(f"--brokers {count}; expected 1 or more")
        return parse_topology(f"{text}:{count}{BY_NUMBER[text]}")
    if brokers is not None:
        names = ", ".join(BY_NUMBER)
        raise UserError(f"--brokers goes with {names}; {text!r} says itself how many there are")
    if text.lower().endswith(".workload"):
        return overlay_of_workload(Path(text))
    if text.startswith("cluster:"):
        return parse_hierarchy(text)
    return parse_topology(text, f"a hierarchy, {HIERARCHY_FORM}")


def overlay_of_workload(path: Path) -> Topology:
    """The brokers and links that a workload begins with: those from before any of them is removed."""
    from roost.overlay.topologies import Link, Topology, check_tree
    from roost.simulation import statements as st
    from roost.simulation.workload_file import read_workload

    names, links = [], []
    for statement in read_workload(path).statements:
        if isinstance(statement, st.AddBroker):
            if statement.machine is not None:
                what = f"{statement.broker} is {statement.machine}; expected brokers only"
                raise UserError(f"{path}:{statement.line}: {what}")
            names.append(statement.broker)
        elif isinstance(statement, st.AddLink):
            links.append(Link(statement.a, statement.b, statement.latency_ms))
        elif isinstance(statement, st.RemoveBroker | st.RemoveLink):
            break
    overlay = Topology(tuple(names), tuple(links))
    try:
        check_tree(overlay)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return overlay


# --- which optimisers -------------------------------------------------------------------------------

_goal = re.compile(r"(delay|load)([0-9]{1,3})", re.ASCII).fullmatch


def optimisers_of(
    names: Sequence[str], goal: str | None, *, observe: bool
) -> dict[str, dict[str, object]]:
    """The tables of settings that the command line asks for; none if for no optimiser."""
    from roost.runtime.tables import RELOCATING

    for name in names:
        if name not in OPTIMISERS:
            raise UserError(
                f"--optimise {name}; expected {' or '.join(OPTIMISERS)}; --module is for those of others"
            )
    for option, given in (("--goal", goal is not None), ("--observe", observe)):
        if given and not names:
            raise UserError(f"{option} goes with --optimise, which is not there")
    mode = "observing" if observe else "acting"
    tables: dict[str, dict[str, object]] = {
        name: {"mode": mode} for name in names if name not in RELOCATING
    }
    relocating = [name for name in RELOCATING if name in names]
    if relocating:
        algorithm = relocating[0] if len(relocating) == 1 else "both"
        tables["relocation"] = {"mode": mode, "algorithm": algorithm}
    if goal is None:
        return tables
    if "grape" not in names:
        raise UserError(f"--goal {goal} is GRAPE's; expected --optimise grape")
    found = _goal(goal)
    if found is None or int(found[2]) > 100:
        raise UserError(
            f"--goal {goal}; expected delay or load with 0 to 100 (%): load100, delay75"
        )
    tables["relocation"] |= {"priority": found[1], "weight": float(found[2])}
    return tables


def refuse_in_hierarchy(names: Sequence[str]) -> None:
    """Before anything is started."""
    from roost.broker.registry import module_class, objection_to_ranks

    for name in names:
        if objection := objection_to_ranks(module_class(name)):
            raise UserError(f"--optimise {name}: {objection}")


# --- what there is now ------------------------------------------------------------------------------


def show(federation: Federation, state: Path) -> None:
    console, rows = wide(), []
    for member in federation.members:
        pid = str(member.process.pid) if member.process else "-"
        address, log = f"roost://{member.address}", str(state / member.log)
        rows.append(Row((member.name, address, member.admin_url, pid, log)))
    console.print(fitted(COLUMNS, rows, console.width))
    links = len(federation.links)
    option = "" if state == DEFAULT_STATE else f" --state {state}"
    console.print(
        f"\n{links} link{'' if links == 1 else 's'} up; `roost status{option}` and `roost top{option}`"
        f" show how it fares, `roost down{option}` ends it",
        soft_wrap=True,
    )


def facts(federation: Federation, state: Path) -> dict[str, Any]:
    """What programs can know of it."""
    return {
        "state": str(state.absolute()),
        "topology": federation.title,
        "durable": federation.durable,
        "brokers": [
            {
                "broker": member.name,
                "url": f"roost://{member.address}",
                "admin": member.admin_url,
                "pid": member.process.pid if member.process else None,
                "config": str(state.absolute() / member.config),
                "log": str(state.absolute() / member.log),
            }
            for member in federation.members
        ],
        "links": [list(link) for link in federation.links],
    }
