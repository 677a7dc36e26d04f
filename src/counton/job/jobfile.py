"""Job files: several jobs in TOML, for ``counton run``.

The keys of a job are the options of its command without dashes. Values for all jobs stand once,
under ``[defaults]``. Paths are relative to the folder of the file.

    [defaults]
    state = "visits.db"
    epsilon = 1

    [jobs.visits]
    statistic = "count"
    events = "events/*.csv"
    time = "time"
    every = "1h"
    start = "2024-03-01"
    steps = 8760
    out = "visits.parquet"

A text may name variables of the environment, as in ``state = "${STATE}"``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from counton.base.errors import CountonError, InvalidInput, field, is_text, without_secrets
from counton.base.outside_input import parse_toml, read_plain
from counton.frame.options import Kind, Option, split_names
from counton.job.job import NEWEST, NOW, Events, Job, options_of
from counton.job.stated_options import (
    all_options,
    other_name,
    own_options,
    refuse_of_service,
    words_of_files,
)
from counton.state.whole_file import replace_file
from counton.statistics.catalogue import is_keyword, keywords, no_statistic, statistic_named

_T = TypeVar("_T")
#: Table of a service's own settings.
SERVICE = "serve"
#: Key of the statistic of a job, and of a statistic of a report.
STATISTIC = "statistic"
#: Table of reports: jobs of several statistics, each with a table of its own.
REPORT = "report"
#: Table of the place where all jobs publish.
PUBLISH = "publish"


#: Keys that ``counton init`` leaves empty where only the operator can say their values.
MUST_BE_SAID = (
    *("time", "time-format", "timezone", "start", "until", "by", "domain", "other"),
    *("user", "most", "per", "unit", "decimal"),
)


class _ValueOfFile(NamedTuple):
    """The form in which a job file may write one kind of option. ``types`` are the Python types
    that a TOML parser returns, ``words`` describe them in messages, and ``json`` has their names in
    a JSON schema.
    """

    types: tuple[type, ...]
    words: str
    json: list[str]


#: Form of each kind of value in files.
VALUES: dict[Kind, _ValueOfFile] = {
    "text": _ValueOfFile(
        (str, int, float, datetime, date, list), "a text or a number", ["string", "number"]
    ),
    "texts": _ValueOfFile((str, list), "a text", ["string", "array"]),
    "whole": _ValueOfFile((int,), "a whole number", ["integer"]),
    "number": _ValueOfFile((int, float), "a number", ["number"]),
    "flag": _ValueOfFile((bool,), "true or false", ["boolean"]),
    "path": _ValueOfFile((str,), "a text", ["string"]),
}


#: Names of types of values in messages.
_TYPES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def _keys(options: Iterable[Option]) -> dict[str, Option]:
    """Return options by the keys that they have in job files: the options of every job, and those
    in ``options``.
    """
    return {option.key: option for option in (*options_of(Job).values(), *options)}


def load(path: str | os.PathLike[str], *, without_rows: bool = False) -> dict[str, Job]:
    """Read the jobs of a file, by name, in their order.

    Args:
        without_rows: True if no row will be read, so that a job need not name events.

    Raises:
        InvalidInput: the file is missing or no TOML, or it has an unknown key or a wrong value; the
            message names job and key.

    >>> file = Path("nightly.toml")
    >>> _ = file.write_text('[defaults]\\nstate = "v.db"\\n[jobs.visits]\\nevents = "v.csv"\\n')
    >>> load(file)["visits"].what
    'count'
    """
    found: dict[str, Job] = {}
    for name, job in load_each(path, without_rows=without_rows).items():
        if isinstance(job, CountonError):
            raise job
        found[name] = job
    return found


def load_each(
    path: str | os.PathLike[str], events: Events | None = None, *, without_rows: bool = False
) -> dict[str, Job | CountonError]:
    """Read the jobs of a file by name, in their order. A job that cannot be read has its error in
    place of the job.

    Args:
        events: source of all jobs' events, if it is given here; then the file must not name events.
        without_rows: True if no row will be read, so that a job need not name events.
    """
    file, read = Path(path), read_file(path)
    taken = ("defaults", "jobs", REPORT, SERVICE, PUBLISH)
    if "limit" in read:
        raise InvalidInput(
            f"[limit] of {str(file)!r} sets no limit: set that of the state by counton ledger, if "
            "it has none yet, and take the section out"
        )
    unknown = [name for name in read if name not in taken]
    jobs, reports = read.get("jobs", {}), read.get(REPORT, {})
    if unknown or not (isinstance(jobs, dict) and isinstance(reports, dict) and (jobs or reports)):
        found_there = f"has the unknown section {', '.join(map(repr, unknown))}"
        raise InvalidInput(
            f"job file {str(file)!r} {found_there if unknown else 'has no jobs'}; write a table "
            f"[jobs.NAME] for each job, [{REPORT}.NAME] for each report, and shared options under "
            f"[defaults]"
        )
    for name in jobs:
        if name in reports:
            raise InvalidInput(
                f"job file {str(file)!r} has a job and a report called {name!r}; give each its own "
                f"name"
            )
    defaults = read.get("defaults", {})
    found: dict[str, Job | CountonError] = {}
    for name, own in {**jobs, **reports}.items():
        try:
            table = _table_of_report(name, own, file) if name in reports else own
            found[name] = _job(name, table, defaults, file, events, without_rows=without_rows)
        except CountonError as error:
            found[name] = error
    return found


def _table_of_report(name: str, own: Any, file: Path) -> dict[str, Any]:
    """Convert the table of a report, as a job file has it, to the form of a job's table.

    The tables of the report's statistics become the job's option ``statistics``.

    Args:
        name: name of the report.
        own: the table of the report, as parsed from the file.
        file: path of the job file, for messages.
    """
    where = f"report {name!r} of {str(file)!r}"
    if not isinstance(own, dict):
        raise InvalidInput(
            f"{where} is not a section: write the line [{REPORT}.{name}], and its keys below"
        )
    by_name = {key for key, item in _keys(()).items() if item.by_name}
    statistics = {
        key: one for key, one in own.items() if isinstance(one, dict) and key not in by_name
    }
    if not statistics:
        raise InvalidInput(
            f"{where} contains no statistic: write the line [{REPORT}.{name}.visits] for example, "
            f"and the options of that statistic below"
        )
    rest = {key: one for key, one in own.items() if key not in statistics}
    return {**rest, STATISTIC: REPORT, "statistics": statistics}


def published_to(path: str | os.PathLike[str]) -> str | None:
    """Return the database in which a job file publishes all its streams; None if it names none.

    >>> file = Path("nightly.toml")
    >>> _ = file.write_text('[publish]\\nto = "sqlite:///public.db"\\n')
    >>> published_to(file)
    'sqlite:///public.db'
    """
    file, read = Path(path), read_file(path)
    to: str | None = read_table(file, read, PUBLISH, {"to": (str,)}).get("to")
    if PUBLISH in read and to is None:
        raise InvalidInput(
            f"[{PUBLISH}] of {str(file)!r} does not name the database; add a line such as to = "
            '"public.db"'
        )
    if to is not None:  # checked before anything is released
        from counton.state.database import state_file

        called, named = f"'to' in [{PUBLISH}] of {str(file)!r}", to
        to = _seen_from("state", named, file.parent, called) if named.strip() else ""
        place = state_file(to, called)
        if place is not None and (place.is_dir() or not place.parent.is_dir()):
            why = "is a folder" if place.is_dir() else "lies in a folder that does not exist"
            raise InvalidInput(
                f"{called} is {named!r}, which {why}: give a database file, or a URL"
            )
    return to


def read_table(
    file: Path, read: Mapping[str, Any], name: str, keys: Mapping[str, tuple[type, ...]]
) -> dict[str, Any]:
    """Return the values of a table of the job file, such as ``[publish]``; refuse unknown keys.

    Args:
        file: path of the job file.
        read: all tables of the job file.
        name: name of the table.
        keys: allowed keys, with the types of their values.
    """
    table, where = read.get(name, {}), f"[{name}] of {str(file)!r}"
    if not isinstance(table, dict):
        raise InvalidInput(f"{where} is not a section: write the line [{name}], and its keys below")
    for key, value in table.items():
        if key not in keys:
            near = get_close_matches(key, keys, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"allowed keys are {', '.join(keys)}"
            raise InvalidInput(f"{where} has the unknown key {key!r}; {meant}")
        if type(value) not in keys[key]:
            wanted = " or ".join(_TYPES[one] for one in keys[key])
            raise InvalidInput(
                f"{where}: {key} is {value!r}, of type {type(value).__name__}; it must be {wanted}"
            )
    return table


#: A reference to a variable of the environment in a text; and a malformed reference.
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NO_VARIABLE = re.compile(r"\$\{(?![A-Za-z_][A-Za-z0-9_]*\})[^}]{0,40}\}?")


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the tables of a job file, and replace variables in its texts.

    ``${NAME}`` is a variable of the environment; nothing else is replaced, and replaced text is not
    searched again. Names of tables and keys, and SQL, are unchanged.

    Raises:
        InvalidInput: the file is missing or no TOML, or a variable is not set.

    >>> file = Path("nightly.toml")
    >>> _ = file.write_text('[defaults]\\nstate = "${COUNTON_EXAMPLE}"\\n')
    >>> read_file(file)
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: job file 'nightly.toml' uses environment variables ...
    """
    file = Path(path)
    try:
        found = parse_toml(read_plain(file))
    except OSError as error:
        raise InvalidInput(
            f"job file {str(file)!r} cannot be read ({error.strerror}); check the path"
        ) from error
    except ValueError as error:  # no TOML, no UTF-8, NUL in its path, too deep
        raise InvalidInput(
            f"job file {str(file)!r} is not valid TOML: {error}; correct it"
        ) from error
    absent = dict[str, str]()
    filled: dict[str, Any] = _with_variables(found, "", absent)
    if absent:
        raise InvalidInput(
            f"job file {str(file)!r} uses environment variables that are not set: "
            f"{', '.join((f'{name} ({where})' for name, where in absent.items()))}; set them"
        )
    try:
        _refuse_no_text(filled, "")
    except InvalidInput as error:
        raise InvalidInput(
            f"job file {str(file)!r} is not valid TOML: {error}; correct it"
        ) from error
    return filled


