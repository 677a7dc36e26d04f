"""The papers' evidence, computed again: tables with their printed numbers, and figures."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from counton.base.errors import InvalidInputError
from papers.evidence import (
    BatchStatus,
    Comparison,
    ErrorRow,
    Evidence,
    Figure,
    Kind,
    Report,
    silent,
)
from papers.recorded import held_to_record

#: Short name of a paper, or of a claim, and the package that computes its evidence.
PAPERS = {
    "elders": "papers.elders",
    "smooth": "papers.smooth",
    "ranges": "papers.ranges",
    "expiration": "papers.expiration",
    "constants": "papers.constants",
    "less-noise": "papers.less_noise",
    "survey": "papers.survey",
    "flights": "papers.flights",
}

__all__ = [
    "PAPERS",
    "BatchStatus",
    "Comparison",
    "ErrorRow",
    "Evidence",
    "Figure",
    "Kind",
    "reproduce",
]


def reproduce(
    paper: str,
    folder: str | Path | None = None,
    *,
    quick: bool = False,
    report: Report = silent,
) -> Evidence:
    """Compute a paper's tables again, and draw its figures if a folder is given.

    The quick form is also held to what was computed before (`papers.recorded`).

    Args:
        paper: one of ``PAPERS``.
        folder: where to write the figures as PNG; it is made if it does not exist.
        quick: leave out what takes minutes; simulations have fewer runs.
        report: told what is being done, and the share that is behind it.

    Raises:
        InvalidInputError: an unknown paper.

    >>> found = reproduce("expiration")
    >>> found.wrong
    ()
    """
    if paper not in PAPERS:
        raise InvalidInputError(f"paper is {paper!r}; known are {', '.join(PAPERS)}")
    module = import_module(PAPERS[paper])
    place = None if folder is None else Path(folder)
    found: Evidence = module.evidence(place, quick=quick, report=report)
    return held_to_record(paper, found) if quick else found
