"""The tests that no stage has run: ``python -m tools.not_run RUN .ci/optional``.

``RUN`` is the file in which `tests/conftest.py` notes the tests of each stage. A test that one
stage skips and another stage runs was run. The tests that were not run are counted by the reason
for skipping them. The exit code is 1 if a reason is not optional; each line of the second file is
the beginning of an optional reason.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path


def not_run(lines: Iterable[str]) -> Counter[str]:
    """Count the tests, or files of tests, that no stage has run, by the reason for skipping them.

    >>> told = ["skipped\\ttests/a.py\\tno torch", "ran\\ttests/a.py::test_one\\t",
    ...         "skipped\\ttests/b.py::test_two\\tno server", "skipped\\tstage\\tno Java"]
    >>> not_run(told)
    Counter({'no server': 1, 'no Java': 1})
    """
    skipped: dict[str, str] = {}
    ran: set[str] = set()
    for line in lines:
        kind, name, reason = line.rstrip("\n").split("\t")
        if kind == "skipped":
            skipped[name] = reason
        else:
            ran |= {name, name.partition("::")[0]}
    return Counter(reason for name, reason in skipped.items() if name not in ran)


def main(run: str, optional: str) -> int:
    """Print what no stage has run. Return 1 if a reason is not in the file of optional reasons,
    else 0.

    Args:
        run: file with a line for each skipped or run test of all stages.
        optional: file of optional reasons; each line is the beginning of a reason.
    """
    with open(run, encoding="utf-8") as file:
        found = not_run(file)
    listed = Path(optional).read_text(encoding="utf-8").splitlines()
    allowed = tuple(line for line in listed if line and not line.startswith("#"))
    unnamed = [reason for reason in found if not reason.startswith(allowed)]
    for reason, times in sorted(found.items()):
        named = "optional" if reason not in unnamed else "NOT OPTIONAL"
        print(f"not run, {named}: {times} for {reason or 'no reason given'}")  # noqa: T201
    if unnamed:
        print(f"{len(unnamed)} reasons are not in {optional}")  # noqa: T201
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
