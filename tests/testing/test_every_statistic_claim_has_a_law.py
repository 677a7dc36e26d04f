"""Every claim of a statistic is in a law's list, and a wrong one breaks that law.

As `test_every_claim_has_a_law` does for strategies: a name of `Statistic` or `AccumulatorStatistic`
stands beside wrong statistics that the laws refuse, or among those whose wrong value hurts nobody.
A new name that stands nowhere fails.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from above import (
    Above,
    First,
    Forgetful,
    Half,
    InOneStep,
    InTheFirstGroup,
    LetterByLetter,
    LettersThatGo,
    LostCuts,
    OfAllGroups,
    SaysCuts,
    SaysWhatItCounted,
    ShowsCuts,
    ShowsOnlyWhatItCounted,
    ShowsWhatItCounted,
    WiderReading,
    claiming,
    grouped,
    stream_of,
    turned,
)
from own_laws.statistics import check_statistic

from counton import ContributionBound
from counton.continual.formulas import ClosedForm
from counton.statistics import AccumulatorStatistic, Average, Count, Cuts, Grouped, Part
from counton.statistics.statistic import ErrorScale, Statistic
from counton.testing import PropertyViolationError


class Wrongly(Average):
    """An average that says something else of itself."""

    def __new__(cls, *bounds: Any, resolution: int = 1, unit: Any = None, **claims: Any) -> Any:
        wrong = type("Average", (Average,), claims)
        return wrong(*bounds, resolution=resolution)


def counts_the_sum(self: Any, place: int | None) -> dict[str, str]:
    """Another name's number."""
    return {"count": "sum"}


def told(change: Callable[[ClosedForm], ClosedForm]) -> Callable[..., ClosedForm]:
    """The number of a cell, told wrongly."""
    return lambda self, cells, name=None: change(cells.cell(["below", "above"].index(name)))


