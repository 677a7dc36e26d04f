"""The command ``counton export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from counton.cli.command_class import CountonCommand, option
from counton.cli.parameters import TABLE_ENDINGS, json_option, state_or_table_argument

if TYPE_CHECKING:
    from counton.results.release_data import ReleaseData

#: Largest number of rows on the screen.
_MOST_SHOWN_ROWS = 40


@click.command("export", cls=CountonCommand)
@state_or_table_argument
@option("--stream", help="Name of the stream or table; needed if there are several.")
@option(
    "--output",
    type=click.Path(path_type=Path),
    help=f"Write a table ({TABLE_ENDINGS}), a chart (.png, .svg, .pdf) or a web page (.html). "
    "[default: print]",
)
@option(
    "--windows",
    help="Only these steps, the first and the last: 25:48, 25: or :48; or days or times, "
    "2024-03-18:2024-03-24.",
)
@option("--groups", help="Only these groups, in this order: A,B,C.")
@option("--title", help="Title of the chart.")
@option("--axis", help="Label of the chart's vertical axis.")
@option("--source", help="Line below the chart that names the source.")
@option("--width", type=float, metavar="NUMBER", help="Width of the chart in inches.")
@option(
    "--confidence-level",
    type=float,
    metavar="NUMBER",
    help="Confidence level of the intervals. [default: as before, or 0.95]",
)
@json_option
def export(
    *,
    state: str,
    stream: str | None,
    output: Path | None,
    windows: str | None,
    groups: str | None,
    title: str | None,
    axis: str | None,
    source: str | None,
    width: float | None,
    confidence_level: float | None,
    as_json: bool,
) -> None:
    """Write released numbers as a table, a chart or a web page, from a state or a table.

    Choose any steps, any groups and intervals of any level. No key is needed, and nobody who
    writes the stream is disturbed.
    """
    from counton.job.incompatible import NEEDS_OF_EXPORT, refuse_of_command
    from counton.run.outputs.exports import export as export_release
    from counton.run.outputs.output_files import PAGES, PICTURES, charts_in_words

    chart_form = {"title": title, "axis": axis, "source": source, "width": width}
    ending = "" if output is None else output.suffix.lower()
    chart = output if ending in (*PICTURES, *PAGES) else None
    refuse_of_command({**chart_form, "output": chart}, needs=NEEDS_OF_EXPORT)
    released = export_release(
        state,
        output,
        stream=stream,
        windows=windows,
        groups=groups,
        confidence_level=confidence_level,
        title=title,
        axis=axis,
        source=source,
        width=width,
    ).numbers
    if as_json:
        _print_json(released, output)
        return
    if output is None:
        written = ""
    elif ending in PICTURES:
        written = charts_in_words(released, output)
    elif ending in PAGES:
        written = f"page written to {output}"
    else:
        written = f"table written to {output}"
    _print_release(released, written)


def _print_json(numbers: ReleaseData, out: Path | None) -> None:
    from counton.cli.print_forms import print_json, print_json_rows
    from counton.results.metadata_codec import facts_of
    from counton.results.released_table import table_of

    steps = numbers.shown_steps
    reach = [steps.start, steps.stop - 1] if numbers.metadata.windows.is_recurring else None
    report = {"about": facts_of(numbers), "steps": reach}
    if out is not None:
        print_json({**report, "output": str(out)})
    else:
        print_json_rows(report, table_of(numbers))


def _print_release(numbers: ReleaseData, written: str) -> None:
    """Print what a release is, and its last rows unless it was written to a file.

    Args:
        numbers: the release.
        written: words about the written file; "" if there is none.
    """
    from counton.cli.print_forms import Console
    from counton.results.privacy_text import guarantee_in_words
    from counton.results.released_table import table_of
    from counton.results.terminal import accuracy_line, text_table

    console = Console()
    metadata = numbers.metadata
    steps = numbers.shown_steps
    noun = metadata.windows.noun
    contents = f"{noun}s {steps.start:,} to {steps.stop - 1:,}"
    if len(steps) == 1:
        contents = f"{noun} {steps.start:,}"
    if not metadata.windows.is_recurring:
        contents = f"{metadata.statistic_name}, released once"
    console.write_line(f"{numbers.design.name}: {contents}", bold=True)
    level = f"{100 * numbers.level:g}%"
    console.write_line(f"{accuracy_line(metadata)} Confidence of each interval: {level}.")
    console.write_line(f"Privacy: {guarantee_in_words(metadata)}")
    for note in numbers.notes:
        console.write_line(f"Note: {note}")
    console.write_line(written)
    if written:
        return
    table = table_of(numbers)
    console.write_table(text_table(table.tail(_MOST_SHOWN_ROWS)))
    if table.height > _MOST_SHOWN_ROWS:
        console.write_line(
            f"Shown: the last {_MOST_SHOWN_ROWS} of {table.height:,} rows. "
            "All: --output FILE, or --json"
        )
