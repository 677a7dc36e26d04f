"""Limits and defaults that the pages state are those of the code."""

from pathlib import Path
from typing import Any

import pytest

from counton.base.lengths import LATE_DAYS
from counton.charts import totals
from counton.io import declared_groups, error_policy
from counton.noise.guard_file import REMEMBERED_RELEASES
from counton.results import release_files, web_page
from counton.run.counting.remembered_rows import BUCKETS
from counton.run.spec import statistic_parsing, terms
from counton.run.windows import due_windows
from counton.serve import (
    answers,
    pages,
    public_series,
    server,
    settings,
    slots,
    steady_clock,
    write_paths,
)
from counton.serve.service import _REMEMBERED_US
from counton.state import lease
from counton.statistics.count import MOST_EVENTS
from counton.strategies.strategy import LARGEST_DENSE

ROOT = Path(__file__).parents[2]
MIB = 2**20
WORDS: dict[float, str] = {5: "five seconds", 10: "ten seconds", 600: "ten minutes"}
LIMITS: list[tuple[str, str, Any]] = [
    (
        "concepts/late-data",
        "ended at least {} days (840 hours) before the end of the last window",
        LATE_DAYS,
    ),
    ("guides/bad-rows", "they count once, for {} days", LATE_DAYS),
    ("guides/bad-rows", "remembers an id for {} days after the day", LATE_DAYS),
    (
        "guides/bad-rows",
        "ended at least {} days (840 hours) before the end of the last window",
        LATE_DAYS,
    ),
    ("guides/bad-rows", "more than {:,} bad rows", error_policy.DEFAULT_MOST_BAD_ROWS),
    ("guides/bad-rows", "the default is {}, otherwise", terms.MAX_EMPTY_WINDOWS_OF_LOOKBACK),
    ("guides/bad-rows", "otherwise {}.", terms.MAX_EMPTY_WINDOWS),
    (
        "guarantees/details",
        "or more than {:,} if it is not set;",
        error_policy.DEFAULT_MOST_BAD_ROWS,
    ),
    ("guarantees/details", "of up to {} earlier releases", REMEMBERED_RELEASES),
    ("guarantees/details", "makes more than {} releases", REMEMBERED_RELEASES),
    ("guides/erasure", "keyed digests of ids | automatic, after {} days", LATE_DAYS),
    ("guides/erasure", "deleted automatically {} days after the end", LATE_DAYS),
    ("guides/erasure", "users into {:,} groups by a keyed digest", BUCKETS),
    ("guides/erasure", "too low by about {:.1%}.", 1 / BUCKETS),
    (
        "guides/fill-in-a-job-file",
        "ended at least {} days (840 hours) before the end of the last window",
        LATE_DAYS,
    ),
    ("guides/service", "accepts the new time after {},", WORDS[steady_clock.LASTING_SECONDS]),
    ("guides/service", "ahead by more than {},", WORDS[steady_clock._TOLERANCE_SECONDS]),
    ("guides/service", "another takes over within {}.", WORDS[lease.LEASE_SECONDS]),
    ("reference/http-api", "no place within {} receives", WORDS[slots._LONGEST_WAIT_SECONDS]),
    ("guides/operate", "{} days of digests", LATE_DAYS),
    ("guides/operate", "at most {} MiB", settings.WAITING_BYTES // MIB),
    ("guides/service", "recognises a repeated batch for {} days", _REMEMBERED_US // 86_400_000_000),
    ("guides/service", "ends within {:.0f} seconds", server._LONGEST_END_SECONDS),
    ("reference/http-api", "a repeated batch for {} days", _REMEMBERED_US // 86_400_000_000),
    ("reference/http-api", "at most {:,} rows, the oldest first", pages.PAGE_ROWS),
    ("reference/http-api", "connection after an answer | {} s |", server._IDLE_SECONDS),
    ("reference/http-api", "| Connections | {:,}, or", server._MOST_CONNECTIONS),
    ("reference/http-api", "more than {} rows at once |", public_series.FEW_ROWS),
    ("reference/http-api", "rows at once | {} |", answers._MOST_LONG_ANSWERS),
    ("reference/http-api", "received at once | {} |", write_paths._MOST_BATCHES_AT_ONCE),
    ("reference/http-api", "bytes of answers | {} MiB |", server._UNSENT_BYTES // MIB),
    ("reference/command-line", "{} groups. If a chart", totals.MOST_PANELS),
    ("reference/commands/release", "ended more than {} days ago", due_windows._PAST_AGE.days),
    ("guides/dashboard", "the newest {:,} rows", web_page._MOST_ROWS),
    ("guides/pre-aggregated-input", "from 0 to 2^{}", MOST_EVENTS.bit_length() - 1),
    ("guides/spark", "reads up to {:,} combinations", release_files._MOST_NUMBERS),
    ("guides/spark", "has fewer than {:,} groups", declared_groups._MOST_GROUPS),
    ("statistics/moments", "the bounds (default {})", statistic_parsing._DEFAULT_GRID),
    ("research/accuracy", "measurement matrix of up to {:,} steps", LARGEST_DENSE),
    ("research/extend", "per step, up to {:,} columns", LARGEST_DENSE),
    ("research/extend", "not limited to {:,} steps", LARGEST_DENSE),
    ("research/extend", "sensitivities (up to {:,} steps)", LARGEST_DENSE),
]


def text_of(name: str) -> str:
    """Return the text of a page without line breaks."""
    folder = ROOT if name == "README" else ROOT / "docs"
    return " ".join((folder / f"{name}.md").read_text("utf-8").split())


@pytest.mark.parametrize(("page", "sentence", "limit"), LIMITS)
def test_page_states_limit_of_the_code(page: str, sentence: str, limit: Any) -> None:
    assert sentence.format(limit) in text_of(page)
