"""The commands ``statistic ...``, one for each statistic: run, write table and chart, print.

A statistic has options of its own and no others; they are the fields of two dataclasses: what
defines it, which ``plan --statistic`` takes too, and the columns in which a file has its events.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from counton.cli.options import argument, option, takes
from counton.cli.printing import (
    print_files,
    print_json,
    print_line,
    print_table,
    print_words,
    warn_of_weak,
    working,
)
from counton.errors import InvalidInput, field
from counton.events.files import event_paths, read_domain, refuse_among_events
from counton.events.tally import UNKNOWN
from counton.exact import check_integer
from counton.jobs.outputs import about, check_outputs, write_table
from counton.jobs.statistic_runs import (
    StatisticOutcome,
    StatisticRequest,
    check_over,
    kept_statistic,
    local_time,
    run_statistic,
)
from counton.mechanisms.intervals import check_level
from counton.statistics.known import statistic_from_dict
from counton.store.whole_file import replace_file

if TYPE_CHECKING:
    import polars as pl

    from counton.cli.options import PlanOptions
    from counton.jobs.runs import Outcome
    from counton.privacy import Contribution, Guarantee
    from counton.statistics import Statistic

#: What a parser raises for options that are wrong: of click, or of typer's own copy of it.
_REFUSED: Any = typer.BadParameter.__base__
#: Steps that a chart shows, about.
_DRAWN = 500
#: Groups that there can be where nobody declares them, unless stated.
_ROOM = 1_000_000
#: Groups that are shown unless stated.
_TOP = 10
#: Rows on the screen.
_SHOWN = 20


@dataclass(frozen=True)
class StatisticOptions:
    """Options of all statistics."""

    events: list[str] = argument("files of events: CSV, Parquet or JSON lines; a folder of them")
    state: str = option(..., "SQLite file or database URL that keeps the stream; secret")
    time: str | None = option(None, "column of the events' times; without it each row is a step")
    every: str | None = option(None, "with --time: length of a window, a step: 15m, 1h, 1d, 1w")
    steps: int | None = option(None, "how many steps the stream will ever have")
    start: str | None = option(None, "with --time: beginning of the first window", "--from")
    until: str | None = option(
        None, "with --time: release windows that ended by then, or by now; default: newest event"
    )
    timezone: str | None = option(None, "zone of local times and calendar windows; default: UTC")
    epsilon: str | None = option(None, "privacy loss of one unit, which the output names")
    delta: str | None = option(None, "with --epsilon: approximate privacy")
    rho: str | None = option(None, "zero-concentrated privacy instead of epsilon")
    name: str = option("statistic", "name of the stream within the state")
    key: str | None = option(
        None, "file of the key, env:NAME or command:...; default: STATE.key, made for a new state"
    )
    file_format: str | None = option(
        None, "csv, parquet or jsonl, where the name does not say", "--format"
    )
    time_format: str | None = option(
        None, "epoch, epoch_ms, epoch_us, epoch_ns or a strftime format; default: ISO 8601"
    )
    clock_change: str = option(
        "raise", "local times that come twice a year: raise, earliest or latest"
    )


@dataclass(frozen=True)
class StatisticOutputs:
    """What is done with what was released."""

    out: Path | None = option(
        None, "write all released steps: .parquet, .csv, .json, .jsonl or .arrow"
    )
    plot: Path | None = option(None, "draw what was released: .png, .svg or .pdf")
    title: str | None = option(None, "of the chart, in other words than the statistic's own")
    axis: str | None = option(None, "what the chart's axis shows")
    over: int | None = option(None, "show what came in the last so many steps, not in all so far")
    level: float = option(0.95, "probability that an interval holds the truth")
    json: bool = option(False, "print one JSON object and nothing else", "--json")


def perform(
    options: StatisticOptions, columns: Any, parameters: Any, outputs: StatisticOutputs
) -> None:
    """Release what is due, then write and print from the journal.

    Raises:
        CountonError: see `counton.jobs.run_statistic`.
    """
    if isinstance(columns, _Groups) and columns.unknown == "discover":
        columns.parts(parameters)
        _perform_discovered(options, columns, parameters, outputs)
        return
    errors = Console(stderr=True)
    if isinstance(parameters, _TopK):
        parameters = parameters.going_on(options.state, options.name)
    statistic, parts = parameters.made(columns), columns.parts(parameters)
    request = StatisticRequest(
        statistic,
        columns=parts.names,
        numbers=parts.numbers,
        flags=parts.flags,
        only=columns.only(statistic) if isinstance(columns, _Groups) else None,
        **asdict(options),
    )
    events = [str(path) for path in options.events]
    read = event_paths(events, options.file_format) if parts.names else events
    check_outputs(outputs.out, outputs.plot, state=options.state, key=options.key, read=read)
    refuse_among_events(events, outputs.out)
    check_level(outputs.level)
    ask = columns.asked(statistic) if hasattr(columns, "asked") else None
    if outputs.over is not None:
        check_over(outputs.over, statistic)
    for given in ("title", "axis"):
        if getattr(outputs, given) is not None and outputs.plot is None:
            raise InvalidInput(
                f"{field(given, getattr(outputs, given))} is of a chart; give {field('plot')} too"
            )
    with working(errors) as progress, run_statistic(request, progress) as outcome:
        table = None
        if outcome.after:
            progress("reading the journal", 0.9)
            table = _write(outcome, ask, outputs)
        terms, last = outcome.stream.terms, outcome.after
        std = float(terms.std(range(last, last + 1))[0]) if last else None
        warn_of_weak(
            errors, terms.guarantee, terms.contribution.unit, options.epsilon or options.rho
        )
        if outcome.outside:
            step = "step" if outcome.windows is None else "window"
            print_line(
                errors,
                f"not private, for the operator: rows before the first {step} or after the last, "
                f"counted nowhere: {outcome.outside:,}",
            )
        if outcome.left_out:
            print_line(
                errors,
                f"not private, for the operator: rows of undeclared groups, counted nowhere: "
                f"{outcome.left_out:,}",
            )
        if outputs.json:
            print_json(_as_json(outcome, table, options, outputs))
            return
        _show(Console(), outcome, table, std, outputs)


def _perform_discovered(
    options: StatisticOptions, columns: _Groups, parameters: _TopK, outputs: StatisticOutputs
) -> None:
    """The largest of groups that nobody declared: a ranking of what a count releases."""
    from counton.cli.count import operator_notes, progress_line, protection
    from counton.jobs.discovered_ranking import rankings
    from counton.jobs.job import Job
    from counton.jobs.runs import run

    if parameters.domain is not None or outputs.over is not None:
        name = "domain" if parameters.domain is not None else "over"
        given = parameters.domain if parameters.domain is not None else outputs.over
        raise InvalidInput(
            f"{field(name, given)} does not go with {field('unknown', 'discover')}, where no group "
            f"is declared and each is shown from some step on; leave one of them out"
        )
    check_outputs(
        outputs.out,
        outputs.plot,
        state=options.state,
        key=options.key,
        read=event_paths(options.events, options.file_format),
    )
    check_level(outputs.level)
    room = _ROOM if columns.room is None else columns.room
    check_integer("room", room, 1)
    top = parameters.shown
    request = Job(
        "count",
        by=columns.by,
        user=columns.user,
        most=parameters.most,
        first=parameters.first,
        unit=parameters.unit,
        unknown="discover",
        **asdict(options),
    )
    errors = Console(stderr=True)
    with working(errors) as progress, run(request, progress) as outcome:
        for note in operator_notes(outcome):
            print_line(errors, note)
        if not outcome.after:
            if outputs.json:
                print_json(_discovered_json(outcome, options, outputs, None))
            else:
                print_line(Console(), progress_line(outcome), bold=True)
            return
        released = outcome.released(outputs.level)
        table = rankings(released, top, room, outputs.level)
        terms = outcome.stream.terms
        if outputs.out is not None:
            write_table(table, outputs.out, about(terms, outputs.level))
        if outputs.plot is not None and table.height:
            from counton.plots.statistic_charts import plot_statistic
            from counton.plots.style import save_figure

            ends = released.local_ends()
            figure = plot_statistic(
                _made("TopK", groups=list(released.groups), k=top),
                {name: table[name].to_numpy() for name in table.columns},
                lambda steps: ends[steps.start - 1 : steps.stop - 1],
                terms,
                outputs.level,
                title=outputs.title,
                axis=outputs.axis,
            )
            replace_file(outputs.plot, partial(save_figure, figure))
        last = table.filter(table["step"] == outcome.after)
        last = last.drop("step", "window_start", "window_end")
        if outputs.json:
            print_json(_discovered_json(outcome, options, outputs, last))
            return
        console = Console()
        print_line(console, progress_line(outcome), bold=True)
        print_words(console, protection(outcome))
        print_line(
            console,
            f"\nafter step {outcome.after:,}, intervals of {100 * outputs.level:g}% for all of up "
            f"to {room:,} groups at once",
        )
        if last.height:
            _print_rows(console, last)
        else:
            print_line(console, "no group is large enough to be shown yet")
        print_files(console, outputs.out, outputs.plot if table.height else None)


def _discovered_json(
    outcome: Outcome,
    options: StatisticOptions,
    outputs: StatisticOutputs,
    last: pl.DataFrame | None,
) -> dict[str, Any]:
    terms = outcome.stream.terms
    return {
        "state": options.state,
        "name": options.name,
        "released": outcome.after,
        "new": outcome.after - outcome.before,
        "protected": str(terms.contribution),
        "guarantee": terms.guarantee.to_dict(),
        "strategy": repr(terms.strategy),
        "level": outputs.level,
        "last": None if last is None else {"step": outcome.after, "rows": last.to_dicts()},
    }


def _write(
    outcome: StatisticOutcome, ask: Sequence[Any] | None, outputs: StatisticOutputs
) -> pl.DataFrame:
    """Write table and chart; the last step's rows."""
    terms = outcome.stream.terms
    after, steps = outcome.after, None
    if outputs.out is None and not (outcome.statistic.on_demand and ask is None):
        steps = range(after, after + 1)
        if outputs.plot is not None and type(outcome.statistic).__name__ != "TopK":
            steps = _some(after)
    table = outcome.table(outputs.level, ask, steps, outputs.over)
    if outputs.out is not None:
        facts = {**about(terms, outputs.level), "statistic": terms.statistic}
        write_table(table, outputs.out, facts)
    if outputs.plot is not None and table.height:
        from counton.plots.statistic_charts import plot_statistic
        from counton.plots.style import save_figure

        drawn = table
        if "rank" in table.columns:  # those that are shown last, all along
            shown = table.filter(table["step"] == after)["group"].to_list()
            drawn = outcome.table(outputs.level, shown, _some(after), outputs.over)
        columns = {name: drawn[name].to_numpy() for name in drawn.columns}
        figure = plot_statistic(
            outcome.statistic,
            columns,
            outcome.times,
            terms,
            outputs.level,
            title=outputs.title,
            axis=outputs.axis,
        )
        replace_file(outputs.plot, partial(save_figure, figure))
    import polars as pl

    return table.filter(pl.col("step") == outcome.after)


