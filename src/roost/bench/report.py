"""The results of a benchmark, for programs and for people.

In a Markdown file each benchmark owns what stands between its two comments; the rest is left alone.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from roost.errors import UserError

HEADING = (
    "# Benchmarks\n\nWritten by `roost bench --write`; each section says where it was measured.\n"
)


class Result(TypedDict):
    """What `--json` prints."""

    bench: str
    config: dict[str, Any]
    results: dict[str, float]
    ratios: dict[str, float]


@dataclass(frozen=True)
class Table:
    """The same for people: `rows` of texts under `columns`, and what else is to be said."""

    key: str  # which section of a report it replaces
    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)


def merged(results: list[Result]) -> Result:
    """Several results as one: each figure under the name of its run."""
    return {
        "bench": "all",
        "config": {"runs": [{"bench": r["bench"], **r["config"]} for r in results]},
        "results": {
            f"{run_name(r)}/{name}": x for r in results for name, x in r["results"].items()
        },
        "ratios": {f"{run_name(r)}/{name}": x for r in results for name, x in r["ratios"].items()},
    }


def run_name(result: Result) -> str:
    """What tells a run from others of the same benchmark."""
    config = result["config"]
    return f"{result['bench']}/{config['workload']}/{config['subscriptions']}"


def provenance(result: Result, today: datetime.date) -> str:
    """One line: commit, date, machine, versions, seed."""
    config = result["config"]
    machine = config["machine"]
    return (
        f"Commit {config['commit']}, {today.isoformat()},"
        f" {machine['cpu']} ({machine['cores']} cores),"
        f" Python {machine['python']}, NumPy {machine['numpy']}, Numba {machine['numba']},"
        f" seed {config['seed']}."
    )


def markdown(table: Table, provenance_line: str) -> str:
    """The table as a section."""
    lines = [f"## {table.title}", "", provenance_line, ""]
    lines.append(_row(table.columns))
    lines.append(_row(["---", *["---:"] * (len(table.columns) - 1)]))
    lines.extend(map(_row, table.rows))
    lines.extend(["", *(f"- {note}" for note in table.notes)] if table.notes else [])
    return "\n".join(lines) + "\n"


def write(path: Path, table: Table, result: Result, today: datetime.date) -> None:
    """Replaces the table's section of the file, or adds it."""
    try:
        old = path.read_text("utf-8") if path.exists() else HEADING
        new = with_section(old, table.key, markdown(table, provenance(result, today)))
        path.write_text(new, "utf-8")
    except OSError as bad:
        raise UserError(f"{path}: {bad.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text in UTF-8") from None


def with_section(text: str, key: str, section: str) -> str:
    """`text` with this section in place of the one of that key, or at its end."""
    opening, closing = f"<!-- bench: {key} -->", f"<!-- end of bench: {key} -->"
    block = f"{opening}\n{section}{closing}"
    start = text.find(opening)
    if start < 0:
        return f"{text.rstrip()}\n\n{block}\n"
    end = text.find(closing, start)
    if end < 0:
        raise UserError(f"the section {key!r} has no end: the line {closing!r} is missing")
    return text[:start] + block + text[end + len(closing) :]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
