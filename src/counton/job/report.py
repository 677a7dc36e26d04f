"""The options of a report: several statistics of the same rows, each with its own options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import PlainValidator, ValidationError, ValidationInfo, create_model

from counton.job import values as v
from counton.job.common_options import (
    GroupOptions,
    Job,
    SeriesOptions,
    UnlistedGroupOptions,
    UserRowOptions,
)
from counton.job.messages import explain_error
from counton.job.model_registry import REGISTRY
from counton.job.option_fields import STREAM, Section, option, section_of
from counton.job.shown_numbers import OverOptions

#: Options of a whole job that a report also takes for each of its statistics.
_OF_GROUPS = ("group_by", "groups", "shares")


@cache
def member_model(statistic: str) -> type[Section]:
    """Return the model of one statistic of a report: its own options, its groups and its share.

    >>> sorted(member_model("average").model_fields)[:4]
    ['group_by', 'groups', 'lower', 'resolution']
    """
    job = REGISTRY.model_of(statistic)
    names = [name for name in job.model_fields if _is_of_member(job, name)]
    fields: dict[str, Any] = {
        name: (job.model_fields[name].annotation, job.model_fields[name]) for name in names
    }
    fields["statistic"] = (Literal[statistic], statistic)
    fields["share"] = (v.Loss | None, option("Its share of the privacy budget. [default: 1]"))
    return create_model(f"{job.__name__}OfReport", __base__=Section, __doc__=job.summary, **fields)


def _is_of_member(job: type[Job], name: str) -> bool:
    """Return whether one statistic of a report takes an option; a row counts once in it."""
    is_of_statistic = section_of(job, name).heading == "Statistic" and name not in (
        "statistic",
        "count_column",
    )
    return is_of_statistic or name in _OF_GROUPS


def _members(value: object, info: ValidationInfo) -> dict[str, Section]:
    tables = _tables_by_name(value, info)
    members: dict[str, Section] = {}
    for name, options in tables.items():
        if not isinstance(options, Mapping):
            raise ValueError(
                f"has no table of options for {name!r}; give one, with the key statistic"
            )
        if options.get("statistic") == "report":
            raise ValueError(f"has a report in it, {name!r}; list its statistics in this report")
        if "every" in options:
            raise ValueError(f"gives {name!r} windows of its own (every); give it a job of its own")
        model = member_model(options.get("statistic", "count"))
        try:
            member = model.model_validate(options, context=info.context)
        except ValidationError as error:
            raise ValueError(
                f"has a wrong option in {name!r}: {explain_error(error, model)}"
            ) from error
        members[name] = member
    if not members:
        raise ValueError("names no statistic; give a table for each")
    return members


def _tables_by_name(value: object, info: ValidationInfo) -> Mapping[str, object]:
    """Return the tables of a report's statistics, from a mapping, a file or a JSON text."""
    from counton.base.outside_input import parse_json, parse_toml, read_plain

    if isinstance(value, Mapping):
        return value
    if not isinstance(value, str):
        raise ValueError("is not a table of statistics by name; give one, or a TOML or JSON file")
    data = value.encode()
    if not value.lstrip().startswith("{"):
        try:
            data = read_plain(v.path_from_job_file(value, info))
        except OSError as error:
            raise ValueError(
                f"cannot be read ({error.strerror}); give a TOML or JSON file"
            ) from None
    try:
        return parse_json(data) if data.lstrip().startswith(b"{") else parse_toml(data)
    except ValueError as error:
        raise ValueError(f"is no table of statistics ({error}); give a TOML or JSON file") from None


Members = Annotated[
    Mapping[str, Mapping[str, Any]] | str,
    PlainValidator(_members, json_schema_input_type=str | dict[str, dict[str, Any]]),
]


class ReportJob(
    OverOptions, SeriesOptions, UnlistedGroupOptions, GroupOptions, UserRowOptions, Job
):
    """Several statistics of the same rows, under one guarantee and one bound on users."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["report"] = "report"
    statistics: Members | None = option(
        "Statistics by name, each with its options; in a command, a TOML or JSON file."
    )
    summary: ClassVar[str] = (
        "Several statistics of the same rows, under one guarantee and one bound on users."
    )
    also_called: ClassVar[tuple[str, ...]] = ("several", "dashboard")
    example: ClassVar[Mapping[str, str]] = {"statistics": "numbers.json"}
    example_file: ClassVar[tuple[str, str] | None] = (
        "numbers.json",
        '{"top":{"statistic":"top-k","group-by":"page","groups":"home,shop"}}\n',
    )
    needs: ClassVar[tuple[str, ...]] = ("statistics",)
