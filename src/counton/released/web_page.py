"""A web page in one file: newest numbers, chart, methods, and a download of all numbers.

It loads nothing and runs no program, because it contains its pictures and files.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from counton.base.columns import TextTable
from counton.base.errors import InvalidInput
from counton.base.exact import percent
from counton.base.lazy import software
from counton.released.release import Release
from counton.released.release_facts import facts_of
from counton.released.screen import besides_in_words, notes_in_words, screen_of, text_table
from counton.released.series import CellValues
from counton.released.stream_words import (
    groups_in_words,
    promise_in_words,
    statistic_in_words,
    subject_in_words,
    title_in_words,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.released.released_numbers import ReleasedNumbers

#: Widths of a chart in inches: on a computer, and on a telephone.
_WIDTHS = (7.5, 4.0)
#: Largest width of a browser window, in pixels, that gets the narrow chart.
_NARROW = 640
#: Largest number of rows on the page, and of bytes of the file that it contains.
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
@media (max-width: 30rem) {
  th, td { padding-right: 0.4rem; font-size: 0.8rem; }
  th, td:not(.number) { white-space: normal; }
}
img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
summary { cursor: pointer; }
a { color: inherit; }
"""


def web_page(
    released: ReleasedNumbers,
    csv: str,
    *,
    panels: bool = False,
    title: str | None = None,
    file: str | None = None,
    **look: Any,
) -> str:
    """Return the web page of a release as HTML.

    Args:
        released: the release.
        csv: all numbers of the release, as the text of a CSV file.
        panels: True to draw a small chart for each group.
        title: the title of the page; None: the counted quantity.
        file: name of the files for download, without an ending; None: the stream's name.
        look: other words of the chart, as in `counton.Release.figures`.

    Raises:
        InvalidInput: there are too many numbers for a page.
        MissingExtra: matplotlib is not installed.
    """
    if len(csv) > _MOST_BYTES:
        raise InvalidInput(
            f"a page contains all numbers for download, and these are {len(csv):,} bytes of CSV, "
            f"more than {_MOST_BYTES:,}: choose fewer steps or groups, or write a table"
        )
    name = released.design.name if file is None else file
    return _page(released, csv, name, title, {"panels": panels, **look})


def _page(
    released: ReleasedNumbers, csv: str, name: str, title: str | None, look: dict[str, Any]
) -> str:
    """Return the HTML of a release's page in the current language.

    Args:
        released: the release.
        csv: text of a CSV file with all numbers.
        name: name of this file for its download.
        title: title of the page; None: the counted quantity.
        look: words, width and language of the chart.
    """
    definition = released.definition
    heading = title
    if heading is None and isinstance(released.published, CellValues):
        subject = subject_in_words(definition.subject)
        heading = title_in_words(subject, groups_in_words(definition))
    elif heading is None:
        heading = f"{released.design.name}: {statistic_in_words(definition)}"
    screen, table = screen_of(released), released.table()
    shown = "\n".join(
        _table(one, screen.heading.strip() if not place else "")
        for place, one in enumerate(screen.tables)
    )
    newest = ""
    if table.height > _ROWS:
        newest = f"the newest {_ROWS:,} of {table.height:,} rows"
    left_out = []
    if screen.left_out:
        left_out = [f"{screen.left_out}: below, or in the file"]
    pictures = ""
    if released.drawable:
        charts = [Release(released).figures(title="", width=width, **look) for width in _WIDTHS]
        says = f"Chart: {heading}"
        pictures = "\n".join(_picture([of[kind] for of in charts], says) for kind in charts[0])
    facts = facts_of(released)
    besides = besides_in_words(released)  # the methods contain them
    notes = [note for note in screen.notes if note not in besides]
    notes += [one for one in notes_in_words(facts.get("notes", ())) if one not in notes]
    methods = Release(released).methods()
    promise = f"Promise: {promise_in_words(definition)}."
    said = json.dumps(facts, indent=2, sort_keys=True) + "\n"
    text = "{table}, with intervals of {level}%; {facts} says what they promise."
    level = percent(released.level)
    about = escape(text.format(table="\x00", facts="\x01", level=level))
    about = about.replace("\0", _download(csv, f"{name}.csv", "text/csv"))
    about = about.replace("\1", _download(said, f"{name}.csv.json", "application/json"))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta '
        'charset="utf-8">\n<meta name="viewport" content="width=device-width, '
        'initial-scale=1">\n<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n"
        f'<meta name="generator" content="{escape(software())}">\n'
        f"<title>{escape(heading)}</title>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape(heading)}</h1>\n"
        f"{shown}\n{_lines(left_out)}\n{_lines(notes)}\n{pictures}\n"
        f"<h2>How these numbers came about</h2>\n"
        f"<p>{escape(methods)}</p>\n<p>{escape(promise)}</p>\n<h2>All numbers</h2>\n"
        f"<p>{about}</p>\n<details><summary>Show them here</summary>\n"
        f"{_table(text_table(table.tail(_ROWS)), newest)}\n</details>\n</main>\n"
        "</body>\n</html>\n"
    )


def _lines(texts: Sequence[str], attributes: str = "") -> str:
    return "\n".join(f'<p class="faint"{attributes}>{escape(text)}</p>' for text in texts)


def _table(table: TextTable, caption: str) -> str:
    """Return a text table as HTML, with numbers aligned to the right."""

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
    """Return HTML with a chart in two widths, of which a browser shows the one that fits.

    Args:
        figures: the chart in both widths, the wider one first.
        says: description of the chart for people who cannot see it.
    """
    from counton.charts.style import image_of

    drawn = (image_of(one, "svg", facecolor="white", metadata={"Date": None}) for one in figures)
    wide, narrow = (_data(image.decode(), "image/svg+xml") for image in drawn)
    return (
        f'<picture><source media="(max-width: {_NARROW}px)" srcset="{narrow}">'
        f'<img alt="{escape(says)}" src="{wide}"></picture>'
    )


def _download(text: str, name: str, media: str) -> str:
    file = "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in name)
    return f'<a download="{escape(file)}" href="{_data(text, media)}">{escape(file)}</a>'


def _data(text: str, media: str) -> str:
    return f"data:{media};charset=utf-8;base64,{b64encode(text.encode()).decode('ascii')}"
