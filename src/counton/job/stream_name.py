"""The name of a stream whose job states none."""

from __future__ import annotations

import re

from counton.job.common_options import Job

#: Most characters of such a name.
_LONGEST = 100
#: Options whose columns tell streams of one statistic apart; the first that is stated counts.
_COLUMNS = ("value", "columns", "count_column")


def usual_name(job: Job) -> str:
    """Return the name of a stream whose job states none: its statistic and the columns it reads.

    >>> from counton.job.statistics.count import CountJob
    >>> from counton.job.statistics.sum import SumJob
    >>> usual_name(CountJob()), usual_name(SumJob(value="amount (EUR)"))
    ('count', 'sum_of_amount_EUR')
    """
    columns = next(filter(None, map(job.value_of, _COLUMNS)), "")
    text = columns if isinstance(columns, str) else " ".join(columns)
    statistic = job.name_of_statistic()
    words = f"{statistic} of {text}" if text else statistic
    return re.sub(r"\W+", "_", words).strip("_")[:_LONGEST]
