"""A website page in one file: newest numbers, chart, methods, and a download of all numbers.

It loads nothing and runs no program: it contains its pictures and files.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from counton.base.columns import TextTable
from counton.base.errors import InvalidInput
from counton.base.lazy import software
from counton.released.release_facts import facts_of
from counton.released.screen import text_table
from counton.released.series import Series
from counton.released.stream_words import groups_in_words, promise_in_words, statistic_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.released.release import Release

#: Widths of each chart in inches: on a page, and on a telephone.
_WIDTHS = (7.5, 4.0)
#: Up to this many pixels of a window the narrow chart is shown.
_NARROW = 640
#: Number of newest rows on the page; and most bytes of the file that it contains.
_ROWS, _MOST_BYTES = 1000, 2**24

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1a1a1a; --faint: #595959; --line: #dcdcdc; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --faint: #b3b3b3; --line: #444; --paper: #1b1b1b; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font-family: system-ui, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; }
p { margin: 0.5rem 0; overflow-wrap: anywhere; }
.faint, caption { color: var(--faint); font-size: 0.9rem; text-align: left; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.5rem 0; }
caption { padding-bottom: 0.4rem; }
th, td { padding: 0.3rem 1rem 0.3rem 0; text-align: left; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
summary { cursor: pointer; }
a { color: inherit; }
"""


def web_page(
    released: Release, csv: str, *, panels: bool = False, title: str | None = None, **look: Any
) -> str:
    """Return the page of a release, as HTML.

    Args:
        released: the release.
        csv: all its numbers, as in a CSV file.
        panels: True draws one small chart for each group.
        title: the title of the page; None: the counted quantity.
        look: other words of the chart, as in `counton.Release.figures`.

    Raises:
        InvalidInput: too many numbers for a page.
        MissingExtra: matplotlib is not installed.
    """
    if len(csv) > _MOST_BYTES:
        raise InvalidInput(
            f"a page holds all numbers to download, and these are {len(csv):,} bytes of CSV, more "
            f"than {_MOST_BYTES:,}: choose fewer steps or groups, or write a table"
        )
    definition, name = released.definition, released.design.name
    heading = _title(released) if title is None else title
    screen, facts = released.screen(), facts_of(released)
    shown = "\n".join(
        _table(one, screen.heading.strip() if not place else "")
        for place, one in enumerate(screen.tables)
    )
    table = released.table()
    rows = text_table(table.tail(_ROWS))
    newest = f"the newest {_ROWS:,} of {table.height:,} rows" if table.height > _ROWS else ""
    # The methods contain the errors besides noise.
    notes = [note for note in screen.notes if not note.startswith("besides noise: ")]
    notes += [f"note: {note}" for note in facts.get("notes", ()) if f"note: {note}" not in notes]
    left_out = [f"{screen.left_out}: below, or in the file"] if screen.left_out else []
    pictures = ""
    if released.drawable:
        charts = [
            released.figures(panels=panels, title="", width=width, **look) for width in _WIDTHS
        ]
        pictures = "\n".join(
            _picture([of[kind] for of in charts], f"Chart: {heading}") for kind in charts[0]
        )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'unsafe-inline'">
<meta name="generator" content="{escape(software())}">
<title>{escape(heading)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(heading)}</h1>
{shown}
{_lines([*left_out, *notes])}
{pictures}
<h2>How these numbers came about</h2>
<p>{escape(released.methods())}</p>
<p>{escape(f"Promise: {promise_in_words(definition)}.")}</p>
<h2>All numbers</h2>
<p>{_download(csv, f"{name}.csv", "text/csv")}, with intervals of {100 * released.level:g}%;
{_download(_as_json(facts), f"{name}.csv.json", "application/json")} says what they promise.</p>
<details><summary>Show them here</summary>
{_table(rows, newest)}
</details>
</main>
</body>
</html>
"""


def _title(released: Release) -> str:
    """Return the counted quantity, and its grouping columns."""
    definition = released.definition
    if not isinstance(released.said, Series):
        return f"{released.design.name}: {statistic_in_words(definition)}"
    grouped, what = groups_in_words(definition), definition.subject
    return f"{what[0].upper()}{what[1:]}{f', by {grouped}' if grouped else ''}"


def _lines(texts: Sequence[str]) -> str:
    return "\n".join(f'<p class="faint">{escape(text)}</p>' for text in texts)


def _table(table: TextTable, caption: str) -> str:
    """Return a table of words, with numbers aligned right."""

    def cell(tag: str, text: str, number: bool) -> str:
        kind = ' class="number"' if number else ""
        return f"<{tag}{kind}>{escape(text)}</{tag.split()[0]}>"

    numbers = [number or name.endswith("interval") for name, number in table.columns]
    names = [name for name, _ in table.columns]
    head = "".join(cell('th scope="col"', *one) for one in zip(names, numbers, strict=True))
    body = "\n".join(
        "<tr>" + "".join(cell("td", *one) for one in zip(row, numbers, strict=True)) + "</tr>"
        for row in table.rows
    )
    said = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    below = _lines([table.caption]) if table.caption else ""
    return (
        f'<div class="wide"><table>\n{said}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>{below}"
    )


def _picture(figures: Sequence[Figure], says: str) -> str:
    """Return a chart in two widths; a browser shows one of them."""
    wide, narrow = (_data(_svg(figure), "image/svg+xml") for figure in figures)
    return (
        f'<picture><source media="(max-width: {_NARROW}px)" srcset="{narrow}">'
        f'<img alt="{escape(says)}" src="{wide}"></picture>'
    )


def _svg(figure: Figure) -> str:
    from counton.charts.style import quietly

    drawn = io.StringIO()
    with quietly():
        figure.savefig(drawn, format="svg", facecolor="white", metadata={"Date": None})
    return drawn.getvalue()


def _download(text: str, name: str, media: str) -> str:
    file = "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in name)
    return f'<a download="{escape(file)}" href="{_data(text, media)}">{escape(file)}</a>'


def _data(text: str, media: str) -> str:
    return f"data:{media};charset=utf-8;base64,{b64encode(text.encode()).decode('ascii')}"


def _as_json(facts: Any) -> str:
    import json

    return json.dumps(facts, indent=2, sort_keys=True) + "\n"
