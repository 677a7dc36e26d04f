"""Durable releases from Python: the same runs as ``counton count`` and similar commands.

A `Job` says which events go into which stream of which state. `run` reads the events, releases the
windows that have ended, once, and keeps the facts that a later run needs: rows may arrive late, but
must not vanish. All checks come before the state is touched. The ``fields`` of an error name the
fields of `Job` that it is about.

>>> from pathlib import Path
>>> from counton.run import Job, run
>>> events = Path("visits.csv")
>>> _ = events.write_text(
...     "time,page\\n2024-03-01T09:00,home\\n2024-03-01T11:30,shop\\n2024-03-02T10:15,home\\n"
... )
>>> request = Job(
...     what="count", events=events, state=Path("visits.db"),
...     time="time", every="1d", by="page", domain="home,shop", start="2024-03-01", steps=365,
...     until="2024-03-03", epsilon=1, unit="visit",
... )
>>> with run(request) as outcome:
...     table = outcome.read().table()
>>> table.select("step", "group").rows()
[(1, 'home'), (1, 'shop'), (2, 'home'), (2, 'shop')]
>>> with run(request) as outcome:  # again: nothing new, and the same numbers from the journal
...     outcome.after - outcome.before, outcome.read().table().equals(table)
(0, True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.job.job import Job as Job
    from counton.released.read_options import View as View
    from counton.released.release import Release as Release
    from counton.released.release_files import read as read
    from counton.run.calls import release as release
    from counton.run.definition import Definition as Definition
    from counton.run.exports import Publication as Publication
    from counton.run.exports import export as export
    from counton.run.exports import methods as methods
    from counton.run.exports import publish as publish
    from counton.run.job_plan import planned_jobs as planned_jobs
    from counton.run.outputs import Progress as Progress
    from counton.run.runs import Outcome as Outcome
    from counton.run.runs import commit as commit
    from counton.run.runs import read_rows as read_rows
    from counton.run.runs import run as run
    from counton.run.settlement import resolve as resolve
    from counton.run.window_notes import mark as mark

# All but a job needs `counton.rows`, which asks for polars.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
