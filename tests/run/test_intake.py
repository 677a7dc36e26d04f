"""A row is counted once, in one step, however files and runs cut the events, or nowhere."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counton.base.private import Private
from counton.run import Job, run
from counton.run.counting.kept_totals import kept_totals
from counton.run.counting.measurement import Measurement, Span
from counton.run.counting.seen_rows import NewRowsOfRun, SnapshotOfRun
from counton.run.counting.step_inputs import PlannedSteps
from counton.run.spec.plan_spec import plan_spec
from counton.state.commit_input import LateRowStats
from counton.state.journal import WindowTotals
from counton.windowing.windows import RevisableWindows

GROUPS = 2
SPEC = plan_spec(
    Job(
        "sum", "e.csv", "s.db", time="t", every="1d", start="2024-03-01", windows=5, epsilon=1,
        group_by="g", groups="a,b", value="v", lower=0, upper=9, resolution=1,
    ),
    (),
)  # fmt: skip
MEASUREMENT = Measurement.for_statistic(
    SPEC.accumulator_statistic, SPEC.terms.group_statistic, GROUPS, is_of_each_group=False
)
#: What is kept of windows, by their numbers.
Kept = dict[int, NDArray[np.int64]]

#: An event: the run at which it arrives, its window, its group, its value.
Event = tuple[int, int, int, int]
EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 1), st.integers(1, 9)),
    min_size=1,
    max_size=8,
)
#: So many examples, each of which compares up to eight data frames.
FEW = settings(max_examples=20)
STEP = st.integers(1, 5)
GROUP = st.integers(0, 1)
VALUE = st.integers(0, 9)
#: How many windows have ended at each run: mostly more and more.
ENDED = st.one_of(
    st.sampled_from([(1, 2, 3, 4), (1, 2, 3, 5), (2, 3, 3, 5), (0, 3, 4, 5), (1, 1, 3, 2)]),
    st.tuples(*[st.integers(0, 5)] * 4),
)


def cells(events: list[Event]) -> pl.DataFrame:
    frame = pl.DataFrame(
        [(window, group, 1, value) for _, window, group, value in events],
        schema=dict.fromkeys(("window", "cell", "rows", "total"), pl.Int64),
        orient="row",
    )
    return frame.group_by("window", "cell").agg(pl.col("rows", "total").sum())


class KeptWindows:
    """What a stream keeps of windows, as a reader of its state has it."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def observed_blocks(self, _: object) -> Private[Any]:
        windows = np.array(sorted(self._kept), np.int64)
        blocks = [(windows, np.array([self._kept[one] for one in windows]))]
        return Private(iter(blocks if windows.size else []))


def compare(
    kept: Kept, rows: pl.DataFrame, *, released: int, target: int, covered: range | None
) -> PlannedSteps:
    """What a run does whose input has these rows: all rows of covered windows, or new ones."""
    span = Span(SPEC.terms.windowing.windows, released, max(target, released))
    stream: Any = KeptWindows(kept)
    totals = kept_totals(stream, np.arange(1, 6), MEASUREMENT)
    given = NewRowsOfRun(rows, ("file",)) if covered is None else SnapshotOfRun(rows, covered)
    return PlannedSteps.compare(given, totals, span, MEASUREMENT, LateRowStats())


@FEW
@given(EVENTS, st.integers(0, 4))
def test_bounds_of_sums_are_of_all_that_waits(events: list[Event], released: int) -> None:
    """Late windows are released together at the next step, and each other window by itself."""
    intake = compare({}, cells(events), released=released, target=5, covered=None)
    waiting = intake.values(range(released + 1, 6))
    together = intake.added_sums(one_step_alone=False)
    alone = intake.added_sums(one_step_alone=True)
    assert together.largest == waiting.sum(axis=0).max()
    assert together.by_accumulator.tolist() == [waiting.sum()]
    assert alone.largest == waiting.max()
    assert alone.by_accumulator.tolist() == [waiting.sum(axis=1).max()]


def seen(intake: PlannedSteps, steps: range) -> Kept:
    """What is kept of windows once some steps are released, all that are."""
    return by_window(intake.totals_by_window(steps, is_first=True, is_last=True))


def by_window(totals: WindowTotals) -> Kept:
    """Return totals of windows as a dictionary."""
    return dict(zip(totals.steps.tolist(), totals.totals, strict=True))


