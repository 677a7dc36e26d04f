"""The commands ``ranges``, ``hierarchy``, ``contingency``: run, write table and picture, print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from counton.cli.options import (
    FitOptions,
    HierarchyFitOptions,
    OnceOptions,
    Printing,
    TableOutputs,
)
from counton.cli.printing import (
    print_files,
    print_json,
    print_line,
    print_table,
    print_words,
    warn_of_no_witness,
    warn_of_weak,
)
from counton.columns import ADDED, readable
from counton.errors import InvalidInput, field
from counton.exact import figures
from counton.jobs.fields import default_of
from counton.jobs.job import ContingencyRequest, HierarchyRequest, Job, RangesRequest
from counton.jobs.outputs import check_outputs, write_charts, write_table
from counton.jobs.runs import is_stream
from counton.jobs.tables import (
    Fit,
    HierarchyOutcome,
    RangesOutcome,
    TableOutcome,
    run_contingency,
    run_hierarchy,
    run_ranges,
)
from counton.mechanisms.intervals import check_level
from counton.results.files import about
from counton.results.shown import LOOK, check_look
from counton.results.wording import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Rows shown of rankings, and of nodes.
_CHOICES, _NODES, _MARGINS = 8, 12, 40
_Request = RangesRequest | HierarchyRequest | ContingencyRequest


def perform_ranges(request: RangesRequest, outputs: TableOutputs) -> None:
    """Release a line, then write and print.

    Raises:
        CountonError: see `counton.jobs.run_ranges`.
    """
    _check_files(request, [request.series, request.domain], outputs)
    outcome = run_ranges(request, level=outputs.level)
    release = outcome.release
    write_table(outcome.table(), outputs.out, about(release.terms, outputs.level))

    def draw() -> Figure:
        from counton.plots.tables import plot_ranges

        title = f"{request.value.capitalize()} of {release.shape[0]:,} cells"
        said = f"{_promise(outcome)}; strategy {release.strategy}"
        return plot_ranges(release, outputs.title or title, said, **_look(outputs))

    failed = _draw(draw, outputs)
    how = f"{release.strategy} with {release.family} noise"
    told = ("strategy", how)
    console = _head(outcome, request, outputs, f"{release.shape[0]:,} cells", told, failed)
    if console is not None:
        if len(release.plan.choices) > 1:
            print_table(console, _ranking(outcome))
        print_table(console, _answer_table(outcome))
    _end(console, (), outputs, failed)


def perform_hierarchy(
    request: HierarchyRequest, outputs: TableOutputs, fit: HierarchyFitOptions | None = None
) -> None:
    """Release a hierarchy, then write and print.

    Raises:
        CountonError: see `counton.jobs.run_hierarchy`.
    """
    wanted = Fit() if fit is None else Fit(fit.integers, fit.nonnegative, fit.known)
    _check_files(request, [request.leaves, request.domain, wanted.known], outputs)
    outcome = run_hierarchy(request, level=outputs.level, fit=wanted)
    release = outcome.release
    facts = {**about(release.terms, outputs.level), "notes": outcome.notes}
    write_table(outcome.table(), outputs.out, facts)

    def draw() -> Figure:
        from counton.plots.tables import plot_hierarchy

        title = f"{request.value.capitalize()} by {listed(release.tree.levels[1:])}"
        return plot_hierarchy(
            release,
            outputs.title or title,
            _promise(outcome),
            outcome.estimates,
            outcome.stds,
            **_look(outputs),
        )

    failed = _draw(draw, outputs)
    how = f"{release.plan.family}, children add up to their parents exactly"
    nodes, told = f"{sum(release.tree.sizes):,} nodes", ("noise", how)
    console = _head(outcome, request, outputs, nodes, told, failed)
    if console is not None:
        console.print()
        print_table(console, _level_table(outcome))
        print_table(console, _sum_table(outcome))
    _end(console, outcome.notes, outputs, failed)


def perform_table(
    job: Job, printing: Printing, fit: HierarchyFitOptions, once: OnceOptions
) -> None:
    """A table over time, or one that is released once.

    Raises:
        CountonError: see `counton.jobs.run`, and `counton.jobs.run_hierarchy` and its like.
    """
    job = job.having(replace=job.given("replace") or once.move)
    if once.plan:
        _print_plan(job, printing)
        return
    if is_stream(job):
        for item in fields(fit):
            if getattr(fit, item.name):
                raise InvalidInput(
                    f"{field(item.name, getattr(fit, item.name))} is for tables that are released "
                    f"once; leave it out where there is {field('time')}"
                )
        from counton.cli.run import perform

        perform(job, printing)
        return
    if job.given("line") is not None and job.strategy is not None:
        raise InvalidInput(
            f"{field('line', job.given('line'))} and {field('strategy', job.strategy)} are the "
            f"same for a table that is released once; give one of them"
        )
    file, common = _only_file(job), ("state", "epsilon", "delta", "rho", "unit", "key", "name")
    known: dict[str, Any] = {name: getattr(job, name) for name in common}
    known |= {"move": bool(job.given("replace")), "value": job.given("value")}
    request: _Request
    if job.what == "hierarchy":
        known |= {name: _stated(job, name) for name in ("levels", "value", "domain")}
        request = HierarchyRequest(leaves=file, target=job.given("target"), **known)
        perform_hierarchy(request, _once(job, printing, request), fit)
    elif job.what == "ranges":
        known |= {"value": _stated(job, "value"), "label": job.given("label"), "domain": job.domain}
        request = RangesRequest(
            series=file,
            ask=None if job.ask is None else str(job.ask),
            workload=job.given("workload") or "ranges",
            strategy=str(job.given("line") or job.strategy or "auto"),
            **known,
        )
        perform_ranges(request, _once(job, printing, request))
    else:
        known |= {name: _stated(job, name) for name in ("columns", "domain")}
        request = ContingencyRequest(rows=file, equal=bool(job.given("equal")), **known)
        perform_contingency(request, _once(job, printing, request), fit)


def _print_plan(job: Job, printing: Printing) -> None:
    """What a table would be: nothing is read but what is public, and nothing is released."""
    from counton.jobs.table_plans import planned_table

    found = planned_table(job)
    if printing.json:
        print_json({"released": False, **dict(found.words), "errors": list(found.rows)})
        return
    console = Console()
    print_line(console, "A plan: nothing is released.", bold=True)
    print_words(console, list(found.words))
    table = Table()
    for name, value in found.rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in found.rows:
        table.add_row(
            *(f"{figures(one)}" if isinstance(one, float) else str(one) for one in row.values())
        )
    print_table(console, table)


def _stated(job: Job, name: str) -> Any:
    value = job.given(name)
    if value is None:
        what = f"{field(name)} is missing: a {job.what} that is released once needs it"
        if name == "value":
            what = (
                f"neither {field('time')} nor {field('value')} is given: rows with times are "
                f"released over time, rows with counts once"
            )
        raise InvalidInput(f"{what}; give it")
    return value


def _only_file(job: Job) -> Any:
    files = job.events if isinstance(job.events, list) else [job.events]
    if len(files) != 1:
        raise InvalidInput(
            f"{field('events')} are {len(files)} files, and a table that is released once is made "
            f"of one; give {field('time')} to release over time, or one file"
        )
    return files[0]


def _once(job: Job, printing: Printing, request: _Request) -> TableOutputs:
    """The outputs of a table that is released once.

    Raises:
        InvalidInput: no file to write, or an option of streams.
    """
    own = {item.name for item in (*fields(request), *fields(TableOutputs))}
    own |= {"what", "events", "options"}
    for given in (job, printing):
        for item in fields(given):
            value = getattr(given, item.name)
            if item.name not in own and value not in (None, False, default_of(item)):
                raise InvalidInput(
                    f"{field(item.name, value if isinstance(value, str | int) else None)} is of "
                    f"tables that are released over time; give {field('time')} too, or leave it out"
                )
    if job.out is None:
        raise InvalidInput(
            f"{field('out')} is missing: a table that is released once is written; give it"
        )
    plot = None if job.plot is None else Path(job.plot)
    look = {name: getattr(job, name) for name in LOOK}
    return TableOutputs(Path(job.out), plot, job.level, printing.json, **look)


def perform_contingency(
    request: ContingencyRequest, outputs: TableOutputs, fit: FitOptions
) -> None:
    """Release a contingency table, then write and print.

    Raises:
        CountonError: see `counton.jobs.run_contingency`.
    """
    _check_files(request, [request.rows, request.domain], outputs)
    outcome = run_contingency(request, level=outputs.level, fit=Fit(fit.integers, fit.nonnegative))
    release = outcome.release
    table = outcome.table()
    facts = {**about(release.terms, outputs.level), "notes": outcome.notes}
    write_table(table, outputs.out, facts)

    def draw() -> Figure:
        from counton.plots.tables import plot_contingency

        title = f"Rows by {listed(release.columns)}"
        shown = {name: table[name].to_numpy() for name in table.columns}
        titled, said = outputs.title or title, _promise(outcome)
        return plot_contingency(release.columns, shown, titled, said, **_look(outputs))

    failed = _draw(draw, outputs)
    cells = " x ".join(f"{count:,}" for count in release.terms.shape)
    how = f"{release.ranges.family}, margins add up exactly"
    console = _head(outcome, request, outputs, f"{cells} cells", ("noise", how), failed)
    if console is not None:
        console.print()
        print_table(console, _margins_table(release.columns, table))
    _end(console, outcome.notes, outputs, failed)


def _margins_table(columns: Sequence[str], table: Any) -> Table:
    """The total and the margins of single columns: the first rows of all margins."""
    shown = Table()
    shown.add_column("margin", overflow="fold")
    for name in ADDED:
        shown.add_column(name, justify="right")
    for row in table.head(_MARGINS).iter_rows(named=True):
        named = [f"{name} {row[name]}" for name in columns if row[name] is not None]
        if len(named) > 1:
            break
        numbers = [one[0] for one in readable({name: [row[name]] for name in ADDED})]
        shown.add_row(named[0] if named else "total", *numbers)
    return shown


def _end(
    console: Console | None, notes: Sequence[str], outputs: TableOutputs, failed: str | None
) -> None:
    """Notes and files; then what went wrong with the chart.

    Raises:
        OSError: there is no chart.
    """
    if console is not None:
        for note in notes:
            print_line(console, f"note: {note}")
        print_files(console, outputs.out, None if failed else outputs.plot)
    if failed is not None:
        raise OSError(failed)


def _check_files(request: _Request, read: list[Any], outputs: TableOutputs) -> None:
    check_level(outputs.level)
    check_look(outputs)
    check_outputs(outputs.out, outputs.plot, state=request.state, key=request.key, read=read)


def _promise(outcome: TableOutcome) -> str:
    contribution = outcome.release.contribution
    return (
        f"{outcome.release.guarantee} protects each single {contribution.unit} "
        f"({contribution.neighbours})"
    )


def _look(outputs: TableOutputs) -> dict[str, Any]:
    """What a chart's axis shows, what stands below it, and how wide it is."""
    from counton.plots.style import check_width

    foot = "" if outputs.source is None else f"Source: {outputs.source}."
    return {"axis": outputs.axis, "foot": foot, "width": check_width(outputs.width)}


