"""Writing a job into a job file, from which `counton.job.job_file` reads it again."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from counton.base.errors import InvalidInputError, param, without_secrets
from counton.base.lengths import PERIODS, example_release_delay
from counton.base.outside_input import read_plain
from counton.job import values as v
from counton.job.common_options import Job
from counton.job.custom_strategies import is_file_of
from counton.job.job_file_tables import parse_file_text
from counton.job.messages import keys_of
from counton.job.option_fields import Section
from counton.job.stream_name import usual_name

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

#: Key of the comment above a job.
HEADING = ""
#: Options whose text is the path of a file or the address of a database.
_FILES = ("events", "state", "output", "chart", "rollback_guard", "key")
#: Ends of messages about objects in memory.
_REMEDIES = {
    "events": "name a file of events",
    "key": "save the key (Key.save), and give the path",
    "strategy": "write it into a file with counton.job.custom_strategies.write_strategy",
}
#: Permissions of a new job file.
_FILE_MODE = 0o600


def save(
    job: Job,
    path: str | os.PathLike[str],
    comments: Mapping[str, str] | None = None,
    *,
    replaces_file: bool = False,
    keeps_date: bool = False,
    empty: Collection[str] = (),
) -> None:
    """Write a job into a job file: add it to the file's jobs, or replace the job with its name.

    Comments and the order of the file's other jobs stay. Addresses of databases are written without
    passwords, which the environment may give (PGPASSWORD, PGPASSFILE).

    Args:
        job: the job.
        path: the job file; a new one is readable by its owner alone.
        comments: comments by the key that they stand above; that of `HEADING` stands above the job.
        replaces_file: replace the whole content of the file.
        keeps_date: write a date in ``until``, so that no run releases a later window. Otherwise it
            holds for one run, and is not written.
        empty: keys that somebody has still to fill in; they stand first, with an empty text, which
            `counton.job.job_file.load` refuses by name.

    Raises:
        InvalidInputError: an option is an object in memory, or the file is no job file.
    """
    import tomlkit

    from counton.base.atomic_file import replace_output

    file = Path(path)
    comments = {} if comments is None else comments
    document = tomlkit.document() if replaces_file else _read_document(file)
    if HEADING in comments:
        for line in comments[HEADING].splitlines():
            document.add(tomlkit.comment(line))
    jobs = document.setdefault("jobs", tomlkit.table(is_super_table=True))
    if date_of_one_run(job) is not None and not keeps_date:
        job = _without_date(job)
    entries = job_entries(job, file.parent)
    _refuse_other_defaults(job, entries, document.get("defaults", {}), file)
    table = tomlkit.table()
    for key, value in {**dict.fromkeys(empty, ""), **entries}.items():
        if key in comments:
            for line in comments[key].splitlines():
                table.add(tomlkit.comment(line))
        table.add(key, value)
    jobs[stream_name(job)] = table
    text = tomlkit.dumps(document)
    mode = file.stat().st_mode & 0o777 if file.exists() else _FILE_MODE
    replace_output(file, lambda new: Path(new).write_text(text, "utf-8"), mode)


def stream_name(job: Job) -> str:
    """Return the name of a new job's stream, which is the name of the job in a job file."""
    return job.stream or usual_name(job)


def date_of_one_run(job: Job) -> str | None:
    """Return the time, as stated in ``until``, after which a job releases nothing; None if the
    newest row or the present time decides.

    >>> from counton.job.statistics.count import CountJob
    >>> date_of_one_run(CountJob(events="visits.csv", until="2024-03-04"))
    '2024-03-04'
    """
    return None if job.until in (None, v.NOW, v.LATEST_ROW) else str(job.until)


def changes_for_newer_rows(job: Job) -> str:
    """Return what else to change in a job of a complete file once newer rows come: such a job may
    release a window at its end, and may stop at one window without a row.

    >>> from counton.job.statistics.count import CountJob
    >>> job = CountJob(events="visits.csv", every="1d", release_delay="0s", max_empty_windows=0)
    >>> print(changes_for_newer_rows(job))
    , set release-delay to the time in which all rows arrive, such as "2h", and set
    max-empty-windows to the number of days in a row that may have no row
    >>> print(changes_for_newer_rows(job.with_options(every="1mo", max_empty_windows=1)))
    , and set release-delay to the time in which all rows arrive, such as "3d"
    >>> changes_for_newer_rows(CountJob(events="visits.csv", every="1d", release_delay="2h"))
    ''
    """
    every = str(job.every or "1d")
    changes = []
    if job.release_delay is not None and str(job.release_delay) == "0s":
        delay = example_release_delay(every)
        changes.append(f'set release-delay to the time in which all rows arrive, such as "{delay}"')
    n_may_be_empty = job.max_empty_windows
    stops_at_one = n_may_be_empty == 0 or (n_may_be_empty is None and job.lookback is not None)
    if stops_at_one and not job.allow_empty_windows:
        nouns = f"{PERIODS.get(every, 'window')}s"
        changes.append(
            f"set max-empty-windows to the number of {nouns} in a row that may have no row"
        )
    if not changes:
        return ""
    *first_changes, last_change = changes
    return ", ".join(["", *first_changes, f"and {last_change}"])


