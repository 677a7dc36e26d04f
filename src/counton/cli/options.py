"""Options of the command line, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def whole_number(text: str) -> int:
    """An integer as people write it; typer's own message does not name the value."""
    try:
        return int(text.replace(",", "_"))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a whole number; write it as in 8760") from error


def fraction(text: str) -> float:
    """A floating-point number."""
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a number; write it as in 0.95") from error


Events = Annotated[
    str, typer.Argument(help="CSV, Parquet or JSON lines, one row per event; - for standard input")
]
State = Annotated[
    str, typer.Option(help="SQLite file or database URL that keeps the stream; secret")
]
StreamName = Annotated[str, typer.Option("--name", help="name of the stream within the state")]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key", help="file of the key, made for a new state; default: STATE.key"),
]
Time = Annotated[str | None, typer.Option(help="column of the events' times")]
Every = Annotated[str | None, typer.Option(help="length of a window: 15m, 1h, 1d, 1w, 1mo")]
By = Annotated[str | None, typer.Option(help="column of the events' groups")]
Domain = Annotated[
    str | None,
    typer.Option(help="the declared groups: a file (one per line, or a table) or a list A,B,C"),
]
Steps = Annotated[
    int | None,
    typer.Option(parser=whole_number, help="how many windows the stream will ever have"),
]
Start = Annotated[str | None, typer.Option("--from", help="beginning of the first window")]
Until = Annotated[
    str | None,
    typer.Option(help="release windows that ended by then; default: the newest event's time"),
]
Confirmed = Annotated[
    bool,
    typer.Option("--yes", help="release also many windows after the newest event, as --until says"),
]
Timezone = Annotated[
    str | None, typer.Option(help="zone of local times and calendar windows; default: UTC")
]
Epsilon = Annotated[str | None, typer.Option(help="privacy loss of one row")]
Delta = Annotated[str | None, typer.Option(help="with --epsilon: approximate privacy")]
Rho = Annotated[str | None, typer.Option(help="zero-concentrated privacy instead of epsilon")]
StrategyName = Annotated[
    str | None,
    typer.Option("--strategy", help="auto, binary, honaker, kary, smooth or sqrt"),
]
Metric = Annotated[str | None, typer.Option(help="error to make small: mean or max")]
Expire = Annotated[
    bool,
    typer.Option(
        "--expire", help="protection fades with age; no --steps needed: see plan --expire"
    ),
]
Growth = Annotated[
    str | None, typer.Option(help="with --expire: the loss grows like log(age)^GROWTH; default: 1")
]
Delay = Annotated[
    int | None,
    typer.Option(parser=whole_number, help="with --expire: release events this many windows late"),
]
Targets = Annotated[
    str | None,
    typer.Option("--expire", help="an endless stream's largest loss by age, as in 1d:1,365d:3"),
]
PlanEvery = Annotated[str | None, typer.Option("--every", help="with --expire: length of a window")]
Concentrated = Annotated[
    bool,
    typer.Option("--concentrated", help="with --expire: losses in rho, by Gaussian noise"),
]
PerStep = Annotated[
    float,
    typer.Option(parser=fraction, help="with --expire: events per window; what a delay costs"),
]
LargestGrowth = Annotated[
    str | None,
    typer.Option(help="with --expire: growths to choose from are 0 to this; default: 2"),
]
Rmse = Annotated[
    float | None,
    typer.Option(parser=fraction, help="with --expire: typical error that must be reached"),
]
LargestError = Annotated[
    float | None,
    typer.Option(parser=fraction, help="with --expire: bound on all errors, probability 2/3"),
]
PlanPlot = Annotated[
    Path | None, typer.Option("--plot", help="with --expire: draw loss against age")
]
Unit = Annotated[str | None, typer.Option(help="what one row is called in the output")]
FileFormat = Annotated[
    str | None, typer.Option("--format", help="csv, parquet or jsonl, where the name does not say")
]
TimeFormat = Annotated[
    str | None,
    typer.Option(
        help="epoch, epoch_ms, epoch_us, epoch_ns or a strftime format; default: ISO 8601"
    ),
]
ClockChange = Annotated[
    str,
    typer.Option(help="local times that come twice a year: raise, earliest or latest"),
]
Unknown = Annotated[str, typer.Option(help="rows of undeclared groups: refuse or drop")]
Append = Annotated[
    bool, typer.Option("--append", help="the file holds new events only, not all since --from")
]
Out = Annotated[Path | None, typer.Option(help="write all released steps: .csv, .parquet, .jsonl")]
Plot = Annotated[Path | None, typer.Option(help="draw all released steps: .png, .svg or .pdf")]
Level = Annotated[
    float, typer.Option(parser=fraction, help="probability that an interval holds the true total")
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object and nothing else")]
Value = Annotated[str | None, typer.Option(help="column of the values to add up")]
Lower = Annotated[str | None, typer.Option(help="smaller values count as this")]
Upper = Annotated[str | None, typer.Option(help="larger values count as this")]
Resolution = Annotated[str | None, typer.Option(help="values are rounded to multiples of this")]

# Releases of tables at one go.
Leaves = Annotated[str, typer.Argument(help="CSV, Parquet or JSON lines, one row a leaf")]
Levels = Annotated[str, typer.Option(help="the level columns, coarsest first: A,B,C")]
Counts = Annotated[str, typer.Option("--value", help="column of the counts, whole numbers")]
Nodes = Annotated[
    str, typer.Option("--domain", help="public table with the level columns: which leaves exist")
]
Target = Annotated[
    str | None,
    typer.Option(
        help="standard deviation by level, LEVEL=STD,...; relative ones if a guarantee is given"
    ),
]
TableOut = Annotated[Path, typer.Option("--out", help="write the table: .csv, .parquet, .jsonl")]
TablePlot = Annotated[
    Path | None, typer.Option("--plot", help="draw what was released: .png, .svg or .pdf")
]
TableKey = Annotated[
    Path | None, typer.Option("--key", help="file of the key, made if missing; default: OUT.key")
]
ReleaseName = Annotated[
    str, typer.Option("--name", help="of this release; each name has its own noise")
]
Move = Annotated[
    bool, typer.Option("--move", help="protect where a unit is counted, not whether it is")
]
UnitName = Annotated[str, typer.Option("--unit", help="what one count is called in the output")]
Series = Annotated[str, typer.Argument(help="CSV, Parquet or JSON lines, one row a cell")]
Label = Annotated[str | None, typer.Option(help="column that names the cells")]
Ask = Annotated[str | None, typer.Option(help="print these sums: 0:24,24:48 (ends excluded)")]
Workload = Annotated[
    str, typer.Option(help="what to be accurate for: ranges, prefixes, nodes or subsets")
]
LineStrategy = Annotated[
    str,
    typer.Option(
        "--strategy",
        help="auto, identity, cascade, haar, binary, hierarchy, square_root or optimal",
    ),
]