def _draw(draw: Callable[[], Figure], outputs: TableOutputs) -> str | None:
    """Write the chart that is asked for; see `write_charts`."""
    plot = outputs.plot
    return None if plot is None else write_charts(lambda: {plot: draw()}, plot)


def _head(
    outcome: TableOutcome,
    request: _Request,
    outputs: TableOutputs,
    what: str,
    how: tuple[str, str],
    failed: str | None,
) -> Console | None:
    """Print the report as JSON and give None; or its head, and give the console."""
    terms, stated = outcome.release.terms, request.epsilon or request.rho
    warn_of_no_witness(Console(stderr=True), (request.state, [request.key]))
    warn_of_weak(Console(stderr=True), terms.guarantee, terms.contribution.unit, stated)
    if outputs.json:
        plot = None if failed or not outputs.plot else str(outputs.plot)
        files = {"out": str(outputs.out), "plot": plot}
        print_json({**outcome.report(), **files, "not_drawn": failed})
        return None
    console = Console()
    again = f"Nothing new: these {what} were released before; here they are again."
    print_line(console, again if outcome.release.repeated else f"Released {what}.", bold=True)
    print_words(
        console,
        [
            ("protected", outcome.protected),
            ("", outcome.unprotected),
            ("guarantee", outcome.promised),
            how,
            ("state", f"{request.state}, name {outcome.release.name!r}"),
        ],
    )
    return console


