"""Jobs of every statistic that is added up, and rows for them."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from counton.run import Job

PAGES = "abcdef"
PLACES = "xyz"


@cache
def events(seed: int = 1, rows: int = 900) -> pl.DataFrame:
    chance = random.Random(seed)
    made = [
        {
            "at": f"2024-03-{chance.randint(1, 19):02}T{chance.randrange(24):02}:"
            f"{chance.randrange(60):02}",
            "page": chance.choice(PAGES),
            "place": chance.choice(PLACES),
            "user": f"u{int(chance.expovariate(0.03))}",  # some have many rows
            "paid": chance.gauss(5, 3),
            "id": str(chance.randrange(rows)),  # some come twice
            "many": number % 5 * 10**8 + number % 3,
        }
        for number in range(rows)
    ]
    return pl.DataFrame(made)


BY = {"group_by": "page", "groups": ",".join(PAGES)}
VALUE = {"value": "paid", "lower": 0, "upper": 9, "resolution": "0.1"}
PEOPLE = {"user": "user", "max_contributions": 2}
FOUND = {"group_by": "page", "unlisted_groups": "discover", "delta": "1e-6"}
#: Of a report: rows that add up to numbers, and such as choose among places.
STATISTICS = {
    "visits": {"statistic": "count"},
    "paid": {"statistic": "average", **VALUE},
    "spread": {"statistic": "quantiles", "value": "paid", "edges": "0,4,9", "line": "identity"},
    "pages": {"statistic": "ranges", "label": "page", "groups": ",".join(PAGES)},
}
OF_PEOPLE = {
    "users": {"statistic": "distinct"},
    "users by page": {"statistic": "distinct", **BY},
    "paid by page": {"statistic": "average", **VALUE, **BY},
    "top": {"statistic": "top-k", **BY, "top": 2},
}
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "count": ("count", {}),
    "groups": ("count", BY),
    "counts": ("count", {**BY, "count_column": "many", "privacy_unit": "passage"}),
    "other": ("count", {"group_by": "page", "groups": "a,b", "other_group": "rest"}),
    "two columns": (
        "count",
        {
            "group_by": "page,place",
            "groups": {"page": list("abc"), "place": list(PLACES)},
            "unlisted_groups": "drop",
        },
    ),
    "dropped": ("count", {"group_by": "page", "groups": "a,b", "unlisted_groups": "drop"}),
    "local days": ("count", {**BY, "timezone": "Europe/Paris"}),
    "windows": ("sum", {**BY, **VALUE, "series": "both"}),
    "average": ("average", VALUE),
    "quantiles": ("quantiles", {"value": "paid", "edges": "0,4,9", "line": "identity"}),
    "top": ("top-k", {**BY, "top": 2}),
    "distinct": ("distinct", {"user": "user"}),
    "reach": ("reach", {"user": "user", "at_least": "1,2", "contribution_period": "1w"}),
    "reach by group": ("reach", {**BY, "user": "user", "at_least": "1,2", "max_contributions": 2}),
    "moments": ("moments", {"columns": "paid", "bounds": "0:9", "grid": 8}),
    "hierarchy": ("hierarchy", {"levels": "page,place", "groups": "leaves.csv"}),
    "ranges": ("ranges", {"label": "page", "groups": ",".join(PAGES)}),
    "contingency": (
        "contingency",
        {"columns": "page,place", "groups": f"page={','.join(PAGES)};place={','.join(PLACES)}"},
    ),
    "counted table": (
        "contingency",
        {"columns": "page", "groups": f"page={','.join(PAGES)}", "count_column": "many"},
    ),
    "report": ("report", {"statistics": STATISTICS}),
    "report of people": (
        "report",
        {"statistics": {**STATISTICS, **OF_PEOPLE}, **PEOPLE, "unlisted_groups": "drop"},
    ),
    "people": ("count", {**BY, **PEOPLE}),
    "sums of people": ("sum", {**BY, **VALUE, **PEOPLE}),
    "weeks of people": ("count", {**BY, **PEOPLE, "contribution_period": "1w"}),
    "people once": ("count", {**BY, **PEOPLE, "once_per_window": True}),
    "people first": (
        "count",
        {**BY, "user": "user", "distinct_users": True, "max_contributions": 2},
    ),
    "ids": ("count", {**BY, "row_id": "id"}),
    "ids of people": ("count", {**BY, **PEOPLE, "row_id": "id"}),
    "late days": ("count", {**BY, "row_id": "id", "allowed_lateness": "7d"}),
    "late days of people": (
        "average",
        {**VALUE, **PEOPLE, "row_id": "id", "allowed_lateness": "3d"},
    ),
    "found": ("count", FOUND),
    "found of people": ("count", {**FOUND, **PEOPLE}),
    "found top": ("top-k", {**FOUND, "top": 2}),
}


def job(name: str, folder: Path, state: str = "s", **more: Any) -> Job:
    what, own = JOBS[name]
    if own.get("groups") == "leaves.csv":
        leaves = folder / "leaves.csv"
        leaves.write_text("page,place\n" + "".join(f"{a},{b}\n" for a in PAGES for b in PLACES))
        own = {**own, "groups": leaves}
    asked: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "windows": 30, "until": "latest-event",
        "epsilon": 1, "strategy": "binary", "stream": "it", **own, **more,
    }  # fmt: skip
    return Job(what, "-", folder / f"{state}.db", **asked)