def _some(after: int) -> range:
    """The steps that a chart shows, the last among them."""
    stride = max(1, after // _DRAWN)
    return range((after - 1) % stride + 1, after + 1, stride)


def _protection(outcome: StatisticOutcome) -> list[tuple[str, str]]:
    terms, guarantee = outcome.stream.terms, outcome.stream.terms.guarantee
    unit = terms.contribution
    lines = [
        ("statistic", repr(outcome.statistic)),
        ("protected", str(unit)),
        ("neighbours", f"differ {outcome.statistic.neighbours_differ}"),
        ("guarantee", f"{guarantee}, {guarantee.scope}"),
        ("", guarantee.meaning_for(unit.unit, unit.relation)),
        ("strategy", repr(terms.strategy)),
    ]
    if outcome.windows is None:
        lines.append(
            ("released", f"each row is a step: how many there are is public, {outcome.after:,}")
        )
        return lines
    assert outcome.until is not None
    last = int(outcome.windows.ends(range(outcome.after, outcome.after + 1))[0])
    until = local_time(max(outcome.until, last), outcome.windows.timezone)
    stated = "as stated"
    if outcome.until < last:
        stated = "by an earlier run"
    elif not outcome.until_stated:
        stated = (
            "the time of the newest event; that time comes from the data and is not protected: "
            "state --until to avoid this"
        )
    lines.append(("released", f"windows that ended by {until}, {stated}"))
    return lines


def _show(
    console: Console,
    outcome: StatisticOutcome,
    table: pl.DataFrame | None,
    std: float | None,
    outputs: StatisticOutputs,
) -> None:
    new, after = outcome.after - outcome.before, outcome.after
    steps = f"{after:,} step{'s' * (after != 1)}"
    done = f"Released {new:,} new; {steps} in all." if new else f"Nothing new: {steps} released."
    print_line(console, done, bold=True)
    words = _protection(outcome)
    if std is not None and table is not None and "std" in table.columns:
        words.append(("noise", f"standard deviation {std:,.4g} of one cell at step {after:,}"))
    print_words(console, words)
    if table is None:
        return
    when = ""
    if outcome.windows is not None:
        ended = str(outcome.times(range(after, after + 1))[0].astype("datetime64[s]"))
        when = f" ({ended.replace('T', ' ')}, {outcome.windows.timezone})"
    which = "after" if outputs.over is None else f"in the {outputs.over:,} steps up to"
    print_line(console, f"\n{which} step {after:,}{when}, intervals of {100 * outputs.level:g}%")
    shown = table.drop("step", "window_start", "window_end", strict=False)
    if table.height:
        _print_rows(console, shown)
    else:
        print_line(console, "nothing yet: fewer steps are released than are to be looked back over")
    print_files(console, outputs.out, outputs.plot if table.height else None)


def _print_rows(console: Console, rows: pl.DataFrame) -> None:
    shown = Table()
    for name, kind in rows.schema.items():
        shown.add_column(name, justify="right" if kind.is_numeric() else "left", overflow="fold")
    most = rows
    if rows.height > _SHOWN and "estimate" in rows.columns:
        most = rows.sort("estimate", descending=True, maintain_order=True)
    for row in most.head(_SHOWN).iter_rows():
        shown.add_row(*(_cell(value) for value in row))
    print_table(console, shown)
    if rows.height > _SHOWN:
        print_line(
            console, f"the {_SHOWN} largest of {rows.height:,} rows: a table (--out) has them all"
        )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str("" if value is None else value)


def _as_json(
    outcome: StatisticOutcome,
    table: pl.DataFrame | None,
    options: StatisticOptions,
    outputs: StatisticOutputs,
) -> dict[str, Any]:
    terms = outcome.stream.terms
    last, drawn = None, table is not None and table.height > 0
    if table is not None:
        shown = table.drop("step", "window_start", "window_end", strict=False)
        last = {"step": outcome.after, "rows": _finite(shown).to_dicts()}
        if outcome.windows is not None:
            ends = outcome.windows.ends(range(outcome.after, outcome.after + 1))
            last["window_end"] = local_time(int(ends[0]), outcome.windows.timezone)
    return {
        "state": options.state,
        "name": options.name,
        "statistic": outcome.statistic.to_dict(),
        "released": outcome.after,
        "new": outcome.after - outcome.before,
        "protected": str(terms.contribution),
        "contribution": terms.contribution.to_dict(),
        "guarantee": terms.guarantee.to_dict(),
        "strategy": repr(terms.strategy),
        "level": outputs.level,
        "out": None if outputs.out is None else str(outputs.out),
        "plot": None if outputs.plot is None or not drawn else str(outputs.plot),
        "last": last,
    }


def _finite(table: pl.DataFrame) -> pl.DataFrame:
    """Null for numbers that JSON does not have: the deviation of a mean of next to no values."""
    import polars as pl

    names = [name for name, kind in table.schema.items() if kind.is_float()]
    return table.with_columns(
        [pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in names]
    )


def two_columns(given: str, what: str) -> list[str]:
    """Names of two columns, ``A,B``.

    >>> two_columns("from,to", "edge")
    ['from', 'to']
    """
    names = [name.strip() for name in given.split(",")]
    if len(names) != 2 or "" in names:
        raise InvalidInput(
            f"{field(what, given)} must name two columns, of the ends of an edge, as in from,to"
        )
    return names


# ------------------------------------------------------------------------------- the statistics


class Parts(NamedTuple):
    """The columns of the parts of an event, in the order in which the statistic takes them.

    Attributes:
        names: none of a text, whose letters are the events.
        numbers, flags: those that hold numbers, or true and false.
    """

    names: list[str]
    numbers: list[str]
    flags: list[str]


@dataclass(frozen=True)
class _TopK:
    domain: str | None = option(
        None, "the declared groups, public: a file (one per line, or a table) or a list A,B,C"
    )
    top: int | None = option(None, "how many are shown; default: 10, or as at first")
    most: int | None = option(None, "protect a user of whom so many events count, not one event")
    first: bool = option(False, "with --most: one event of a user in each group", "--first")
    replace: bool = option(
        False, "protect of which group an event is, not whether it is there", "--replace"
    )
    unit: str | None = option(None, "what one event, or one user, is called")

    def going_on(self, state: str, name: str) -> _TopK:
        """With the groups, and how many are shown, of a stream that goes on."""
        if self.domain is not None and self.top is not None:
            return self
        kept: Any = kept_statistic(state, name)
        if type(kept).__name__ != "TopK":
            return self
        domain: Any = kept.groups if self.domain is None else self.domain
        return replace(self, domain=domain, top=kept.k if self.top is None else self.top)

    @property
    def shown(self) -> int:
        if self.top is not None and self.top < 1:
            raise InvalidInput(f"{field('top', self.top)} shows nothing; give at least 1")
        return _TOP if self.top is None else self.top

    def made(self, columns: _Groups | None) -> Statistic:
        if self.first and self.most is None:
            raise InvalidInput(
                f"{field('first', True)} needs {field('most')}; give it, or leave it out"
            )
        if self.domain is None:
            raise InvalidInput(
                f"{field('domain')} is missing: which groups are there? to show those that nobody "
                f"declared, once they are large, give {field('unknown', 'discover')}"
            )
        column = "group" if columns is None else columns.by
        return _made(
            "TopK",
            groups=list(read_domain(self.domain, column)),
            k=self.shown,
            most=self.most,
            once="group" if self.first else None,
            neighbours="replace" if self.replace else None,
            unit=self.unit,
        )


@dataclass(frozen=True)
class _Groups:
    by: str = option(..., "column of the events' groups")
    user: str | None = option(None, "with --most: column of users")
    unknown: str = option(
        "refuse", "rows of undeclared groups: refuse or drop; discover: none is declared"
    )
    room: int | None = option(
        None, "with --unknown discover: how many groups there can be, public; default: 1,000,000"
    )

    def only(self, statistic: Any) -> dict[str, list[str]] | None:
        """Values of columns that are counted, where rows of others are dropped."""
        return {self.by: list(statistic.groups)} if self.unknown == "drop" else None

    def parts(self, parameters: _TopK) -> Parts:
        if self.unknown not in UNKNOWN:
            raise InvalidInput(
                f"{field('unknown')} is {self.unknown!r}; use one of {', '.join(UNKNOWN)}"
            )
        if self.room is not None and self.unknown != "discover":
            raise InvalidInput(
                f"{field('room', self.room)} is of groups that nobody declared; give "
                f"{field('unknown', 'discover')} too, or leave it out"
            )
        if (self.user is None) != (parameters.most is None):
            raise InvalidInput(
                f"{field('user')} and {field('most')} belong together: whose events they are, and "
                f"how many of each count; give both, or none"
            )
        return Parts([*([self.user] if self.user is not None else ()), self.by], [], [])


@dataclass(frozen=True)
class _Average:
    lower: str = option(..., "smaller values count as this")
    upper: str = option(..., "larger values count as this")
    resolution: str = option(..., "values are rounded to multiples of this")
    number: int | None = option(None, "how many values each step has, where that is public")
    unit: str | None = option(None, "what one value is called")

    def made(self, columns: object) -> Statistic:
        return _made(
            "Average",
            lower=self.lower,
            upper=self.upper,
            resolution=self.resolution,
            number=self.number,
            unit=self.unit,
        )


@dataclass(frozen=True)
class _Values:
    value: str = option(..., "column of the values")

    def parts(self, parameters: object) -> Parts:
        return Parts([self.value], [self.value], [])


@dataclass(frozen=True)
class _Quantiles:
    lower: str | None = option(None, "lower end of the values; smaller ones count as this")
    upper: str | None = option(None, "upper end of the values; larger ones count as this")
    cells: int | None = option(None, "so many cells of one width between them")
    edges: str | None = option(None, "instead, where cells begin and end: 0,15,60,180")
    line: str | None = option(
        None, "how cells are measured: auto, identity, haar, hierarchy or optimal"
    )
    replace: bool = option(False, "protect what a value is, not whether it is there", "--replace")
    unit: str | None = option(None, "what one value is called")

    def made(self, columns: object) -> Statistic:
        edges = None if self.edges is None else _numbers(self.edges, "edges")
        line = None if self.line == "auto" else self.line
        return _made(
            "Quantiles",
            edges=edges,
            lower=self.lower,
            upper=self.upper,
            cells=self.cells,
            line=line,
            neighbours="replace" if self.replace else None,
            unit=self.unit,
        )


@dataclass(frozen=True)
class _Shares(_Values):
    shares: str = option("0.1,0.25,0.5,0.75,0.9", "which quantiles are shown: 0.5 is the median")

    def asked(self, statistic: Statistic) -> list[Any]:
        shares = _numbers(self.shares, "shares")
        if not all(0 < share < 1 for share in shares):
            raise InvalidInput(
                f"{field('shares', self.shares)} must each be above 0 and below 1; try 0.5, the "
                f"median"
            )
        return list(dict.fromkeys(shares))


def _numbers(given: str, name: str) -> list[float]:
    try:
        return [float(number) for number in given.split(",")]
    except ValueError as error:
        raise InvalidInput(
            f"{field(name, given)} is not a list of numbers; write it as in 0.5,0.9"
        ) from error


@dataclass(frozen=True)
class _Distinct:
    window: int | None = option(None, "count users in each so many steps anew")
    windows: int | None = option(None, "with --window: a user counts in at most so many of them")
    changes: int | None = option(None, "users active now, who come and go so many times at most")
    stay: int | None = option(None, "with --changes: each event keeps its user for so many steps")
    unit: str | None = option(None, "what one user is called")

    def made(self, columns: object) -> Statistic:
        stated = {"window": self.window, "windows": self.windows, "changes": self.changes}
        return _made("Distinct", **stated, stay=self.stay, unit=self.unit)


@dataclass(frozen=True)
class _Users:
    user: str = option(..., "column of users")
    comes: str | None = option(None, "with --changes: column that is true of who comes, or false")

    def parts(self, parameters: _Distinct) -> Parts:
        told = parameters.changes is not None and parameters.stay is None
        if (self.comes is not None) != told:
            raise InvalidInput(
                f"{field('comes')} and {field('changes')} belong together: whether a user comes or "
                f"goes, and how often at most; give both, or none, or {field('stay')} with "
                f"{field('changes')} alone"
            )
        names = [self.user, *([self.comes] if self.comes is not None else ())]
        return Parts(names, [], names[1:])


@dataclass(frozen=True)
class _Words:
    alphabet: str = option(..., "the letters, as ACGT; names of letters with commas: home,shop")
    longest: int = option(..., "most letters of a word")


class _Substrings(_Words):
    def made(self, columns: object) -> Statistic:
        return _made("Substrings", alphabet=_letters(self.alphabet), longest=self.longest)


class _Episodes(_Words):
    def made(self, columns: object) -> Statistic:
        return _made("Episodes", alphabet=_letters(self.alphabet), longest=self.longest)


@dataclass(frozen=True)
class _Letters:
    letter: str | None = option(
        None, "column of letters; without it the file is a text (FASTA too), a step a letter"
    )
    ask: str | None = option(None, "only these words, after every step: ACG,TT; default: all, now")

    def parts(self, parameters: object) -> Parts:
        return Parts([] if self.letter is None else [self.letter], [], [])

    def asked(self, statistic: Statistic) -> list[Any] | None:
        """Names of cells, of which none is unknown."""
        if self.ask is None:
            return None
        names = [name.strip() for name in self.ask.split(",")]
        asked: dict[int, str] = {}
        for name in names:
            asked.setdefault(statistic.cell(name), name)
        return list(asked.values())


@dataclass(frozen=True)
class _Bounds:
    changes: int = option(1, "how often an edge comes or goes, at most; above 1 needs --comes")
    beyond: str = option("refuse", "edges beyond the bounds: refuse or drop")

    @property
    def given(self) -> dict[str, Any]:
        return {"changes": self.changes, "beyond": self.beyond}


class _Edges(_Bounds):
    def made(self, columns: object) -> Statistic:
        return _made("Edges", **self.given)


@dataclass(frozen=True)
class _Degree:
    degree: int = option(..., "most edges of one node, which is enforced")


@dataclass(frozen=True)
class _Triangles(_Bounds, _Degree):
    def made(self, columns: object) -> Statistic:
        return _made("Triangles", degree=self.degree, **self.given)


@dataclass(frozen=True)
class _Leaves(_Degree):
    leaves: int = option(..., "edges of a star")


@dataclass(frozen=True)
class _Stars(_Bounds, _Leaves):
    def made(self, columns: object) -> Statistic:
        return _made("Stars", degree=self.degree, leaves=self.leaves, **self.given)


@dataclass(frozen=True)
class _Degrees(_Bounds, _Degree):
    nodes: int | None = option(None, "how many nodes there are, where that is public")

    def made(self, columns: object) -> Statistic:
        return _made("Degrees", degree=self.degree, nodes=self.nodes, **self.given)


@dataclass(frozen=True)
class _Forest:
    largest: str = option(..., "largest weight of an edge")
    resolution: str = option("1", "weights are rounded to multiples of this")

    def made(self, columns: object) -> Statistic:
        return _made("Forest", largest=self.largest, resolution=self.resolution)


@dataclass(frozen=True)
class _Ends:
    edge: str = option(..., "columns of the two nodes of an edge: from,to")
    comes: str | None = option(None, "with --changes: column that is true of an edge that comes")

    def parts(self, parameters: _Bounds) -> Parts:
        if (self.comes is None) != (parameters.changes == 1):
            raise InvalidInput(
                f"{field('comes')} and {field('changes')} belong together: whether an edge comes "
                f"or goes, and how often at most; give both, or none"
            )
        more = [] if self.comes is None else [self.comes]
        return Parts([*two_columns(self.edge, "edge"), *more], [], more)


@dataclass(frozen=True)
class _Weighted:
    edge: str = option(..., "columns of the two nodes of an edge: from,to")
    weight: str = option(..., "column of the weights of edges")

    def parts(self, parameters: object) -> Parts:
        return Parts([*two_columns(self.edge, "edge"), self.weight], [self.weight], [])


@dataclass(frozen=True)
class _Cuts:
    domain: str = option(..., "the nodes, public: a file (one per line, or a table) or a list A,B")
    lower: str | None = option(None, "with --weight: smaller weights count as this; default: 0")
    upper: str | None = option(None, "with --weight: larger weights count as this; default: 1")
    resolution: str | None = option(None, "with --weight: weights are rounded to multiples of this")

    def made(self, columns: object) -> Statistic:
        bounds = {"lower": self.lower, "upper": self.upper, "resolution": self.resolution}
        return _made("Cuts", nodes=list(read_domain(self.domain, "node")), **bounds)


@dataclass(frozen=True)
class _Sides:
    edge: str = option(..., "columns of the two nodes of an edge: from,to")
    weight: str | None = option(None, "column of the weights of edges; default: each weighs 1")
    cut: str | None = option(
        None, "sets of nodes, A,B;C: the weight between each set and all other nodes, every step"
    )

    def parts(self, parameters: _Cuts) -> Parts:
        if (self.weight is None) != (parameters.resolution is None):
            raise InvalidInput(
                f"{field('weight')} and {field('resolution')} belong together: how much an edge "
                f"weighs, and the finest difference; give both, or none"
            )
        more = [] if self.weight is None else [self.weight]
        return Parts([*two_columns(self.edge, "edge"), *more], more, [])

    def asked(self, statistic: Any) -> list[Any] | None:
        """Sets of nodes, of which none is unknown."""
        if self.cut is None:
            return None
        sets = [[node.strip() for node in side.split(",")] for side in self.cut.split(";")]
        asked: dict[frozenset[str], list[str]] = {}
        for side in sets:
            statistic.pairs(side, None)
            asked.setdefault(frozenset(side), side)
        return list(asked.values())


def _letters(given: str) -> str | list[str]:
    return [name.strip() for name in given.split(",")] if "," in given else given


def _made(statistic: str, **parameters: Any) -> Statistic:
    stated = {name: value for name, value in parameters.items() if value is not None}
    return statistic_from_dict({"statistic": statistic, **stated})


#: All statistics by the name of their command: its help, what defines it, where its events are.
KINDS: dict[str, tuple[str, type, type]] = {
    "top-k": (
        "The largest groups of a histogram, with intervals that hold for all of them at once.",
        _TopK,
        _Groups,
    ),
    "average": ("The mean of clipped values, and their sum and number.", _Average, _Values),
    "quantiles": ("How values are distributed: median and other quantiles.", _Quantiles, _Shares),
    "distinct": ("How many users there are: so far, in each window, or now.", _Distinct, _Users),
    "substrings": ("How often each word came as a part of the letters.", _Substrings, _Letters),
    "episodes": ("How often each word came, with other letters in between.", _Episodes, _Letters),
    "edges": ("How many edges a growing graph has.", _Edges, _Ends),
    "triangles": ("How many triangles a growing graph has.", _Triangles, _Ends),
    "stars": ("How many stars of so many edges a growing graph has.", _Stars, _Ends),
    "degrees": ("How many nodes of a growing graph have so many edges.", _Degrees, _Ends),
    "cuts": (
        "A noisy weight for every pair of nodes, so that any cut can be asked.",
        _Cuts,
        _Sides,
    ),
    "forest": ("The weight of a minimum spanning forest of a growing graph.", _Forest, _Weighted),
}


def _command(app: typer.Typer, name: str) -> None:
    said, parameters, columns = KINDS[name]

    def command(*given: Any) -> None:
        perform(*given)

    command.__name__, command.__doc__ = name, said
    app.command(name=name)(takes(StatisticOptions, columns, parameters, StatisticOutputs)(command))


def commands() -> typer.Typer:
    """All statistics as commands."""
    app = typer.Typer(
        name="statistic",
        help="Release a statistic of events, step by step as they arrive.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root() -> None:
        """Release a statistic of events, step by step as they arrive."""

    for name in KINDS:
        _command(app, name)
    return app


def parsed(words: str) -> Statistic:
    """The statistic that words define, as they stand in its command.

    Raises:
        InvalidInput: no such statistic, or options that are not its own.

    >>> parsed("top-k --domain JFK,LGA --top 1").parameters
    {'groups': ['JFK', 'LGA'], 'k': 1}
    """
    try:
        name, *rest = shlex.split(words) or [""]
    except ValueError as error:
        raise InvalidInput(f"{field('statistic', words)} is not understood ({error})") from error
    if name not in KINDS:
        raise InvalidInput(
            f"{field('statistic')} is {name!r}; known are {', '.join(KINDS)}, each followed by the "
            f"options that define it, as in 'distinct --changes 4'"
        )
    found: list[Statistic] = []

    def command(parameters: Any) -> None:
        found.append(parameters.made(None))

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name=name, add_help_option=False)(takes(KINDS[name][1])(command))
    try:
        app(rest, prog_name=name, standalone_mode=False)
    except _REFUSED as error:
        said = error.format_message()
        raise InvalidInput(f"{field('statistic', words)} is not understood: {said}") from error
    return found[0]


def planned(
    options: PlanOptions, guarantee: Guarantee
) -> tuple[Statistic, Contribution, tuple[int, ...], str]:
    """What ``plan`` ranks strategies by: contribution, shape; and a note on what the errors are of.

    The statistic comes first: its `restated` turns a cell's errors into those.

    Raises:
        InvalidInput: see `parsed`; or an option that contradicts the statistic's own.
    """
    assert options.statistic is not None
    if options.most is not None:
        raise InvalidInput(
            f"{field('most', options.most)} belongs into {field('statistic', options.statistic)}, "
            f"where a statistic has users; leave it out"
        )
    statistic = parsed(options.statistic).settled(guarantee, options.steps)
    what = statistic.error_of.what
    steps = "each row is a step" if options.each_row else "steps have any number of events"
    note = f"errors are of {what}, for {statistic!r}; {steps}"
    if statistic.on_demand:
        from counton.statistics.base import WHEN_ASKED

        note += f"; {WHEN_ASKED}"
    shape = () if statistic.on_demand else statistic.cells
    unit = statistic.contribution_within(options.steps, batched=not options.each_row)
    return statistic, unit, shape, note
