"""The rules that hold the house together, as functions from a file to what is wrong with it.

`test_tidy.py` runs them over the repository, and each over a planted violation. A path is relative
to the root of the repository, with forward slashes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

# A package imports only packages that stand above it.
HOUSE = (
    "language",
    "matching",
    "broker",
    "wire",
    "chunks",
    "traces",
    "optimising",
    "overlay",
    "balancing",
    "relocation",
    "partition",
    "entry",
    "simulation",
    "runtime",
    "client",
    "testing",
    "gateway",
    "pictures",
    "pipeline",
    "experiments",
    "bench",
    "dashboard",
    "cli",
)

# Two drivers of the same machines: neither imports the other, whichever stands above.
STRANGERS = {("runtime", "simulation"), ("simulation", "runtime")}

# Packages of machines and decisions: all that is not determined comes to them as an argument.
PROTOCOL_PACKAGES = HOUSE[: HOUSE.index("simulation")]

# Modules that are started, or found by name, not imported.
ENTRY_POINTS = {
    "roost.cli.main",
    "roost.experiments.balancing.cell",
    "roost.experiments.overlay.cell",
    "roost.experiments.partition.cell",
    "roost.experiments.relocation.cell",
    "roost.pipeline.worker_daemon",
    "roost.runtime.nursery_process",  # what `roost up` forks brokers from
}

LINES_MAX = 700

UNDETERMINED_MODULES = {
    "asyncio",
    "concurrent.futures",
    "datetime",
    "multiprocessing",
    "numpy.random",
    "random",
    "secrets",
    "select",
    "selectors",
    "socket",
    "threading",
    "time",
    "uuid",
}
UNDETERMINED_OF_OS = {"environ", "environb", "getenv", "getenvb", "getrandom", "urandom"}

# The patterns are written so that they do not match this file: no name stands whole behind its
# slash, no host whole before its dot.
MACHINE_PATH = re.compile(
    r"(?:(?<![\w.~/$}*-])|(?<=://))/(?:(?:work|root)/|farm\b|(?:home|Users)/\w)"
    r"|\b[A-Z]:\\Users\\"
)
REGISTRY = re.compile(
    r"(?:\b|_)(?:(?:[\w-]+\.)?pypi(?:\.python)?\.org"
    r"|(?:[\w-]+\.)?pythonhosted\.org"
    r"|(?:[\w-]+\.)?anaconda\.(?:org|com)"
    r"|registry\.(?:npmjs\.org|yarnpkg\.com)"
    r"|(?:repo1?\.maven(?:\.apache)?|proxy\.golang)\.org"
    r"|(?i:(?:extra[-_])?index[-_]url))\b"
    r"|\bhttps?://\S+\.whl\b"
)
MARKDOWN_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)")
MARKDOWN_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^>\s]+)>?")
MARKDOWN_FENCE = re.compile(r"^\s*(```|~~~)")
INLINE_CODE = re.compile(r"`+[^`]*`+")
NOT_A_LOCAL_FILE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//|#)", re.IGNORECASE)


class Finding(NamedTuple):
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


# --- names of modules -----------------------------------------------------------------------------


class Import(NamedTuple):
    module: str
    name: str | None  # what is taken from the module, when it is a from-import
    line: int
    types_only: bool  # stands under `if TYPE_CHECKING:`

    def within(self, module: str) -> bool:
        """Whether this imports `module`, or something inside it."""
        full = f"{self.module}.{self.name}" if self.name else self.module
        return any(f"{name}.".startswith(f"{module}.") for name in (self.module, full))


def module_of(path: str) -> str:
    """src/roost/broker/core.py -> roost.broker.core"""
    parts = PurePosixPath(path).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: str) -> str | None:
    """The room of the house that a file stands in; None for the files of `roost` itself."""
    parts = PurePosixPath(path).parts
    return parts[2] if parts[:2] == ("src", "roost") and len(parts) > 3 else None


def imports(path: str, source: str) -> Iterator[Import]:
    """Every import of a file, wherever it stands, relative ones resolved."""
    here = module_of(path).split(".")
    package = here if path.endswith("__init__.py") else here[:-1]
    tree = ast.parse(source, path)
    types_only = {
        id(node)
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and "TYPE_CHECKING" in ast.unparse(guard.test)
        for statement in guard.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        guarded = id(node) in types_only
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, node.lineno, guarded)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, guarded)
        elif isinstance(node, ast.Call) and called(node) in {"import_module", "__import__"}:
            match node.args:
                case [ast.Constant(value=str(name)), *_]:
                    yield Import(name, None, node.lineno, guarded)


def called(node: ast.expr) -> str | None:
    """The last part of the name of what a call calls."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return None


# --- the rules ------------------------------------------------------------------------------------


def import_direction(path: str, source: str) -> Iterator[Finding]:
    """Imports point only upwards in HOUSE; `roost.errors` and `roost` itself are everyone's."""
    here = package_of(path)
    if here is not None and here not in HOUSE:
        yield Finding(path, 1, f"the package {here} has no place in HOUSE (tests/tidy.py)")
        return
    for found in imports(path, source):
        module = found.module.split(".")
        if module[0] != "roost":
            continue
        there = module[1] if len(module) > 1 else found.name
        if there not in HOUSE or there == here:
            continue
        if here is None:
            # Of the files of `roost` itself, only the one that starts the command line imports it.
            if not found.types_only and not (path == "src/roost/__main__.py" and there == "cli"):
                yield Finding(path, found.line, f"imports roost.{there}, and everyone imports it")
        elif (here, there) in STRANGERS:
            yield Finding(path, found.line, f"{here} and {there} never import each other")
        elif HOUSE.index(there) > HOUSE.index(here):
            yield Finding(path, found.line, f"{here} imports {there}, which stands below it")


