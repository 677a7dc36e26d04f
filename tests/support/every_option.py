"""Every statistic with each of its own options, and with options of every job.

A statistic has a sixth of the latter, and an option a sixth of the statistics, of each kind some;
two tests have sixths of their own (``turn``). All of them with ``COUNTON_FUZZ=1`` (`make fuzz`).
"""

import json
from pathlib import Path
from typing import Any

from every_statistic import HEADER, OWN, TABLES
from in_turn import in_turn

from counton.job.option_fields import section_of
from counton.job.statistics import model_of
from counton.statistics.catalogue import keywords

TIMES = {"time": "at", "every": "1h", "start": "2024-03-01", "windows": 6}
LEAST: dict[str, dict[str, Any]] = {
    name: {**TIMES, "epsilon": 100, "strategy": "binary", **own}
    for name, own in {**OWN, **TABLES}.items()
}
BY = {"group_by": "page", "groups": "home,shop"}
USERS = {"user": "user", "max_contributions": 2}
EXPIRE = {"windows": None, "strategy": None, "expiring": True}
CELLS = {"edges": None, "lower": 0, "upper": 9, "cells": 3}
FOUND = {
    "group_by": "page",
    "groups": None,
    "unlisted_groups": "discover",
    "delta": "1e-6",
    "strategy": None,
}
WITHIN = {"epsilon": None, "margin_of_error": 50}
PICTURE = {"chart": "t.svg", "title": "It", "axis": "it", "source": "here", "width": 4}
ROWS_ARE = {"file_format": "csv", "time_format": "%Y-%m-%dT%H:%M", "ambiguous": "earliest"}
#: What a first night says of the options of every job, besides what its statistic needs at least.
COMMON: list[dict[str, Any]] = [
    {"windows": None, "epsilon": None, "rho": 50, "strategy": None, "expected_windows": 20},
    {"timezone": "Atlantic/Reykjavik", "privacy_unit": "visit", "delta": "1e-6"},
    BY,
    {**BY, "groups": "home", "other_group": "rest"},
    {**BY, "groups": "home", "unlisted_groups": "drop"},
    FOUND,
    {"epsilon": None, "rho": 50},
    WITHIN,
    {**WITHIN, "margin_of_error": "5%", "expected_rows": 1000, "solve_for": "rho"},
    {**EXPIRE, "expiration_growth": 2},
    {**EXPIRE, "expiration_delay": 1},
    {"series": "per-window", "strategy": None},
    {"series": "both"},
    {"series": "rolling", "last": "2h", "strategy": None},
    {"series": "decayed", "half_life": "2h", "strategy": None},
    {"series": "both", "last": "2h,3h", "strategy": None},
    {"strategy": "sqrt"},
    {"strategy": None, "metric": "max"},
    {"strategy": None, "simple": True},
    USERS,
    {**USERS, "contribution_period": "1d", "retain": "7d", "max_contributions_per_window": 1},
    {**USERS, "contribution_period": "1d", "retain": "7d"},
    {"user": "user", "contribution_period": "1d"},
    {**USERS, "once_per_window": True},
    {**USERS, "event_name": "loan"},
    {**USERS, "max_contributions": None, "distinct_users": True},
    {**USERS, **BY, "distinct_users": True},
    {**ROWS_ARE, "release_delay": "1h", "max_empty_windows": 9},
    {"separator": ";", "decimal": ","},
    {"bad_rows": "quarantine:aside.csv", "max_bad_rows": 5, "missing_values": "drop"},
    {"row_id": "id"},
    {"row_id": "id", "allowed_lateness": "1h"},
    {"output": "t.csv", "confidence_level": 0.9},
    PICTURE,
    {"max_corrections": 1},
    {"over": 2},
    {"shares": "0.25,0.5"},
    {"ask": "a,b"},
]
#: An option that statistics have, or one of them, and what a first night says of it.
ITS_OWN: dict[str, list[dict[str, Any]]] = {
    "value": [{"value": "paid"}],
    "count_column": [{"count_column": "paid"}],
    "count count_column": [
        {"count_column": "paid"},
        {"count_column": "paid", "upstream_max_contributions": 3, "event_name": "loan"},
    ],
    "lower": [{"lower": 1}],
    "upper": [{"upper": 8}],
    "resolution": [{"resolution": "0.5"}],
    "cells": [CELLS],
    "quantiles lower": [{**CELLS, "lower": 1}],
    "quantiles upper": [{**CELLS, "upper": 8}],
    "edges": [{"edges": "0,3,9"}],
    "line": [{"line": "haar"}],
    "replace": [{"replace": True}],
    "top": [{"top": 2}],
    "room": [{**FOUND, "room": 1000}],
    "target": [{"target": "page=10,user=20"}],
    "workload": [{"workload": "prefixes"}],
    "equal": [{"equal": True}],
    "bounds": [{"bounds": "0:8,0:9"}],
    "grid": [{"grid": 8}],
    "at_least": [{"at_least": "2"}, {"at_least": "1,5"}, {"at_least": None}],
    **{key: [{}] for key in ("label", "levels", "columns", "statistics")},
}
WHAT = (
    *("home,ann,3,u,v,1,a", "shop,bob,5,v,w,1,b", "home,ann,4,u,w,1,a", "shop,bob,2,v,w,1,b"),
    "home,cy,2,u,v,1,a",
)


