"""Job files: several jobs in TOML, for ``counton run``.

    [defaults]
    state = "visits.db"
    epsilon = 1

    [jobs.visits]
    events = "events/*.csv"
    time = "time"
    every = "1h"
    start = "2024-03-01"
    steps = 8760
    out = "visits.parquet"

A text may name variables of the environment, as in ``state = "${STATE}"``. Paths are relative to
the folder of the file. A table ``[report.NAME]`` is a job of several statistics, each a table
below.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from counton.base.errors import CountonError, InvalidInput, without_secrets
from counton.base.outside_input import parse_toml, read_plain
from counton.options import values as v
from counton.options.common_options import Job
from counton.options.messages import keys_of, parse_options
from counton.options.option_fields import RUN_ONLY, Section, has_fact, option
from counton.options.statistics import all_models, model_of

#: Tables of a job file.
TABLES = ("defaults", "jobs", "report", "serve", "publish")
#: Options that ``counton init`` leaves empty where only the operator can say their values.
MUST_BE_SAID = ("time", "timezone", "start", "until", "by", "domain", "user", "most", "unit")


class Publish(Section):
    """The place where all jobs publish."""

    to: v.File = option("SQLite file or URL in which all streams are published", default=...)


def load(path: str | os.PathLike[str], *, without_rows: bool = False) -> dict[str, Job]:
    """Read the jobs of a file, by name, in their order.

    Args:
        without_rows: True if no row will be read, so that a job need not name events.

    Raises:
        InvalidInput: the file is no job file, or an option is wrong; the message names both.

    >>> file = Path("nightly.toml")
    >>> _ = file.write_text('[defaults]\\nstate = "v.db"\\n[jobs.visits]\\nevents = "v.csv"\\n')
    >>> load(file)["visits"].statistic
    'count'
    """
    jobs: dict[str, Job] = {}
    for name, job in load_each(path, without_rows=without_rows).items():
        if isinstance(job, CountonError):
            raise job
        jobs[name] = job
    return jobs


def load_each(
    path: str | os.PathLike[str], events: Any = None, *, without_rows: bool = False
) -> dict[str, Job | CountonError]:
    """Read the jobs of a file; a job that cannot be read has its error in place of the job.

    Args:
        events: source of all jobs' events, if the caller has it; then the file must not name any.
    """
    file = Path(path)
    tables = read_tables(file)
    jobs = {name: (table, "jobs") for name, table in tables.get("jobs", {}).items()}
    for name, table in tables.get("report", {}).items():
        if name in jobs:
            raise InvalidInput(
                f"job file {str(file)!r} has two jobs called {name!r}; give each its own name"
            )
        jobs[name] = (table, "report")
    if not jobs:
        raise InvalidInput(
            f"job file {str(file)!r} has no jobs; write a table [jobs.NAME] for each"
        )
    found: dict[str, Job | CountonError] = {}
    for name, (table, kind) in jobs.items():
        try:
            stated = _stated(table, tables.get("defaults", {}), is_report=kind == "report")
            found[name] = _job(name, stated, file.parent, events, without_rows=without_rows)
        except CountonError as error:
            words = {option: key for key, option in _file_keys().items()}
            found[name] = InvalidInput(f"job {name!r} of {str(file)!r}: {error.translate(words)}")
    return found


def published_to(path: str | os.PathLike[str]) -> str | None:
    """Return the database in which a job file publishes all its streams; None if it names none."""
    file = Path(path)
    table = read_tables(file).get("publish")
    return None if table is None else str(parse_options(Publish, table, file.parent).to)


def read_tables(file: Path) -> dict[str, Any]:
    """Read the tables of a job file, and put variables of the environment into its texts."""
    try:
        tables = parse_toml(read_plain(file))
    except OSError as error:
        raise InvalidInput(
            f"job file {str(file)!r} cannot be read ({error.strerror}); check the path"
        ) from error
    except ValueError as error:
        raise InvalidInput(
            f"job file {str(file)!r} is not valid TOML: {error}; correct it"
        ) from error
    for name, table in tables.items():
        if name not in TABLES:
            raise InvalidInput(
                f"job file {str(file)!r} has the unknown section {name!r}; write [jobs.NAME]"
            )
        if not isinstance(table, dict):
            raise InvalidInput(
                f"job file {str(file)!r}: {name!r} is no section; write the line [{name}]"
            )
    filled: dict[str, Any] = with_variables(tables, "")
    return filled


_VARIABLE = re.compile(r"\$\{([^}]{0,40})\}?")


def with_variables(value: Any, key: str) -> Any:
    """Return a value with variables of the environment in place of ``${NAME}`` in its texts.

    Args:
        key: key of the value, for messages.
    """
    if isinstance(value, dict):
        return {name: with_variables(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [with_variables(one, key) for one in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    if key == "query":
        raise InvalidInput(
            f"{key} has a variable, which SQL cannot have; write {{since}} and {{until}}, or "
            f"make a view"
        )
    return _VARIABLE.sub(lambda match: _variable(match, key), value)


def _variable(match: re.Match[str], key: str) -> str:
    name = match[1]
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or not match[0].endswith("}"):
        raise InvalidInput(f"{key} has {match[0]!r}, which is no variable; write ${{NAME}}")
    if name not in os.environ:
        raise InvalidInput(f"{key} names the variable {name}, which is not set; set it")
    return os.environ[name]


def _stated(table: Any, defaults: Mapping[str, Any], *, is_report: bool) -> dict[str, Any]:
    """Return the options of one job: its own, and those defaults that its statistic has."""
    if not isinstance(table, dict):
        raise InvalidInput("it is no section; write a line [jobs.NAME], and its options below")
    own = dict(table)
    if is_report:
        members = {name: value for name, value in table.items() if _is_member(name, value)}
        own = {name: value for name, value in table.items() if name not in members}
        own |= {"statistic": "report", "statistics": members}
    statistic = own.get("statistic", defaults.get("statistic", "count"))
    known = keys_of(model_of(statistic))
    elsewhere = {key for model in all_models().values() for key in keys_of(model)}
    shared = {key: value for key, value in defaults.items() if key in known or key not in elsewhere}
    return {**shared, **own, "statistic": statistic}


def _is_member(name: str, value: Any) -> bool:
    return isinstance(value, dict) and name not in keys_of(model_of("report"))


def _job(
    name: str, stated: dict[str, Any], folder: Path, events: Any, *, without_rows: bool
) -> Job:
    empty = [key for key in MUST_BE_SAID if stated.get(key) == ""]
    if empty:
        raise InvalidInput(
            f"it leaves empty: {', '.join(empty)}; fill in what the comment above each line says"
        )
    if events is not None and "events" in stated:
        raise InvalidInput(
            "it names events, but here the rows are passed in from outside; leave the key out"
        )
    if events is not None:
        stated["events"] = events
    of_service = without_rows and "events" not in stated
    if of_service:
        stated["events"] = "-"
    for needed in ("events", "state"):
        if needed not in stated:
            raise InvalidInput(f"it lacks the key {needed!r}; add it there, or under [defaults]")
    job: Job = parse_options(model_of(stated["statistic"]), {"name": name, **stated}, folder)
    if of_service:
        refuse_of_service(job)
    return job


def refuse_of_service(job: Job) -> None:
    """Refuse options that a service decides itself, as it releases by its clock."""
    fields = type(job).model_fields
    for name in job.stated_options():
        if name == "until" or has_fact(fields[name], RUN_ONLY):
            raise InvalidInput(
                f"{name} is for runs over files, and a service decides it itself; leave it out"
            )


def _file_keys() -> dict[str, str]:
    return {
        str(field.alias): name
        for model in all_models().values()
        for name, field in model.model_fields.items()
    }


def save(job: Job, path: str | os.PathLike[str], comments: Mapping[str, str] | None = None) -> None:
    """Write a job into a job file: add it to the file's jobs, or replace the job with its name.

    Comments and the order of the file's other jobs stay; addresses are written without passwords.
    """
    import tomlkit

    from counton.state.whole_file import replace_file

    file = Path(path)
    document = tomlkit.parse(file.read_text("utf-8") if file.exists() else "")
    jobs = document.setdefault("jobs", tomlkit.table(is_super_table=True))
    table = tomlkit.table()
    for key, value in entries(job, file.parent):
        if comments and key in comments:
            table.add(tomlkit.comment(comments[key]))
        table.add(key, value)
    jobs[job.name or job.statistic] = table
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    replace_file(file, lambda new: Path(new).write_text(tomlkit.dumps(document), "utf-8"), mode)


def date_of_one_run(job: Job) -> str | None:
    """Return the time, as stated in ``until``, after which a job releases nothing; None if the
    newest row or the present time decides.

    >>> from counton.options.statistics import CountJob
    >>> date_of_one_run(CountJob(events="visits.csv", until="2024-03-04"))
    '2024-03-04'
    """
    return None if job.until in (None, v.NOW, v.LATEST_ROW) else str(job.until)


def entries(job: Job, folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values that a job has in a job file in a folder; defaults are left out."""
    yield "statistic", job.statistic
    for name, value in job.stated_options().items():
        if name != "name":
            yield str(type(job).model_fields[name].alias), _written(name, value, folder)


#: Options whose text is the path of a file.
_FILES = ("events", "state", "out", "plot", "witness", "key")


def _written(name: str, value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _written("", one, folder) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_written(name, one, folder) for one in value]
    if isinstance(value, Section):
        return {
            str(type(value).model_fields[key].alias): _written(key, getattr(value, key), folder)
            for key in value.model_fields_set
        }
    if isinstance(value, Fraction):
        from counton.base.exact import text

        return text(value)
    if not isinstance(value, str | bool | int | float):
        raise InvalidInput(
            f"{name} is an object in memory, which a job file cannot hold; name a file"
        )
    if isinstance(value, str):
        return _path_in(folder, name, value)
    return value


def _path_in(folder: Path, name: str, value: str) -> str:
    """Return a text as a job file states it: paths relative, and addresses without passwords."""
    kind, quarantine, path = value.rpartition(v.QUARANTINE)
    names_file = name in _FILES or quarantine or (name == "domain" and os.path.exists(value))
    if not names_file or value.startswith(("env:", "command:")) or value in ("-", "none"):
        return value
    address = without_secrets(path)
    return kind + quarantine + (address if "://" in address else os.path.relpath(address, folder))