def determinism(path: str, source: str) -> Iterator[Finding]:
    """Protocol packages read no clock, socket, environment or global random source.

    An import under `if TYPE_CHECKING:` is fine: that is how to name the type of an argument. So is the class
    `Random`, if it is given a seed, as determined as which it is.
    """
    if package_of(path) not in PROTOCOL_PACKAGES:
        return
    numpy_names, os_names = set(), set()
    for found in imports(path, source):
        if found.types_only or (found.module, found.name) == ("random", "Random"):
            continue
        for module in sorted(UNDETERMINED_MODULES):
            if found.within(module):
                yield Finding(path, found.line, f"imports {module}")
        if found.module == "os" and found.name in UNDETERMINED_OF_OS:
            yield Finding(path, found.line, f"imports os.{found.name}")
    tree = ast.parse(source, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "numpy":
                    numpy_names.add(alias.asname or "numpy")
                if alias.name.split(".")[0] == "os":
                    os_names.add(alias.asname or "os")
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="random") if name in numpy_names:
                yield Finding(path, node.lineno, "uses numpy.random")
            case ast.Call(func=ast.Name(id="Random"), args=[], keywords=[]):
                yield Finding(path, node.lineno, "draws a seed for Random")
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if (
                name in os_names and attribute in UNDETERMINED_OF_OS
            ):
                yield Finding(path, node.lineno, f"uses os.{attribute}")


def set_order(path: str, source: str) -> Iterator[Finding]:
    """Protocol packages do not depend on the order of a set, which differs from run to run.

    Best effort: sees sets that are made where they are iterated over, not those in variables.
    """
    if package_of(path) not in PROTOCOL_PACKAGES:
        return
    tree = ast.parse(source, path)
    orderless = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and len(node.args) == 1
        and called(node) in {"all", "any", "frozenset", "len", "set", "sorted"}
    }
    for node in ast.walk(tree):
        loops: list[ast.For | ast.AsyncFor | ast.comprehension] = []
        if isinstance(node, ast.For | ast.AsyncFor):
            loops = [node]
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            loops = [] if id(node) in orderless else list(node.generators)
        for loop in loops:
            if in_set_order(loop.iter):
                yield Finding(path, loop.iter.lineno, "iterates over a set; wrap it in sorted()")


def in_set_order(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Name(id="list" | "tuple" | "iter" | "enumerate" | "zip" | "map")):
            return any(in_set_order(argument) for argument in node.args)
        case ast.BinOp(left, ast.BitOr() | ast.BitAnd() | ast.BitXor() | ast.Sub(), right):
            return in_set_order(left) or in_set_order(right)
    return False


def dead_modules(sources: Mapping[str, str]) -> Iterator[Finding]:
    """Modules that no other module of src/roost imports; tests do not count."""
    imported: set[str] = set()
    for path, source in sources.items():
        here = module_of(path)
        for found in imports(path, source):
            names = [found.module, *([f"{found.module}.{found.name}"] if found.name else [])]
            imported.update(name for name in names if name != here)
    for path in sources:
        module = module_of(path)
        started = module in ENTRY_POINTS or path.endswith(("/__init__.py", "/__main__.py"))
        if not started and module not in imported:
            yield Finding(path, 1, "nothing imports this module")


def length(path: str, source: str) -> Iterator[Finding]:
    lines = source.count("\n")
    if lines > LINES_MAX:
        yield Finding(path, lines, f"{lines} lines; split it before {LINES_MAX}")


def machine_paths(path: str, source: str) -> Iterator[Finding]:
    """Paths that exist on somebody's machine only."""
    yield from matches(MACHINE_PATH, path, source)


def registry_addresses(path: str, source: str) -> Iterator[Finding]:
    """Where packages come from is the business of the machine, not of the repository."""
    yield from matches(REGISTRY, path, source)


def matches(pattern: re.Pattern[str], path: str, source: str) -> Iterator[Finding]:
    for number, line in enumerate(source.splitlines(), 1):
        for match in pattern.finditer(line):
            yield Finding(path, number, f"says {match.group()!r}")


def broken_links(path: str, source: str, exists: Callable[[str], bool]) -> Iterator[Finding]:
    """Links of a Markdown file to files that are not there; `exists` takes a path from the root."""
    in_code = False
    for number, line in enumerate(source.splitlines(), 1):
        if MARKDOWN_FENCE.match(line):
            in_code = not in_code
        if in_code:
            continue
        prose = INLINE_CODE.sub("", line)
        for target in MARKDOWN_LINK.findall(prose) + MARKDOWN_REFERENCE.findall(prose):
            if NOT_A_LOCAL_FILE.match(target):
                continue
            file = target.split("#")[0].split("?")[0]
            place = normal(PurePosixPath(path).parent / file)
            if place is None or not exists(place):
                yield Finding(path, number, f"links to {target}, which is not there")


def normal(path: PurePosixPath) -> str | None:
    """`path` without .. and . ; None when it leaves the repository or is absolute."""
    parts: list[str] = []
    for part in path.parts:
        if part == "/" or (part == ".." and not parts):
            return None
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
