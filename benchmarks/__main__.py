"""`python -m benchmarks [NAME ...] [--json]`: measure every row, or those of the files named."""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module

from benchmarks import rows
from benchmarks.row import Row

NAMES = sorted(module.name for module in pkgutil.iter_modules(rows.__path__))


def measured(names: list[str]) -> Iterator[Row]:
    """Run the named benchmarks one after the other; yield each figure (row) as soon as it is
    known.
    """
    for name in names:
        yield from import_module(f"{rows.__name__}.{name}").measure()


def line(row: Row) -> str:
    """Format a row as a line of the printed table."""
    verdict = "pass" if row.passed else "FAIL"
    sense = "<=" if row.sense == "at most" else ">="
    figure = f"{row.measured:,.3g}" if row.measured < 1000 else f"{row.measured:,.0f}"
    return (
        f"{verdict}  {figure:>9} {row.unit:<3} {sense} {row.bar:<6,g} {row.name}"
        f"{f' ({row.note})' if row.note else ''}"
    )


def main() -> int:
    """Measure rows and print them. Return exit code 0 if every row meets its bar, else 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"no rows named {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")

    if not arguments.json:
        print("CPU time; ratios within this run, the fastest of many turns.", flush=True)
    results = []
    # New states look at all rollback guards of the user, so those of earlier benchmarks would slow
    # them down, and would grow in number.
    with tempfile.TemporaryDirectory() as guards:
        os.environ["XDG_STATE_HOME"] = guards
        for row in measured(arguments.names or NAMES):
            results.append(row)
            if not arguments.json:
                print(line(row), flush=True)
    if arguments.json:
        machine = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        }
        table = [asdict(row) | {"passed": row.passed} for row in results]
        print(json.dumps({"machine": machine, "rows": table}, indent=2))
    return 0 if all(row.passed for row in results) else 1


if __name__ == "__main__":
    sys.exit(main())
