"""Counting and summing from Python: one call, the same state as the command line's."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from dataclasses import field as attribute
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from counton.columns import html
from counton.errors import InvalidInput, field
from counton.jobs.definition import Definition
from counton.jobs.job import Events, Job, Progress, silent
from counton.jobs.released import Released
from counton.jobs.runs import Outcome, run
from counton.privacy import ZCDP, ApproxDP, ExpiringDP, ExpiringZCDP, Guarantee, PureDP
from counton.store import Store

if TYPE_CHECKING:
    import polars as pl

    from counton.exact import Number

#: Groups that a notebook shows.
_SHOWN = 8


@dataclass(frozen=True)
class Run:
    """What a call of `count_events` or `sum_events` has done. Shows itself in a notebook.

    Attributes:
        request: what was asked.
        definition: of the stream.
        before, after: steps released before and after the call.
        until: microseconds since 1970; windows that ended by then are released.
        rows: all rows read. Exact, as is all below: only for whoever may see the events.
        late: rows that arrived for windows released earlier, counted at the next release.
        early, beyond: rows before the first window and after the last, counted nowhere.
        unknown: rows of undeclared groups, counted nowhere.
        over: rows left out because their user had as many as may count.
        known, closed: new rows that were counted before, and that came too late to be counted.
        again: these new events have been counted by an earlier run, so nothing was done.

    >>> import tempfile
    >>> import polars as pl
    >>> from counton import PureDP
    >>> folder = tempfile.TemporaryDirectory()
    >>> visits = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-03T10:15"]})
    >>> run = count_events(
    ...     visits, time="time", every="1d", start="2024-03-01", steps=365,
    ...     until="newest", guarantee=PureDP(1),
    ...     state=folder.name + "/visits.db",
    ... )
    >>> print(run.describe())
    events: 2 windows of 1d released, 2 of them new
    protected: one event, which counts in one cell of one step by at most 1, added or removed
    guarantee: pure differential privacy with epsilon = 1, for all releases of the stream together
    >>> run.rows, run.late, run.table(level=0.5).height
    (2, 0, 2)
    >>> folder.cleanup()
    """

    request: Job
    definition: Definition
    before: int
    after: int
    until: int | None
    rows: int = attribute(repr=False)
    late: int = attribute(repr=False)
    early: int = attribute(repr=False)
    beyond: int = attribute(repr=False)
    unknown: int = attribute(repr=False)
    over: int = attribute(repr=False)
    known: int = attribute(repr=False)
    closed: int = attribute(repr=False)
    again: bool

    @classmethod
    def of(cls, request: Job, outcome: Outcome) -> Run:
        """What an outcome says, which may then be closed."""
        tally = outcome.tally
        return cls(
            request=request,
            definition=outcome.definition,
            before=outcome.before,
            after=outcome.after,
            until=outcome.until,
            rows=tally.rows,
            late=outcome.late,
            early=tally.before,
            beyond=tally.beyond,
            unknown=tally.unknown,
            over=outcome.over,
            known=outcome.known,
            closed=outcome.closed,
            again=outcome.again,
        )

    def released(self, level: float = 0.95) -> Released:
        """All steps released when the call ended, from the journal: totals, windows, sums, charts.

        Args:
            level: probability with which each interval holds.

        Raises:
            InvalidInput: a level that is not above 0 or above 1 - 1e-9, or nothing is released yet.
            StateError: the state is gone.
        """
        if not self.after:
            raise InvalidInput(
                f"nothing is released yet: no window has ended by the newest event; give events "
                f"beyond the first window, or {field('until')}"
            )
        with Store(self.request.state) as store:
            reader = store.reader(self.request.name)
            return Released.read(reader, self.definition, level).only(range(1, self.after + 1))

    def table(self, level: float = 0.95) -> pl.DataFrame:
        """One row for each step and group, with intervals.

        Args:
            level: probability with which each interval holds.

        Raises:
            InvalidInput, StateError: see `released`.
        """
        return self.released(level).table()

    def describe(self) -> str:
        """What is protected, what is promised and how far it has come, in words."""
        definition = self.definition
        return (
            f"{self.request.name}: {self.after:,} windows of {definition.windows.every} released, "
            f"{self.after - self.before:,} of them new\n"
            f"protected: {definition.contribution.describe(definition.unit)}\n"
            f"guarantee: {definition.guarantee}, {definition.guarantee.scope}"
        )

    def methods(self, level: float = 0.95) -> str:
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
        released = self.released()
        last = released.only(range(self.after, self.after + 1)).largest(_SHOWN).table()
        shown = last.drop("step", "window_start")
        more = len(released.groups) - last.height
        words = self.describe() + (f"\n{more:,} smaller groups are not shown" if more > 0 else "")
        return html(words, {name: shown[name].to_numpy() for name in shown.columns}) + "".join(
            _picture(figure) for figure in _figures(released)
        )


def count_events(
    events: Events,
    *,
    state: str | os.PathLike[str],
    time: str | None = None,
    every: str | None = None,
    start: str | datetime | None = None,
    steps: int | None = None,
    by: str | None = None,
    domain: str | os.PathLike[str] | Sequence[str] | None = None,
    guarantee: Guarantee | None = None,
    user: str | None = None,
    most: int | None = None,
    per: str | None = None,
    progress: Progress = silent,
    **more: Any,
) -> Run:
    """Release the running number of events after each window that has ended, by group.

    What ``counton count`` does: either goes on with what the other began, and gives the same bits.

    Args:
        events: a file, ``-``, a folder, a pattern, several of these, or a data frame that speaks
            Arrow: polars (eager or lazy), pandas, pyarrow, DuckDB. One row an event.
        state: path of a SQLite file, made if missing, or a database URL. As secret as the events.
        time, by: columns of the events' times and groups.
        every: length of a window: ``15m``, ``1h``, ``1d``, ``1w``, ``1mo``.
        start: beginning of the first window.
        steps: how many windows the stream will ever have.
        domain: the declared groups, public knowledge: a list, a file, or ``"A,B,C"``.
        guarantee: `PureDP`, `ApproxDP`, `ZCDP`, or for a stream without an end `ExpiringDP` or
            `ExpiringZCDP`; or its numbers: ``epsilon=``, ``delta=``, ``rho=``.
        user, most, per: at most ``most`` events of a ``user`` count in each ``per``: see `Job`.
        progress: told where the run is.
        more: any other field of `Job`, such as ``until``, ``name``, ``key``, ``release``.

    A later call may leave out what defines the stream, and may not contradict it.

    Raises:
        CountonError: see `counton.jobs.run`; nothing was released or changed.

    >>> import tempfile
    >>> import polars as pl
    >>> from counton import PureDP
    >>> folder = tempfile.TemporaryDirectory()
    >>> visits = pl.DataFrame({
    ...     "time": ["2024-03-01T09:00", "2024-03-01T11:30", "2024-03-03T10:15"],
    ...     "page": ["home", "shop", "home"],
    ... })
    >>> run = count_events(
    ...     visits, time="time", every="1d", start="2024-03-01", steps=365,
    ...     until="newest", by="page",
    ...     domain=["home", "shop"], guarantee=PureDP(1), state=folder.name + "/visits.db",
    ... )
    >>> run.before, run.after, run.table().select("step", "group").rows()
    (0, 2, [(1, 'home'), (1, 'shop'), (2, 'home'), (2, 'shop')])
    >>> folder.cleanup()
    """
    named = {
        "time": time,
        "every": every,
        "start": start,
        "steps": steps,
        "by": by,
        "domain": domain,
        "user": user,
        "most": most,
        "per": per,
    }
    return _run("count", events, state, guarantee, named | more, progress)


def sum_events(
    events: Events,
    *,
    state: str | os.PathLike[str],
    value: str | None = None,
    lower: Number | None = None,
    upper: Number | None = None,
    resolution: Number | None = None,
    guarantee: Guarantee | None = None,
    progress: Progress = silent,
    **more: Any,
) -> Run:
    """Release the running sum of a column after each window that has ended, by group.

    What ``counton sum`` does.

    Args:
        value: column of the values.
        lower, upper: values are clipped to them: one row can change a sum by a known amount.
        resolution: values are rounded to its multiples. Choose all three without the data.
        events, state, guarantee, progress, more: as in `count_events`.

    Raises:
        CountonError: see `counton.jobs.run`; nothing was released or changed.

    >>> import tempfile
    >>> import polars as pl
    >>> from counton import PureDP
    >>> folder = tempfile.TemporaryDirectory()
    >>> sales = pl.DataFrame({"time": ["2024-03-01", "2024-03-02"], "paid": [20.5, 3.25]})
    >>> run = sum_events(
    ...     sales, value="paid", lower=0, upper=100, resolution="0.01", time="time", every="1d",
    ...     start="2024-03-01", steps=365,
    ...     until="newest", guarantee=PureDP(1), state=folder.name + "/sales.db",
    ... )
    >>> run.table().columns[-4:]
    ['estimate', 'std', 'lower', 'upper']
    >>> folder.cleanup()
    """
    named = {"value": value, "lower": lower, "upper": upper, "resolution": resolution}
    return _run("sum", events, state, guarantee, named | more, progress)


def _run(
    what: Literal["count", "sum"],
    events: Events,
    state: str | os.PathLike[str],
    guarantee: Guarantee | None,
    named: dict[str, Any],
    progress: Progress,
) -> Run:
    known = {item.name for item in fields(Job)} - {"what", "events", "state"}
    for name in named:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise InvalidInput(
                f"{field(name)} is nothing that can be asked for{meant or ': see Job'}"
            )
    request = Job(what, events, state, **(named | _numbers(guarantee, named)))
    with run(request, progress) as outcome:
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
        f"{field('guarantee')} is {guarantee!r}; give PureDP(epsilon), ApproxDP(epsilon, delta), "
        f"ZCDP(rho), ExpiringDP(epsilon) or ExpiringZCDP(rho)"
    )


def _figures(released: Released) -> list[Any]:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:  # the extra "plot"; the table is shown without
        return []
    return list(released.figures().values())


def _picture(figure: Any) -> str:
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", facecolor="white", dpi=100)
    data = base64.b64encode(drawn.getvalue()).decode("ascii")
    return f'<img alt="chart" style="max-width: 100%" src="data:image/png;base64,{data}">'
