"""Do the tests notice when the program is wrong? `script/mutate` plants small wrongs and looks.

    script/mutate --mutants 100 --seed 7 --jobs 2
    script/mutate --paths src/roost/wire --mutants 40
    script/mutate --again .cache/mutate/last.json

Mutants are drawn at random from the sources (`mutants`), each in a copy of the commit, and judged by the
tests that execute the line (`reach`, `judging`). The same seed draws the same ones in the sources of another
commit, as far as their lines are there. `--again` judges those that survived an earlier run, at the present
commit; what was caught before counts as caught. A survivor is to get a test, or a verdict in `verdicts.toml`
that says why it needs none.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import signal
import sys
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.mutate.judging import Judge
from tests.mutate.mutants import Mutant, mutants
from tests.mutate.reach import CACHE, compile_all, git, reach_of, tree_of

PATHS = (
    *(f"src/roost/{package}" for package in ("broker", "wire", "client", "relocation")),
    "src/roost/runtime/store*.py",
)
VERDICTS = Path(__file__).with_name("verdicts.toml")
EQUIVALENT = "equivalent"

Key = tuple[str, str, str, int]


def known_verdicts() -> dict[Key, dict[str, Any]]:
    """What people have said of mutants."""
    verdicts = tomllib.loads(VERDICTS.read_text())["verdict"]
    return {(v["file"], v["where"], v["change"], v.get("at", 0)): v for v in verdicts}


def sources(commit: str, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    for file in git("ls-tree", "-r", "--name-only", commit, "src/roost").split():
        if any(fnmatch(file, path) or file.startswith(f"{path}/") for path in paths):
            yield file, git("show", f"{commit}:{file}")


def drawn(commit: str, paths: Sequence[str], seed: int, count: int) -> list[Mutant]:
    texts = {file: text for file, text in sources(commit, paths) if file.endswith(".py")}
    all_ = [mutant for file, text in texts.items() for mutant in mutants(file, text)]
    # In no order: a run that is broken off has judged a fair part of them.
    all_.sort(
        key=lambda mutant: (hashlib.sha256(f"{seed} {mutant.key}".encode()).digest(), mutant.key)
    )
    found = (mutant for mutant in all_ if mutant.compiles(texts[mutant.file]))
    return [mutant for mutant, _ in zip(found, range(count), strict=False)]


def still_there(commit: str, results: Path) -> tuple[list[dict[str, Any]], list[Mutant]]:
    """What an earlier run caught, and what it did not, as far as the lines are still there."""
    before = {key_of(r): r for r in json.loads(results.read_text())["results"]}
    files = sorted({key[0] for key in before})
    there = {m.key: m for file, text in sources(commit, files) for m in mutants(file, text)}
    caught = [result for key, result in before.items() if result["by"] and key in there]
    return caught, [m for key, m in there.items() if key in before and not before[key]["by"]]


def stale(commit: str) -> list[Key]:
    """Verdicts about lines that have changed since."""
    verdicts = known_verdicts()
    texts = sources(commit, sorted({key[0] for key in verdicts}))
    there = {mutant.key for file, text in texts for mutant in mutants(file, text)}
    return [key for key in verdicts if key not in there]


def key_of(result: dict[str, Any]) -> Key:
    return result["file"], result["where"], result["change"], result["at"]


def judged(chosen: Sequence[Mutant], arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Each with what came of it. One that is known to be equivalent is not tried."""
    commit, verdicts = arguments.commit, known_verdicts()
    reach = reach_of(commit, arguments.jobs)
    judges: queue.SimpleQueue[Judge] = queue.SimpleQueue()
    for number in range(arguments.jobs):
        tree = tree_of(commit, number)
        compile_all(tree)
        judges.put(Judge(tree, reach, arguments.budget, fuzzes=not arguments.no_fuzz))

    def result(mutant: Mutant) -> dict[str, Any]:
        known = verdicts.get(mutant.key, {})
        about = {
            **{name: getattr(mutant, name) for name in ("file", "line", "where", "change", "at")},
            "verdict": known.get("verdict", ""),
            "why": known.get("why", ""),
        }
        if about["verdict"] == EQUIVALENT:
            return {**about, "by": "", "tests": 0, "ran": 0}
        judge = judges.get()
        try:
            return {**about, **judge.judge(mutant)._asdict()}
        finally:
            judges.put(judge)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for future in as_completed([pool.submit(result, mutant) for mutant in chosen]):
            yield future.result()


def shown(result: dict[str, Any]) -> str:
    outcome = result["by"] or f"SURVIVED {result['ran']} of {result['tests']} tests"
    if result["verdict"] and not result["by"]:
        outcome = f"{result['verdict']}: {result['why']}"
    place = f"{result['file'].removeprefix('src/roost/')}:{result['line']}"
    return f"{place:<32} {result['where'][:60]:<60}  {result['change'][:44]:<44}  {outcome}"


def summary(results: Sequence[dict[str, Any]]) -> dict[str, float]:
    real = [r for r in results if r["by"] or r["verdict"] != EQUIVALENT]
    tested = [r for r in real if r["by"] and not r["by"].startswith("fuzz")]
    caught = [r for r in real if r["by"]]
    return {
        "mutants": len(results),
        "equivalent": len(results) - len(real),
        "caught_by_tests": len(tested),
        "caught_by_tests_and_fuzz": len(caught),
        "by_tests_percent": 100 * len(tested) / max(1, len(real)),
        "by_tests_and_fuzz_percent": 100 * len(caught) / max(1, len(real)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="script/mutate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mutants", type=int, default=100, metavar="N", help="how many; 100")
    parser.add_argument("--seed", type=int, default=0, help="which; 0")
    parser.add_argument("--paths", nargs="+", default=PATHS, help="packages, or patterns of files")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="how many at a time; 1")
    parser.add_argument("--commit", default="HEAD", help="whose sources and tests; HEAD")
    parser.add_argument(
        "--budget", type=float, default=120.0, metavar="S", help="of tests a mutant"
    )
    parser.add_argument("--no-fuzz", action="store_true", help="no random scenarios for survivors")
    parser.add_argument("--again", type=Path, metavar="FILE", help="the survivors of these results")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    # A shell has those that it starts in the background ignore it, and so would the tests of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments.commit = git("rev-parse", arguments.commit).strip()
    results: list[dict[str, Any]] = []
    if arguments.again:
        results, chosen = still_there(arguments.commit, arguments.again)
    else:
        chosen = drawn(arguments.commit, arguments.paths, arguments.seed, arguments.mutants)
    for result in judged(chosen, arguments):
        results.append(result)
        print(shown(result), file=sys.stderr if arguments.json else sys.stdout, flush=True)
        whole = {"commit": arguments.commit, "summary": summary(results), "results": results}
        (CACHE / "last.json").write_text(json.dumps(whole, indent=1))
    if arguments.json:
        print(json.dumps({"summary": summary(results), "results": results}, indent=1))
        return
    print("\nsurvivors:")
    for result in sorted(results, key=key_of):
        if not result["by"]:
            print(shown(result))
    for key in stale(arguments.commit):
        print("a verdict about what is not there any more:", *key)
    for name, figure in summary(results).items():
        print(f"{name:<28} {figure:>8.4g}")


if __name__ == "__main__":
    main()
