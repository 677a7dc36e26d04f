"""What happens to rows that cannot be counted: refused, set aside, or left out.

Without a policy the first such row ends the run, so that one row decides whether there is a release
at all. With one, a run goes on without them: a row is set aside, or left out, by itself alone.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from counton.errors import InvalidInput, field

Missing = Literal["refuse", "skip"]
MISSING: tuple[Missing, ...] = get_args(Missing)
#: Rows that are set aside at most, unless stated: more look like a wrong option, or another file.
MOST: Final = 1000
_REFUSE, _QUARANTINE = "refuse", "quarantine:"


@dataclass(frozen=True)
class Policies:
    """Policies for rows that are no events.

    Attributes:
        quarantine: file into which rows that cannot be read are written; None: they are refused.
        most: so many rows may be set aside in one run.
        missing: whether rows that lack a time, user, group, value or id are left out.

    >>> Policies.read("quarantine:bad.csv", 10, "skip").quarantine.name
    'bad.csv'
    """

    quarantine: Path | None = None
    most: int = MOST
    missing: Missing = "refuse"

    @classmethod
    def read(cls, bad_rows: str, most: int, missing: str) -> Policies:
        """Policies as they are asked for.

        Raises:
            InvalidInput: none of those there are, or a bound without what it bounds.
        """
        file = bad_rows.removeprefix(_QUARANTINE)
        if bad_rows != _REFUSE and (file == bad_rows or not file):
            raise InvalidInput(
                f"{field('bad_rows')} is {bad_rows!r}; use {_REFUSE}, or {_QUARANTINE}FILE"
            )
        if most < 0:
            raise InvalidInput(f"{field('bad_rows_most', most)} is below 0; give how many rows")
        for known in MISSING:
            if missing == known:
                return cls(Path(file) if file != bad_rows else None, most, known)
        raise InvalidInput(f"{field('missing')} is {missing!r}; use one of {', '.join(MISSING)}")


def set_aside(file: Path, columns: Iterable[str], rows: Iterable[tuple[object, ...]]) -> None:
    """Write rows into a file which its owner alone can read; what it held before is gone.

    Args:
        file: CSV, anew in each run.
        columns: of the events.
        rows: the file that each came from, its number there, what is wrong with it, and its cells.

    Raises:
        InvalidInput: it cannot be written.
    """
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["file", "row", "problem", *columns])
            writer.writerows(rows)
    except OSError as error:
        raise InvalidInput(
            f"{field('bad_rows', f'{_QUARANTINE}{file}')} cannot be written ({error.strerror}); "
            f"name a file in a folder that exists"
        ) from error
