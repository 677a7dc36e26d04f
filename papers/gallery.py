"""The documentation's page of each paper: pictures, what they show, and how the numbers compare.

``python -m papers.gallery docs`` computes all papers in full, draws their figures into
``docs/images/PAPER`` and writes them into ``docs/papers/PAPER.md``, between two lines that the page
has. What stands outside of them is written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from counton.base.errors import InvalidInputError
from papers import PAPERS, reproduce
from papers.evidence import Evidence, Figure, counted

#: What is written stands between these lines.
BEGIN = "<!-- begin: written by make gallery -->"
END = "<!-- end: written by make gallery -->"


def pictures(paper: str, figures: tuple[Figure, ...]) -> str:
    """Each figure under its title, with what it shows; in Markdown, for ``papers/PAPER.md``.

    >>> print(pictures("elders", (Figure(Path("f.png"), "Figure 1: a tree", "It is. Look."),)))
    ## Figure 1: a tree
    <BLANKLINE>
    ![Figure 1: a tree](../images/elders/f.png)
    <BLANKLINE>
    It is. Look.
    <BLANKLINE>
    """
    return "\n".join(
        f"## {title}\n\n![{title}](../images/{paper}/{path.name})\n\n{shows}\n"
        for path, title, shows in figures
    )


def numbers(found: Evidence) -> str:
    """How many numbers were compared, and how many differ; in Markdown.

    >>> from papers.evidence import Comparison
    >>> why = {"note": "cut off", "expected": "0.12387"}
    >>> row = Comparison("Cor. C.3", "constant", "0.1238", 0.12387, **why)
    >>> print(numbers(Evidence("A paper", (row,))).splitlines()[-1])
    The command above prints each number that differs, with the reason.
    """
    lines = ["## Numbers", "", f"{counted(found.comparisons)}."]
    if any(row.verdict == "explained" for row in found.comparisons):
        lines += ["", "The command above prints each number that differs, with the reason."]
    return "\n".join([*lines, ""])


def filled(page: str, paper: str, found: Evidence) -> str:
    """A page with what was computed between its two lines.

    Raises:
        InvalidInputError: it lacks them.
    """
    place = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    written = f"{BEGIN}\n\n{pictures(paper, found.figures)}\n{numbers(found)}\n{END}"
    page, times = place.subn(lambda _: written, page)
    if times != 1:
        raise InvalidInputError(
            f"the page of {paper!r} has {times} places to write to; it must have one, between the "
            f"lines {BEGIN!r} and {END!r}"
        )
    return page


def write_pages(docs: Path, papers: tuple[str, ...]) -> None:
    """Compute papers in full, draw their figures and fill their pages.

    Raises:
        InvalidInputError: an unknown paper, a page without a place to write to, or a number that
            differs and says no reason.
    """
    for paper in papers:
        found = reproduce(paper, docs / "images" / paper)
        if found.wrong:
            raise InvalidInputError(
                f"numbers of {paper!r} differ and no row says why: {found.wrong}"
            )
        page = docs / "papers" / f"{paper}.md"
        page.write_text(filled(page.read_text("utf-8"), paper, found), "utf-8")


if __name__ == "__main__":
    _docs, *_named = sys.argv[1:] or ["docs"]
    _shown = [paper for paper in PAPERS if (Path(_docs) / "papers" / f"{paper}.md").exists()]
    write_pages(Path(_docs), tuple(_named or _shown))
