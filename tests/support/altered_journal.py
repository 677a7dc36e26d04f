"""A journal of which a reader sees other values than were released."""

from typing import Any

import pytest

from counton.state import journal


def alter_values(patch: pytest.MonkeyPatch, steps: slice, cell: int) -> None:
    """Let the values of a cell be one more at some of the steps that are read at once."""
    right = journal.read

    def altered(*arguments: Any) -> Any:
        entries = right(*arguments)
        values = entries.values.copy()
        values[steps, cell] += 1
        return entries._replace(values=values)

    patch.setattr(journal, "read", altered)