#: For each name of `Statistic` and `AccumulatorStatistic`, wrong statistics.
WRONG: dict[str, list[Statistic]] = {
    "allows": [
        claiming(allows=lambda self, other: False),
        grouped(allows=lambda self, other: False),
    ],
    "asks": [Wrongly(0, 50, resolution=1, asks=("sum", "count", "mean"), gives=counts_the_sum)],
    "begin": [
        claiming(begin=lambda self: Forgetful(self, restored=True)),
        claiming(begin=lambda self: Forgetful(self)),
        grouped(begin=lambda self: InTheFirstGroup(self)),
        grouped(begin=lambda self: OfAllGroups(self)),
    ],
    "bounds_of": [Wrongly(0, 50, resolution=1, bounds_of=lambda self, place: (0, 5, 1))],
    "number_names": [claiming(number_names=("below", "below")), LostCuts(["a", "b", "c"])],
    "cells": [claiming(measure=lambda self, sums: sums.reshape(-1)), claiming(cells=(3,))],
    "columns_of": [claiming(columns_of=lambda self, events: (events, events))],
    "contribution": [
        Half(),
        LetterByLetter("ab", 2),
        InOneStep(),
        grouped(
            contribution=lambda self, batched=False: ContributionBound.add_remove(cells=1)
        ),
    ],
    "counts_rows": [
        claiming(entries=lambda self, said: [(said, 1), (0, 1)]),
        claiming(entries=lambda self, said: [(said, 2)]),
        grouped(counts_rows=True),
    ],
    "counts_units": [claiming(counts_units=True), grouped(counts_units=True)],
    "entries": [
        claiming(entries=lambda self, said: [(said - 1, 1)]),
        grouped(entries=lambda self, said: [(0, said)]),
    ],
    "error_of": [
        claiming(error_of=ErrorScale("half a cell", 2.0, 1.0)),
        claiming(result_type=WiderReading),
    ],
    "event": [claiming(event="edge")],
    "gives": [Wrongly(0, 50, resolution=1, gives=counts_the_sum)],
    "largest_entry": [
        claiming(measure=lambda self, sums: 5 * sums),
        claiming(counts_rows=False, measure=lambda self, sums: 5 * sums),
        grouped(largest_entry=0),
    ],
    "largest_measured": [claiming(largest_measured=lambda self, sums: 0.5)],
    "measure": [claiming(measure=lambda self, sums: sums**2), grouped(measure=turned)],
    "neighbours_differ": [
        LettersThatGo("ab", 2),
        # In words events come and go, and they are replaced.
        claiming(contribution=lambda self, batched=False: ContributionBound.replace(cells=1)),
    ],
    "number_of": [
        claiming(number_of=told(lambda one: replace(one, deviation=one.std / 2))),
        claiming(number_of=told(lambda one: replace(one, estimate=one.value + 1))),
        claiming(number_of=told(lambda one: replace(one, ends=lambda level: (one.value,) * 2))),
    ],
    "of_letters": [claiming(of_letters=True)],
    "on_demand": [claiming(on_demand=True)],
    "parameters": [claiming(parameters={"threshold": 3})],
    "parts": [
        claiming(parts=(Part("value"), Part("weight"))),
        grouped(parts=(Part("by", "label"),)),
    ],
    "n_accumulators": [claiming(n_accumulators=1), grouped(n_accumulators=2)],
    "additive": [
        claiming(additive=True),
        claiming(additive=True, measure=lambda self, sums: sums[:, ::-1]),
    ],
    "row_total": [claiming(row_total=2)],
    "protects": [claiming(protects="user"), claiming(event="user")],
    "result_type": [
        ShowsWhatItCounted(), ShowsOnlyWhatItCounted(), SaysWhatItCounted(),
        ShowsCuts(["a", "b", "c"]), SaysCuts(["a", "b", "c"]),
    ],
    "row_bounds": [
        claiming(row_bounds=lambda self: (0, 0)),
        grouped(row_bounds=lambda self: (0, 1)),
    ],
    "encode": [
        claiming(encode=lambda self, values: np.arange(len(values)) % 2),
        First(),
        claiming(encode=lambda self, *parts: Above.encode(self, *parts).astype(np.int32)),
        grouped(encode=lambda self, values: np.zeros(len(values), np.int64)),
    ],
    "code_bounds": [claiming(code_bounds=lambda self: (0, 0))],
    "resolve_parameters": [claiming(resolve_parameters=lambda self, guarantee, horizon=None:
    Above(self.threshold + 1))], "sources": [claiming(sources=("nobody",))],
    "spans": [claiming(spans=(range(1),)), claiming(spans=())],
    "ordered": [claiming(encode=lambda self, values: np.arange(len(values)) // 2)],
}  # fmt: skip

#: Names whose wrong value takes neither privacy nor a right number from anybody.
NO_LAW: dict[str, str] = {
    **dict.fromkeys(
        (*("check_events", "total", "most_counted", "total_of_sums"),),
        "asked before a step is counted, to refuse it: what is let through is refused by the "
        "counter or the reading whose numbers it does not fit",
    ),
    **dict.fromkeys(
        (
            *(
                "example", "example_file", "systematic_errors", "units_of", "also_called", "phrase",
                "phrase_words",
                "counted", "unit_word", "on_screen", "help", "keyword", "label", "alike",
            ),
            *("anew_every", "of_now", "says", "shows", "stream", "column", "whole"),
        ),
        "words, pictures and ends of an axis: made of what was released, after it was",
    ),
    **dict.fromkeys(
        (
            *("by_groups", "declares", "domain", "finds"),
            *("own_columns", "statistics"),
            *("is_table", "ranks"),
            "windowed",
        ),
        "how a job asks for it, and what it plans: counted is the statistic that comes of it, "
        "whose own laws hold",
    ),
    **dict.fromkeys(
        ("in_rank", "known_beforehand", "typical_cells"),
        "what a plan tells of errors: a release tells its own, whatever was planned",
    ),
    **dict.fromkeys(
        ("check_asked",),
        "which cells are asked for: each is what the machine releases, whichever it is",
    ),
}  # fmt: skip

ROOT = Path(__file__).parents[2]
#: Claims of reports and of groups, and the tests which a wrong one fails.
IN_REPORTS = {
    "counted_ranks": "tests/run/test_reports_of_people.py",
    "counts_users": "tests/run/test_reports_of_people.py",
    "for_people": "tests/run/test_reports_of_people.py",
    "many_groups": "tests/statistics/test_grouped.py",
    "norms_of_people": "tests/run/test_reports_of_people.py",
    "rank_digits": "tests/run/test_reports_of_people.py",
}

#: What is said of some of them.
SAID = {
    "cells-0": r"take\(\) must return changes of shape \(4, 2\), but returns \(8,\)",
    "contribution-0": r"event 10 changes .* by .*1-norm.* is stated",
    "counts_rows-1": r"entries\(\) adds \[2\] for a row, but row_bounds\(\) states 1 to 1",
    "entries-0": r"entries\(\) names the sum \[-1\]",
    "largest_entry-0": "largest_entry is 1, which allows 1 in a cell of one row",
    "measure-0": "two halves of the rows do not add up",
    "parameters-0": "built again from .* counts the events differently",
    "encode-1": "given in another order",
    "encode-2": r"encode\(\) must return int64, but returns int32",
}


def test_every_name_is_in_one_list() -> None:
    names = {name for name in dir(AccumulatorStatistic) if not name.startswith("_")}
    assert not WRONG.keys() & NO_LAW.keys()
    held = WRONG.keys() | NO_LAW.keys() | IN_REPORTS.keys()
    assert names <= held, "a claim without a law: see the module's text"
    assert all((ROOT / tests).is_file() for tests in IN_REPORTS.values())


@pytest.mark.parametrize(
    "statistic",
    [Above(), Cuts(["a", "b", "c"]), grouped(), Grouped(Count(), ["north", "south"])],
    ids=repr,
)
def test_correct_statistic_passes_checks(statistic: Statistic) -> None:
    batches, unit_of = stream_of(statistic)
    check_statistic(statistic, batches, unit_of=unit_of)


@pytest.mark.parametrize(
    ("place", "statistic"),
    [
        pytest.param(f"{name}-{number}", statistic, id=f"{name}-{number}")
        for name, statistics in WRONG.items()
        for number, statistic in enumerate(statistics)
    ],
)
def test_check_statistic_rejects_each_wrong_claim(place: str, statistic: Statistic) -> None:
    batches, unit_of = stream_of(statistic)
    with pytest.raises(PropertyViolationError) as broken:
        check_statistic(statistic, batches, unit_of=unit_of)
    assert re.search(SAID.get(place, ""), str(broken.value))