#: Options under other headings that only some statistics have.
_SHOWN = ("top", "room")


def own_of(name: str) -> list[str]:
    """Return the options of a statistic alone."""
    model = model_of(name)
    return [
        option
        for option in model.model_fields
        if option != "statistic"
        and (option in _SHOWN or section_of(model, option).heading == "Statistic")
    ]


def settings_of(name: str, option: str) -> list[dict[str, Any]]:
    """Return what a first night says of one of a statistic's own options."""
    assert option in ITS_OWN, f"give {option!r} a value in ITS_OWN of tests/support/every_option.py"
    return ITS_OWN.get(f"{name} {option}", ITS_OWN[option])


def every(turn: int) -> list[tuple[str, bool, dict[str, Any]]]:
    """Each statistic with each of its own options, and with the options of every job in turn."""
    found = []
    for place, name in enumerate(keywords(), turn):
        for option in own_of(name):
            found += [(name, True, said) for said in settings_of(name, option)]
        found += [(name, False, said) for said in in_turn(COMMON, 6, first=-place % 6)]
    return found


def stated_by(name: str, said: dict[str, Any]) -> dict[str, Any]:
    """What a first night states, all of it."""
    return {key: value for key, value in {**LEAST[name], **said}.items() if value is not None}


def key_of(name: str, option: str) -> str:
    """Return what commands and job files call an option, also one that the statistic has not."""
    field = model_of(name).model_fields.get(option)
    return option.replace("_", "-") if field is None else str(field.alias)


def words_of(name: str, stated: dict[str, Any], folder: Path) -> list[str]:
    """The options of a command that say this."""
    words: list[str] = []
    for option, value in stated.items():
        if isinstance(value, dict) and option == "statistics":
            (folder / "parts.json").write_text(json.dumps(value))
            value = folder / "parts.json"
        elif isinstance(value, dict):
            rows = zip(*value.values(), strict=True)
            text = "\n".join(",".join(row) for row in (value, *rows))
            (folder / "domain.csv").write_text(text)
            value = folder / "domain.csv"
        elif isinstance(value, str) and value.endswith((".csv", ".svg")):
            before, _, path = value.rpartition(":")
            value = f"{before}:{folder / path}".lstrip(":")
        words += [f"--{key_of(name, option)}", *([] if value is True else [str(value)])]
    return words


def rows_of(stated: dict[str, Any], hours: int) -> str:
    """One row in each hour."""
    lines = [HEADER.strip()]
    lines += [f"2024-03-01T0{hour}:10,{WHAT[hour]},{hour + 1}" for hour in range(hours)]
    return "\n".join(lines).replace(",", stated.get("separator", ",")) + "\n"
