"""Checks of a later run, which may leave out options of its stream, but not change them."""

from __future__ import annotations

from typing import Any

from counton.base.errors import AlreadyEnded, RequestMismatch, field
from counton.frame.groups import GroupNames
from counton.frame.windows import parse_time
from counton.job import stated_options as statements
from counton.job.job import Job
from counton.job.kinds import refuse_other_kinds
from counton.job.own_strategies import OWN, own_strategy
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.privacy.contribution import known_unit, unit_without_period
from counton.rows.domains import read_domain
from counton.run.definition import DEFINING, Definition
from counton.run.stream_request import (
    check_discovery,
    check_words,
    growth_of,
    stated_guarantee,
)
from counton.statistics import Statistic
from counton.strategies import Expiring


def with_kept(job: Job, kept: Definition) -> Job:
    """Complete a later run's job with the options of its stream."""
    keeps = {**kept.record, "strategy": None, "delay": kept.record["delay"] or None}
    if not isinstance(job.what, str):
        keeps |= {"value": None, "columns": list(kept.columns.own.names) or None}
    own = statements.own_options(job.what)
    names = {*DEFINING, *(option.name for option in own)} - {"domain"}
    for option in own:
        if job.states(option.name):
            names -= {*option.instead}
        elif any(map(job.states, option.instead)):
            names -= {option.name}
    filled = {name: keeps.get(name) for name in names if not job.states(name)}
    reads_domain = "domain" in statements.kind_of(job.what).reads
    if reads_domain and isinstance(job.what, str) and job.groups.domain is None:
        filled["domain"] = kept.statistic.domain if kept.domain is None else kept.domain
    return job.having(**{name: one for name, one in filled.items() if one is not None})


def refuse_ended(job: Job, kept: Definition) -> None:
    """Refuse a later run of a stream that has ended, before its rows are looked for.

    Raises:
        AlreadyEnded: the stream has ended.
    """
    if kept.ended is not None:
        raise AlreadyEnded(
            f"stream {job.keeping.name!r} has ended at step {kept.ended:,} and releases "
            f"nothing more; begin another {field('name')}, or write again what was released from "
            "the state alone",
            kept.ended,
        )


def refuse_other(job: Job, kept: Definition) -> None:
    """Refuse a later run that differs from what its stream keeps.

    Raises:
        RequestMismatch: the job states another value than the stream was created with.
        InvalidInput: the job states an option that no stream takes.
    """
    what, name = statements.name_of(job.what), job.keeping.name
    check_words(job)
    steps = "revised" if kept.cut.lags else "windows"
    steps = "expiring" if kept.expires or job.promise.expire else steps
    steps = "once" if not kept.cut.goes_on and what == kept.what else steps
    loss = "stated" if job.promise.within is None else "wanted"
    groups = {} if kept.cells.named_beforehand else {"groups": "found"}
    rows = "new" if kept.new_rows else "whole"
    refuse_other_kinds(job, {"steps": steps, "loss": loss, **groups, "input": rows})
    if what != kept.what:
        raise RequestMismatch(
            f"stream {name!r} is a {kept.what!r} and cannot be continued as a "
            f"{what!r}; give {field('what', kept.what)}, or another {field('name')}"
        )
    if job.promise.within is not None:
        from counton.run.new_stream import reached_halfwidths

        if (found := reached_halfwidths(kept, job)).factor > 1:
            raise RequestMismatch(
                f"{field('within', job.promise.within)} asks for another error than stream "
                f"{name!r} has, whose privacy loss is {kept.guarantee}: {found}; leave "
                f"it out to continue the stream, or give another {field('name')} for another stream"
            )
    if kept.cut.goes_on and (job.rows.append or kept.ids) != kept.new_rows:
        one = f"all rows of windows (without {field('append', True)})"
        other = f"new rows ({field('append', True)})"
        this, was = (one, other) if kept.new_rows else (other, one)
        raise RequestMismatch(
            f"this input is said to hold {this}, but the inputs of stream {name!r} hold {was}, and "
            f"rows would count twice, or not at all: give such an input, or another "
            f"{field('name')} for another stream"
        )
    for option, (value, before) in _beside(job, kept).items():
        if value is None or value is False or value == before:
            continue
        created = "without it" if before is None else f"with {_in_words(before)}"
        raise RequestMismatch(
            f"{_TOGETHER.get(option) or f'{field(option)} is'} {_in_words(value)}, but stream "
            f"{name!r} was created {created}. To continue the stream, leave it out; to "
            f"start another one, give another {field('name')}: the privacy losses of both add up. "
            f"{field('end_stream(state, name)')} ends this one"
        )


