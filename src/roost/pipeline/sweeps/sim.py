"""The task `sim`: a simulation to its end, with all checkers, as one row of figures.

Its parameters: `generator` or `file` (a workload); with a generator all of its parameters; with a file
`until` (seconds; else where the file ends); `faults` (a profile); and every setting that a workload can make
(`covering=on,off`). The seed decides what the generator draws, the faults, and all that a workload leaves
open.

The row has what does not depend on the machine: the verdict of the checkers by their names, the figures of
the summary, and rates a second of virtual time. How long it took is the sweep's to say.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import perf_counter

import msgspec

from roost.errors import UserError
from roost.pipeline.sweeps.tasks import (
    BREACHES,
    FIRST_VIOLATION,
    VIOLATIONS,
    Parameters,
    Row,
    Task,
    Value,
)
from roost.simulation.faults import PROFILES, with_faults
from roost.simulation.generators import GENERATORS, generate
from roost.simulation.run import Checks, end_of, run_workload, verdict
from roost.simulation.settings import FIELDS, Settings, settings_with
from roost.simulation.statements import Set, Statement
from roost.simulation.summary import Summary, last_loads, summarise
from roost.simulation.workload_file import Workload, read_workload
from roost.simulation.world import World

GENERATOR, FILE, UNTIL, FAULTS, BARS = "generator", "file", "until", "faults", "bars"
# What depends on the machine, is no figure, or is there by another name.
LEFT_OUT = ("wall_s", "hops_per_s", "per_broker", "deliveries")
SHOWN = (
    "delivered",
    VIOLATIONS,
    "delay_mean_s",
    "hops_per_publication",
    "messages_per_s",
)
# What a world costs before anything is published, in visits of an event to a broker.
START_COST = 10_000.0


# --- parameters -------------------------------------------------------------------------------------


def read(texts: Mapping[str, str]) -> Parameters:
    """Parameters of a simulation from texts, checked as far as that goes without running it."""
    if (GENERATOR in texts) == (FILE in texts):
        raise UserError(
            f"sim: what is to be run? expected either {GENERATOR}=NAME ({', '.join(GENERATORS)})"
            f" or {FILE}=PATH of a workload"
        )
    generator = texts.get(GENERATOR)
    if generator is not None and generator not in GENERATORS:
        raise UserError(
            f"sim: no generator is called {generator!r}; there are {', '.join(GENERATORS)}"
        )
    parameters: Parameters = {}
    for name, text in texts.items():
        if name == GENERATOR:
            parameters[name] = text
        elif name in {FILE, BARS}:
            # Other processes may run elsewhere.
            parameters[name] = os.path.abspath(text) if text else ""
        elif name == FAULTS:
            parameters[name] = _profile(text)
        elif name in FIELDS:
            parameters[name] = _setting(name, text)
        elif generator is not None:
            parameters[name] = _of_generator(generator, name, text)
        elif name == UNTIL:
            parameters[name] = _time(text)
        else:
            there = (UNTIL, FAULTS, *FIELDS)
            raise UserError(f"sim: unknown parameter {name!r}; there are {', '.join(there)}")
    if FILE in texts:
        read_workload(Path(str(parameters[FILE])))
    else:
        _try_out(parameters)
    return parameters


def _profile(text: str) -> str:
    if text not in PROFILES:
        raise UserError(f"sim: {FAULTS}={text!r} will not do; expected {' or '.join(PROFILES)}")
    return text


def _time(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise UserError(f"sim: {UNTIL}={text!r} will not do; expected seconds, more than 0")
    return seconds


def _setting(name: str, text: str) -> Value:
    """A setting in the one way that it is written here, so that `on` and `true` are the same cell."""
    value: Value = getattr(settings_with(Settings(), name, text), name)
    return ("off", "on")[value] if isinstance(value, bool) else value


def _of_generator(generator: str, name: str, text: str) -> Value:
    known = GENERATORS[generator].parameters
    if name not in known:
        there = (*map(str, known.values()), FAULTS, *FIELDS)
        raise UserError(f"{generator}: unknown parameter {name!r}; there are {', '.join(there)}")
    try:
        return known[name].read(text)
    except ValueError as bad:
        raise UserError(
            f"{generator}: {name}={text!r} will not do ({bad}); it takes {known[name].kind}"
        ) from None


def _try_out(parameters: Parameters) -> None:
    """Lets the generator refuse what does not go together (more brokers to spread over than there are).

    With one publisher it takes milliseconds; but each has to be found in a file of bars.
    """
    small = parameters if parameters.get(BARS) else {**parameters, "publishers": 1}
    generate(str(parameters[GENERATOR]), 0, _generator_values(small))


def _generator_values(parameters: Parameters) -> dict[str, str]:
    """Those of the generator, as the texts that it reads."""
    known = GENERATORS[str(parameters[GENERATOR])].parameters
    return {name: str(value) for name, value in parameters.items() if name in known}


def files(parameters: Parameters) -> Iterable[Path]:
    """The workload and the bars, if there are any."""
    return [Path(str(parameters[name])) for name in (FILE, BARS) if parameters.get(name)]


def cost(parameters: Parameters) -> float:
    """A guess at the number of visits of events to brokers: good enough to tell long runs from short ones."""
    generator = GENERATORS.get(str(parameters.get(GENERATOR)))
    defaults = {p.name: p.default for p in generator.parameters.values()} if generator else {}
    known = defaults | parameters

    def size(name: str, otherwise: float) -> float:
        return float(known.get(name, otherwise))

    publishers = size("publishers", 1)
    events = publishers * size("rate_per_min", 30) / 60 * size("until_s", size(UNTIL, 60))
    receivers = size("spread", size("subscribers", 1) / publishers)
    return START_COST + events * (1 + min(receivers, size("brokers", 5)))


# --- the run ----------------------------------------------------------------------------------------


def simulate(parameters: Parameters, seed: int) -> Row:
    """A workload file, or what a generator makes, run to its end with every delivery checked."""
    workload = _workload(parameters, seed)
    until = float(parameters.get(UNTIL, end_of(workload)))
    if faults := parameters.get(FAULTS):
        workload = with_faults(workload, str(faults), seed, until)
    world = World(workload.settings, workload.statements, seed=seed)
    began = perf_counter()
    run_workload(world, workload, until)
    loads = last_loads(world)
    checks, _ = verdict(world, workload)
    wall_s = perf_counter() - began
    summary = summarise(world, checks, until=until, wall_s=wall_s, loads=loads)
    row = figures(summary, checks)
    return {name: value for name, value in row.items() if name not in parameters}


def _workload(parameters: Parameters, seed: int) -> Workload:
    if FILE in parameters:
        workload = read_workload(Path(str(parameters[FILE])))
    else:
        name = str(parameters[GENERATOR])
        workload = _of_statements(name, generate(name, seed, _generator_values(parameters)))
    settings = workload.settings
    for name, value in parameters.items():
        if name in FIELDS:
            settings = settings_with(settings, name, str(value))
    return msgspec.structs.replace(workload, settings=settings)


def _of_statements(name: str, statements: Iterable[Statement]) -> Workload:
    """Statements that were made, not read: in order, and with settings among them."""
    settings = Settings()
    kept = []
    for statement in statements:
        if isinstance(statement, Set):
            settings = settings_with(settings, statement.key, statement.value)
        else:
            kept.append(statement)
    return Workload(name, settings, tuple(kept))


def figures(summary: Summary, checks: Checks) -> dict[str, Value | None]:
    """The row of a run."""
    counts = {name: getattr(checks, name) for name in BREACHES}
    loads = [broker.load for broker in summary.per_broker if broker.load is not None]
    messages = summary.control_messages + summary.data_messages
    plain = {k: v for k, v in msgspec.structs.asdict(summary).items() if k not in LEFT_OUT}
    return {
        "delivered": checks.delivered,
        **counts,
        VIOLATIONS: sum(counts.values()),
        FIRST_VIOLATION: checks.violations[0] if checks.violations else None,
        "in_transit": checks.in_transit,
        "rested": checks.rested,
        "routing_judged": checks.routing_judged,
        **plain,
        "publications_per_s": summary.publications / summary.virtual_s,
        "deliveries_per_s": checks.delivered / summary.virtual_s,
        "messages_per_s": messages / summary.virtual_s,
        "hops_per_publication": summary.hops / max(summary.publications, 1),
        "overloaded_brokers": sum(broker.overloaded for broker in summary.per_broker),
        "input_utilisation_max": max((load.input_utilisation for load in loads), default=0.0),
        "output_utilisation_max": max((load.output_utilisation for load in loads), default=0.0),
    }


SIM = Task(simulate, read=read, cost=cost, files=files, show=SHOWN)
