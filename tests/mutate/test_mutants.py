"""What is a mutant, and what is not; and lines that are found again in a later source."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.mutate import reach, run
from tests.mutate.mutants import Mutant, mutants
from tests.mutate.reach import Reach

ROOT = Path(__file__).resolve().parents[2]


def changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants("f.py", dedent(source))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("if a <= b: c()", ["<= -> <", "c() -> pass"]),
        ("if a is not b: c()", ["is not -> is", "c() -> pass"]),
        ("if a: c()", ["a -> not (a)", "c() -> pass"]),
        ("while not a: c()", ["not a -> (a)", "c() -> pass"]),
        ("x = a and b or c", ["or -> and", "and -> or"]),
        ("x = a + 7", ["+ -> -", "7 -> 8"]),
        ("x = 64_000", ["64_000 -> 1"]),
        ("x = True", ["True -> False"]),
        ("x = 0.0", ["0.0 -> 1.0"]),
        ("a.x = b", ["a.x = b -> pass"]),
        ("a.x += 1", ["a.x += 1 -> pass", "+= -> -=", "1 -> 2"]),
        ("del a[b]", ["del a[b] -> pass"]),
        ("x = min(a, b)", ["min -> max"]),
        ("x = a if b else c", ["b -> not (b)"]),
        ("x = f(not a)", ["not a -> (a)"]),
        ("raise Wrong('1 + 1')", ["raise Wrong('1 + 1') -> pass"]),
        # In bytes and in characters these are different places.
        ("x = ('ä', a < b)", ["< -> <="]),
    ],
)
def test_what_is_changed(line: str, expected: list[str]) -> None:
    assert sorted(changes(line)) == sorted(expected)


@pytest.mark.parametrize(
    "source",
    [
        '"""A text of 1 + 1."""',
        "x: Literal[1, 2]",
        "Name: TypeAlias = dict[str, Literal[1]]",
        "log.warning('%s', a + 1)",
        "assert a < 1",
        "if TYPE_CHECKING:\n    x = 1",
        "class A(B, frozen=True): pass",
        "def __repr__(self):\n    return self.a + 1",
        "x = f'{a + 1}'",
        "x = 'a' + b",
        "__slots__ = ('a', 1)",
        "x = b",
        'def f(a=1):\n    """A promise."""',
        "def f(a=1): ...",
        "def f(a: Literal[1]) -> Literal[2]: pass",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert not changes(source)


def test_a_mutant_is_the_source_with_one_change() -> None:
    source = "def f(a, b):\n    if a < b:\n        return a\n    return b\n"
    compared, first, second = mutants("f.py", source)
    assert compared.applied(source) == source.replace("<", "<=")
    assert (compared.line, compared.where, compared.at) == (2, "if a < b:", 0)
    assert first.applied(source) == source.replace("return a", "return None")
    assert second.line == 4


def test_a_mutant_belongs_to_the_tests_of_its_own_statement() -> None:
    source = (
        "def f(a):\n    if a < 1:\n        raise a\n    a.x += 2\n    return [\n        3\n    ]\n"
    )
    for mutant in mutants("f.py", source):
        first, last = mutant.lines
        assert first <= mutant.line <= last, mutant


def test_what_runs_on_import() -> None:
    source = "X = 1\nclass A:\n    y = 2\n    def f(self, z=3):\n        return [4]\n"
    found = {mutant.old: mutant.on_import for mutant in mutants("f.py", source)}
    assert found == {"1": True, "2": True, "3": True, "4": False, "return [4]": False}


def test_mutants_of_a_line_are_told_apart() -> None:
    keys = [mutant.key for mutant in mutants("f.py", "x = a < b, c < d")]
    assert keys == [("f.py", "x = a < b, c < d", "< -> <=", at) for at in (0, 1)]


def test_all_sources_have_mutants_that_are_other_programs() -> None:
    for path in sorted((ROOT / "src/roost/wire").glob("[a-z]*.py")):
        source = path.read_text()
        found = mutants(path.name, source)
        for mutant in found[:: max(1, len(found) // 5)]:
            if mutant.compiles(source):
                assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))


def test_tests_of_a_line() -> None:
    known = Reach({}, {})
    file, tests = "src/roost/wire/f.py", ["tests/wire/a", "tests/wire/b"]
    lines = {file: {"1": [], "5": [0], "6": [0, 1]}}
    part = {"took": {**dict.fromkeys(tests, 1.0), "tests/cli/c": 1.0}, "lines": lines}
    known.add(json.loads(json.dumps(part)))
    assert known.tests_of(file, 5, 5) == {tests[0]}
    assert known.tests_of(file, 4, 6) == set(tests)
    assert known.tests_of(file, 9, 9) == set()  # nobody does
    assert known.tests_of_file(file) == set(tests)
    assert known.tests_of_file("src/roost/cli/f.py") == {"tests/cli/c"}
    again = Reach({}, {})
    again.add(json.loads(json.dumps(known.as_json())))
    assert again.as_json() == known.as_json()


def test_lines_that_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"old:f.py": "a\nb\nc\nd\n", "new:f.py": "new\na\nb\nother\nd\n"}
    monkeypatch.setattr(reach, "git", lambda _, what: texts[what])
    by_line = {1: {"t1"}, 2: {"t2"}, 3: {"t3"}, 4: {"t4"}}
    found = reach.moved(by_line, "old", "new", "f.py")
    assert (found[2], found[3], found[5]) == ({"t1"}, {"t2"}, {"t4"})
    assert found[4] == {"t2", "t3"}


def result(by: str, verdict: str = "") -> dict[str, str]:
    return {"by": by, "verdict": verdict}


def test_percentages_are_of_those_that_could_be_noticed() -> None:
    results = [result("t1"), result("fuzz --profile all"), result(""), result("", "equivalent")]
    found = run.summary(results)
    assert (found["mutants"], found["equivalent"]) == (4, 1)
    assert found["by_tests_percent"] == pytest.approx(100 / 3)
    assert found["by_tests_and_fuzz_percent"] == pytest.approx(200 / 3)


def test_every_verdict_says_why() -> None:
    for key, verdict in run.known_verdicts().items():
        assert verdict["verdict"] in ("equivalent", "unpromised", "gap"), key
        assert verdict["why"], key


def test_the_plugin_runs_the_tests_of_a_list_in_its_order_and_in_time(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n"
        "def test_endless():\n    while True: pass\n"
    )
    chosen = tmp_path / "tests.json"
    limits_s = {
        "test_it.py::test_c": 60.0,
        "test_it.py::test_a": 60.0,
        "test_it.py::test_endless": 0.2,
    }
    chosen.write_text(json.dumps(limits_s))
    options = (
        "-p",
        "tests.mutate.plugin",
        "-p",
        "no:cacheprovider",
        "-s",
        "--rootdir",
        str(tmp_path),
    )
    ran = subprocess.run(
        (sys.executable, "-m", "pytest", "-c", "/dev/null", *options, str(tmp_path)),
        cwd=tmp_path,
        env=reach.environment(ROOT, MUTATE_TESTS=str(chosen)),
        capture_output=True,
        text=True,
        check=False,
    )
    begun = [line[5:] for line in ran.stdout.splitlines() if line.startswith("runs ")]
    assert begun == list(limits_s)
    assert ran.returncode < 0


def test_a_mutant_that_does_not_compile_is_known() -> None:
    broken = Mutant("f.py", 1, (1, 1), 4, 5, "1", "(", "x = 1", 0, True)
    assert not broken.compiles("x = 1")


def test_again_keeps_what_was_caught_and_judges_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "x = 1 < 2\ny = 3 + 4\n"
    monkeypatch.setattr(run, "sources", lambda *_: [("f.py", text)])
    results = [
        {"file": m.file, "where": m.where, "change": m.change, "at": m.at, "by": by}
        for m, by in zip(mutants("f.py", text), ("a test", "", "a test", ""), strict=False)
    ]
    gone = {"file": "f.py", "where": "z = 5", "change": "5 -> 6", "at": 0, "by": "a test"}
    file = tmp_path / "last.json"
    file.write_text(json.dumps({"results": [*results, gone]}))
    caught, others = run.still_there("HEAD", file)
    assert [run.key_of(result) for result in caught] == [run.key_of(r) for r in results if r["by"]]
    assert [mutant.key for mutant in others] == [run.key_of(r) for r in results if not r["by"]]


def test_the_same_seed_draws_the_same_where_lines_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [f"x{n} = {n + 2} + y" for n in range(30)]
    texts = {"a": "\n".join(lines), "b": "\n".join(["z = 1 - y", *lines])}
    monkeypatch.setattr(run, "sources", lambda commit, _: [("src/roost/f.py", texts[commit])])
    one, two = ({m.key for m in run.drawn(commit, [], 3, 20)} for commit in "ab")
    assert len(one & two) >= 18
