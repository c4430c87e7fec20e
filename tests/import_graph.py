"""The import graph of one package: its cycles, and its layers as the picture in docs/ARCHITECTURE.md.

`python -m tests.import_graph` writes the picture; a test compares it with what is there. Imports for types
count: whoever reads a module has to know what it talks of.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.tidy import imports, module_of

ROOT = Path(__file__).resolve().parent.parent
MANUAL = ROOT / "docs" / "ARCHITECTURE.md"
PACKAGE = "roost.broker"
BEGIN, END = "<!-- imports of broker/: python -m tests.import_graph -->\n", "<!-- end -->\n"

Graph = dict[str, set[str]]


def graph_of(package: str, sources: Mapping[str, str]) -> Graph:
    """Module -> the modules of the same package that it imports."""
    modules = {module_of(path): (path, source) for path, source in sources.items()}
    inside = {name for name in modules if name.startswith(f"{package}.")}
    graph: Graph = {}
    for name in inside:
        graph[name] = set()
        for found in imports(*modules[name]):
            full = f"{found.module}.{found.name}"
            graph[name] |= {full, found.module} & (inside - {name})
    return graph


def cycle_of(graph: Graph) -> list[str]:
    """Modules that import each other in a circle, if there are any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def layers_of(graph: Graph) -> list[list[str]]:
    """Each module above all that it imports."""
    layers: list[list[str]] = []
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    while ready := sorter.get_ready():
        layers.append(sorted(ready))
        sorter.done(*ready)
    return layers


def picture(graph: Graph) -> str:
    """The layers, the highest first, as a table: a module and what it imports directly."""
    lines = ["| layer | module | imports |", "| --- | --- | --- |"]
    for number, layer in reversed(list(enumerate(layers_of(graph)))):
        for module in layer:
            short = [name.rpartition(".")[2] for name in sorted(graph[module])]
            lines.append(f"| {number} | `{module.rpartition('.')[2]}` | {', '.join(short)} |")
    return "\n".join(lines) + "\n"


def sources_of(package: str) -> dict[str, str]:
    folder = ROOT / "src" / Path(*package.split("."))
    files = sorted(folder.glob("*.py"))
    return {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in files}


def drawn(text: str) -> str:
    """The manual, with the picture as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + picture(graph_of(PACKAGE, sources_of(PACKAGE))) + END + after


if __name__ == "__main__":
    MANUAL.write_text(drawn(MANUAL.read_text("utf-8")), "utf-8")