def inputs_of(
    events: list[Event], ended: tuple[int, ...], append: bool, chunk: int = 10
) -> NDArray[np.int64]:
    """Inputs of the five steps after four runs, with a dictionary as the store."""
    kept: Kept = {}
    inputs = np.zeros((5, 2), dtype=np.int64)
    released = 0
    for night, target in enumerate(ended):
        arrived = [e for e in events if (e[0] == night if append else e[0] <= night)]
        intake = compare(
            kept,
            cells(arrived),
            released=released,
            target=target,
            covered=None if append else range(1, target + 1),
        )
        if intake.span.target == released:
            kept |= seen(intake, range(0))
            continue
        for start in range(released + 1, intake.span.target + 1, chunk):
            steps = range(start, min(start + chunk, intake.span.target + 1))
            inputs[steps.start - 1 : steps.stop - 1] = intake.values(steps)
            first = start == released + 1
            last = steps.stop == intake.span.target + 1
            kept |= by_window(intake.totals_by_window(steps, is_first=first, is_last=last))
        released = intake.span.target
    return inputs


@FEW
@given(EVENTS, ENDED, st.booleans())
def test_each_row_counts_once_when_its_window_is_released(
    events: list[Event], ended: tuple[int, ...], append: bool
) -> None:
    expected = np.zeros((5, 2), dtype=np.int64)
    released = 0
    due: list[Event] = []
    for night, target in enumerate(ended):
        # A file of all events that finds a window closed adds nothing to it.
        due += [e for e in events if e[0] == night and (append or e[1] > released)]
        if target <= released:
            continue
        for event in [e for e in due if e[1] <= target]:
            expected[max(event[1], released + 1) - 1, event[2]] += event[3]
            due.remove(event)
        released = target
    assert np.array_equal(inputs_of(events, ended, append), expected)


#: Rows of one window and group that a file of all events has each night.
NIGHTLY = st.lists(st.lists(VALUE, max_size=3), min_size=4, max_size=4)


@FEW
@given(
    st.lists(st.tuples(STEP, GROUP, NIGHTLY), max_size=6), ENDED, STEP, GROUP, VALUE,
    st.lists(st.booleans(), min_size=4, max_size=4),
)  # fmt: skip
def test_corrected_row_changes_one_cell_by_its_value(
    cells_of: list[tuple[int, int, list[list[int]]]],
    ended: tuple[int, ...],
    step: int,
    group: int,
    value: int,
    there: list[bool],
) -> None:
    """Beside rows of others that do, too: what is told to the operator decides nothing."""

    def released(*, with_row: bool) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        kept: Kept = {}
        inputs = np.zeros((5, 2), dtype=np.int64)
        told = []
        before = 0
        for night, target in enumerate(ended):
            rows = [(0, s, g, v) for s, g, nights in cells_of for v in nights[night]]
            rows += [(0, step, group, value)] * (with_row and there[night])
            intake = compare(
                kept, cells(rows), released=before, target=target,
                covered=range(1, target + 1),
            )  # fmt: skip
            told.append((intake.counts.missing, intake.counts.after_final))
            if intake.span.target > before:
                steps = range(before + 1, intake.span.target + 1)
                inputs[before : intake.span.target] = intake.values(steps)
                kept |= seen(intake, steps)
            else:
                kept |= seen(intake, range(0))
            before = intake.span.target
        return inputs, told

    (with_it, also), (without, told) = released(with_row=True), released(with_row=False)
    change = with_it - without
    assert np.count_nonzero(change) <= 1
    assert change.sum() in (0, value)
    assert len(also) == len(told) == 4


def test_number_of_changed_rows_is_reported_without_effect() -> None:
    first = [(0, 1, 0, 3), (0, 1, 1, 4), (0, 1, 1, 5)]
    then = [(0, 1, 0, 3), (0, 1, 0, 9), (0, 1, 1, 6), (0, 2, 0, 1)]
    new = compare({}, cells(first), released=0, target=1, covered=range(1, 2))
    kept = seen(new, range(1, 2))
    found = compare(kept, cells(then), released=1, target=2, covered=range(1, 3))
    assert (found.counts.missing, found.counts.after_final, found.counts.late_uncounted) == (
        1,
        1,
        0,
    )
    assert found.values(range(2, 3)).tolist() == [[1, 0]]
    assert found.changed.tolist() == [2]
    changed = [(0, 1, 0, 3), (0, 1, 1, 4), (0, 1, 1, 6)]  # one is another one now
    found = compare(kept, cells(changed), released=1, target=1, covered=range(1, 2))
    assert (found.counts.missing, found.counts.after_final, found.changed.size) == (1, 1, 0)


