"""Tables of figures about brokers that fit where they are shown.

Where there is less room than a table needs, its least important columns are left out, rather than all of them
cut; text that may run over several lines is given what is left. To a pipe or a file goes everything: nobody
looks for the end of a cut line there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from roost.cli.console import people

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

MB = 1e6
BAR_WIDTH = 20
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# Where a bar changes its colour.
BUSY, FULL = 0.6, 0.85
WIDTH_OF_A_FILE = 400


class Column(NamedTuple):
    """A column of a table; those with the highest number are the first to be left out."""

    title: str
    left: bool = False  # for words; figures stand to the right
    expendable: int = 0  # 0: never left out
    wraps_at: int = 0  # a text of several lines, if need be, each at least so long; 0: one line


class Row(NamedTuple):
    """A row of a table."""

    cells: Sequence[RenderableType]
    style: str | None = None


def wide() -> Console:
    """Standard output for people; without a terminal as wide as it takes."""
    console = people()
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    return console


def fitted(columns: Sequence[Column], rows: Sequence[Row], width: int) -> Table:
    """The table, without those columns that there is no room for."""
    table, _ = fitted_and_hidden(columns, rows, width)
    return table


def fitted_and_hidden(
    columns: Sequence[Column], rows: Sequence[Row], width: int
) -> tuple[Table, list[str]]:
    """The table, and the titles of the columns that there is no room for."""
    shown = list(range(len(columns)))
    while True:
        some, cells = [columns[i] for i in shown], [_picked(row, shown) for row in rows]
        candidates = [i for i in shown if columns[i].expendable]
        if not candidates or _width_at_least(some, cells) <= width:
            return _table(some, cells), [x.title for i, x in enumerate(columns) if i not in shown]
        shown.remove(max(candidates, key=lambda i: columns[i].expendable))


def _picked(row: Row, shown: Sequence[int]) -> Row:
    return Row([row.cells[i] for i in shown], row.style)


def _table(columns: Sequence[Column], rows: Sequence[Row], *, narrow: bool = False) -> Table:
    from rich.table import Table

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for column in columns:
        grid.add_column(
            column.title,
            justify="left" if column.left else "right",
            no_wrap=not column.wraps_at,
            max_width=column.wraps_at or None if narrow else None,
        )
    for row in rows:
        grid.add_row(*row.cells, style=row.style)
    return grid


def _width_at_least(columns: Sequence[Column], rows: Sequence[Row]) -> int:
    from rich.console import Console

    grid = _table(columns, rows, narrow=True)
    return Console(width=WIDTH_OF_A_FILE).measure(grid).maximum


def in_mb(size_bytes: float) -> str:
    return f"{size_bytes / MB:,.0f} MB" if size_bytes >= 10 * MB else f"{size_bytes / MB:.1f} MB"


def bar(share: float) -> Text:
    """A share of 1, to an eighth of a character."""
    from rich.text import Text

    eighths = round(8 * BAR_WIDTH * min(1.0, max(0.0, share)))
    filled = "█" * (eighths // 8) + EIGHTHS[eighths % 8]
    colour = "green" if share < BUSY else "yellow" if share < FULL else "red"
    return Text.assemble((filled, colour), ("·" * (BAR_WIDTH - len(filled)), "dim"))
