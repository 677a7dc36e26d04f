"""Tables of notebooks: a text and the first rows of a table as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from counton.base.arrays import Column
from counton.base.columns import readable
from counton.base.outside_input import shown_name


def html_table(text: str, columns: Mapping[str, Column], rows: int = 8) -> str:
    """Return a text and the first rows of a table as HTML for a notebook.

    Args:
        text: the text above the table.
        columns: the columns of the table by name.
        rows: number of rows that are shown.
    """
    head = "".join(f"<th>{escape(shown_name(name))}</th>" for name in columns)
    shown = readable({name: values[:rows].tolist() for name, values in columns.items()})
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(shown_name(value))}</td>" for value in row) + "</tr>"
        for row in zip(*shown, strict=True)
    )
    rows_left = max((len(values) for values in columns.values()), default=0) - rows
    more = f"<p>and {rows_left:,} more rows</p>" if rows_left > 0 else ""
    return (
        f"<div><pre>{escape(text)}</pre><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}</div>"
    )
