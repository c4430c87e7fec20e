"""Small wrongs that a program might well have: what can be changed in a source, one change a mutant.

A mutant is a piece of the source and what stands there instead, so that no line moves. What nobody promises
is left alone: docstrings, annotations, what is raised, logged or shown (`SILENT`), and assertions. Nor is
anything made that falls over at once, such as a local variable that is never set.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Functions whose calls, and methods whose bodies, are for people who read.
SPEAKERS = {"log", "logger", "warnings", "print", "cast", "TypeVar", "NewType", "ParamSpec"}
SILENT = {"__repr__", "__str__", "show", "describe"}
ROUND = 1_000
STATEMENTS = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete)


class Mutant(NamedTuple):
    """One change: the characters from `start` to `stop` of a file become `text`."""

    file: str
    line: int
    lines: tuple[
        int, int
    ]  # of the statement, or the head of it: a test that executes one may notice
    start: int
    stop: int
    old: str
    text: str
    where: str  # the line of the source, without blanks around
    at: int  # which of the changes of this kind it is, in all lines of the file that read like this one
    on_import: bool  # it stands in no function

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What it is called, as long as the line is the same, wherever it stands."""
        return self.file, self.where, self.change, self.at

    @property
    def change(self) -> str:
        old, text = (" ".join(part.split()) for part in (self.old, self.text))
        return f"{old} -> {text}" if old else f"inserts {text}"

    def applied(self, source: str) -> str:
        """The source with it."""
        assert source[self.start : self.stop] == self.old
        return source[: self.start] + self.text + source[self.stop :]

    def compiles(self, source: str) -> bool:
        try:
            compile(self.applied(source), self.file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True


def mutants(file: str, source: str) -> list[Mutant]:
    """All mutants of a source, in the order of the text. Few of them do not compile (`compiles`).

    >>> [mutant.change for mutant in mutants("f.py", "def f(a):\\n    return a < 1 or not a")]
    ['return a < 1 or not a -> return None', '< -> <=', '1 -> 2', 'or -> and', 'not a -> (a)']
    """
    found: list[Mutant] = []
    seen: dict[tuple[str, str, str], int] = {}
    maker = Maker(source)
    maker.visit(ast.parse(source))
    texts = source.splitlines()
    for start, stop, text, line, lines, on_import in sorted(maker.found):
        mutant = Mutant(
            file,
            line,
            lines,
            start,
            stop,
            source[start:stop],
            text,
            texts[line - 1].strip(),
            0,
            on_import,
        )
        alike = mutant.key[:3]
        found.append(mutant._replace(at=seen.get(alike, 0)))
        seen[alike] = seen.get(alike, 0) + 1
    return found


class Maker(ast.NodeVisitor):
    """Walks through a source and collects what could be changed."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._texts = source.splitlines(keepends=True)
        self._starts = [0, *accumulate(map(len, self._texts))]
        self._lines = (1, 1)
        self._depth = 0  # of functions
        self.found: list[tuple[int, int, str, int, tuple[int, int], bool]] = []

    # --- places -------------------------------------------------------------------------------------

    def _place(self, line: int, column: int) -> int:
        # Columns of the syntax tree count bytes.
        before = self._texts[line - 1].encode()[:column]
        return self._starts[line - 1] + len(before.decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        first = self._place(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return first, self._place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _text(self, node: ast.AST) -> str:
        start, stop = self._span(node)
        return self._source[start:stop]

    def _replace(self, node: ast.AST, text: str) -> None:
        self._add(*self._span(node), text)

    def _add(self, start: int, stop: int, text: str) -> None:
        line = bisect_right(self._starts, start)
        self.found.append((start, stop, text, line, self._lines, not self._depth))

    def _between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Change the operator that stands between two operands."""
        start, stop = self._span(left)[1], self._span(right)[0]
        gap = self._source[start:stop]
        match = re.search(rf"(?<!\w){old}(?!\w)" if old[0].isalpha() else re.escape(old), gap)
        if match is not None:
            self._add(start + match.start(), start + match.end(), new)

    # --- statements ---------------------------------------------------------------------------------

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            self._lines = (node.lineno, max(last, node.lineno))
            self._statement(node)
        super().generic_visit(node)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant | None):
            self._replace(node, "return None")
        elif isinstance(node, ast.Continue | ast.Break):
            self._replace(node, "break" if isinstance(node, ast.Continue) else "continue")
        elif isinstance(node, ast.Raise) or (isinstance(node, STATEMENTS) and not is_local(node)):
            self._replace(node, "pass")
        if isinstance(node, ast.If | ast.While):
            self._negate(node.test)

    def _negate(self, test: ast.expr) -> None:
        """A condition becomes its opposite, unless a smaller change does the same."""
        smaller = (isinstance(test, ast.Compare) and len(test.ops) == 1) or (
            isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        )
        if not smaller:
            self._replace(test, f"not ({self._text(test)})")

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value
        if not isinstance(value, ast.Constant) and not is_speech(value):
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if self._text(node.test) != "TYPE_CHECKING":
            self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name not in SILENT and not all(map(is_nothing, node.body)):
            self._lines = (node.lineno, node.body[0].lineno - 1)
            for part in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                self.visit(part)
            self._depth += 1
            for statement in node.body:
                self.visit(statement)
            self._depth -= 1

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and "TypeAlias" not in self._text(node.annotation):
            self._lines = (node.lineno, node.end_lineno or node.lineno)
            self.visit(node.value)

    def visit_match_case(self, node: ast.match_case) -> None:
        first = node.pattern.lineno
        self._lines = (first, max(first, node.body[0].lineno - 1))
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._lines = (node.lineno, node.end_lineno or node.lineno)
        self._statement(node)  # and not what it says

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(t, ast.Name) and t.id.startswith("__") for t in node.targets):
            self.generic_visit(node)

    # --- expressions --------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        if is_speech(node):
            return
        if isinstance(node.func, ast.Name) and node.func.id in OPPOSITES:
            self._replace(node.func, OPPOSITES[node.func.id])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = (node.left, *node.comparators)
        for left, right, operator in zip(operands, operands[1:], node.ops, strict=False):
            self._between(left, right, *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and not is_text(node.left) and not is_text(node.right):
            self._between(node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.generic_visit(node)  # first: it says which lines these are
        if type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            self._between(node.target, node.value, f"{old}=", f"{new}=")

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int):
            # Of a round number nobody promises the last digit.
            self._replace(node, str(1 if node.value >= ROUND else node.value + 1))
        elif isinstance(node.value, float):
            self._replace(node, repr(node.value * 2 or 1.0))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """What is put together is mostly a message."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """A check, not what is checked."""

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.body)


def is_nothing(node: ast.stmt) -> bool:
    """A docstring, or `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def is_speech(node: ast.expr) -> bool:
    """Whether it is a call of somebody who only speaks, or a string."""
    while isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call):
        return False
    func = node.func
    while isinstance(func, ast.Attribute):
        func = func.value
    return isinstance(func, ast.Name) and func.id in SPEAKERS


def is_local(node: ast.stmt) -> bool:
    """Whether it sets a local variable, or something of the module: without it nothing would run at all."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(
        isinstance(name, ast.Name)
        for target in targets
        for name in (target.elts if isinstance(target, ast.Tuple) else [target])
    )
