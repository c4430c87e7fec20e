"""`roost demo`: what Roost does, in a minute and a half."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import people, print_json
from roost.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

EXIT_NOT_SHOWN = 1
EXIT_TERMINATED = 143  # 128 + SIGTERM, as shells report it

EXAMPLES = """\b
Exit code 1: an event was lost, doubled or reordered, or traffic and delay have not fallen as they should.

\b
Examples:
  roost demo
  roost demo --fast
  roost demo --out shown --json > shown.json
  roost demo --save .
"""

PICTURE, TRACES = "before-after.svg", "traces"
# What Spark has to do here is little: to compile it well would take longer than to do it.
HURRIED = (
    "spark.ui.showConsoleProgress=false",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",
)

NEXT = """\
  roost demo --save .                     the subscriptions and events above, as files
  roost match --subscriptions subscriptions.ndjson --events events.ndjson
  roost explain "symbol = 'YHOO' and low < 30.5" "[symbol,'YHOO'],[low,30.62]"
  roost covers "class = 'STOCK' and volume > 300000" "class = 'STOCK' and volume > 2000000"
  roost bench match --workload stock --subscriptions 100000
  roost up tree --brokers 7 --optimise grape --observe, roost top, roost decisions, roost down
  roost broker, and in other terminals: roost subscribe "volume > 300000", roost publish volume=400000
  roost up peer:1x4 --optimise balancing, roost drain B3; roost up tree --brokers 15 --optimise overlay
  roost chaos
  roost sim generate tree --set brokers=15 --set subscribers=200 --out tree.workload
  roost sim run tree.workload --until 60 --faults all
  roost topology draw peer:3x4
  roost pipeline workload stock --publications 1000000 --subscriptions 100000 --out stock
  roost pipeline match --publications stock/publications --subscriptions stock/subscriptions --out matches
  roost sweep sim --generator tree --set brokers=7,15 --set until_s=30 --seeds 4
  roost --help"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("demo", epilog=EXAMPLES)(demo)


def demo(
    fast: Annotated[
        bool, typer.Option("--fast", help="Only the federation, and less of it: 35 seconds.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Leave the traces and the picture there."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write the small market's files there, and do nothing else."
        ),
    ] = None,
) -> None:
    """Show what Roost does: match a few quotes, and let a live federation rearrange itself."""
    from roost.cli.demo import faults, live, match, optimisers, pipeline
    from roost.cli.demo.joining import Joining

    if save is not None:
        match.save_files(save)
        typer.echo(f"wrote {' and '.join(str(save / name) for name in match.FILES)}")
        return
    began = time.monotonic()
    console = people() if not json_ else aside()
    if find_spec("pyspark") is None:  # to be known before anything is shown
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    shown: dict[str, Any]
    with terminated_in_order(), folder_of(out) as folder, Joining(HURRIED) as spark:
        stage = live.set_up(console, folder / TRACES, fast=fast)
        try:
            if not fast:
                match.show(console)
                spark.begin()
                faults.show(console)
                optimisers.show(console)
            shown = live.show(console, stage, spark, folder / PICTURE, began)
            if not fast:
                pipeline.show(console, spark.session())
        finally:
            stage.end()
    if not fast:
        console.print("What to try next", style="bold")
        for line in NEXT.splitlines():
            console.print(line, soft_wrap=True)
    if json_:
        print_json(shown)
    if not live.holds(shown):
        raise typer.Exit(EXIT_NOT_SHOWN)


def aside() -> Console:
    """Standard error, for what people may read while a program waits for the JSON."""
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


@contextmanager
def terminated_in_order() -> Iterator[None]:
    """SIGTERM ends us as Ctrl-C does: through all that has to be ended and removed."""

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise SystemExit(EXIT_TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def folder_of(out: Path | None) -> Iterator[Path]:
    """Where traces and the picture go. Unless somebody wants them there, only the picture stays."""
    if out is not None:
        for name in (PICTURE, TRACES):
            if (out / name).exists():
                raise UserError(f"{out / name} is there already; choose another folder")
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as bad:
            raise UserError(f"{out}: {bad.strerror}") from None
        yield out
        return
    folder = Path(tempfile.mkdtemp(prefix="roost-demo-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder / TRACES, ignore_errors=True)
