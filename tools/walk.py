"""Functions and files of counton that a call enters: how far a reader has to walk to follow it.

    python -m tools.walk

Each call runs in a process of its own, so that nothing is left from an earlier call: a fork of one
that has imported what others made, and nothing of counton. Keys are the same in every run: some
random bits do not decide a draw at once, and then more functions are entered. Functions that
modules call while they are imported do not count.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from hashlib import shake_256
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import counton

SOURCE = str(Path(counton.__file__).parent) + os.sep
ROWS = (
    "time,page,paid\n"
    + "".join(
        f"2024-03-0{day}T0{hour}:15,{page},{paid}\n"
        for day, hour, page, paid in ((1, 9, "home", 1), (1, 8, "shop", 2), (2, 7, "home", 3))
    )
    + "2024-03-03T08:05,home,4\n"
)
WHEN: dict[str, Any] = {
    "time": "time",
    "every": "1d",
    "start": "2024-03-01",
    "steps": 365,
    "until": "2024-03-04",
    "epsilon": 1,
}


class Walk(NamedTuple):
    """The number of functions that a call enters, and of the files that contain them."""

    functions: int
    files: int


def entered(call: Callable[[], object]) -> set[tuple[str, str]]:
    """Return the functions of counton that a call enters, as pairs of file and name; comprehensions
    do not count.
    """
    found = set[tuple[str, str]]()
    importing = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal importing
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(SOURCE):
            return
        if code.co_name == "<module>":
            importing += 1 if event == "call" else -1
        elif event == "call" and not importing and not code.co_name.startswith("<"):
            found.add((code.co_filename[len(SOURCE) :], code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def _count(**more: Any) -> object:
    from counton import release

    return release("count", "visits.csv", state="visits.db", **more)


def first_count() -> object:
    """Count four rows in a new stream."""
    return _count(**WHEN)


def count_again() -> object:
    """Repeat the call of `first_count`, with no new rows."""
    return _count(**WHEN)


def quantiles() -> object:
    """Release quantiles in a new stream."""
    from counton import release

    more: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 10, "cells": 8}
    return release("quantiles", "visits.csv", state="paid.db", **more, **WHEN)


def table_once() -> object:
    """Release a table once."""
    from counton import release

    domain = {"page": ["home", "shop"]}
    return release(
        "contingency", "visits.csv", state="table.db", columns="page", domain=domain, epsilon=1
    )


def command() -> object:
    """Run the command ``counton count``."""
    from counton.cli.__main__ import main

    words = [f"--{name}={value}" for name, value in WHEN.items()]
    sys.argv = ["counton", "count", "visits.csv", "--state=typed.db", *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
    return None


#: What is walked, in this order: the second call goes on with the state of the first.
CALLS: tuple[Callable[[], object], ...] = (first_count, count_again, quantiles, table_once, command)
#: What calls import that others made.
_OF_OTHERS = ("numpy", "polars", "rich.table", "sqlite3", "typer")


def walks(calls: Sequence[Callable[[], object]] = CALLS) -> dict[str, Walk]:
    """Measure each call in a process of its own; return the results by name of the call."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "visits.csv").write_text(ROWS)
        root = str(Path(__file__).parents[1])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-m", "tools.walk", *(call.__name__ for call in calls)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "XDG_STATE_HOME": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    for call, line in zip(calls, done.stdout.splitlines(), strict=True):
        found[call.__name__] = Walk(*map(int, line.split()))
    return found


def _walked(name: str) -> None:
    """Print the two numbers of a call."""
    (call,) = (one for one in CALLS if one.__name__ == name)
    numbers = itertools.count()

    def token_bytes(nbytes: int | None = None) -> bytes:
        return shake_256(f"{name} {next(numbers)}".encode()).digest(nbytes or 32)

    secrets.token_bytes = token_bytes
    places = entered(call)
    print(len(places), len({file for file, _ in places}), flush=True)  # noqa: T201


def main(words: list[str]) -> None:
    """Print the table of all calls; or, of those that ``words`` names, only their two numbers."""
    for module in _OF_OTHERS if words else ():
        import_module(module)
    for word in words:
        if not (child := os.fork()):
            _walked(word)
            return
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{word} failed")
    if words:
        return
    for name, walk in walks().items():
        print(f"{name:<12} {walk.functions:>6,} functions in {walk.files:>4,} files")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
