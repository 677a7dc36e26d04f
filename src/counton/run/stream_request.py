"""The request for a stream, made from a job before any row is read and any strategy is chosen.

A new stream is planned from it (`counton.run.new_stream`). A later run makes none: one function
(`counton.run.settlement.refuse_other`) compares its job with what the stream keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from counton.base.errors import InvalidInput, field
from counton.base.exact import check_integer
from counton.frame.groups import GroupNames
from counton.frame.options import MissingOptions, OwnColumns
from counton.frame.windows import Windows, lags_in, load_zone, parse_time
from counton.job import stated_options as statements
from counton.job.job import (
    NEWEST,
    NOW,
    Job,
    check_most_a_window,
)
from counton.job.kinds import kinds_of, refuse_other_kinds
from counton.job.own_strategies import OWN, own_strategy
from counton.privacy import Contribution, ExpiringDP, ExpiringZCDP, Guarantee
from counton.privacy.contribution import checked_unit, unit_without_period
from counton.privacy.guarantees import check_delta, guarantee_from
from counton.released.counting import Counting
from counton.released.description import period_anew
from counton.released.periods import made_of_windows
from counton.rows.domains import read_domain, refuse_long_terms
from counton.run.definition import (
    DEFINING,
    counting_of,
    cut_of,
    remembering,
    rows_of_each_group,
)
from counton.state.unit_names import SpentUnit, protects_users, unit_word
from counton.statistics import Grouped, Statistic, TallyStatistic
from counton.statistics.by_group import inner_of
from counton.strategies import Expiring, StreamStrategy

#: Default number of windows of a stream with revised windows.
_MOST_REVISED = 1_000_000


@dataclass(frozen=True)
class StreamRequest:
    """The request of a job for a stream: statistic, groups, and options that define it.

    Attributes:
        job: the job, with fields that its statistic sets.
        statistic: statistic of all groups; parameters that depend on the guarantee are not set yet.
        parts: columns that the statistic reads.
        groups: declared groups and the group of all others; None: rows are not split by group.
        record: options that define the stream, and policies and outputs, by name, as the state
            keeps them.
        cut, counting: rule that assigns each row to a step, and rule that decides which rows count.
        guarantee: stated guarantee; None if it follows from the wanted accuracy.
        own: strategy of the user's own; None if the record names one.
    """

    job: Job
    statistic: TallyStatistic
    parts: OwnColumns
    groups: GroupNames | None
    record: Mapping[str, Any]
    cut: Windows
    counting: Counting
    guarantee: Guarantee | None
    own: StreamStrategy | None

    def contribution(self, statistic: Statistic, steps: int | None = None) -> Contribution:
        """Return the contribution bound of a row, or of a user's counted rows."""
        found = statistic.contribution(batched=True, horizon=steps)
        found = replace(found, unit=self.counting.of(self.record["unit"]))
        return self.counting.bounding(found, statistic.norms_of_people(self.counting.most))


def ask(job: Job, units: Iterable[SpentUnit] = ()) -> StreamRequest:
    """Build the request of a job for a new stream.

    Args:
        units: protected units that have entries in the ledger (the record of spent privacy loss) of
            its state.

    Raises:
        InvalidInput: a value of the job is out of range.
    """
    asked, once = job, statements.is_once(job)
    check_words(job)
    statistic, parts = _new_statistic(job, once=once)
    declares = statistic.declares
    filled = dict(statements.kind_of(job.what).fills) if isinstance(job.what, str) else {}
    if declares is not None and job.groups.domain is None and job.times.time is not None:
        filled["domain"] = list(declares)
    job = job.having(**filled) if filled else job
    if statistic.ordered:
        raise InvalidInput(
            f"{statistic!r} takes events in their order, which jobs do not: count them in memory, "
            "with counton.Running in Python"
        )
    refuse_other_kinds(job, kinds_of(job, statistic))
    statistic = cast("TallyStatistic", statistic)
    if statistic.rank_digits and job.people.user is None:
        needs = f"{field('user')}, the column that names the user of a row"
        if rows_of_each_group(statistic) is None:
            needs += f", and {field('most')}, how many rows of one user count"
        raise InvalidInput(
            f"a {statements.name_of(job.what)} that counts users needs {needs}; give it"
        )
    guarantee = stated_guarantee(job, expires=job.promise.expire)
    groups, own = groups_of(job), own_strategy(job.noise.strategy)
    record = {name: job.option(name) for name in DEFINING if name != "domain"}
    record |= statements.stated_options(job, parts)
    if job.times.time is not None:
        record |= _cut_by_time(job)
    else:
        for name in ("every", "start", "until", "timezone", "revise"):
            if job.option(name) is not None:
                raise InvalidInput(
                    f"{field(name, job.option(name))} needs {field('time')}, the column of times; "
                    f"give it, or leave {field(name)} out: then all rows are released once"
                )
        record |= {"steps": 1}
    if job.people.user is not None:
        record["most"] = _most(job, statistic)
    if groups is not None:
        statistic = _by_group(statistic, groups, job)
    cut, counting = cut_of(record, once=once), counting_of(record, statistic)
    record["release"] = _form_of_release(job, statistic, counting.per, cut)
    unit = job.promise.unit
    kind = "user" if protects_users(record) else "event"
    if unit is not None:
        unit = unit_without_period(checked_unit(unit), job.people.per)
    record |= {
        # The word that is stated, or that the state has for such a unit already.
        "unit": unit_word(units, kind, unit, kind),
        "strategy": OWN if own is not None else job.noise.strategy or "auto",
        "metric": job.noise.metric or "mean",
        "delay": job.promise.delay or 0,
        "growth": growth_of(job) if job.promise.expire else None,
    }
    stated = {name: one for name, one in record.items() if one is not None and one is not False}
    kept = remembering(stated, asked)
    return StreamRequest(job, statistic, parts, groups, kept, cut, counting, guarantee, own)


