"""Nights of a job file as a DAG of Airflow 3, once in Python and once in bash: keep one of them.

A run releases all windows that ended by its day and are not released yet. So a day may run twice,
late, or after a night without one; what is released stays as it is. The command `counton` is on the
path of Airflow's workers, from an environment of its own: the two need different versions of attrs.
"""

import os
import subprocess
from datetime import datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

#: The job file, and where the output of runs is kept. It may have exact numbers: it is for the
#: operator, and not for Airflow's logs.
JOBS = os.environ.get("COUNTON_JOBS", "/etc/counton/nightly.toml")
LOG = os.environ.get("COUNTON_LOG", "/var/log/counton/nightly.log")
#: Exit codes of a run that is done, and of one that may be tried again.
DONE = (0,)
AGAIN = (1, 5, 9)

NIGHTS = {
    "schedule": "15 3 * * *",
    "start_date": datetime(2024, 3, 1),
    "catchup": False,  # the next run releases what earlier ones did not
    "max_active_runs": 1,
    "default_args": {"retries": 3, "retry_delay": timedelta(minutes=1)},
}


def refuse_unless_done(code: int | str) -> None:
    """Fail a task for good, unless its run is done."""
    if int(code) not in DONE:
        raise AirflowFailException(f"counton run ended with exit code {code}, see {LOG}")


with DAG("counton_nightly", **NIGHTS) as in_python:

    @task
    def release(data_interval_end: datetime | None = None, dag_run: Any = None) -> None:
        """Release the windows that ended by this day; try again what may succeed later."""
        day = data_interval_end or dag_run.run_after  # a run begun by hand may have no date
        command = ["counton", "run", JOBS, "--until", f"{day:%Y-%m-%d}"]
        with open(LOG, "a", encoding="utf-8") as log:
            code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
        if code in AGAIN:
            raise RuntimeError(f"counton run ended with exit code {code}, see {LOG}")
        refuse_unless_done(code)

    release()

with DAG("counton_nightly_bash", **NIGHTS) as in_bash:
    BashOperator(
        task_id="release",
        bash_command="""
            day={{ data_interval_end | default(dag_run.run_after, true) | ds }}
            counton run "$JOBS" --until $day >> "$LOG" 2>&1
            code=$?
            case " $AGAIN " in *" $code "*) exit $code ;; esac  # a failed task is tried again
            echo $code  # the last line is what the task judges its end by
        """,
        output_processor=refuse_unless_done,
        env={"JOBS": JOBS, "LOG": LOG, "AGAIN": " ".join(map(str, AGAIN))},
        append_env=True,
    )