def job_entries(job: Job, folder: Path) -> dict[str, object]:
    """Return the keys and values that a job has in a job file; defaults are left out.

    Args:
        job: the job.
        folder: folder of the job file, to which paths are relative.

    Raises:
        InvalidInputError: an option is an object in memory.

    >>> from counton.job.statistics.count import CountJob
    >>> job_entries(CountJob(events="visits.csv", group_by="page,day", epsilon="0.5"), Path())
    {'statistic': 'count', 'events': 'visits.csv', 'epsilon': '0.5', 'group-by': ['page', 'day']}
    """
    options = job.stated_options()
    options.pop("stream", None)
    events = options.pop("events", None)
    if events is not None:
        options = {"events": events, **options}
    fields = type(job).model_fields
    entries: dict[str, object] = {"statistic": job.statistic}
    for name, value in options.items():
        entries[str(fields[name].alias)] = _to_toml(name, value, folder)
    return entries


def _without_date(job: Job) -> Job:
    return job.with_options(until=None)


def _read_document(file: Path) -> TOMLDocument:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if not file.exists():
        return tomlkit.document()
    try:
        data = read_plain(file)
    except OSError as error:
        raise InvalidInputError(
            f"job file {str(file)!r} cannot be read ({error.strerror}); save it into another file"
        ) from error
    parse_file_text(file, data)  # refuses what would take too long
    try:
        return tomlkit.parse(data.decode())
    except TOMLKitError as error:
        raise InvalidInputError(
            f"job file {str(file)!r} is not valid TOML: {error}; correct it"
        ) from error


def _refuse_other_defaults(
    job: Job, entries: Mapping[str, object], defaults: Mapping[str, object], file: Path
) -> None:
    """Refuse defaults of a file that a job does not state: they would change it."""
    keys = keys_of(type(job))
    others = [key for key in defaults if key in keys and key not in entries]
    if others:
        raise InvalidInputError(
            f"job file {str(file)!r} has options under [defaults] that this job does not state "
            f"({', '.join(others)}), and they would change the job; state them in the job, or save "
            "it into another file"
        )


def _to_toml(name: str, value: object, folder: Path) -> object:
    """Return the value of an option as TOML has it.

    Args:
        name: name of the option; that of a list's elements is the list's.
        value: its value.
        folder: folder of the job file.
    """
    match value:
        case bool() | int() | float():
            return value
        case str():
            return _to_path(name, value, folder)
        case Fraction():
            from counton.base.exact import text

            return text(value)
        case date():
            return value.isoformat()
        case list() | tuple():
            return [_to_toml(name, item, folder) for item in value]
        case Mapping() if not any(isinstance(item, Mapping | Section) for item in value.values()):
            import tomlkit

            # A table of its own would take all lines that somebody adds below it.
            inline = tomlkit.inline_table()
            inline.update({str(key): _to_toml("", item, folder) for key, item in value.items()})
            return inline
        case Mapping():
            return {str(key): _to_toml("", item, folder) for key, item in value.items()}
        case Section():
            keys = {key: str(item.alias) for key, item in type(value).model_fields.items()}
            return {
                keys[key]: _to_toml(key, item, folder)
                for key, item in value
                if key in value.model_fields_set
            }
        case _:
            remedy = _REMEDIES.get(name, "give it as text")
            raise InvalidInputError(
                f"{param(name)} is an object in memory, which a job file cannot hold; {remedy}"
            )


def _to_path(name: str, value: str, folder: Path) -> str:
    """Return a text as a job file states it: paths relative, and addresses without passwords."""
    from counton.io.input_paths import is_file, looks_like_file

    beginning = v.QUARANTINE if name == "bad_rows" else ""
    path = value.removeprefix(beginning)
    is_path = name in _FILES or (name == "bad_rows" and path != value)
    is_path = is_path or (name == "groups" and (is_file(value) or looks_like_file(value)))
    is_path = is_path or (name == "strategy" and is_file_of(value))
    is_elsewhere = name == "key" and value.startswith(("env:", "command:"))
    is_none = name == "rollback_guard" and value == "none"
    if "://" in value and name != "query":
        return without_secrets(value)
    if not is_path or is_elsewhere or is_none or value == "-":
        return value
    return beginning + os.path.relpath(path, folder)
