"""The federation of `roost demo` while it runs: a live view in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

    from roost.bench.demo.run import Move, Scene

REFRESH_S = 0.25
LINE_EVERY_S = 5.0
WIDE = 110
BAR_WIDTH = 24
MOVES_SHOWN = 8
SPARKS = "▁▂▃▄▅▆▇█"
SPARKS_SHOWN = 40

PHASES = {
    "": "everybody begins; Spark, which will read the traces, is on its way",
    "before": "GRAPE is off: quotes cross the whole tree",
    "watch": "GRAPE observes: it says what it would do, and does nothing",
    "move": "GRAPE acts: publishers move to their subscribers, and publish on",
    "after": "GRAPE goes on, and finds everybody where it should be",
}


class View:
    """Shows a scene again and again."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._shown_at = time.monotonic()
        self._phase: str | None = None
        self._told: set[tuple[str, bool]] = set()  # moves that have had their line

    def __enter__(self) -> Self:
        from rich.live import Live

        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def watch(self, scene: Scene) -> None:
        """What is to be seen now; often, so most of the times nothing happens."""
        now = time.monotonic()
        if self._live is None or scene.phase != self._phase:
            self._tell(scene, now)
        elif now - self._shown_at > REFRESH_S:
            self._shown_at = now
            self._live.update(frame(scene, self._console.width), refresh=True)

    def _tell(self, scene: Scene, now: float) -> None:
        """Lines, each of them once."""
        if scene.phase != self._phase:
            self._phase, self._shown_at = scene.phase, now
            self._console.print(f"  {_seconds(scene)}  {PHASES[scene.phase]}", style="bold")
        elif now - self._shown_at > LINE_EVERY_S:
            self._shown_at = now
            self._console.print(f"  {_seconds(scene)}  {figures_text(scene)}")
        if self._live is None:
            for move in scene.moves:
                if (move.publisher, move.acted) not in self._told:
                    self._told.add((move.publisher, move.acted))
                    self._console.print(f"           {move_text(move)}")


def _seconds(scene: Scene) -> str:
    return f"{time.time() - scene.began:5.1f} s" if scene.began else "  0.0 s"


def figures_text(scene: Scene) -> str:
    """In a line."""
    delay = "-" if scene.delay_ms is None else f"{scene.delay_ms:.1f}"
    return (
        f"{scene.between_per_s:,.0f} messages/s between brokers, {scene.arrived_per_s:,.0f}/s delivered,"
        f" half of them within {delay} ms"
    )


def move_text(move: Move) -> str:
    """`P1 moves from B11 to B7: saves ...`"""
    verb = "moves" if move.acted else "would move"
    name = move.publisher.partition("~")[0]
    return f"{name} {verb} from {move.source} to {move.target}: {move.reason}"


# --- a frame ----------------------------------------------------------------------------------------


def frame(scene: Scene, width: int) -> RenderableType:
    """The tree on the left, figures and moves on the right; below each other where it is narrow."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = Text.assemble(
        (f"{_seconds(scene)}  ", "dim"), (PHASES[scene.phase], "bold"), no_wrap=True
    )
    figures = Group(figures_table(scene), "", *moves_lines(scene))
    if width < WIDE:
        return Group(title, "", figures)
    grid = Table.grid(padding=(0, 3), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_row(tree_table(scene), figures)
    return Group(title, "", grid)


def tree_table(scene: Scene) -> Table:
    """A row a broker: what it routes, and which publishers it has."""
    from rich.table import Table

    from roost.overlay.trees import rooted

    tree = rooted(scene.topology, scene.topology.brokers[0])
    most = max([*scene.routed_per_s.values(), 1.0])
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("broker")
    table.add_column("publications/s")
    table.add_column("", justify="right")
    table.add_column("publishers", style="yellow")
    for broker in tree.order:
        rate = scene.routed_per_s.get(broker, 0.0)
        here = sorted(
            name.partition("~")[0] for name, place in scene.places.items() if place == broker
        )
        table.add_row(
            "  " * tree.depth[broker] + broker,
            "█" * round(BAR_WIDTH * rate / most),
            f"{rate:,.0f}",
            " ".join(here),
        )
    return table


def figures_table(scene: Scene) -> Table:
    """Rates and delay, with how they went."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column(style="cyan", no_wrap=True, overflow="crop")
    table.add_row(
        "messages/s between brokers", f"{scene.between_per_s:,.0f}", sparks(list(scene.rates))
    )
    delay = "-" if scene.delay_ms is None else f"{scene.delay_ms:.1f} ms"
    table.add_row("delay at subscribers, median", delay, sparks(list(scene.delays)))
    table.add_row("published/s", f"{scene.published_per_s:,.0f}", "")
    table.add_row("delivered/s", f"{scene.arrived_per_s:,.0f}", "")
    return table


def sparks(values: Sequence[float]) -> str:
    """The last values as a row of little bars."""
    shown = values[-SPARKS_SHOWN:]
    most = max(shown, default=0.0) or 1.0
    return "".join(SPARKS[min(7, int(8 * value / most))] for value in shown)


def moves_lines(scene: Scene) -> list[RenderableType]:
    """The last one of each publisher: what was done, or would be."""
    from rich.text import Text

    last = {move.publisher: move for move in scene.moves}
    moves = sorted(last.values(), key=lambda move: -move.at)[:MOVES_SHOWN]
    return [
        Text(move_text(move), style="green" if move.acted else "dim", overflow="ellipsis")
        for move in moves
    ]
