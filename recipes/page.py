"""Write a web page of a released file: newest numbers, methods text, and the file to download.

    python recipes/page.py visits.csv visits.html --title "Visits by page"

The page is one file and loads nothing from elsewhere. Run it after each night. Copy the program
to change the looks of the page.
"""

from __future__ import annotations

import argparse
import base64
from html import escape
from pathlib import Path

import counton

ROWS = 200
STYLE = "body{font:16px sans-serif;max-width:50em;margin:auto}td,th{padding:.2em .8em}"


def page(release: counton.Release, title: str, csv: bytes, name: str) -> str:
    """Return the page as HTML.

    Args:
        release: the release.
        title: heading of the page.
        csv: the file that readers download.
        name: its name.
    """
    rows = release.table().tail(ROWS)
    head = "".join(f"<th>{escape(column)}</th>" for column in rows.columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(str(one))}</td>" for one in row) + "</tr>"
        for row in rows.reverse().rows()
    )
    data = base64.b64encode(csv).decode("ascii")
    link = f'<a download="{escape(name)}" href="data:text/csv;base64,{data}">{escape(name)}</a>'
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<table><tr>{head}</tr>\n{body}\n</table>\n"
        f"<h2>How these numbers came about</h2>\n<p>{escape(release.methods())}</p>\n"
        f"<p>All numbers: {link}</p>\n</body>\n</html>\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path, help="released CSV file")
    parser.add_argument("page", type=Path, help="page to write, such as visits.html")
    parser.add_argument("--title", default="Released numbers")
    given = parser.parse_args()
    text = page(counton.read(given.file), given.title, given.file.read_bytes(), given.file.name)
    given.page.write_text(text, "utf-8")
