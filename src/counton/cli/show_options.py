"""Options of commands that read and publish what was released."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counton.cli.command_options import ENDINGS, JSON, argument, of_job
from counton.job.job import option


@dataclass(frozen=True)
class ShowOptions:
    """Show what a state or a released table holds: last numbers, promises and strategies.

    Shows no secrets and needs no key. A released table carries all that is public about its stream.
    The account of each promise: counton methods --full.
    """

    state: str = argument(
        "SQLite file or database URL that keeps the releases, secret; or a released table"
    )
    name: str | None = option("which stream to show; default: all")
    json: bool = option(JSON, default=False)


@dataclass(frozen=True)
class MethodsOptions:
    """Write the text that a website prints with the numbers: subject, time, protection, error.

    Some five sentences for everybody; the whole account (attacker, mechanism, what is not
    protected, sources) is --full. A state is enough, or a released table.
    """

    state: str = argument(
        "SQLite file or database URL that keeps the releases, secret; or a released table"
    )
    name: str | None = option("write about this stream or table only; default: all")
    level: float | None = option(
        "probability that an interval holds the number without noise; default: as in the files"
    )
    full: bool = option(
        "write the whole account, for specialists, instead of some five sentences", default=False
    )
    json: bool = option(JSON, default=False)


@dataclass(frozen=True)
class ExportOptions:
    """Write what was released again, as a table, a chart or a web page, from a state or a table.

    Choose any steps, any groups and intervals of any level. No key is needed, and nobody who
    writes the stream is disturbed.
    """

    state: str = argument(
        "SQLite file or database URL that keeps the releases, secret; or a released table"
    )
    name: str | None = option("name of the stream or table; needed if there are several")
    out: Path | None = option(
        f"write a table ({ENDINGS}), a chart (.png, .svg, .pdf) or a web page (.html); default: "
        "print"
    )
    steps: str | None = option(
        "only these steps, the first and the last: 25:48, 25: or :48; or days or times, "
        "2024-03-18:2024-03-24"
    )
    groups: str | None = option("only these groups, in this order: A,B,C")
    title: str | None = of_job("title")
    axis: str | None = of_job("axis")
    source: str | None = of_job("source")
    width: float | None = of_job("width")
    level: float | None = option(
        "probability that an interval holds the number without noise; default: as before, or 0.95"
    )
    json: bool = option(JSON, default=False)


@dataclass(frozen=True)
class PublishOptions:
    """Write releases into plain database tables, for Grafana, Metabase or psql.

    The view counton_releases shows them. Run the command after each release; within the state's own
    database every later run publishes by itself.
    """

    state: str = argument("SQLite file or database URL that keeps the stream; secret")
    to: str | None = option(
        "database to publish into, a SQLite file or a URL; default: the state's own"
    )
    name: str | None = option("name of the stream; needed if there are several")
    level: float | None = option(
        "probability that an interval holds the number without noise; default: as before, or 0.95"
    )
    remove: bool = option("remove the stream's rows from the database instead", default=False)
    key: str | None = option("where the key is, if not beside the state")
    json: bool = option(JSON, default=False)
