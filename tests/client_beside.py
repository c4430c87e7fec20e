"""`python -m tests.client_beside COMMIT`: the client library in single calls, beside that of a commit.

Publisher and subscriber of `roost bench client` with the library of then and with that of now, in turn, at
one broker of now. What counts is processor time: a shared machine is faster in one minute than in the next,
so a round has one run of each, and the median is that of the ratios within a round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from roost.bench import client, client_roles
from tests.older import source_at

FIGURES = ("events_per_s", "publisher_us", "subscriber_us")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.client_beside", description=__doc__)
    parser.add_argument("commit", help="to compare with")
    parser.add_argument("--events", type=int, default=300_000, metavar="N")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--scenario", default="single", choices=tuple(client.SCENARIOS))
    arguments = parser.parse_args()
    rounds = max(1, arguments.events // client_roles.ROUND)
    found: dict[str, list[dict[str, float]]] = {"then": [], "now": []}
    with tempfile.TemporaryDirectory() as folder:
        old = source_at(arguments.commit, Path(folder) / "old", serves=False)
        broker = client.serving(Path(folder))
        try:
            for number in range(1, arguments.runs + 1):
                for when, source in (("then", old), ("now", client.source_of_this())):
                    ran = client.run_once(broker, arguments.scenario, rounds, source)
                    figures = client.figures_of("", [ran])
                    found[when].append({name: figures[f"_{name}"] for name in FIGURES})
                print(f"round {number} of {arguments.runs}", file=sys.stderr, flush=True)
        finally:
            broker.stop()
    print(
        f"| {arguments.scenario} | {arguments.commit} | now | now / then |\n| --- | --- | --- | --- |"
    )
    for name in FIGURES:
        then, now = ([each[name] for each in found[when]] for when in ("then", "now"))
        ratio = statistics.median(b / a for a, b in zip(then, now, strict=True) if a)
        print(
            f"| {name} | {statistics.median(then):,.2f} | {statistics.median(now):,.2f} | {ratio:.2f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