def _ranking(outcome: RangesOutcome) -> Table:
    table = Table(title=f"expected squared error, workload {outcome.workload}")
    table.add_column("strategy")
    table.add_column("noise")
    table.add_column("total squared error", justify="right")
    for choice in outcome.release.plan.choices[:_CHOICES]:
        table.add_row(choice.name, choice.family, f"{figures(choice.expected_error)}")
    return table


def _answer_table(outcome: RangesOutcome) -> Table:
    table = Table()
    for name in ("from cell", "to before", "estimate", "std", "lower", "upper"):
        table.add_column(name, justify="right")
    for answer in outcome.answers():
        table.add_row(
            f"{answer['start']:,}",
            f"{answer['stop']:,}",
            f"{answer['estimate']:,.2f}",
            f"{figures(answer['std'])}",
            f"{answer['lower']:,.2f}",
            f"{answer['upper']:,.2f}",
        )
    return table


def _level_table(outcome: HierarchyOutcome) -> Table:
    release = outcome.release
    table = Table()
    table.add_column("level")
    table.add_column("nodes", justify="right")
    table.add_column("std", justify="right")
    table.add_column("median estimate", justify="right")
    table.add_column("sum", justify="right")
    higher = 0.0  # leaves that stand above a level belong to its sum
    for level, size in zip(release.tree.levels, release.tree.sizes, strict=True):
        depth = release.tree.level(level)
        estimates = outcome.estimates[depth]
        table.add_row(
            level,
            f"{size:,}",
            f"{figures(float(outcome.stds[depth].max()))}",
            f"{float(np.median(estimates)):,.0f}",
            f"{float(estimates.sum()) + higher:,.2f}",
        )
        if depth + 1 < len(release.tree.levels):
            higher += float(estimates[release.tree.leaves[depth]].sum())
    if any(len(leaves) for leaves in release.tree.leaves[:-1]):
        table.caption = "sums contain the leaves that stand above their level"
    return table


def _sum_table(outcome: HierarchyOutcome) -> Table:
    """The total, the coarsest level and the largest of the next: what adds up to what."""
    tree, estimates = outcome.release.tree, outcome.estimates
    table = Table()
    table.add_column("node", overflow="fold")
    table.add_column("estimate", justify="right")
    table.add_column("std", justify="right")

    def add(level: int, node: int, text: str) -> None:
        std = float(outcome.stds[level][node])
        table.add_row(text, f"{float(estimates[level][node]):,.2f}", f"{figures(std)}")

    add(0, 0, "total")
    if len(tree.levels) == 1:
        return table
    for node in _largest(estimates[1]):
        add(1, node, f"  {tree.path(1, node)[-1]}")
    if tree.sizes[1] > _NODES:
        rest = float(estimates[0][0]) - float(np.sort(estimates[1])[::-1][:_NODES].sum())
        table.add_row(f"  {tree.sizes[1] - _NODES:,} others together", f"{rest:,.2f}", "")
    return table


def _largest(estimates: Any) -> list[int]:
    order = np.argsort(-np.asarray(estimates), kind="stable")
    return [int(node) for node in order[:_NODES]]
