"""`roost bench`: measures, and says where it was measured."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from roost.bench.sizes import (
    BROKER_RUNS,
    CLIENT_EVENTS,
    CLIENT_RUNS,
    EVENTS,
    GATEWAY_EVENTS,
    GATEWAY_SINKS,
    MATCH_RUNS,
    MOVES,
    MOVES_BROKERS,
    MOVES_PUBLISHERS,
    MOVES_RATE,
    PIPELINE_PUBLICATIONS,
    PIPELINE_STOCK_PUBLICATIONS,
    PIPELINE_STOCK_SUBSCRIPTIONS,
    PIPELINE_SUBSCRIPTIONS,
    POSET_SUBSCRIPTIONS,
    SEED,
    SIM_BROKERS,
    SIM_SUBSCRIBERS,
    SUBSCRIPTIONS,
    TOPOLOGIES_BROKERS,
    TOPOLOGIES_NOTIFIED,
    TOPOLOGIES_PUBLICATIONS,
    TOPOLOGIES_SHARED,
    TOPOLOGIES_SUBSCRIPTIONS,
)
from roost.cli.console import print_json
from roost.cli.measuring import check_writable, measure, measured

EXAMPLES = """\b
Examples:
  roost bench
  roost bench --write docs/BENCHMARKS.md
  roost bench match --workload stock --subscriptions 100000
"""
MATCH_EXAMPLES = """\b
index is Roost's, scan compares all subscriptions by NumPy, naive asks one after the other.

\b
Examples:
  roost bench match
  roost bench match --workload stock --subscriptions 1000000 --churn 10000
  roost bench match --workload stock --subscriptions 100000 --json
"""

POSET_EXAMPLES = """\b
Examples:
  roost bench poset
  roost bench poset --subscriptions 10000 --json
"""

SIM_EXAMPLES = """\b
Examples:
  roost bench sim
  roost bench sim --brokers 20 --subscribers 500 --no-growth --json
"""

BROKER_EXAMPLES = """\b
Examples:
  roost bench broker
  roost bench broker --against mosquitto,nats,rabbitmq
  roost bench broker --against roost-watched --scenario one_to_one --no-chains
  roost bench broker --quick --no-chains
  roost bench broker --scenario one_to_one --scenario content --seconds 2 --no-chains --json
"""

CONNECTIONS_EXAMPLES = """\b
Examples:
  roost bench connections
  roost bench connections --json
"""
RELOCATION_EXAMPLES = """\b
Examples:
  roost bench relocation
  roost bench relocation --brokers 255 --json
"""

OVERLAY_EXAMPLES = """\b
Examples:
  roost bench overlay
  roost bench overlay --brokers 500 --json
"""

BALANCING_EXAMPLES = """\b
Examples:
  roost bench balancing
  roost bench balancing --subscriptions 3000 --json
"""

SERVE_EXAMPLES = """\b
A dispatcher and matchers as processes, with the subscriptions of Li et al.: events a second that matchers
match, and from a publisher to ten subscribers. The exit code is 1 if any event was lost, doubled or
reordered.

\b
Examples:
  roost bench serve
  roost bench serve --matchers 1 --subscriptions 4000 --seconds 2 --json
"""

MOVES_EXAMPLES = """\b
Publishers move between the processes of a chain of brokers, while they publish to a subscriber at each.
The exit code is 1 if any event was lost, doubled or reordered.

\b
Examples:
  roost bench moves
  roost bench moves --moves 1000 --brokers 3 --json
"""

GATEWAY_EXAMPLES = """\b
Events go through a broker and a WS-Eventing gateway, processes of their own, to sinks in this one.
The exit code is 1 if any was lost, doubled or reordered.

\b
Examples:
  roost bench gateway
  roost bench gateway --sinks 5 --events 100 --json
"""

CLIENT_EXAMPLES = """\b
A publisher, a broker and a subscriber, processes of their own: how many events a second get from one to the
other by the client library, and what each costs. The exit code is 1 if any was lost, doubled or reordered.

\b
Examples:
  roost bench client
  roost bench client --events 100000 --runs 1 --json
"""

STANDBY_EXAMPLES = """\b
Examples:
  roost bench standby
  roost bench standby --rounds 10 --json
"""
TOPOLOGIES_EXAMPLES = """\b
Broker processes in both topologies of Wihidum, one to --brokers of them: messages a second of their
processors' time, and what single steps cost a broker. The exit code is 1 if any event was lost.

\b
Examples:
  roost bench topologies
  roost bench topologies --brokers 2 --publications 100 --subscriptions 100 --json
