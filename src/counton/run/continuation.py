"""The end of a stream, and a stream that continues it.

A successor is a stream of its own: it has its own guarantee in the ledger, its own noise and its
own key. It takes over all options that it does not state, and begins where its predecessor ended.
Its totals go on from the last released total, so the noise of that release is added to its own
noise.

**Privacy of both streams.** The losses of both streams add up, unless no unit counts in both. Then
both together lose no more than the larger of their guarantees (docs/promised.md, "A stream that
follows another"), and `apart` returns True. A unit counts in one stream alone if the predecessor
has released all of its steps, the time of a row decides in which stream it counts, and the rows of
the unit have one time, or lie in one period within one of the streams. It may count in both streams
if the predecessor ended early, since a copy of its state may have gone on; if people are protected
over all periods; if ids may come again at another time; or if the runs read times in different ways
(`time_format`, `clock_change`, the name of the column).
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInput, RequestMismatch, field
from counton.base.exact import name_alone
from counton.base.lazy_polars import polars as pl
from counton.base.private import Private, open_private
from counton.base.strategy_names import KINDS, PAPERS, PUBLISHED
from counton.base.windows import microseconds
from counton.job.job import Job, options_of
from counton.job.stated_options import rename_columns
from counton.privacy import Spend
from counton.privacy.ledger import why_not_following
from counton.released.description import CarriedTotals, Predecessor
from counton.released.periods import period_of
from counton.run.changes import for_operator, unpack_observed
from counton.run.definition import Continuation, Definition
from counton.run.later_run import with_kept
from counton.state import Store, Stream
from counton.state.reader import JournalReader
from counton.statistics.tally_statistic import TallyStatistic
from counton.strategies import StreamStrategy


@name_alone
class End(NamedTuple):
    """The end of a stream: its last step, and the number of rows that were read and never counted.

    Attributes:
        step: number of the last step.
        dropped: exact number of these rows; secret.
    """

    step: int
    dropped: Private[int]

    def for_operator(self) -> int:
        """Return the exact number of rows that the ended stream had read and never counted: only
        for the operator.
        """
        return for_operator(self.dropped)


def late_rows_for_operator(store: Store, name: str) -> tuple[int, int]:
    """Return how many rows a stream received, and how many came after their window's release.

    Exact: only for the operator.

    Raises:
        StateError: the reader may not see exact numbers.
    """
    arrived, late = for_operator(store.arrivals(name))
    return arrived, late


def waiting_in(reader: JournalReader, *, kept: bool = True, loose: bool = False) -> Private[int]:
    """Return the number of rows of a stream that were read and are not released yet.

    Args:
        kept: include rows of files that hold new events only; later files need not repeat them.
        loose: include rows of the last file that holds all events; the next file repeats them.
    """
    cells = unpack_observed(open_private(reader.observed_blocks()), ("rows",))
    waiting = cells["seen_rows"] - cells["counted_rows"] - cells["whole"]
    return Private(int((kept * waiting + loose * cells["whole"]).sum()))


def end_stream(
    state: str | os.PathLike[str] | Store,
    name: str,
    *,
    drop_waiting: bool = False,
    withdrawn: str | None = None,
) -> End:
    """End a stream of events, so that it releases nothing more; an ended stream stays as it is.

    A stream that no other stream can continue, such as one that finds its groups in the data, ends
    in the same way.

    Args:
        state: path of a SQLite file, a database URL, or an open state.
        name: name of the stream.
        drop_waiting: allow dropping rows that were read and not counted.
        withdrawn: public words that say why the numbers are withdrawn, and what replaces them. The
            description of every later table, chart, page, published database and methods text shows
            them. What was written before stays unmarked: write or publish it again. A single
            answer, such as a difference, carries no mark. A table that was released once can be
            withdrawn too. None: no withdrawal is added, and an earlier one stays.

    Returns:
        The last step, and how many rows are dropped now.

    Raises:
        StateError: the stream of events is missing, or the state cannot be used.
        InvalidInput: rows would be dropped without permission, the stream is a table that was
            released once and is not withdrawn, or the words of the withdrawal are empty.
    """
    if not isinstance(state, Store):
        with Store(state) as store:
            return end_stream(store, name, drop_waiting=drop_waiting, withdrawn=withdrawn)
    reader, facts = state.reader(name), dict[str, Any]()
    definition = Definition.reopen(reader.design, reader.details)
    if withdrawn is None:
        if not definition.cut.goes_on:
            raise InvalidInput(
                f"{name!r} is a table that is released once, so it needs no end; leave it as it "
                "is: its numbers can be written again from the state"
            )
        if definition.course.ended is not None:
            return End(definition.course.ended, Private(0))
    else:
        if not withdrawn.strip() or not withdrawn.isprintable():
            raise InvalidInput(
                f"{field('withdrawn')} is {withdrawn!r}; give one line that says why the numbers "
                "are withdrawn, and what replaces them"
            )
        facts["withdrawn"] = withdrawn.strip()
    ends, waiting = definition.cut.goes_on and definition.course.ended is None, Private(0)
    if ends:
        waiting = waiting_in(reader)
        if not drop_waiting:
            _refuse_dropped(name, waiting)
    step = state.amend(
        name, lambda last: definition.having(**facts, **({"ended": last} if ends else {})).details
    )
    return End(step if definition.course.ended is None else definition.course.ended, waiting)


def why_not_continued(definition: Definition) -> str | None:
    """Return why no other stream can continue a stream, as the end of a sentence about it; None if
    one can.

    ``definition`` is the definition of the stream that another one would continue.
    """
    if not definition.cells.named_beforehand:
        return "finds its groups in the data"
    if not definition.cut.goes_on:
        return "is a table that is released once"
    if definition.cut.lags:
        return "publishes windows anew, version by version, and has no totals to go on from"
    if definition.counting.in_order:
        return "counts rows by their order, which needs all events from the first step on"
    if definition.expires:
        return (
            "is a stream without an end, in which the privacy loss grows with the age of an event"
        )
    if definition.strategy.horizon is None:
        return "is a stream without an end"
    return None


def _refuse_dropped(name: str, waiting: Private[int]) -> None:
    rows = for_operator(waiting)
    if not rows:
        return
    wait = "1 row waits" if rows == 1 else f"{rows:,} rows wait"
    raise InvalidInput(
        f"{wait} in stream {name!r} and would never be counted; release their windows first (late "
        f"rows count in the next release), or give {field('drop_waiting', True)} to drop them"
    )


def succeed(request: Job, store: Store | None) -> tuple[Job, Definition, End]:
    """Complete the job of a new stream that continues an earlier stream, with the earlier stream's
    options.

    Returns:
        The completed job; the definition of the earlier stream (columns, windows, groups and
            guarantee); and the end of the earlier stream: its last step, and its dropped rows.
    """
    assert request.keeping.continues is not None
    if store is None:
        raise RequestMismatch(
            f"{field('continues', request.keeping.continues)} names a stream of the state "
            f"{field('state', os.fspath(request.keeping.state))}, and this state does not exist; "
            "correct the path"
        )
    reader = store.reader(request.keeping.continues)
    before = Definition.reopen(reader.design, reader.details)
    goes_on = before.cut.goes_on and before.course.ended is None
    if goes_on and before.strategy.horizon is None and not before.expires:
        raise InvalidInput(
            f"{field('continues', request.keeping.continues)} is a stream without an end, so it "
            "needs no stream that continues it: run it again"
        )
    if (why := why_not_continued(before)) is not None:
        raise InvalidInput(
            f"{field('continues', request.keeping.continues)} {why}, and cannot be continued; "
            f"leave it out, and begin a stream or table with another {field('name')}"
        )
    if request.times.start is not None:
        raise InvalidInput(
            f"{field('start', request.times.start)} does not go with "
            f"{field('continues', request.keeping.continues)}: the new stream begins where the "
            f"earlier one ended; leave {field('start')} out"
        )
    if request.what != before.what:
        raise InvalidInput(
            f"{field('continues', request.keeping.continues)} is a {before.what!r}, and cannot be "
            f"continued as a {request.what!r}; give {field('what', before.what)}"
        )
    step = reader.step if before.course.ended is None else before.course.ended
    # An ended stream dropped its waiting rows.
    dropped = waiting_in(reader, kept=before.course.ended is None, loose=request.rows.append)
    if not request.keeping.drop_waiting:
        _refuse_dropped(request.keeping.continues, dropped)
    return _taken_over(request, before, step), before, End(step, dropped)


def _taken_over(job: Job, before: Definition, step: int) -> Job:
    """Fill the options that a job leaves open with those of the earlier stream that it continues.

    ``before`` is the definition of the earlier stream, ``step`` its last step.
    """
    windows, strategy, needs = before.windows, before.record["strategy"], options_of(Job)
    promise = job.promise
    taken: dict[str, Any] = {
        "start": windows.local(int(windows.ends(range(step, step + 1))[0])).isoformat(),
        "steps": windows.steps - step or windows.steps,
        "strategy": strategy if strategy in (PUBLISHED, *KINDS, *PAPERS) else None,
        "spare": before.record["spare"] or None,
    }
    if before.domain is not None:
        taken["domain"] = list(before.roster.declared_groups)
    if (promise.epsilon, promise.delta, promise.rho, promise.within) == (None,) * 4:
        loss = before.guarantee.to_dict()
        taken |= {name: loss[name] for name in ("epsilon", "delta", "rho") if name in loss}
    own = {"continues", "growth", "delay", "around"}  # not taken over
    if job.times.around is not None:
        own |= {"steps", "metric", "simple", "strategy"}
    for name, stated in (("domain", job.groups.domain), ("user", job.people.user)):
        if stated is not None:
            own |= {name, *(other for other, option in needs.items() if option.needs == name)}
    own |= {name for name in taken if job.states(name)}
    filled = with_kept(job, before)
    if before.columns.renamed:
        filled = rename_columns(filled, before.columns.current_name)
    return filled.having(**{**taken, **{name: job.option(name) for name in own}})


def apart(definition: Definition, before: Definition, step: int) -> bool:
    """Return True if no protected unit (such as a person) can count both in a stream and in the
    earlier stream that it continues.

    ``before`` is the definition of the earlier stream, ``step`` its last step.

    >>> from counton.run.new_stream import define
    >>> visits = Job(
    ...     "count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01", steps=31,
    ...     epsilon=1
    ... )
    >>> more = visits.having(start="2024-04-01", steps=30)
    >>> before, after = (define(job) for job in (visits, more))
    >>> apart(after, before, 31), apart(after, before, 30)
    (True, False)
    """
    both = before, definition
    if any(not one.cut.goes_on or not isinstance(one.statistic, TallyStatistic) for one in both):
        return False
    end = int(before.windows.ends(range(step, step + 1))[0])
    over = step == before.windows.steps == before.strategy.horizon
    if not over or microseconds(definition.windows.start) != end:
        return False
    if read_as(definition) != read_as(before) or before.details["reread"]:
        return False
    if not (before.cells.named_beforehand and definition.cells.named_beforehand):
        return False
    if any(one.contribution.relation != "add_remove" for one in both):
        return False
    if not any(one.counting.users for one in both):
        return all(one.columns.id is None and one.contribution.in_one_step for one in both)
    # Both must protect what one user of the same column does in one period, such as a month, and
    # the earlier stream must end with a period.
    per = definition.counting.per
    if per is None or per != before.counting.per or definition.columns.user != before.columns.user:
        return False
    around = pl.DataFrame({"us": [end - 1, end]})
    number = around.select(period_of(pl.col("us"), per, definition.windows.timezone))["us"]
    return bool(number[0] != number[1])


def read_as(definition: Definition) -> dict[str, object]:
    """Return the options that decide in which window a row counts, by name."""
    told = definition.record
    return {
        "rename": definition.columns.time,
        "timezone": definition.windows.timezone,
        "time_format": told.get("time_format"),
        "clock_change": told.get("clock_change", "raise"),
    }


def as_read(definition: Definition, before: Definition) -> Definition:
    """Mark a stream's definition as ``reread`` if this run reads times by other options (such as
    another time zone) than the first run.

    ``definition`` is the definition in this run, ``before`` that of the first run. Other options
    are refused for a stream that continues an earlier stream, if no row may count in both: the
    ledger counts the privacy loss of only one of the two.
    """
    if not definition.cut.timed:
        return definition
    now, then = read_as(definition), read_as(before)
    other = [name for name, value in now.items() if value != then[name]]
    if not other:
        return definition
    if definition.course.continues is not None and definition.course.continues.apart:
        raise InvalidInput(
            f"{field(other[0], now[other[0]])} changes how times are read, but this stream "
            f"continues {definition.course.continues.name!r}, and a row could then count in both, "
            "though the ledger adds up the loss for one of them only; give the value of the first "
            "run, or begin another stream"
        )
    return definition.having(reread=True)


def as_continuation(
    definition: Definition, job: Job, before: Definition, step: int, store: Store | None
) -> Definition:
    """Return a new stream's definition (columns, windows, groups and guarantee), completed with the
    name and last step of the earlier stream that it continues.

    Args:
        definition: definition of the new stream.
        job: job of the new stream.
        before: definition of the earlier stream.
        step: last released step of the earlier stream; the new stream begins after it.
        store: state of both streams; None if their privacy loss is counted in a ledger shared with
            other states.
    """
    inherited = (
        definition.roster.declared_groups == before.roster.declared_groups
        and definition.roster.other == before.roster.other
    )
    inherited &= definition.shape == before.shape
    if inherited:
        named = [[group, 1] for group in before.roster.named]
        definition = definition.having(domain=before.domain, named=named)
    # A user who was counted once for ever is new to another stream.
    once = definition.record.get("first") or before.record.get("first")
    totals = (
        inherited
        and not once
        and "windows" not in (definition.release, before.release)
        and definition.contribution.resolution == before.contribution.resolution
        and definition.statistic.card.additive  # readings of a statistic begin anew
    )
    unit = definition.unit_in_ledger
    entry = Spend(job.keeping.name, definition.guarantee, unit, follows=job.keeping.continues)
    one = store is not None and apart(definition, before, step)
    one = one and store is not None and why_not_following(entry, store.spends) is None
    found = Continuation(str(job.keeping.continues), step, totals, apart=one)
    follows = [Predecessor(found.name, before.guarantee, one), *before.follows]
    return definition.having(
        continues=found._asdict(), follows=[each.to_dict() for each in follows]
    )


def carried_by(stream: Stream | JournalReader, definition: Definition) -> CarriedTotals | None:
    """Return the last released totals of the earlier streams that a stream continues; its own
    totals are added to them. None if its totals begin at 0.
    """
    found = definition.course.continues
    if found is None or not found.totals:
        return None
    reader = stream.beside(found.name)
    before = Definition.reopen(reader.design, reader.details)
    earlier = carried_by(reader, before)
    estimates: NDArray[Any] = np.zeros(len(before.roster.cells), np.int64)
    variance = 0.0
    releases: tuple[tuple[StreamStrategy, NoiseDistribution, int], ...] = ()
    if earlier is not None:
        estimates, variance, releases = earlier.estimates, earlier.variance, earlier.releases
    if found.step:
        last = reader.releases(found.step, found.step + 1)
        estimates = estimates + np.asarray(last.values).reshape(len(before.roster.cells))
        variance += float(last.std()[0]) ** 2
        releases = (*releases, (reader.design.strategy, reader.design.law, found.step))
    return CarriedTotals(estimates, variance, releases)