def growth_of(job: Job) -> str:
    """Return ``growth``, by default 1, as exact text: loss grows like log(age)^growth."""
    return str(Expiring(1 if job.promise.growth is None else job.promise.growth).growth)


def check_words(job: Job) -> None:
    """Refuse values of options that no stream takes."""
    own = [one.name for one in statements.own_options(job.what) if one.column]
    for name in ("time", "by", "user", "id", *own):
        if job.option(name) == "":
            raise InvalidInput(
                f"{field(name)} is empty; give the name of a column, or leave it out"
            )
    user = job.people.user
    if user is not None and user == job.times.time:
        raise InvalidInput(
            f"{field('user', user)} and {field('time', user)} name the same column, and a time "
            f"says nobody's name; give the column that names the user of a row"
        )
    if user is not None and user == job.rows.id:
        raise InvalidInput(
            f"{field('user', user)} and {field('id', user)} name the same column, so only one row "
            f"of each user would ever count; give a column as {field('id')} that differs from row "
            f"to row, or leave {field('id')} out (to count each user once, give "
            f"{field('first', True)})"
        )
    if job.times.timezone is not None:
        load_zone(job.times.timezone)
    if job.times.quiet is not None:
        check_integer("quiet", job.times.quiet, 0)
    if job.times.until not in (None, NOW, NEWEST):
        parse_time(job.times.until or "", job.times.timezone or "UTC")


def _new_statistic(job: Job, *, once: bool) -> tuple[Statistic, OwnColumns]:
    """Return a new stream's statistic and columns; one error names all missing options."""
    named, counted = isinstance(job.what, str), statements.kind_of(job.what)
    needed = () if once else ("time", "every", "start", "steps")
    endless = job.times.around is not None or job.promise.expire or job.lateness.revise is not None
    lacking = [field(name) for name in needed if job.option(name) is None]
    lacking = [name for name in lacking if not (endless and name == field("steps"))]
    computed = job.promise.within is not None or (once and job.option("target") is not None)
    if job.promise.epsilon is None and job.promise.rho is None and not computed:
        lacking.append(f"{field('epsilon')} or {field('rho')}")
    groups, people = job.groups, job.people
    if named and counted.additive:
        if groups.by is not None and groups.domain is None and groups.unknown != "discover":
            lacking.append(field("domain"))
        if people.user is not None and people.most is None and not people.first:
            lacking.append(field("most"))
    try:
        found = statements.settle_statistic(job)
    except MissingOptions as error:
        own = [one.name for one in counted.options if one.needed and job.option(one.name) is None]
        absent = [*dict.fromkeys([*map(field, (*error.names, *own)), *lacking])]
        if not error.names or len(absent) == len(error.names):
            raise
        raise _lacks(absent) from None
    if len(lacking) > 1 or (lacking and lacking[0] in map(field, needed)):
        raise _lacks(lacking)
    return found


def _lacks(lacking: Sequence[str]) -> MissingOptions:
    several = " and ".join(filter(None, (", ".join(lacking[:-1]), lacking[-1])))
    return MissingOptions(
        f"a new stream needs {several}; choose {'them' if len(lacking) > 1 else 'it'} without "
        f"looking at the data. If the stream exists already, "
        f"correct {field('state')} or {field('name')}",
        InvalidInput(several).fields,
    )