"""

PIPELINE_EXAMPLES = """\b
Matches in bulk on Spark: broadcast gives every worker the whole index, partitioned divides it,
join is plain Spark SQL. The first sizes are for the plans, those of stock for one large index.

\b
Examples:
  roost bench pipeline
  roost bench pipeline --subscriptions 5000 --publications 20000 --no-growth --json
"""

PROFILE_ROWS = 10_000_000
PROFILE_EXAMPLES = """\b
Profiles of recorded traffic (`roost pipeline profile`) on Spark: rows that each takes in a second, and how
that grows. The traffic is made up, and written as brokers write it.

\b
Examples:
  roost bench profile
  roost bench profile --rows 1000000 --json
  roost bench profile --rows 10000000 --rows 100000000 --memory 6g
"""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Write = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        dir_okay=False,
        help="Also write the section of this benchmark in a Markdown file.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Of the workload.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    bench = typer.Typer(
        invoke_without_command=True,
        rich_markup_mode=None,
        help="Measure how fast Roost is, here.",
        epilog=EXAMPLES,
    )
    bench.callback()(run_all)
    bench.command("match", epilog=MATCH_EXAMPLES)(run_match)
    bench.command("poset", epilog=POSET_EXAMPLES)(run_poset)
    bench.command("sim", epilog=SIM_EXAMPLES)(run_sim)
    bench.command("broker", epilog=BROKER_EXAMPLES)(run_broker)
    bench.command("connections", epilog=CONNECTIONS_EXAMPLES)(run_connections)
    bench.command("moves", epilog=MOVES_EXAMPLES)(run_moves)
    bench.command("gateway", epilog=GATEWAY_EXAMPLES)(run_gateway)
    bench.command("client", epilog=CLIENT_EXAMPLES)(run_client)
    bench.command("standby", epilog=STANDBY_EXAMPLES)(run_standby)
    bench.command("topologies", epilog=TOPOLOGIES_EXAMPLES)(run_topologies)
    bench.command("pipeline", epilog=PIPELINE_EXAMPLES)(run_pipeline)
    bench.command("profile", epilog=PROFILE_EXAMPLES)(run_profile)
    bench.command("relocation", epilog=RELOCATION_EXAMPLES)(run_relocation)
    bench.command("overlay", epilog=OVERLAY_EXAMPLES)(run_overlay)
    bench.command("balancing", epilog=BALANCING_EXAMPLES)(run_balancing)
    bench.command("serve", epilog=SERVE_EXAMPLES)(run_serve)
    app.add_typer(bench, name="bench")


def run_all(
    context: typer.Context, seed: Seed = SEED, json_: Json = False, write: Write = None
) -> None:
    """Every benchmark at its usual sizes."""
    if context.invoked_subcommand is not None:
        if json_ or write or seed != SEED:
            raise typer.BadParameter(
                f"give options after the command: roost bench {context.invoked_subcommand} --json"
            )
        return
    from roost.bench import match, poset, sim
    from roost.bench.report import merged

    check_writable(write)
    results = [
        measured(
            partial(match.run, workload, subscriptions, EVENTS, seed, churn),
            match.table,
            write,
            quiet=json_,
        )
        for workload, subscriptions, churn in MATCH_RUNS
    ]
    run_the_poset = partial(poset.run, POSET_SUBSCRIPTIONS, seed)
    results.append(measured(run_the_poset, poset.table, write, quiet=json_))
    run_the_sim = partial(sim.run, SIM_BROKERS, SIM_SUBSCRIBERS, seed)
    results.append(measured(run_the_sim, sim.table, write, quiet=json_))
    if json_:
        print_json(merged(results))


def run_match(
    workload: Annotated[
        Literal["bluedove", "stock"],
        typer.Option(help="Four ranges of numbers, or subscriptions to stock quotes."),
    ] = "bluedove",
    subscriptions: Annotated[int, typer.Option(min=1, help="How many.")] = SUBSCRIPTIONS,
    events: Annotated[int, typer.Option(min=1, help="How many.")] = EVENTS,
    seed: Seed = SEED,
    churn: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Also match while N subscriptions/s are replaced."),
    ] = 0,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure matching: events a second, additions and removals, memory, start-up."""
    from roost.bench import match

    measure(
        lambda say: match.run(workload, subscriptions, events, seed, churn, say),
        match.table,
        write,
        json_,
    )


