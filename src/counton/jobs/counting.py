"""Releases from Python: one call for every statistic, the same state as the command line's."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any, Unpack, cast

from counton.columns import html
from counton.errors import InvalidInput, field
from counton.exact import quoted
from counton.jobs.changes import Counts, for_operator
from counton.jobs.definition import Definition
from counton.jobs.job import Events, Job, checked
from counton.jobs.keywords import JobFields
from counton.jobs.progress import Progress, silent
from counton.jobs.recalling import recalled
from counton.jobs.released import read_released, shown_by
from counton.jobs.runs import Outcome, run
from counton.jobs.statements import all_options, own_options
from counton.jobs.writing import Outputs
from counton.privacy import ZCDP, ApproxDP, ExpiringDP, ExpiringZCDP, Guarantee, PureDP
from counton.private import Private
from counton.store import Store, Stream

if TYPE_CHECKING:
    import polars as pl

    from counton.results.release import Release
    from counton.results.shown import Shown
    from counton.statistics import Statistic
    from counton.store.store import JournalReader


@dataclass(frozen=True)
class Run:
    """What a call of `release` has done. Shows itself in a notebook.

    Attributes:
        request: what was asked.
        definition: of the stream.
        before, after: steps released before and after the call.
        until: microseconds since 1970; windows that ended by then are released.
        counts: of rows: see `for_operator`.
        again: these new events have been counted by an earlier run, so nothing was done.

    >>> import tempfile
    >>> import polars as pl
    >>> from counton import PureDP
    >>> folder = tempfile.TemporaryDirectory()
    >>> visits = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-03T10:15"]})
    >>> run = release(
    ...     "count", visits, time="time", every="1d", start="2024-03-01", steps=365,
    ...     until="newest", guarantee=PureDP(1),
    ...     state=folder.name + "/visits.db",
    ... )
    >>> print(run.describe())
    events: 2 windows of 1d released, 2 of them new
    protected: one event added or removed, counted in one cell of one step by at most 1
               people are not protected: a person with 100 events loses 100 times the epsilon
    guarantee: pure differential privacy with epsilon = 1, for all releases of the stream together
    >>> run.for_operator().rows, run.for_operator().late, run.table(level=0.5).height
    (2, 0, 2)
    >>> folder.cleanup()
    """

    request: Job
    definition: Definition
    before: int
    after: int
    until: int | None
    counts: Private[Counts] = attribute(repr=False)
    again: bool

    @classmethod
    def of(cls, request: Job, outcome: Outcome) -> Run:
        """What an outcome says, which may then be closed."""
        return cls(
            request=request,
            definition=outcome.definition,
            before=outcome.before,
            after=outcome.after,
            until=outcome.until,
            counts=outcome.counts,
            again=outcome.again,
        )

    def for_operator(self) -> Counts:
        """Exact numbers of rows, for whoever may see the events: not for what is published."""
        return for_operator(self.counts)

    def released(self, level: float | None = None, shown: Shown | None = None) -> Release:
        """All steps released when the call ended, from the journal.

        Args:
            level: probability with which each interval holds.
            shown: of a statistic, what is shown of its readings; None: what was asked for.

        Raises:
            InvalidInput: a level that is not above 0 or above 1 - 1e-9, or nothing is released yet.
            StateError: the state is gone.
        """
        if not self.after:
            raise InvalidInput(
                f"nothing is released yet: no window has ended by the newest event; give events "
                f"beyond the first window, or {field('until')}"
            )
        if self.definition.statistic.on_demand:  # whose cells the key computes
            with Stream.open(self.request.state, self.request.name, key=self.request.key) as stream:
                return self._of(stream, level, shown).at_hand()
        with Store(self.request.state) as store:
            return self._of(store.reader(self.request.name), level, shown)

    def _of(
        self, source: Stream | JournalReader, level: float | None, shown: Shown | None
    ) -> Release:
        shown = shown_by(self.request) if shown is None else shown
        found = read_released(source, self.definition, level, shown)
        return found.only(range(1, self.after + 1))

    def table(self, level: float | None = None) -> pl.DataFrame:
        """One row for each step and group, with intervals; for each number of a statistic.

        Args:
            level: probability with which each interval holds.

        Raises:
            InvalidInput, StateError: see `released`.
        """
        return self.released(level).table()

    def describe(self) -> str:
        """What is protected, what is promised and how far it has come, in words."""
        from counton.results.wording import in_words

        terms = self.definition, self.request.name
        return in_words(*terms, range(1, self.after + 1), self.after - self.before)

    def __repr__(self) -> str:
        return (
            f"<Run of {self.definition.statistic!r} as {self.request.name!r}: {self.after:,} steps "
            f"released, {self.after - self.before:,} of them new>"
        )

    def __str__(self) -> str:
        return self.describe()

    def methods(self, level: float | None = None) -> str:
        """The paragraph that a publication needs: unit, guarantee, mechanism, error, sources.

        Args:
            level: of the intervals of which it tells.

        Raises:
            InvalidInput, StateError: see `released`.
        """
        return self.released(level).methods()

    def _repr_html_(self) -> str:
        if not self.after:
            return html(self.describe(), {})
        from counton.results.notebook import page

        return page(self.released(), self.describe())


def release(
    what: str | Statistic,
    /,
    events: Events,
    *,
    state: str | os.PathLike[str],
    guarantee: Guarantee | None = None,
    progress: Progress = silent,
    **more: Unpack[JobFields],
) -> Run:
    """Release a statistic of events after each window that has ended, under one guarantee.

    One verb for counts, sums, averages, quantiles, the largest groups, distinct users, words,
    graphs, hierarchies and tables, by group where ``by`` and ``domain`` say so. What the command
    line does: either goes on with what the other began, and gives the same numbers.

    Args:
        what: a statistic, such as ``Average(0, 200, resolution=1)``, or the name of one as commands
            have it: "count", "sum", "average", "quantiles", "top-k", "distinct", ...
        events: a file, ``-``, a folder, a pattern, several of these, or a data frame that speaks
            Arrow: polars (eager or lazy), pandas, pyarrow, DuckDB. One row an event.
        state: path of a SQLite file, made if missing, or a database URL. As secret as the events.
        guarantee: `PureDP`, `ApproxDP`, `ZCDP`, or for a stream without an end `ExpiringDP` or
            `ExpiringZCDP`; or its numbers: ``epsilon=``, ``delta=``, ``rho=``.
        progress: told where the run is.
        more: the fields of `Job`. A new stream needs ``time`` (column of the events' times),
            ``every`` (length of a window: ``"15m"``, ``"1h"``, ``"1d"``, ``"1w"``, ``"1mo"``, or a
            `timedelta`), ``start`` (of the first window) and ``steps`` (how many there will ever
            be); ``value`` or ``columns`` name what a statistic reads. ``by`` names the column of
            groups, or several, and ``domain`` declares the groups, public knowledge: a list, or
            of several columns a mapping of lists. ``user``, ``most``, ``per``: at most ``most``
            events of a user count in each ``per``, and a user is protected.

    A later call may leave out what defines the stream, and may not contradict it.

    Raises:
        CountonError: see `counton.jobs.run`; nothing was released or changed.

    >>> import tempfile
    >>> import polars as pl
    >>> from counton import Average, PureDP, release
    >>> folder = tempfile.TemporaryDirectory()
    >>> visits = pl.DataFrame({
    ...     "time": ["2024-03-01T09:00", "2024-03-01T11:30", "2024-03-03T10:15"],
    ...     "page": ["home", "shop", "home"],
    ...     "paid": [20.5, 3.25, 7.0],
    ... })
    >>> stream = {
    ...     "time": "time", "every": "1d", "start": "2024-03-01", "steps": 365, "until": "newest",
    ...     "by": "page", "domain": ["home", "shop"], "guarantee": PureDP(1),
    ...     "state": folder.name + "/visits.db",
    ... }
    >>> run = release("count", visits, **stream)
    >>> run.before, run.after, run.table().select("step", "group").rows()
    (0, 2, [(1, 'home'), (1, 'shop'), (2, 'home'), (2, 'shop')])
    >>> paid = release(Average(0, 200, resolution=1), visits, value="paid", name="paid", **stream)
    >>> paid.table().columns[3:]
    ['group', 'name', 'estimate', 'std', 'lower', 'upper']
    >>> folder.cleanup()
    """
    known = {item.name for item in fields(Job)} - {"what", "events", "state", "options"}
    known |= {option.name for option in own_options(what)}
    for name in more:
        if name not in known and name not in all_options():
            from difflib import get_close_matches

            near = get_close_matches(name, [*known, *all_options()], 1)
            meant = f"did you mean {near[0]}?" if near else "counton.jobs.Job lists all there are"
            raise InvalidInput(f"release takes no argument {name!r}: {meant}")
    named = cast("dict[str, Any]", more)
    request = recalled(checked(Job(what, events, state, **(named | _numbers(guarantee, named)))))
    outputs = Outputs.of(request)
    with run(request, progress, approve=outputs.approve) as outcome:
        outputs.write(outcome, progress)
        return Run.of(request, outcome)


def _numbers(guarantee: object, named: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request that say a guarantee."""
    if guarantee is None:
        return {}
    for name in ("epsilon", "delta", "rho"):
        if named.get(name) is not None:
            raise InvalidInput(
                f"{field('guarantee')} and {field(name, named[name])} both say what is promised; "
                f"give one of them"
            )
    if isinstance(guarantee, ExpiringDP | ExpiringZCDP):
        expiry = guarantee.expiry
        how = {} if expiry is None else {"growth": expiry.growth, "delay": expiry.delay}
        if isinstance(guarantee, ExpiringDP):
            return {"expire": True, "epsilon": guarantee.epsilon, **how}
        return {"expire": True, "rho": guarantee.rho, **how}
    if isinstance(guarantee, PureDP):
        return {"epsilon": guarantee.epsilon}
    if isinstance(guarantee, ApproxDP):
        return {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
    if isinstance(guarantee, ZCDP):
        return {"rho": guarantee.rho}
    raise InvalidInput(
        f"{field('guarantee')} is {quoted(guarantee)}; give PureDP(epsilon), ApproxDP(epsilon, "
        f"delta), ZCDP(rho), ExpiringDP(epsilon) or ExpiringZCDP(rho)"
    )