@FEW
@given(EVENTS, ENDED, st.booleans(), st.integers(0, 13))
def test_additional_row_changes_one_cell_by_its_value(
    events: list[Event], ended: tuple[int, ...], append: bool, place: int
) -> None:
    event: Event = (place % 4, place % 5 + 1, place % 2, 7)
    change = inputs_of([*events, event], ended, append) - inputs_of(events, ended, append)
    assert np.count_nonzero(change) <= 1
    assert change.sum() in (0, 7)


@FEW
@given(EVENTS, ENDED, st.booleans(), st.integers(1, 4))
def test_transactions_of_any_size_give_the_same_inputs(
    events: list[Event], ended: tuple[int, ...], append: bool, chunk: int
) -> None:
    cut = inputs_of(events, ended, append, chunk)
    assert np.array_equal(cut, inputs_of(events, ended, append))


def test_a_window_without_a_row_is_closed_too() -> None:
    late = cells([(0, 1, 0, 3), (0, 3, 1, 4)])
    found = compare({}, late, released=2, target=3, covered=range(1, 4))
    assert found.values(range(3, 4)).tolist() == [[0, 4]]
    assert found.counts.after_final == 1
    found = compare({}, late, released=2, target=3, covered=None)
    assert found.values(range(3, 4)).tolist() == [[3, 4]]


@pytest.mark.parametrize(("versions", "late", "after_final"), [(1, 0, 3), (2, 2, 1), (3, 3, 0)])
def test_snapshot_late_rows_are_those_of_open_windows(
    versions: int, late: int, after_final: int
) -> None:
    begin = datetime(2024, 3, 1, tzinfo=UTC)
    windows = RevisableWindows(begin, "1d", 5, versions=versions)
    rows = cells([(0, 1, 0, 3), (0, 2, 1, 4), (0, 2, 1, 4), (0, 3, 1, 1)])
    kept = kept_totals(None, np.arange(1, 6), MEASUREMENT)
    span = Span(windows, released=2, target=3)
    counts = SnapshotOfRun(rows, range(1, 4)).counts(kept, span, MEASUREMENT)
    assert (counts.late, counts.after_final) == (late, after_final)


def test_an_input_without_a_new_step_is_not_kept() -> None:
    waiting = cells([(0, 1, 0, 3), (0, 3, 1, 4)])
    found = compare({}, waiting, released=2, target=2, covered=range(1, 3))
    assert (found.changed.size, found.counts.after_final, seen(found, range(0))) == (0, 1, {})
    found = compare({}, waiting, released=1, target=2, covered=range(1, 3))
    assert seen(found, range(2, 3)) == {}


@pytest.mark.parametrize("late", [False, True])
def test_a_night_reads_no_window_that_another_has_counted(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those of which its own rows are, and some beside them."""
    read: list[int] = []
    real = WindowTotals.of_row.__func__  # type: ignore[attr-defined]

    def noted(cls: Any, row: Any) -> WindowTotals:
        found: WindowTotals = real(cls, row)
        read.extend(found.steps.tolist())
        return found

    monkeypatch.setattr(WindowTotals, "of_row", classmethod(noted))
    monkeypatch.setattr(
        "counton.state.journal._NUMBERS_PER_ROW", 1
    )  # a row of the table for each window
    asked: dict[str, Any] = {"time": "t", "every": "1d", "start": "2024-03-01", "windows": 9}
    for night in range(1, 5):
        rows = [f"2024-03-{night:02}T12:00:0{n}" for n in range(4)]
        if late and night == 4:
            rows.append("2024-03-02T12:00:09")
        read.clear()
        job = Job(
            *("count", pl.DataFrame({"t": rows}), tmp_path / "s.db"),
            until=f"2024-03-{night + 1:02}", append=True, stream="visits",
        )  # fmt: skip
        with run(job.derive(**asked, rho=10**6) if night == 1 else job) as outcome:
            assert outcome.after == night
            estimates = outcome.read().numbers.series.released.estimates[:, 0]
        assert set(read) == ({2} if late and night == 4 else set())
    assert np.rint(np.diff(estimates, prepend=0)[-1]) == 4 + late
