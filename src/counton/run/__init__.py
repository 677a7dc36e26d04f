"""Runs of jobs, from Python: the same runs as ``counton release count`` and similar commands.

A `Job` says which events go into which stream of which state. `run` reads the events, releases the
windows that have ended, once, and keeps the facts that a later run needs: rows may arrive late, but
must not vanish. All checks come before the state is touched. The ``fields`` of an error name the
options of the job that it is about.

>>> from pathlib import Path
>>> from counton.run import Job, run
>>> events = Path("visits.csv")
>>> _ = events.write_text(
...     "time,page\\n2024-03-01T09:00,home\\n2024-03-01T11:30,shop\\n2024-03-02T10:15,home\\n"
... )
>>> job = Job(
...     "count", events, Path("visits.db"), time="time", every="1d", group_by="page",
...     groups="home,shop",
...     start="2024-03-01", windows=365, until="2024-03-03", epsilon=1, privacy_unit="visit",
... )
>>> with run(job) as result:
...     table = result.read().table()
>>> table.select("window_index", "group").rows()
[(1, 'home'), (1, 'shop'), (2, 'home'), (2, 'shop')]
>>> with run(job) as result:  # again: nothing new, and the same numbers from the journal
...     result.after - result.before, result.read().table().equals(table)
(0, True)

To read the code, begin with `spec`: `terms` has the typed values (what excludes each other is a
type), `parsing` turns a job's options into them, `stream_spec` has what a stream keeps, and
`plan_spec` plans a new stream. Then read `run_job`, the five steps of a run. `prepared_run`
prepares it from `opened_state`. `rows` reads and sums the rows, and `windows` decides which windows
have ended. `counting` chooses the rows that count, and makes the inputs of steps. `outputs` reads
the journal and writes files. `new_job` writes a first job for a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.job.statistic_objects import Job as Job
    from counton.results.display import DisplaySelection as DisplaySelection
    from counton.results.release import Release as Release
    from counton.results.release_files import read as read
    from counton.run.api import release as release
    from counton.run.notes import annotate as annotate
    from counton.run.outputs.exports import Publication as Publication
    from counton.run.outputs.exports import export as export
    from counton.run.outputs.exports import methods as methods
    from counton.run.outputs.exports import publish as publish
    from counton.run.plan_job import planned_jobs as planned_jobs
    from counton.run.progress import Progress as Progress
    from counton.run.run_job import RunResult as RunResult
    from counton.run.run_job import run as run
    from counton.run.spec.stream_spec import StreamSpec as StreamSpec

# All but a job needs `counton.io`, which asks for polars.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
