"""The `roost` command.

A command is a module of this folder, or a folder in it, with a function `register(app)`, listed in
`COMMANDS`. Such a module imports what it needs inside its functions, so that `roost --help` stays quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from io import StringIO
from typing import Annotated, Any, NoReturn

import typer

import roost
from roost.cli import (
    apply,
    backup,
    bench,
    broker,
    chaos,
    context,
    covers,
    decisions,
    demo,
    drain,
    experiment,
    explain,
    fuzz,
    gateway,
    keys,
    lake,
    links,
    match,
    optimise,
    pipeline,
    plan,
    promote,
    publish,
    report,
    serve,
    sessions,
    sim,
    status,
    subscribe,
    sweep,
    top,
    topology,
    trace,
    up,
    users,
)
from roost.errors import UserError
from roost.extras import PIPELINE, needed_for

Register = Callable[[typer.Typer], None]
COMMANDS: tuple[Register, ...] = (
    demo.register,
    broker.register,
    promote.register,
    publish.register,
    subscribe.register,
    up.register,
    serve.register,
    gateway.register,
    status.register,
    top.register,
    sessions.register,
    links.register,
    drain.register,
    trace.register,
    decisions.register,
    optimise.register,
    context.register,
    users.register,
    keys.register,
    backup.register,
    chaos.register,
    fuzz.register,
    match.register,
    explain.register,
    covers.register,
    bench.register,
    topology.register,
    sim.register,
    sweep.register,
    experiment.register,
    pipeline.register,
    lake.register,
    plan.register,
    apply.register,
    report.register,
)

# Those of which nothing works with less; what others lack is known when they come to it.
EXTRAS = {"demo": PIPELINE, "pipeline": PIPELINE}

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_READER_GONE = 141  # 128 + SIGPIPE

# What typer raises of words that it does not understand. From some version on it brings its own click.
BadWords: type[Exception] = typer.BadParameter.__mro__[2]

# The \b keeps typer from joining the lines.
EXAMPLES = """\b
Examples:
  roost demo
  roost match --subscriptions subs.ndjson --events events.ndjson
  roost explain "class = 'STOCK' and volume > 300000" "[class,'STOCK'],[volume,400000]"
  roost covers "volume > 1000" "class = 'STOCK' and volume > 300000"
  roost bench match --workload stock --subscriptions 100000
  roost sim fuzz --seeds 300
  roost broker
  roost subscribe "class = 'STOCK' and volume > 300000"
  roost publish class=STOCK symbol=YHOO volume=400000
  roost up tree --brokers 7
"""


@cache
def program(commands: tuple[Register, ...]) -> Callable[..., Any]:
    """All of these commands as one; made once for whoever runs several in a process."""
    app = typer.Typer(
        name="roost",
        help="Publish/subscribe by content, in a federation of brokers that rearranges itself.",
        epilog=EXAMPLES,
        no_args_is_help=True,
        # Rich would take the brackets of a filter for its own markup, and drop them.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for register in commands:
        register(app)
    return typer.main.get_command(app)


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"roost {roost.__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """The options that stand before any command; their callbacks do the work."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits; whatever a person did wrong is one message, never a traceback."""
    try:
        run(program(COMMANDS), arguments)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        leave_without_reader()
    except SystemExit as stop:
        # typer and rich turn a broken pipe into exit code 1, which is taken (see the exit codes of
        # the commands: the run found violations).
        if isinstance(stop.__context__, BrokenPipeError):
            leave_without_reader()
        raise


def run(app: Callable[..., Any], arguments: Sequence[str] | None) -> None:
    words = sys.argv[1:] if arguments is None else arguments
    command = next((word for word in words if not word.startswith("-")), "")
    try:
        with needed_for(f"roost {command}".rstrip(), EXTRAS.get(command, "")):
            sys.exit(app(args=arguments, prog_name="roost", standalone_mode=False))
    except BadWords as error:
        refuse(error)
    except typer.Abort:  # nobody is there to answer
        sys.exit(EXIT_BAD_INPUT)
    finally:
        sys.stdout.flush()  # so that a reader who is gone is noticed here, not at shutdown


def refuse(error: Any) -> NoReturn:
    """Says what typer says, as everything else here says it."""
    said = StringIO()
    error.show(file=said)
    print(said.getvalue().replace("Error: ", "error: ", 1), end="", file=sys.stderr)
    sys.exit(error.exit_code)


def leave_without_reader() -> None:
    """Exits quietly: whoever read our output (`| head`) has seen enough."""
    # The interpreter flushes once more when it ends; that must find somewhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    sys.exit(EXIT_READER_GONE)