def run_poset(
    subscriptions: Annotated[int, typer.Option(min=1, help="How many.")] = POSET_SUBSCRIPTIONS,
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure the covering poset: insertions and removals a second, and how they grow."""
    from roost.bench import poset

    measure(lambda say: poset.run(subscriptions, seed, say), poset.table, write, json_)


def run_sim(
    brokers: Annotated[int, typer.Option(min=2, help="How many.")] = SIM_BROKERS,
    subscribers: Annotated[int, typer.Option(min=1, help="How many.")] = SIM_SUBSCRIBERS,
    seed: Seed = SEED,
    growth: Annotated[
        bool, typer.Option(help="Also smaller and larger worlds, which takes minutes.")
    ] = True,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure the simulator: publication hops a second, and how they grow."""
    from roost.bench import sim

    measure(
        lambda say: sim.run(brokers, subscribers, seed, say, grow=growth), sim.table, write, json_
    )


def run_broker(
    against: Annotated[
        str,
        typer.Option(
            metavar="NAME,NAME",
            help="Also mosquitto, nats, rabbitmq, if installed; or Roost once more: roost-grape (observing),"
            " roost-traces (on), roost-watched (both), roost-no-chunks.",
        ),
    ] = "",
    scenario: Annotated[
        list[str] | None, typer.Option(help="Only this; may be repeated. Else all of them.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each run takes.")] = 5.0,
    runs: Annotated[
        int, typer.Option(min=1, help="Of each, in turn; the medians count.")
    ] = BROKER_RUNS,
    quick: Annotated[bool, typer.Option("--quick", help="One run of half a second each.")] = False,
    chains: Annotated[bool, typer.Option(help="Also chains of 3 and 5 brokers.")] = True,
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure live brokers: throughput, latency, processor time; and others under the same load."""
    from roost.bench import broker

    if quick:
        runs, seconds = broker.QUICK_RUNS, broker.QUICK_SECONDS
    measure(
        lambda say: broker.run(
            [name for name in against.split(",") if name],
            seconds,
            seed,
            say,
            scenarios=scenario or broker.ALL,
            chains=broker.CHAINS if chains else (),
            runs=runs,
        ),
        broker.table,
        write,
        json_,
    )


def run_connections(
    connections: Annotated[int, typer.Option(min=1, help="How many to hold.")] = 5_000,
    subscribers: Annotated[
        int, typer.Option(min=2, help="Of one stream, with and without one that stalls.")
    ] = 1_000,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure what connections cost a broker, and what a subscriber that stalls costs the others."""
    from roost.bench import connections as bench

    measure(lambda say: bench.run(connections, subscribers, say=say), bench.table, write, json_)


def run_moves(
    moves: Annotated[int, typer.Option(min=1, help="How many, of all publishers.")] = MOVES,
    brokers: Annotated[int, typer.Option(min=2, help="In a chain.")] = MOVES_BROKERS,
    publishers: Annotated[int, typer.Option(min=1, help="How many.")] = MOVES_PUBLISHERS,
    rate: Annotated[
        float, typer.Option(min=1.0, help="Events a second of each publisher.")
    ] = MOVES_RATE,
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure live moves of publishers: how long they pause, and that nothing is lost."""
    from roost.bench import moves as bench

    measure(
        lambda say: bench.run(moves, seed, say, brokers=brokers, publishers=publishers, rate=rate),
        bench.table,
        write,
        json_,
        bench.is_clean,
    )


def run_gateway(
    sinks: Annotated[int, typer.Option(min=1, help="How many are notified.")] = GATEWAY_SINKS,
    events: Annotated[int, typer.Option(min=1, help="For each of them.")] = GATEWAY_EVENTS,
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure the WS-Eventing gateway: notifications a second, to many sinks."""
    from roost.bench import gateway as bench

    measure(
        lambda say: bench.run(sinks, events, seed, say), bench.table, write, json_, bench.is_clean
    )


def run_topologies(
    brokers: Annotated[int, typer.Option(min=1, help="At most.")] = TOPOLOGIES_BROKERS,
    publications: Annotated[
        int, typer.Option(min=1, help="Of each of eight machines a broker.")
    ] = TOPOLOGIES_PUBLICATIONS,
    subscriptions: Annotated[int, typer.Option(min=1, help="The same.")] = TOPOLOGIES_SUBSCRIPTIONS,
    shared: Annotated[
        float, typer.Option(min=0, max=1, help="Of the topics, that every broker wants.")
    ] = TOPOLOGIES_SHARED,
    notified: Annotated[
        int, typer.Option(min=0, help="Publications of a machine by WS-Eventing; 0: none.")
    ] = TOPOLOGIES_NOTIFIED,
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure live trees and clusters of brokers: messages a second of all their processors."""
    from roost.bench import topologies as bench

    sizes = bench.Sizes(brokers, publications, subscriptions, shared, notified)
    measure(lambda say: bench.run(seed, sizes, say), bench.table, write, json_, bench.is_clean)


def run_client(
    events: Annotated[int, typer.Option(min=1, help="Of each run.")] = CLIENT_EVENTS,
    runs: Annotated[
        int, typer.Option(min=1, help="Of each way, in turn; the medians count.")
    ] = CLIENT_RUNS,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure the client library: events a second end to end, and the processor time of each process."""
    from roost.bench import client as bench

    measure(lambda say: bench.run(events, runs, say), bench.table, write, json_, bench.is_clean)


def run_standby(
    rounds: Annotated[int, typer.Option(min=1, help="Of each measurement.")] = 5,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure a broker with a standby next to one without, and how long a take-over takes."""
    from roost.bench import standby

    measure(lambda say: standby.run(rounds, say=say), standby.table, write, json_)


def run_relocation(
    brokers: Annotated[int, typer.Option(min=1, help="Of the largest tree.")] = 10_000,
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure the decision where a publisher should be: its time and memory, and how they grow."""
    from roost.bench import relocation

    measure(
        lambda say: relocation.run(relocation.sizes_up_to(brokers), seed, say),
        relocation.table,
        write,
        json_,
    )


def run_overlay(
    brokers: Annotated[int, typer.Option(min=3, help="Of the largest overlay.")] = 5_000,
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure rounds in which all brokers of an overlay train and rewire it, and how their time grows."""
    from roost.bench import overlay

    measure(
        lambda say: overlay.run(overlay.sizes_up_to(brokers), seed, say),
        overlay.table,
        write,
        json_,
    )


def run_balancing(
    subscriptions: Annotated[int, typer.Option(min=1, help="How many, at most.")] = 10_000,
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure the decision who is to move off a hot broker, and how it grows with the subscriptions."""
    from roost.bench import balancing

    measure(
        lambda say: balancing.run(balancing.sizes_up_to(subscriptions), seed, say),
        balancing.table,
        write,
        json_,
    )


def run_serve(
    matchers: Annotated[int, typer.Option(min=1, help="How many.")] = 2,
    subscriptions: Annotated[int, typer.Option(min=1, help="How many.")] = SUBSCRIPTIONS,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each run takes.")] = 5.0,
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure a live partitioned service: events matched, and delivered, and where the time goes."""
    from roost.bench import serve

    measure(
        lambda say: serve.run(matchers, subscriptions, seconds, seed, say),
        serve.table,
        write,
        json_,
        serve.is_clean,
    )


def run_pipeline(
    subscriptions: Annotated[int, typer.Option(min=1, help="How many.")] = PIPELINE_SUBSCRIPTIONS,
    publications: Annotated[int, typer.Option(min=1, help="How many.")] = PIPELINE_PUBLICATIONS,
    stock_subscriptions: Annotated[
        int, typer.Option(min=1, help="How many of the large index.")
    ] = PIPELINE_STOCK_SUBSCRIPTIONS,
    stock_publications: Annotated[
        int, typer.Option(min=1, help="How many quotes for it.")
    ] = PIPELINE_STOCK_PUBLICATIONS,
    cores: Annotated[int, typer.Option(min=1, help="Of this machine, for Spark.")] = 2,
    seed: Seed = SEED,
    growth: Annotated[
        bool, typer.Option(help="Also on one core, and with 4 and 16 times the publications.")
    ] = True,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure the bulk match on Spark: its plans against each other, and how it grows."""
    from roost.bench import pipeline

    sizes = pipeline.Sizes(subscriptions, publications, stock_subscriptions, stock_publications)
    measure(
        lambda say: pipeline.run(sizes, seed, say, cores=cores, grow=growth),
        pipeline.table,
        write,
        json_,
    )


def run_profile(
    rows: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help="Of `deliveries`; may be repeated. Else 10 million."),
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="Of this machine, for Spark.")] = 2,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Of Spark's JVM, such as 6g; else Spark's own.")
    ] = "",
    seed: Seed = SEED,
    json_: Json = False,
    write: Write = None,
) -> None:
    """Measure the profiles of recorded traffic on Spark."""
    from roost.bench import profile

    measure(
        lambda say: profile.run(rows or [PROFILE_ROWS], seed, say, cores=cores, memory=memory),
        profile.table,
        write,
        json_,
    )
