"""Nights of a job file as partitions of an asset: ``dagster dev -f nightly.py``.

A partition is a day. When it is materialised, ``counton run`` releases all windows that ended by
the end of that day and are not released yet. So partitions may come in any order, twice, or after a
night without one; what is released stays as it is.
"""

import os
import subprocess

from dagster import (
    AssetExecutionContext,
    AssetSelection,
    DailyPartitionsDefinition,
    Definitions,
    Failure,
    RetryPolicy,
    asset,
    build_schedule_from_partitioned_job,
    define_asset_job,
)

#: The job file, the day on which its streams start, and where the output of runs is kept.
JOBS = os.environ.get("COUNTON_JOBS", "/etc/counton/nightly.toml")
START = os.environ.get("COUNTON_START", "2024-03-01")
LOG = os.environ.get("COUNTON_LOG", "/var/log/counton/nightly.log")
#: Exit codes of a run that is done, and of one that may be tried again.
DONE, AGAIN = (0,), (1, 5, 9)


# No pool is needed: a state is written by one run at a time, and another one that meets it is tried
# again. A pool's slot stays taken when a run is killed.
@asset(
    partitions_def=DailyPartitionsDefinition(start_date=START),
    retry_policy=RetryPolicy(max_retries=3, delay=60),
)
def counts(context: AssetExecutionContext) -> None:
    """Release the windows that ended by the end of this day."""
    until = context.partition_time_window.end.date().isoformat()
    # The output may have exact numbers: it is for the operator, and not for Dagster's pages.
    with open(LOG, "a", encoding="utf-8") as log:
        done = subprocess.run(
            ["counton", "run", JOBS, "--until", until], stdout=log, stderr=log, check=False
        )
    if done.returncode not in DONE:
        raise Failure(
            f"counton run ended with exit code {done.returncode}, see {LOG}",
            allow_retries=done.returncode in AGAIN,
        )


nights = define_asset_job("nights", AssetSelection.assets(counts))
definitions = Definitions(
    assets=[counts],
    jobs=[nights],
    schedules=[build_schedule_from_partitioned_job(nights, hour_of_day=3, minute_of_hour=15)],
)
