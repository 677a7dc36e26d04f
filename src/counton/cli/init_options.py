"""Options of the command ``init``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counton.cli.command_options import ENDINGS, argument, of_job
from counton.job.job import Job, OptionRecord, option, options_of


@dataclass(frozen=True)
class InitOptions(OptionRecord):
    """Make a job file for events: ask for each missing option, and suggest an answer.

    It reads the header and the first rows, spends nothing, and writes the job file alone. It does
    not ask for an option that is given. --yes asks nothing, and lists the options that are still
    missing. Then: counton run nightly.toml
    """

    events: str = argument(
        "CSV, Parquet or JSON lines, one row per event; a folder of them; or, with --query, "
        "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    )
    save: Path = option(
        Path("nightly.toml"),
        "the job file to write; a file that exists is not overwritten without --force",
    )
    force: bool = option(False, "overwrite a job file that exists")
    yes: bool = option(False, "ask no questions: take the usual value of all that is not stated")
    time: str | None = of_job("time")
    time_format: str | None = of_job("time_format")
    timezone: str | None = of_job("timezone")
    every: str | None = of_job("every")
    start: str | None = of_job("start")
    steps: int | None = of_job("steps")
    until: str | None = option(
        None, "now (the clock decides which windows have ended), or newest: the newest event does"
    )
    around: int | None = of_job("around")
    watermark: str | None = of_job("watermark")
    revise: str | None = of_job("revise")
    clock_change: str | None = option(None, options_of(Job)["clock_change"].help)
    release: str | None = option(
        None, "which numbers to publish: totals (so far), windows (of each window alone), or both"
    )
    by: str | None = of_job("by")
    domain: str | None = option(None, options_of(Job)["domain"].help)
    other: str | None = of_job("other")
    unknown: str | None = option(None, options_of(Job)["unknown"].help)
    user: str | None = of_job("user")
    most: int | None = of_job("most")
    per: str | None = of_job("per")
    first: bool = of_job("first")
    unit: str | None = of_job("unit")
    epsilon: str | None = option(None, options_of(Job)["epsilon"].help)
    delta: str | None = option(None, options_of(Job)["delta"].help)
    rho: str | None = option(None, options_of(Job)["rho"].help)
    within: str | None = option(None, options_of(Job)["within"].help)
    missing: str | None = option(None, options_of(Job)["missing"].help)
    bad_rows: str | None = option(None, options_of(Job)["bad_rows"].help)
    id: str | None = of_job("id")
    append: bool = of_job("append")
    query: str | None = of_job("query")
    file_format: str | None = of_job("file_format")
    separator: str | None = option(None, options_of(Job)["separator"].help)
    quotes: str | None = of_job("quotes")
    state: str | None = option(None, "SQLite file or database URL; default: beside the events")
    name: str | None = option(None, "name of the stream; default: the name of the events' file")
    key: str | None = option(None, options_of(Job)["key"].help)
    witness: str | None = option(None, options_of(Job)["witness"].help)
    out: str | None = option(
        None, f"file for the released numbers ({ENDINGS}); default: beside the events, as CSV"
    )