def stated_guarantee(job: Job, *, expires: bool) -> Guarantee | None:
    """Return a job's guarantee or None; with ``expires``, not bound to a strategy yet."""
    epsilon, delta, rho = job.promise.epsilon, job.promise.delta, job.promise.rho
    if job.promise.within is not None:
        check_delta(delta)
        return None
    if not expires:
        return guarantee_from(epsilon, delta, rho)
    if delta is not None:
        raise InvalidInput(
            f"{field('delta', delta)} does not go with {field('expire')}; give {field('epsilon')} "
            f"alone or {field('rho')} alone"
        )
    if epsilon is not None and rho is not None:
        raise needs_one_loss()
    if rho is not None:
        return ExpiringZCDP(rho)
    return None if epsilon is None else ExpiringDP(epsilon)


def needs_one_loss() -> InvalidInput:
    """Build the error for a job with an expiring guarantee that states no privacy loss, or two."""
    return InvalidInput(
        f"{field('expire')} needs either {field('epsilon')} or {field('rho')}, the loss of the "
        f"newest event; {field('plan_expiring(...)')} finds it from the losses that you allow at "
        "each age"
    )


def groups_of(job: Job) -> GroupNames | None:
    """Return declared groups, then that of all others; None without groups or for a hierarchy."""
    groups, by, domain = job.groups, job.groups.by, job.groups.domain
    if groups.unknown == "discover":
        check_discovery(job, by)
        return GroupNames(())
    if statements.declares_nodes(job) or (domain is None and by is None):
        return None
    if by is None:
        raise InvalidInput(
            f"{field('domain', domain)} lists groups, and the column of the groups is missing; "
            f"give {field('by')}"
        )
    if domain is None:
        raise MissingOptions(
            f"{field('by', by)} needs {field('domain')}, a list of the groups, because groups "
            "found in the data would reveal whose events are in it; give a file with one group a "
            f"line, a table with a column {by!r}, or a list A,B,C; or find the groups privately "
            f"({field('unknown', 'discover')})",
            ["domain"],
        )
    found = read_domain(domain, by)
    if groups.other is not None and (not groups.other.strip() or groups.other in found):
        raise InvalidInput(
            f"{field('other')} is {groups.other!r}, which is also a group of {field('domain')}; "
            "give another name"
        )
    return found if groups.other is None else found.plus([groups.other])


def check_discovery(job: Job, by: str | None) -> None:
    """Refuse private discovery of the groups ``by`` if options or statistic forbid it."""
    asked = field("unknown", "discover")
    if by is None:
        raise InvalidInput(f"{asked} needs {field('by')}, the column of the groups; give it")
    if not statements.kind_of(job.what).finds:
        raise InvalidInput(
            f"{asked} finds groups by their number of rows, which is possible for counts, sums and "
            f"averages, but not for {statements.name_of(job.what)}; list the groups "
            f"({field('domain')})"
        )
    ranks = statements.kind_of(job.what).ranks
    if job.states("release") and (job.noise.release != "windows" or ranks):
        raise InvalidInput(
            f"{field('release', job.noise.release)} does not go with {asked}, since each group is "
            "shown from some window on; publish totals, or windows alone"
        )
    if job.lateness.revise is not None and statements.kind_of(job.what).ranks:
        what = statements.name_of(job.what)
        raise InvalidInput(
            f"{field('revise', job.lateness.revise)} does not go with a {what} of groups that "
            f"nobody declared: count them, and take the largest of the table, or declare them "
            f"({field('domain')})"
        )
    if job.noise.strategy not in (None, "auto", "binary", "kary", "smooth"):
        raise InvalidInput(
            f"{field('strategy', job.noise.strategy)} does not go with {asked}, which is proven "
            "only for binary, kary and smooth; give one of these, or auto"
        )


def _by_group(statistic: TallyStatistic, groups: GroupNames, job: Job) -> TallyStatistic:
    """Apply a statistic to each of several groups: return the statistic of all groups."""
    if job.groups.unknown == "discover":
        from counton.statistics.average import undeclared_variant

        found = undeclared_variant(statistic)
        if not found.additive and found.row_total is None:
            raise InvalidInput(
                f"{field('unknown', 'discover')} finds groups by their number of rows, which is "
                f"private, but {statistic!r} takes it as public; list the groups "
                f"({field('domain')})"
            )
        return found
    own = statistic.by_groups(groups)
    if own is statistic:
        return statistic  # the groups are its nodes
    if own is None:
        refuse_long_terms(groups)
    return own or Grouped(statistic, groups)


