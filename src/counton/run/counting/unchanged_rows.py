"""A run whose rows are those that the state has counted, and that releases no step.

Such a run is the most frequent one. It finds this out with numpy, and does not import polars, which
takes longer than all that it does. `PlannedSteps` comes to the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import ConcurrentWriterError
from counton.base.private import Private, reveal
from counton.run.counting.measurement import Span
from counton.run.counting.operator_counts import OperatorCounts
from counton.run.prepared_run import PreparedRun
from counton.run.rows.kept_sums import ReadSums
from counton.run.rows.read_rows import ReadRows
from counton.run.rows.window_sums import KeptColumns, RepeatedRows
from counton.run.spec.terms import Snapshot
from counton.run.windows.due_windows import EndedWindows
from counton.state.commit_input import CommitInput
from counton.state.stream_reader import JournalReader, ObservedBlock


@dataclass(frozen=True, repr=False)
class NoSteps:
    """What a run commits that releases no step and counts no row; of other runs, `PlannedSteps`.

    The last part of a run takes either of them, so both have these attributes and `transactions`.
    Only public facts that the job has changed are written.

    Attributes:
        span: the steps, of which none is new.
        counts: what the operator is told: which rows of users do not count.
        changes_anything: whether the run releases or keeps rows: never.
    """

    span: Span
    counts: OperatorCounts = field(default_factory=OperatorCounts)
    changes_anything: ClassVar[bool] = False

    def transactions(
        self,
        new_public_facts: Mapping[str, object] | None = None,
        *,
        is_needed: bool = False,
        read_sums: ReadSums | None = None,
    ) -> Iterator[tuple[float, Private[CommitInput]]]:
        """Yield a transaction with the public facts of the job, if they are new."""
        assert not is_needed
        assert read_sums is None, "no row was read"
        if new_public_facts is not None:
            yield 0.0, Private(CommitInput(public_facts=new_public_facts))


def find_no_steps(
    prepared: PreparedRun, rows_read: ReadRows, ended: EndedWindows, stream: JournalReader
) -> NoSteps | None:
    """Return that a run changes nothing; None if it may change something, or may tell something.

    Args:
        rows_read: the rows; only sums that a state has kept are compared.
        stream: the stream, open for writing.
    """
    released = prepared.state.released
    repeated = reveal(rows_read.sums).repeated
    if repeated is not None:
        return _no_steps_of_users(repeated, Span(prepared.windows, released, ended.last), stream)
    sums = reveal(rows_read.sums).sums
    if not isinstance(sums, KeptColumns) or ended.last > released:
        return None
    if not isinstance(prepared.options.input, Snapshot):
        return None
    covered = prepared.covered_windows(ended)
    if (sums.window < covered.start).any():
        return None
    windows = np.arange(covered.start, covered.stop)
    blocks = reveal(stream.observed_blocks(Private(windows)))
    counted = _counted_sums(blocks, released)
    if counted is None:
        return None
    compared = range(covered.start, min(covered.stop, released + 1))
    if not np.array_equal(_sums_of(np.stack(sums), compared), _sums_of(counted, compared)):
        return None
    return NoSteps(Span(prepared.windows, released, released))


def _no_steps_of_users(repeated: RepeatedRows, span: Span, stream: JournalReader) -> NoSteps:
    """Return that a run with the rows of users of the last run changes nothing.

    Args:
        repeated: the rows.
        span: the steps, of which none is new.
        stream: the stream, open for writing.

    Raises:
        ConcurrentWriterError: another process has counted rows since the rows were found.
    """
    assert not span.new_steps, "rows of users are chosen"
    if not stream.is_unchanged_since(repeated.kept):
        raise ConcurrentWriterError(
            f"another process has counted in stream {stream.name!r} in the meantime, so nothing "
            "was counted here: run the same command again"
        )
    return NoSteps(
        Span(span.windows, span.released, span.released), OperatorCounts(choice=repeated.choice)
    )


def _counted_sums(blocks: Iterable[ObservedBlock], released: int) -> NDArray[np.int64] | None:
    """Return the rows of `KeptColumns` that a stream has counted; None if others wait.

    Args:
        blocks: what the state has seen, and what it has counted.
        released: number of released windows; rows of later ones may wait.
    """
    parts = [np.zeros((len(KeptColumns._fields), 0), np.int64)]
    for windows, totals in blocks:  # totals: window, seen or counted, measure, cell
        is_released = windows <= released
        seen = totals[is_released, 0]
        if (seen != totals[is_released, 1]).any():
            return None
        row, cell = np.nonzero(seen.any(axis=1))
        measures = seen[row, :, cell]
        rows = measures[:, 0]
        total = measures[:, -1]  # which is the number of rows if no other total is kept
        parts.append(np.stack([windows[is_released][row], cell, rows, total]))
    return np.concatenate(parts, axis=1)


def _sums_of(sums: NDArray[np.int64], windows: range) -> NDArray[np.int64]:
    """Return the sums of some windows, in order.

    Args:
        sums: the rows of `KeptColumns`.
        windows: the windows.
    """
    window = sums[0]
    sums_within = sums[:, (windows.start <= window) & (window < windows.stop)]
    order_by_window_and_cell = np.lexsort((sums_within[1], sums_within[0]))
    return sums_within[:, order_by_window_and_cell]
