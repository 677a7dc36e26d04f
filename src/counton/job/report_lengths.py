"""A report whose statistics have windows of several lengths: a job for each length."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from counton.base.errors import InvalidInput, field
from counton.base.exact import check_positive, exact
from counton.job.job import Job, options_of
from counton.job.stated_options import all_options
from counton.privacy import Spend
from counton.privacy.guarantees import guarantee_from
from counton.statistics.catalogue import is_keyword
from counton.statistics.report_members import FIRSTS, SHARE, WITHIN, kind_of_member, tables_of

#: Key of the statistic of a job, and of a statistic of a report.
STATISTIC = "statistic"
#: Options that a statistic of a report may state for itself, if it has windows of its own.
OF_WINDOWS = ("every", "start", "steps", "out", "plot")
#: Options that state a privacy loss.
LOSSES = ("epsilon", "delta", "rho")
#: Lengths of windows, as names of streams end with them.
_LENGTH = re.compile("[0-9]+([smhdw]|mo)")


def jobs_of(job: Job) -> dict[str, Job]:
    """Return the jobs that make up a report, by the names of their streams: one for each length of
    windows.

    A report is a job of several statistics. Its statistics with an ``every`` of their own form the
    job NAME-EVERY, which has the other options of the report. If the report has several lengths, a
    length with only one statistic becomes a job of this statistic, if a job can state it. A job
    that is no report is returned as it is.

    A row changes the inputs of all these streams. Their noise is independent, so their guarantees
    add up: epsilons, deltas and rhos. Each stream gets a fraction of the report's epsilon, delta or
    rho: the sum of its statistics' shares, divided by the sum of all shares. The fractions add up
    to 1. `refuse_other_parts` refuses to begin one of these streams in a state whose streams of the
    report have other losses or lengths.

    Raises:
        InvalidInput: there is no privacy loss to divide; or statistics with windows of one length
            state different options of these windows; or a statistic states an option of the report.

    >>> flow = Job(
    ...     "report", "visits.csv", "visits.db", name="flow", time="time", every="1h",
    ...     start="2024-03-01", steps=8760, epsilon=2, statistics={
    ...         "all": {"statistic": "count"},
    ...         "pages": {"by": "page", "domain": ["home", "shop"], "every": "1d", "steps": 365},
    ...     },
    ... )
    >>> jobs_of(flow)["flow"]
    Job(what='count', state='visits.db', name='flow', time='time', every='1h', ... epsilon='1')
    >>> list(jobs_of(flow))
    ['flow', 'flow-1d']
    """
    name, usual, stated = job.keeping.name, job.times.every, job.options.get("statistics")
    if stated is None:
        return {name: job}
    by_length: dict[Any, dict[str, dict[str, Any]]] = {}
    for key, one in tables_of(stated).items():
        if not isinstance(every := one.get("every", usual), str | int | None):
            raise InvalidInput(
                f"the report has a statistic {key!r} with the windows {every!r}; give a length, as "
                f"1d"
            )
        by_length.setdefault(every, {})[key] = one
    # Parts would be refused in numbers that nobody wrote, and parts of a large delta would pass.
    budget = {one: job.option(one) for one in LOSSES if job.option(one) is not None}
    if len(by_length) > 1 and guarantee_from(*map(budget.get, LOSSES)) is None:
        raise InvalidInput(
            f"the report has statistics with windows of their own, and no privacy loss to divide "
            f"between them: give it {field('epsilon')} or {field('rho')}"
        )
    shares = {every: sum(map(share_of, mine.values())) for every, mine in by_length.items()}
    found = {}
    for every, mine in by_length.items():
        own = _windows_of(mine, every)
        if every == usual and own.keys() - {"every"}:
            raise InvalidInput(
                f"the report has a statistic with {min(own.keys() - {'every'})!r}, but without "
                f"windows of its own; give 'every' beside it, or move it to the report"
            )
        if every != usual:
            lacking = dict.fromkeys(one for one in OF_WINDOWS if one != "start")
            own = {**lacking, **own, "name": f"{name}-{every}"}
        if len(by_length) > 1:
            part = shares[every] / sum(shares.values())
            own |= {one: str(exact(value, one) * part) for one, value in budget.items()}
        parts = {
            key: {one: value for one, value in table.items() if one not in OF_WINDOWS}
            for key, table in mine.items()
        }
        statistic = _statistic_of(parts, every, several=len(by_length) > 1)
        found[str(own.get("name", name))] = job.having(**own, **statistic) if own else job
    if [*by_length] == [usual]:
        return found
    losses = {
        called: {one: str(part.option(one)) for one in budget} for called, part in found.items()
    }
    return {called: part.having(_of_report=(name, losses)) for called, part in found.items()}


def refuse_other_parts(job: Job, spends: Iterable[Spend]) -> None:
    """Refuse to begin a stream of a report if the state has a stream of the same report with
    another loss or length of windows.

    Each stream of the state that is named after the report must have the loss that this report
    gives it. So all streams of the report together never lose more than the report states.

    Args:
        job: the job whose stream would begin, from `jobs_of`.
        spends: entries of the state's ledger, the record of spent privacy loss.

    Raises:
        InvalidInput: a stream of the report has another loss or length.
    """
    if job._of_report is None:
        return
    report, losses = job._of_report
    for spend in spends:
        length = spend.name.removeprefix(f"{report}-")
        named_after = length != spend.name and _LENGTH.fullmatch(length)
        part = losses.get(spend.name)
        if part is None and spend.name != report and not named_after:
            continue
        spent = {one: getattr(spend.guarantee, one, None) for one in LOSSES}
        wanted = {one: exact(value, one) for one, value in (part or {}).items()}
        if part is None or {one: value for one, value in spent.items() if value} != wanted:
            raise InvalidInput(
                f"the stream {spend.name!r} of this state has spent {spend.guarantee}, which is "
                f"not its part of the report {report!r}, so that the report's streams would lose "
                f"more than the report states; leave the report's statistics, lengths of windows "
                f"and privacy loss as they were, or give the report another name: the privacy "
                f"losses of both add up"
            )


def _windows_of(statistics: Mapping[str, Mapping[str, Any]], every: object) -> dict[str, Any]:
    """Return the options about windows (such as their start) that some statistics state for
    themselves.

    The statistics all have windows of the length ``every``. They are refused if they state two
    values of one option.
    """
    found: dict[str, Any] = {}
    for key, value in (pair for one in statistics.values() for pair in one.items()):
        if key in OF_WINDOWS and found.setdefault(key, value) != value:
            raise InvalidInput(
                f"the report has statistics with windows of {every}, and they give two values of "
                f"{key!r}, {found[key]!r} and {value!r}; give one value"
            )
    return found


def _statistic_of(
    parts: Mapping[str, dict[str, Any]], every: object, *, several: bool
) -> dict[str, Any]:
    """Return the options by which a job states its statistic: a report of several statistics, or
    one statistic alone.

    Args:
        parts: the options of each statistic, by its name.
        every: the length of their windows.
        several: whether the report has windows of several lengths.
    """
    (key, alone), *others = parts.items()
    kind = kind_of_member(alone)
    if not others and WITHIN in alone and kind is kind_of_member({}):
        raise InvalidInput(
            f"the report has a count {key!r} that is alone with its windows of {every}, and "
            f"{field(WITHIN, alone[WITHIN])} divides a budget between statistics of the "
            f"same windows: give 'share' in its place (counton plan says how far off numbers "
            f"then are), or count in a job of its own, where 'within' finds epsilon"
        )
    if not several or others or WITHIN in alone or not is_keyword(kind.card.keyword):
        return {"statistics": parts}
    # An epsilon or a state of its own would not be in the report's budget.
    for option in alone:
        if option not in keys_of_statistics():
            raise InvalidInput(
                f"the report has a statistic {key!r} with the key {option!r}, which is not an "
                f"option of a report's statistics; move it to the report"
            )
    known = {item.key: item for item in (*options_of(Job).values(), *all_options().values())}
    found = {"what": kind.card.keyword, "options": {}}
    for option, value in alone.items():
        if option not in (STATISTIC, SHARE):
            item = known.get(option)
            texts = item is not None and item.kind == "text" and type(value) in (int, float)
            found[option if item is None else item.name] = repr(value) if texts else value
    return found


def keys_of_statistics() -> set[str]:
    """Return the keys that the table of one statistic in a report may have. Keys for windows of its
    own, such as ``every``, are not included.
    """
    own = {called for option in all_options().values() for called in (option.key, option.name)}
    return own | {STATISTIC, "by", "domain", "shares", WITHIN, SHARE, FIRSTS}


def share_of(statistic: Mapping[str, Any]) -> Any:
    """Return a statistic's share of the report's privacy budget, as its table in the job file
    states it (default: 1).
    """
    return check_positive("share", statistic.get(SHARE, 1), "give a number above 0, as 2")
