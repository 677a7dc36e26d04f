"""Options of the command ``init``."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

from counton.cli.command_options import ENDINGS, argument
from counton.frame.options import COUNTS
from counton.job.job import Job, OptionRecord, option, options_of

#: Options of a job that the command takes, with the help that they have there.
_OF_JOB = (
    *("time", "time_format", "timezone", "every", "start", "steps", "around", "until", "watermark"),
    *("revise", "clock_change", "by", "domain", "other", "unknown", "counts", "user", "most"),
    *("per", "first", "unit", "moves", "row", "epsilon", "delta", "rho", "within", "release"),
    *("append", "covers", "missing", "bad_rows", "id", "query", "file_format", "separator"),
    "decimal",
    *("state", "name", "key", "witness", "out"),
)


@dataclass(frozen=True)
class FirstOptions(OptionRecord):
    """Make a job file for events, with a comment on each option.

    It reads the header and the first rows, spends nothing, and writes the job file alone. What only
    you can say, such as whom to protect, stays an empty line to fill in, or is given here. Then:
    counton run nightly.toml
    """

    events: str = argument(
        "CSV, Parquet or JSON lines, one row per event; a folder of them; or, with --query, "
        "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    )
    save: Path = option(
        "the job file to write; a file that exists is not overwritten without --force",
        default=Path("nightly.toml"),
    )
    force: bool = option("overwrite a job file that exists", default=False)


#: Help of options whose default is another one here.
_HELP = {
    "name": "name of the stream; default: the name of the events' file",
    "out": f"file for the released numbers ({ENDINGS}); default: beside the events, as CSV",
}


def _as_in_job(name: str) -> tuple[str, Any, Any]:
    """Return an option of `Job` as a field; its value is None or False unless it is stated."""
    item = {**options_of(Job), "counts": COUNTS}[name]
    kind = {"whole": "int | None", "flag": "bool"}.get(item.kind, "str | None")
    default = False if item.kind == "flag" else None
    return (
        name,
        kind,
        option(_HELP.get(name, item.help), item.word, default=default, often=item.often),
    )


#: The options of the command.
InitOptions = make_dataclass(
    "InitOptions",
    [_as_in_job(name) for name in _OF_JOB],
    bases=(FirstOptions,),
    frozen=True,
    namespace={"__doc__": FirstOptions.__doc__},
)