def _cut_by_time(job: Job) -> dict[str, Any]:
    """Return start, time zone and number of steps of a stream of time windows.

    A revised window is released again at the end of each further window within ``revise``.
    """
    times, zone = job.times, job.times.timezone or "UTC"
    assert times.start is not None
    assert times.every is not None
    start, steps = parse_time(times.start, zone), times.steps
    if times.around is not None or steps is None:
        steps = Windows.endless(start, times.every, zone).steps
    if job.lateness.revise is not None:
        if times.steps is None:  # the noise is the same for any number
            steps = min(steps, _MOST_REVISED)
        from counton.strategies.streams.window_versions import MOST_VERSIONS

        lags, most = lags_in(job.lateness.revise, times.every), MOST_VERSIONS - 1
        if lags > most:
            number = times.every.rstrip("smhdwo")
            longest = f"{most * int(number)}{times.every.removeprefix(number)}"
            raise InvalidInput(
                f"{field('revise', job.lateness.revise)} publishes a window anew after each of "
                f"{lags:,} further windows of {times.every}, and at most {most:,} are possible: "
                f"give at most {longest}, or a longer {field('every')}"
            )
    began = start.astimezone(load_zone(zone)).isoformat()
    return {"start": began, "timezone": zone, "steps": steps}


def _most(job: Job, statistic: TallyStatistic) -> int:
    """Return the bound on a user's counted events, or groups."""
    people, by = job.people, job.groups.by
    if people.per is not None:
        check_period(people.per, job.times.timezone or "UTC")
    each, once = rows_of_each_group(statistic), field("first", True)
    if each is None and not people.first:
        if people.most is None:
            raise MissingOptions(
                f"{field('user', people.user)} needs {field('most')}, how many events of one user "
                f"count, because noise must hide all of them; give it, or {once} to count each "
                "user once for ever",
                ["most"],
            )
        check_most_a_window(people.most_a_window, people.most)
        return people.most
    how = f"with {once if people.first else statements.name_of(job.what)}"
    if people.most is not None and people.most > 1 and by is None:
        raise InvalidInput(
            f"{field('most', people.most)} {how} bounds the groups in which a user counts, and "
            f"there are no groups; leave {field('most')} out, or give {field('by')}"
        )
    if people.most is None and by is not None:
        raise InvalidInput(
            f"{field('by', by)} {how} needs {field('most')}, the number of groups in which a user "
            f"counts, because noise must hide all of them; give it (with {field('most', 1)} each "
            "user counts only in the first group)"
        )
    return people.most or 1


def check_period(per: str, timezone: str = "UTC") -> None:
    """Refuse a text that is not the length of a user's period, such as ``1d``."""
    try:
        Windows(datetime(2000, 1, 1, tzinfo=UTC), per, 1, timezone)
    except InvalidInput as error:
        raise InvalidInput(f"{field('per', per)} is not the length of a period: {error}") from None


def _form_of_release(job: Job, statistic: TallyStatistic, per: str | None, cut: Windows) -> str:
    """Return "totals", "windows", "both", or "periods" if users count anew in each."""
    inner = inner_of(statistic)
    if cut.lags:
        ranks = inner.counts_users or inner.counted_ranks
        if (ranks or job.people.first) and not (per == cut.every and made_of_windows(cut, per)):
            # A window would count only the users whose first row is in it.
            longer = "for ever" if per is None else f"in each {per}"
            raise InvalidInput(
                f"{field('revise', job.lateness.revise)} revises the users of each window of "
                f"{cut.every}, but here a user counts once {longer}, in the first window with a "
                f"row of that user: give {field('per', cut.every)} (for distinct users, reach with "
                f"{field('at_least', 1)}), and let windows begin where these periods begin"
            )
        if job.groups.unknown == "discover" and job.times.steps is None:
            raise InvalidInput(
                f"{field('unknown', 'discover')} with {field('revise', job.lateness.revise)} needs "
                f"{field('steps')}: each version of each window may show a group, so the size that "
                f"a group must have grows with the number of windows; give it"
            )
        return "windows"
    every = period_anew(inner, per)
    anew = every is not None
    if isinstance(every, str):
        anew = made_of_windows(cut, every)
    if job.times.around is not None and job.noise.release not in (None, "totals", "both"):
        raise InvalidInput(
            f"{field('release', job.noise.release)} does not go with "
            f"{field('around', job.times.around)}: a stream without an end releases totals, or "
            "both, whose windows are differences of totals"
        )
    if job.noise.release == "periods" and not anew:
        raise InvalidInput(
            f"{field('release', 'periods')} is for users who count anew in each period "
            f"({field('per')}) of whole windows, as reach does, and here no user does; leave it out"
        )
    return job.noise.release or ("periods" if anew else "totals")
