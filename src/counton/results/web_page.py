"""A release as a web page: charts, the newest numbers, and the text on methods, in one file.

The page loads nothing from elsewhere and runs no script.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING

from counton.base.columns import TextTable, readable
from counton.base.exact import percent
from counton.base.outside_input import shown_name
from counton.base.table_schema import CUMULATIVE, PER_WINDOW, RESERVED, ROLLING
from counton.base.wording import plural
from counton.results.counted_windows import LastWindows, PeriodToDate
from counton.results.released_table import table_of
from counton.results.subject_text import groups_in_words, heading_in_words, incomplete_note
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.results.release_data import ReleaseData

#: Largest number of rows of a page's table.
_MOST_ROWS = 1000
#: Width in inches of the chart that a telephone shows, and dots per inch of all charts.
_PHONE_WIDTH_INCHES = 4.0
_DPI = 192
#: Largest width in pixels of a window that gets the chart for telephones.
_PHONE_PIXELS = 600

_STYLE = f"""
body {{ margin: 0; font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; }}
main {{ max-width: 58em; margin: auto; padding: 1em; }}
h1 {{ font-size: 1.5em; line-height: 1.25; margin: .5em 0; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.15em; margin: 1.6em 0 .4em; }}
img {{ max-width: 100%; height: auto; }}
.note {{ border-left: 4px solid #d55e00; padding: .3em .8em; background: #fdf1ea; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25em .8em; text-align: left; border-bottom: 1px solid #e6e6e6; }}
th {{ vertical-align: bottom; border-bottom: 2px solid #6b6b6b; }}
.number {{ text-align: right; }}
.number, td:first-child {{ white-space: nowrap; }}
.provisional td {{ font-style: italic; color: #595959; background: #f6f6f6; }}
@media (max-width: {_PHONE_PIXELS}px) {{
  main {{ padding: .6em; }}
  th, td {{ padding: .25em .35em; font-size: .8em; }}
  td:first-child {{ white-space: normal; min-width: 4.8em; }}
}}
"""


def web_page(
    numbers: ReleaseData,
    methods: str,
    figures: Callable[[float | None, str | None], Mapping[str, Figure]] | None,
    title: str | None = None,
) -> str:
    """Return HTML of a release.

    Args:
        numbers: the numbers.
        methods: the text on methods.
        figures: draws the charts, with a width in inches (None: as stated) and a title (None: the
            usual one); None: there are none.
        title: the heading; None: what is measured.
    """
    metadata = numbers.metadata
    if title is None:
        title = heading_in_words(metadata)
    table, left_out = _newest(numbers)
    shown_table = _numbers(numbers, table)
    is_final = [True] * len(shown_table.rows)
    if "is_final" in table.columns:
        is_final = _by_series(table)[0]["is_final"].to_list()
    parts = [f"<h1>{_text(title)}</h1>"]
    parts += [f'<p class="note">{_text(note)}</p>' for note in numbers.notes]
    # The heading of the page is the title of a single chart.
    is_single = len(metadata.published_series) == 1
    parts += _pictures(figures, title, "" if is_single else None)
    parts.append("<h2>Numbers</h2>")
    if not all(is_final):
        lags = metadata.windows.n_revisions
        noun = _noun(numbers)
        open_for = f"{lags:,} {noun if lags == 1 else plural(noun)}"
        parts.append(
            f"<p>Provisional numbers may change until {open_for} after the end of their {noun}.</p>"
        )
    if "window_index" in table.columns and table.height:
        incomplete = incomplete_note(metadata, int(table["window_index"].to_numpy().min()))
        parts += [] if incomplete is None else [f"<p>{_text(incomplete)}</p>"]
    parts.append(_html_table(shown_table, is_final))
    if left_out:
        parts.append(f"<p>{left_out}</p>")
    parts.append("<h2>How these numbers were made</h2>")
    parts += [f"<p>{_text(paragraph)}</p>" for paragraph in methods.split("\n\n")]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return escape(shown_name(text))


def _pictures(
    figures: Callable[[float | None, str | None], Mapping[str, Figure]] | None,
    title: str,
    heading: str | None,
) -> list[str]:
    """Return each chart twice, of which a window shows the one that fits its width.

    Args:
        figures: draws the charts, see `web_page`.
        title: the text for readers who see no pictures.
        heading: the title within the charts; None: the usual one.
    """
    if figures is None or find_spec("matplotlib") is None:  # the extra "plot" is not installed
        return []
    from counton.charts.style import image_of

    def address(figure: Figure) -> str:
        drawn = image_of(figure, "png", facecolor="white", dpi=_DPI)
        return f"data:image/png;base64,{base64.b64encode(drawn).decode('ascii')}"

    narrow = figures(_PHONE_WIDTH_INCHES, heading)
    return [
        f'<picture><source media="(max-width: {_PHONE_PIXELS}px)" srcset="{address(narrow[kind])}">'
        f'<img alt="Chart: {_text(title)}" src="{address(figure)}"></picture>'
        for kind, figure in figures(None, heading).items()
    ]


def _newest(numbers: ReleaseData) -> tuple[pl.DataFrame, str]:
    """Return the newest rows, newest first, and a sentence on the rows that are left out."""
    steps = numbers.shown_steps
    noun = _noun(numbers)
    if numbers.is_by_group:
        steps = steps[-max(1, _MOST_ROWS // max(1, len(numbers.groups))) :]
    table = table_of(numbers, steps)
    most = _MOST_ROWS * numbers.n_series
    if "window_index" not in table.columns:
        n_rows = table.height
        return table.head(_MOST_ROWS), _left_out(n_rows) if n_rows > _MOST_ROWS else ""
    sizes = table.group_by("window_index").len().sort("window_index", descending=True)
    fits = sizes.filter((pl.col("len").cum_sum() <= most) | (pl.int_range(pl.len()) == 0))
    newest = table.filter(pl.col("window_index").is_in(fits["window_index"].implode()))
    newest = newest.sort(
        "window_index", descending=True, maintain_order=True
    )  # groups stay in order
    if newest.height > most:
        first_rows = [series.head(_MOST_ROWS) for series in _by_series(newest)]
        return pl.concat(first_rows), _left_out(newest.height // numbers.n_series)
    every = len(numbers.shown_steps)
    if fits.height == every:
        return newest, ""
    return newest, f"The table has the newest {fits.height:,} of {every:,} {plural(noun)}."


def _left_out(rows: int) -> str:
    return f"The table has the first {_MOST_ROWS:,} of {rows:,} rows."


def _noun(numbers: ReleaseData) -> str:
    return numbers.metadata.windows.period or numbers.metadata.windows.noun


def _numbers(numbers: ReleaseData, table: pl.DataFrame) -> TextTable:
    """Return released rows as texts with their days or times, intervals and state.

    Totals and single windows, which are rows of a released table, are columns here.
    """
    # A table of all combinations of labels has no label for all of them together.
    labels = pl.selectors.string() - pl.selectors.by_name("note", require_all=False)
    table = table.with_columns(labels.fill_null("all"))
    series = _by_series(table)
    columns = series[0].to_dict(as_series=False)
    texts = dict(zip(columns, readable(columns), strict=True))
    names: list[tuple[str, bool]] = []
    shown: list[Sequence[str]] = []
    if "window_index" in columns:
        names.append((_noun(numbers), False))
        shown.append(_windows(numbers, columns["window_index"], texts))
    metadata = numbers.metadata
    hidden = set(RESERVED)
    group_columns = (metadata.group_by or "").split(",")
    hidden |= {*group_columns} if len(group_columns) > 1 else set()  # the group has all parts
    hidden |= set() if metadata.group_by is not None or not numbers.is_by_group else {"group"}
    for name in columns:
        if name not in hidden:
            heading = groups_in_words(metadata) if name == "group" else ""
            names.append((heading or name.replace("_", " "), table.schema[name].is_numeric()))
            shown.append(texts[name])
    for part in series:
        _add_numbers(part, numbers, names, shown)
    if "is_certain" in columns:
        names.append(("certain", False))
        shown.append(texts["is_certain"])
    if "note" in columns:
        names.append(("note", False))
        # Notes on sums of most windows include those on all other numbers of a row.
        notes = series[-1].select("note").to_dict(as_series=False)
        shown.append(readable(notes)[0])
    if "is_final" in columns:
        names.append(("state", False))
        shown.append(["final" if is_final else "provisional" for is_final in columns["is_final"]])
    return TextTable(names, [*zip(*shown, strict=True)])


def _by_series(table: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the rows of each series, which have the same windows and groups."""
    if "series" not in table.columns or not table.height:
        return [table]
    parts: list[pl.DataFrame] = []
    for part in table.partition_by("series", maintain_order=True):
        if part["series"][0] == ROLLING:
            parts += part.partition_by("n_windows", maintain_order=True)
        else:
            parts.append(part)
    return parts


def _add_numbers(
    table: pl.DataFrame,
    numbers: ReleaseData,
    names: list[tuple[str, bool]],
    shown: list[Sequence[str]],
) -> None:
    """Add the estimates of one series and their intervals to the columns of a page.

    Args:
        table: the rows of the series.
        numbers: the numbers.
        names: names of the columns, and whether they hold numbers.
        shown: the texts of the columns.
    """
    columns = table.to_dict(as_series=False)
    texts = dict(zip(columns, readable(columns), strict=True))
    names.append((_estimate_in_words(table, numbers), True))
    shown.append(texts["estimate"])
    names.append((f"{percent(numbers.level)}% interval", True))
    pairs = zip(texts["lower"], texts["upper"], strict=True)
    shown.append([f"{low} to {high}" if low and high else "" for low, high in pairs])


def _windows(
    numbers: ReleaseData, steps: Sequence[int], texts: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the days or times that each row's numbers are of."""
    windows = numbers.metadata.windows
    counted = numbers.counted_windows
    if isinstance(counted, PeriodToDate):
        return [f"{start} to {end}" for start, end in zip(
            texts["window_start"], texts["window_end"], strict=True
        )]  # fmt: skip
    n_windows = counted.n_windows if isinstance(counted, LastWindows) else 1
    spans = {
        step: windows.span_text(range(max(1, step - n_windows + 1), step + 1)) for step in {*steps}
    }
    return [spans[step] for step in steps]


def _estimate_in_words(table: pl.DataFrame, numbers: ReleaseData) -> str:
    """Return the heading of the estimates of one series."""
    metadata = numbers.metadata
    if "series" not in table.columns or metadata.windows.n_revisions or not table.height:
        return "estimate"
    series = table["series"][0]
    if series == CUMULATIVE:
        return "cumulative"
    if series == ROLLING and numbers.n_series > 1:
        return metadata.last_in_words(table["n_windows"][0])
    if series == PER_WINDOW and metadata.shows_cells:
        return f"in this {_noun(numbers)}"
    return "estimate"


def _html_table(table: TextTable, is_final: Sequence[bool]) -> str:
    def cells(tag: str, texts: Sequence[str]) -> str:
        parts = []
        for text, (_, is_number) in zip(texts, table.columns, strict=True):
            kind = ' class="number"' if is_number else ""
            parts.append(f"<{tag}{kind}>{_text(text)}</{tag}>")
        return "".join(parts)

    lines = [f"<tr>{cells('th', [name for name, _ in table.columns])}</tr>"]
    for row, final in zip(table.rows, is_final, strict=True):
        kind = "" if final else ' class="provisional"'
        lines.append(f"<tr{kind}>{cells('td', row)}</tr>")
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"