#: Names of several options that are stated together.
_TOGETHER = {
    "statistic": "the statistic is",
    "columns": "the columns are",
    "guarantee": "the guarantee is",
}


def _beside(job: Job, kept: Definition) -> dict[str, tuple[Any, Any]]:
    """Return pairs (stated, kept) of the options that define a stream, by name."""
    unknown, policy = job.groups.unknown, kept.cells.policy
    discovers = unknown == "discover" or (unknown is not None and policy is not None)
    if unknown == "discover":
        check_discovery(job, job.groups.by or kept.columns.group)
    guarantee = stated_guarantee(job, expires=kept.expires)
    if isinstance(guarantee, ExpiringDP | ExpiringZCDP) and isinstance(kept.strategy, Expiring):
        guarantee = guarantee.bound_to(kept.strategy)
    stated = {name: job.option(name) for name in DEFINING if name != "domain"}
    if job.times.start is not None:
        start = parse_time(job.times.start, job.times.timezone or kept.cut.timezone)
        stated["start"] = kept.cut.local(start).isoformat()
    if job.promise.unit is not None:
        unit = unit_without_period(job.promise.unit, kept.counting.per)
        stated["unit"] = known_unit(unit, [kept.record["unit"]])
    if kept.expires and job.promise.growth is not None:
        stated["growth"] = growth_of(job)
    if (own := own_strategy(job.noise.strategy)) is not None:
        stated["strategy"] = OWN if own == kept.strategy else repr(own)
    statistic, columns = _other_statistic(job, kept)
    return {
        "unknown": (unknown if discovers else None, policy),
        "statistic": (statistic, kept.inner),
        "columns": (columns, ", ".join(kept.columns.own.names) or None),
        **{name: (value, kept.record.get(name)) for name, value in stated.items()},
        "domain": (_other_groups(job, kept), kept.declared_groups),
        "guarantee": (guarantee, kept.guarantee),
    }


def _other_statistic(job: Job, kept: Definition) -> tuple[Statistic | str | None, str | None]:
    """Return a later run's statistic and columns if they differ, else two Nones."""
    # A count or a ranking of groups that are found has no parameters.
    silent = kept.cells.policy is not None and kept.statistic.additive
    if isinstance(job.what, str):
        statements.check_own_options(job)
        counted = statements.kind_of(job.what)
        of_domain = job.groups.domain is not None and "domain" in counted.reads
        silent |= not (of_domain or statements.stated_options(job))
    if silent:
        return None, None
    given, parts = statements.settle_statistic(with_kept(job, kept))
    columns = ", ".join(parts.names) or None
    if kept.cells.policy is not None:
        from counton.statistics.average import undeclared_variant

        given = undeclared_variant(given)
    elif kept.inner.declares is not None:
        # As groups, which are compared separately.
        given = given.by_groups(kept.inner.declares) or given
    if given.allows(kept.inner):
        return None, columns
    alike = repr(given) == repr(kept.inner)
    return f"{given!r} of other names, or in another order" if alike else given, columns


def _other_groups(job: Job, kept: Definition) -> GroupNames | None:
    """Return a later run's groups if they differ, else None; ranking ignores order."""
    if job.groups.domain is None or statements.declares_nodes(job):
        return None
    groups = read_domain(job.groups.domain, job.groups.by or kept.by or "")
    declared, ranks = kept.declared_groups, kept.statistic.declares is not None
    if groups in (kept.groups, declared):
        return None
    return None if ranks and set(groups) == set(declared) else groups


def _in_words(value: object) -> str:
    if isinstance(value, GroupNames):
        return f"{len(value):,} groups ({', '.join(value[:4])}{', ...' if len(value) > 4 else ''})"
    return str(value)
