"""Sentences on an input that differs from what its stream has counted, for the operator."""

from __future__ import annotations

from counton.run.run_job import RunReport

#: The remedy for rows that a stream does not count; the same users pay for it once more.
ANOTHER_STREAM = "a new stream with another name, which spends the privacy loss again"


def number_missing(result: RunReport) -> int:
    """Return how many counted rows the input of a run lacks. Exact: only for the operator."""
    counts = result.confidential_counts().input
    if not result.options.input.repeats_rows:
        return 0
    return counts.missing or counts.choice.missing


def differing_rows_note(result: RunReport) -> str | None:
    """Return a sentence if this run released nothing and its rows are not those that released
    numbers count: then the numbers shown are of other rows. None otherwise.

    Rows that differ, but add up to the same sums, are not noticed.
    """
    counts = result.confidential_counts().input
    differs = counts.changed or number_missing(result) or counts.late_uncounted
    if result.after > result.before or not (differs and result.options.input.repeats_rows):
        return None
    windows = result.spec.terms.windowing.windows
    never_count = counts.choice.new_past or any(window.added for window in counts.changed)
    is_last = result.after >= windows.steps
    remedy = ""
    if windows.n_revisions and not is_last:
        remedy = ". The next release uses this input for windows that are still open"
    elif counts.late_uncounted and not is_last:
        remedy = ". The next release counts the late rows"
        if never_count:
            remedy = (
                ". The next release counts the late rows that are not too old. Rows that are too "
                f"old count only in {ANOTHER_STREAM}"
            )
    elif never_count or counts.late_uncounted:
        remedy = f". To release these rows, begin {ANOTHER_STREAM}"
    return (
        f"the input differs from the rows that stream {result.name!r} has counted, and no new "
        f"window was due. The numbers shown are those of the last release{remedy}"
    )