def _with_variables(value: Any, where: str, absent: dict[str, str]) -> Any:
    """Return a value with variables of the environment replaced in its text, or in all texts of a
    list or table.

    Args:
        where: place of the value in the file, for messages.
        absent: dictionary to which missing variables are added, with the place of each.
    """
    if isinstance(value, dict):
        below = f"{where}." if where else ""
        return {key: _with_variables(one, f"{below}{key}", absent) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_variables(one, where, absent) for one in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    if where.rpartition(".")[2] == "query":
        raise InvalidInput(
            f"{where} contains ${{, and environment variables are not put into SQL; use {{since}} "
            "and {until}, whose values are passed safely, or make a view"
        )
    if (other := _NO_VARIABLE.search(value)) is not None:
        raise InvalidInput(
            f"{where} has {other[0]!r}, which is not a variable; write ${{NAME}} with letters, "
            "digits and _, or put the whole text into a variable"
        )
    for name in _VARIABLE.findall(value):
        if name not in os.environ:
            absent.setdefault(name, where)
    return _VARIABLE.sub(lambda named: os.environ.get(named[1], ""), value)


def _refuse_no_text(value: Any, where: str) -> None:
    """Refuse texts that no file and no database can hold, such as a text with NUL.

    Args:
        value: a text, or a list or table whose texts are checked.
    """
    if isinstance(value, str) and not is_text(value):
        raise InvalidInput(
            f"{where} is {value[:80]!r}, which is not valid UTF-8 or has the character NUL"
        )
    tables = dict(enumerate(value, 1)) if isinstance(value, list) else value
    for key, one in tables.items() if isinstance(tables, dict) else ():
        _refuse_no_text(str(key), f"a key of {where or 'it'}")
        _refuse_no_text(one, f"{where}.{key}" if where else str(key))


def _job(
    name: str, own: Any, defaults: Any, file: Path, events: Events | None, *, without_rows: bool
) -> Job:
    """Build the job that one table of a job file describes.

    Args:
        name: name of the table.
        own: the table, as parsed from the file.
        defaults: the table of options that hold for all jobs of the file.
        file: path of the job file.
        events: source of the events; None: the table names it.
        without_rows: True if no row will be read, so that the table need not name events.
    """
    where = f"job {name!r} of {str(file)!r}"
    if not isinstance(own, dict) or not isinstance(defaults, dict):
        raise InvalidInput(
            f"{where} is not a section: write the line [jobs.{name}], and its keys below"
        )
    what = own.get(STATISTIC, defaults.get(STATISTIC, "count"))
    if not is_keyword(what):
        raise InvalidInput(f"{where}: {no_statistic(what)}")
    known = _keys(own_options(what))
    if empty := [key for key in MUST_BE_SAID if (defaults | own).get(key) == ""]:
        whom = (
            "; whom to protect is never guessed: user names the column of the person, with most "
            'and per; or delete these three lines and write unit = "visit", which protects single '
            "rows"
        )
        raise InvalidInput(
            f"{where} leaves empty: {', '.join(empty)}; fill in what the comment above each line "
            f"says{whom if 'user' in empty else ''}"
        )
    taken: dict[str, Any] = {"name": name}
    for shared, table in ((True, defaults), (False, own)):
        for key, value in table.items():
            if key == STATISTIC:
                continue
            item = known.get(key)
            if item is not None:
                taken[item.name] = _value(item, value, where, file.parent)
                continue
            others = _keys(all_options().values())
            if key in others and shared:
                continue  # a default for other jobs, whose statistic has this option
            in_python = [item.key for item in known.values() if item.name == key]
            near = in_python or other_name(key, known)
            # Of a short key one wrong letter is a larger part.
            near = near or get_close_matches(
                key, [*known, STATISTIC], 1, 0.72 if len(key) > 3 else 0.6
            )
            meant = f"did you mean {near[0]!r}?" if near and near[0] != key else "leave it out"
            of = "an option of another statistic" if key in others else "not an option of jobs"
            note = "" if near or key in others else "; a note is a line that begins with #"
            raise InvalidInput(f"{where}: {key!r} is {of}; {meant}{note}")
    if events is not None:
        if "events" in taken:
            raise InvalidInput(
                f"{where} names 'events', but here the rows are passed in from outside; leave the "
                "key out"
            )
        taken["events"] = events
    of_service = without_rows and "events" not in taken
    if of_service:
        taken["events"] = "-"
    for needed in ("events", "state"):
        if needed not in taken:
            raise InvalidInput(
                f"{where} lacks the key {needed!r}; add it there, or under [defaults]"
            )
    try:
        job = Job(what, **taken)
        if of_service:
            refuse_of_service(job)
        return job
    except InvalidInput as error:  # a wrong choice of a field, or a value that the service refuses
        raise InvalidInput(f"{where}: {error.translate(words_of_files())}") from error


def _value(item: Option, value: Any, where: str, folder: Path) -> Any:
    """Check a value of the file, and convert it to the option's type.

    Args:
        where: place of the value, for messages.
        folder: folder of the job file, to which paths are relative.
    """
    kind, key, several = item.kind, item.key, item.several
    found: dict[str, Any] = {}
    if item.nested and isinstance(value, dict):  # statistics of a report
        for name, one in value.items():
            if not isinstance(one, dict):
                raise InvalidInput(
                    f"{where}: {name!r} is {one!r}; it must be a section with options"
                )
            paths = [file for file in ("domain", "out", "plot") if isinstance(one.get(file), str)]
            found[name] = one | {file: _seen_from(file, one[file], folder, where) for file in paths}
        return found
    if item.by_name and isinstance(value, dict):  # such as lists of names by column
        for name, one in value.items():
            fits = isinstance(one, list) if several else isinstance(one, int | float)
            if not fits or isinstance(one, bool):
                wanted = "a list of texts" if several else "a number"
                raise InvalidInput(
                    f"{where}: {key}.{name} is {one!r}, of type {type(one).__name__}; it must be "
                    f"{wanted}"
                )
            found[name] = [*map(str, one)] if several else one
        return found
    fits = isinstance(value, VALUES[kind].types) or (several and isinstance(value, list))
    if isinstance(value, bool) != (kind == "flag") or not fits:
        raise InvalidInput(
            f"{where}: {key} is {value!r}, of type {type(value).__name__}; it must be "
            f"{VALUES[kind].words}{' or a list of texts' if several else ''}"
        )
    if isinstance(value, list):
        if not several or not all(isinstance(one, str | int | float) for one in value):
            raise InvalidInput(f"{where}: {key} is {value!r}; it must be {VALUES[kind].words}")
        if item.name == "domain":  # names of groups, even if a file of this name exists
            return [*map(str, value)]
        return [_seen_from(item.name, str(one), folder, where) for one in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if kind == "text" and not isinstance(value, str):
        value = repr(value)
    return _seen_from(item.name, value, folder, where) if isinstance(value, str) else value


def _path_in(name: str, value: str, folder: Path) -> tuple[str, str] | None:
    """Split the value of an option into the text before its path, and the path, seen from a folder.

    None if the value names no file.
    """
    item = options_of(Job).get(name)
    return None if item is None else item.split_file(value, folder)


def _seen_from(name: str, value: str, folder: Path, where: str) -> str:
    """Return the value of an option in a job file; if the value has a path, it is joined to the
    folder of the job file.

    A value that names no file is unchanged.

    Args:
        name: name of the option.
        value: its value in the file.
        folder: folder of the job file.
        where: place of the value, for messages.

    Raises:
        InvalidInput: the value is empty in place of a path, which would mean the folder itself.
    """
    found = _path_in(name, value, folder)
    if found is not None and not found[1].strip():
        raise InvalidInput(
            f"{where}: {name.replace('_', '-')} is {value!r}, which names no file: give a path, "
            "or leave the key out"
        )
    return value if found is None else found[0] + str(folder / found[1])


def save(
    job: Job,
    path: str | os.PathLike[str],
    comments: Mapping[str, str] | None = None,
    *,
    anew: bool = False,
    empty: Collection[str] = (),
) -> None:
    """Write a job into a job file: add it to the file's jobs, or replace the job with its name.

    Comments and the order of the file's other options stay. The date of ``until`` is only for one
    run, and is not written. Addresses of databases are written without passwords, which the
    environment may give (PGPASSWORD, PGPASSFILE). A new file has mode 0600.

    Args:
        comments: comments by the key that they stand above; "" is the comment above the job.
        anew: replace the whole content of the file.
        empty: options that somebody has still to state: their keys stand first, with an empty text,
            which `load` refuses by name.

    Raises:
        InvalidInput: the job has no form in a file (a frame, or a statistic given as an object), or
            the file is no job file.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    file, comments = Path(path), comments or {}
    if not isinstance(job.what, str):
        raise InvalidInput(
            f"{field('what')} is {job.what!r}, and a job file can hold only a statistic that has a "
            f"name: give one of {', '.join(keywords())}"
        )
    try:
        data = read_plain(file) if file.exists() and not anew else b""
        parse_toml(data)  # refuses what takes too long
        document = tomlkit.parse(data.decode())
    except OSError as error:
        raise InvalidInput(
            f"job file {str(file)!r} cannot be read ({error.strerror}); save it into another file"
        ) from error
    except (TOMLKitError, ValueError) as error:
        raise InvalidInput(
            f"job file {str(file)!r} is not valid TOML: {error}; correct it"
        ) from error
    for line in comments.get("", "").splitlines():
        document.add(tomlkit.comment(line))
    jobs = document.setdefault("jobs", tomlkit.table(is_super_table=True))
    written = tomlkit.table()
    stated = job_entries(job.having(until=None) if last_date(job) else job, file.parent)
    known = _keys(own_options(job.what))
    shared = [key for key in document.get("defaults", {}) if key not in stated and key in known]
    if shared:
        raise InvalidInput(
            f"job file {str(file)!r} has options under [defaults] that this job does not state "
            f"({', '.join(shared)}), and they would change the job; state them in the job, or save "
            "it into another file"
        )
    for key, value in (dict.fromkeys(empty, "") | stated).items():
        if key in comments:
            written.add(tomlkit.comment(comments[key]))
        written.add(key, value)
    jobs[job.keeping.name] = written
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    replace_file(file, lambda new: Path(new).write_text(tomlkit.dumps(document), "utf-8"), mode)


def last_date(job: Job) -> str | None:
    """Return the time, as stated in ``until``, after which a job releases nothing; None if the
    newest event or the present time decides.

    >>> last_date(Job("count", "visits.csv", "visits.db", until="2024-03-04"))
    '2024-03-04'
    """
    return None if job.times.until in (None, NOW, NEWEST) else str(job.times.until)


def job_entries(job: Job, folder: Path | None = None) -> dict[str, Any]:
    """Return the keys and values that a job has in a job file; defaults are left out.

    >>> job = Job("count", "visits.csv", "visits.db", start="2024-03-01")
    >>> job_entries(job)["start"], list(job_entries(job))
    ('2024-03-01', ['statistic', 'events', 'state', 'start'])
    """
    found: dict[str, Any] = {STATISTIC: job.what}
    for key, item in _keys(own_options(job.what)).items():
        value = job.option(item.name)
        same = item.name not in ("name", "events") and value == item.default
        if item.name == "name" or value is None or same:
            continue
        if item.name == "events":
            several = [value] if isinstance(value, str | os.PathLike) else value
            if not isinstance(several, Sequence) or not all(
                isinstance(one, str | os.PathLike) for one in several
            ):
                raise InvalidInput(
                    f"{field('events')} are a data frame, which cannot be written into a job file; "
                    "name a file of events"
                )
            value = [_seen_in(item.name, os.fspath(one), folder) for one in several]
            value = value[0] if len(value) == 1 else value
        elif isinstance(value, os.PathLike | str):
            value = _seen_in(item.name, os.fspath(value), folder)
        elif isinstance(value, list | tuple):
            value = [str(one) for one in value]
        elif isinstance(value, datetime):
            value = value.isoformat()
        elif isinstance(value, Mapping) and item.nested:
            value = {str(key): dict(one) for key, one in value.items()}
        elif isinstance(value, Mapping):
            value = {
                str(key): [*map(str, one)] if isinstance(one, list | tuple) else one
                for key, one in value.items()
            }
        elif item.name == "key":
            raise InvalidInput(
                f"{field('key')} is a Key in memory, and a job file names the file of a key: save "
                "the key (Key.save), and give the path"
            )
        elif item.name == "strategy":
            raise InvalidInput(
                f"{field('strategy')} is {value!r}, and a job file names the file of a strategy: "
                "write the strategy with counton.options.custom_strategies.write_strategy, and "
                "give the path"
            )
        elif not isinstance(value, bool | int | float):
            value = str(value)
        found[key] = value
    return found


def _seen_in(name: str, value: str, folder: Path | None) -> str:
    """Return the value of an option as a job file states it: a path is relative to ``folder``, and
    an address has no password. If ``folder`` is None, paths are unchanged.
    """
    item = options_of(Job).get(name)
    value = without_secrets(value) if item is not None and item.file else value
    found = _path_in(name, value, Path())
    if folder is None or found is None:
        return value
    return found[0] + os.path.relpath(found[1], folder)


def schema() -> dict[str, Any]:
    """Build the JSON schema of a job file from the fields of `Job` and their options.

    >>> schema()["$defs"]["job"]["properties"]["every"]["description"]
    'length of a window: 15m, 1h, 1d, 1w, 1mo'
    """
    from counton.statistics.report_members import SHARE

    properties: dict[str, Any] = {
        STATISTIC: {
            "enum": [*keywords()],
            "description": "; ".join(
                f"{name}: {statistic_named(name).says}" for name in keywords()
            ),
        }
    }
    for key, item in _keys(all_options().values()).items():
        types = VALUES[item.kind].json
        if item.several:
            types = list(dict.fromkeys([*types, "array"]))
        if item.by_name:
            types = [*types, "object"]
        types_of_key = {"type": types[0] if len(types) == 1 else types}
        properties[key] = {**types_of_key, "description": item.help}
        if item.default not in (None, ""):
            properties[key]["default"] = item.default
    job = {"type": "object", "properties": properties, "additionalProperties": False}
    keys = {called for option in all_options().values() for called in (option.key, option.name)}
    keys |= {STATISTIC, "by", "domain", "shares", SHARE}
    part = {name: one for name, one in properties.items() if name in keys}
    part[SHARE] = {"type": "number", "description": "its share of the budget; 1 if unsaid"}
    statistic = {"type": "object", "properties": part, "additionalProperties": False}
    report = {**job, "additionalProperties": {"$ref": "#/$defs/statistic"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "jobs of counton",
        "type": "object",
        "properties": {
            "defaults": {"$ref": "#/$defs/job"},
            "jobs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/job"}},
            REPORT: {"type": "object", "additionalProperties": {"$ref": "#/$defs/report"}},
            SERVICE: {"type": "object", "description": "settings of counton serve"},
            PUBLISH: {
                "type": "object",
                "description": "where all streams are published",
                "properties": {"to": {"type": "string", "description": "SQLite file or URL"}},
            },
        },
        "anyOf": [{"required": ["jobs"]}, {"required": [REPORT]}],
        "additionalProperties": False,
        "$defs": {"job": job, "report": report, "statistic": statistic},
    }


def select_jobs(jobs: Mapping[str, _T], only: str | Sequence[str] | None) -> dict[str, _T]:
    """Return the named jobs of a file, in its order; all jobs if none is named."""
    names = () if only is None else split_names(only)
    for name in names:
        if name not in jobs:
            raise InvalidInput(
                f"{field('only', name)} is not a job of this file; its jobs are {', '.join(jobs)}"
            )
    return {name: job for name, job in jobs.items() if not names or name in names}
