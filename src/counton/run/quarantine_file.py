"""The file to which a job writes unreadable rows, and how many of them a run has added."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counton.base.outside_input import read_plain


@dataclass(frozen=True)
class QuarantineFile:
    """The file of unreadable rows, and what it held before a run.

    Attributes:
        path: the file; None: there is none.
        lines_before: its lines before, with the names of its columns; none if it did not exist.
    """

    path: Path | None
    lines_before: frozenset[bytes]

    @classmethod
    def before_run(cls, path: Path | None) -> QuarantineFile:
        """Read the file of a job that was not run yet; None: the job sets no rows aside."""
        return cls(path, _distinct_lines(path))

    def number_of_new_rows(self, written: Path | None = None) -> int:
        """Return how many rows the file has that it did not have before.

        Args:
            written: where a dry run has written the rows; None: into the file itself.
        """
        new_lines = _distinct_lines(written or self.path) - self.lines_before
        n_headers = 0 if self.lines_before else 1
        return max(0, len(new_lines) - n_headers)


def _distinct_lines(file: Path | None) -> frozenset[bytes]:
    if file is None:
        return frozenset()
    try:
        return frozenset(read_plain(file).splitlines())
    except OSError:
        return frozenset()
