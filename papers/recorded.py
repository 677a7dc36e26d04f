"""What every row of the evidence was computed to be when it was last looked at.

A printed number holds a row to its digits, but a limit, or an interval, leaves room in which a
mistake could hide. So what the quick form computes is kept beside it, in `recorded.json`, and a row
that is further from it than a part in 500 differs: a mistake of 3 per cent in a constant of a
mechanism turns red every row in which it stands, even under a root. `python -m papers all --quick
--record` writes the file anew; whoever does so says why numbers have changed.

Simulated numbers are kept too: their noise has known keys. What rounding leaves of a zero is not:
it is another number on another processor, and held to a bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from papers.evidence import Comparison, Evidence

_FILE = Path(__file__).with_name("recorded.json")


@cache
def _recorded() -> dict[str, dict[str, float]]:
    if not _FILE.exists():
        return {}
    found: dict[str, dict[str, float]] = json.loads(_FILE.read_text("ascii"))
    return found


def _name(row: Comparison) -> str:
    return f"{row.place}: {row.quantity}"


def held_to_record(paper: str, found: Evidence) -> Evidence:
    """The same evidence, each row held to what is recorded of it, if anything is."""
    known = _recorded().get(paper, {})
    rows = (replace(row, recorded=known.get(_name(row))) for row in found.comparisons)
    return replace(found, comparisons=tuple(rows))


def record(found: Mapping[str, Evidence]) -> None:
    """Write what was computed; papers that are not given stay as they are recorded."""
    written = dict(_recorded())
    for paper, evidence in found.items():
        written[paper] = {
            _name(row): float(f"{float(row.computed):.6g}")
            for row in evidence.comparisons
            if not row.rounding
        }
    _FILE.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", "ascii")
    _recorded.cache_clear()
