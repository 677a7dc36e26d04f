"""Jobs of some nights, by the doors that users have: a job file, rows in files, the command line.

Nothing here names a type of the package: whatever becomes of these, the same file, key and rows
have the same released numbers.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch


def known_bytes(size: int = 32) -> bytes:
    """What secrets are drawn as."""
    return bytes(range(size))


def known_hex(size: int = 32) -> str:
    """What identities are drawn as."""
    return "5a" * size


#: What each column may say; a row takes one of each.
GROUPS = ("home", "shop", "help")
PLACES = {"region": ("N", "N", "S"), "city": ("a", "b", "c")}
#: Two of them are in a row; each pair comes once.
NODES = "uvwxyzabcdef"
HEADER = "time,page,region,city,user,paid,weight,id,one,two,letter"

OVER_TIME = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 9}
BY = {"group_by": "page", "groups": [*GROUPS]}
VALUE = {"value": "paid", "lower": 0, "upper": 9, "resolution": 0.5}
TREE = {"levels": "region,city", "groups": "places.csv"}
TABLE = {"columns": "page,region", "groups": {"page": [*GROUPS], "region": ["N", "S"]}}
MOMENTS = {"statistic": "moments", "columns": "paid,weight", "bounds": "0:9,0:5", "grid": 8}
USER = {"user": "user", "max_contributions": 2}

#: Of each statistic what defines it.
STATISTICS: dict[str, dict[str, Any]] = {
    "count": {},
    "groups": BY,
    "other": {"group_by": "page", "groups": ["home", "shop"], "other_group": "rest"},
    "found": {"group_by": "page", "unlisted_groups": "discover", "delta": "1e-6"},
    "windows": {**BY, "series": "per-window"},
    "both": {**BY, "series": "both"},
    "rolling": {**BY, "series": "rolling", "last": "1d,3d"},
    "rolling sum": {"statistic": "sum", **VALUE, "series": "rolling", "last": "2d"},
    "both and rolling": {"series": "both", "last": "3d"},
    "decayed": {"series": "decayed", "half_life": "2d"},
    "sum": {"statistic": "sum", **VALUE},
    "sum by group": {"statistic": "sum", **VALUE, **BY, "series": "both"},
    "average": {"statistic": "average", **VALUE},
    "average by group": {"statistic": "average", **VALUE, **BY},
    "quantiles": {"statistic": "quantiles", "value": "paid", "edges": "0,2,4,6,9"},
    "quantiles haar": {
        "statistic": "quantiles", "value": "paid", "edges": "0,2,4,6,9", "line": "haar",
    },
    "top-k": {"statistic": "top-k", **BY, "top": 2},
    "moments": MOMENTS,
    "hierarchy": {"statistic": "hierarchy", **TREE},
    "ranges": {"statistic": "ranges", "label": "page", "groups": [*GROUPS]},
    "contingency": {"statistic": "contingency", **TABLE},
    "distinct": {"statistic": "distinct", "user": "user"},
    "report": {
        "statistic": "report",
        "statistics": {
            "visits": {"statistic": "count"},
            "pages": {"statistic": "count", **BY},
            "paid": {"statistic": "average", **VALUE},
            "spread": {"statistic": "quantiles", "value": "paid", "edges": "0,3,9"},
            "land": {"statistic": "hierarchy", **TREE, "share": 2},
        },
    },
    "report of users": {
        "statistic": "report",
        **USER,
        "statistics": {
            "users": {"statistic": "distinct"},
            "best": {"statistic": "top-k", **BY, "top": 1},
            "paid": {"statistic": "average", **VALUE, **BY},
        },
    },
}  # fmt: skip
#: Users who are counted once in each period: its number, and all periods added up.
REACH = {"statistic": "reach", "user": "user", "at-least": "1,2", "contribution_period": "2d"}
ANEW: dict[str, dict[str, Any]] = {
    "users by rows": REACH,
    "users by rows, added up": {**REACH, "series": "cumulative"},
}
PEOPLE: dict[str, dict[str, Any]] = {
    "": {},
    "people": USER,
    "people of two days": {**USER, "contribution_period": "2d"},
    "people once": {**USER, "once_per_window": True},
    "first of people": {"user": "user", "max_contributions": 1, "distinct_users": True},
    "ids": {"row_id": "id"},
}
GUARANTEES: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": 1},
    "approximate": {"epsilon": 1, "delta": "1e-6"},
    "zero-concentrated": {"rho": "0.5"},
}
#: Statistics that a table released once may have.
ONCE = ("quantiles", "quantiles haar", "hierarchy", "ranges", "contingency")
#: Statistics of which each kind of people is tried, and each guarantee; others have one of each.
MOST_TRIED = ("count", "groups", "average by group", "both", "quantiles")
STRATEGIES = (
    "least-squares", "look-ahead", "multiscale", "kary", "smooth", "honaker", "binary", "sqrt",
    "normalised-sqrt",
)  # fmt: skip
GAUSSIAN = ("multiscale", "sqrt", "normalised-sqrt")
LINES = ("identity", "haar", "hierarchy", "optimal")


class Night(NamedTuple):
    """A job, and how many nights it runs.

    Attributes:
        asked: options, as a job file has them.
        nights: each has all rows of the days so far, and late ones.
        append: whether a night's file has new rows alone.
        late: whether some rows come a day late.
    """

    asked: Mapping[str, Any]
    nights: int = 2
    append: bool = False
    late: bool = False

    @property
    def spec(self) -> dict[str, Any]:
        """What defines the case, as it is written beside its numbers."""
        return {
            "job": dict(self.asked), "nights": self.nights, "append": self.append,
            "late": self.late,
        }  # fmt: skip


def cases() -> Iterator[tuple[str, Night]]:
    """All of them, by name."""
    for name, own in STATISTICS.items():
        what = {"epsilon": 4, **own}
        yield f"{name}, over time", Night(OVER_TIME | what)
        if name in ONCE:
            yield f"{name}, once", Night(what, nights=1)
    for name, own in ANEW.items():
        yield f"{name}, over time", Night(OVER_TIME | {"epsilon": 4} | own)
    for name in MOST_TRIED:
        for people, bound in PEOPLE.items():
            for guarantee, promised in GUARANTEES.items():
                own = STATISTICS[name] | bound | promised
                if bound.get("once_per_window") and name != "groups":
                    continue
                # A late row of a file of all events counts if it is known to be new.
                append = not bound or guarantee == "pure"
                said = ", ".join(filter(None, (name, people, guarantee)))
                yield said, Night(OVER_TIME | own, append=append, late=True)
    for line in LINES:
        own = {**STATISTICS["ranges"], "line": line, "rho": "0.5"}
        yield f"ranges by {line}, once", Night(own, nights=1)
    for strategy in STRATEGIES:
        distribution = {"rho": "0.5"} if strategy in GAUSSIAN else {"epsilon": 1}
        steps = {"windows": 600} if strategy == "multiscale" else {}  # for few it is not weighed
        yield (
            f"groups by {strategy}",
            Night(OVER_TIME | steps | BY | distribution | {"strategy": strategy}),
        )
    endless = {name: value for name, value in OVER_TIME.items() if name != "windows"}
    yield "without an end", Night({**endless, "expected_windows": 9, "epsilon": 1})
    losses: dict[str, Any] = {"epsilon": 1, "rho": "0.5"}
    for guarantee, loss in losses.items():
        asked = {**endless, "expected_windows": 40, "series": "rolling", "last": "16d"}
        asked[guarantee] = loss
        yield f"rolling without an end, {guarantee}", Night(asked)
    yield "expiring", Night({**endless, "expiring": True, "epsilon": 1})
    yield "expiring late", Night({**endless, "expiring": True, "rho": "0.5", "expiration_delay": 1})


def rows(day: int, *, late: bool) -> list[str]:
    """Rows of a day; a function of the day alone.

    Args:
        day: of March.
        late: whether some are of the day before.
    """
    found = []
    pairs = [*combinations(NODES, 2)]
    for number in range(11):
        one = (day * 131 + number * 37 + number * number * 5) % 997
        before = late and number % 5 == 4 and day > 1
        nodes = pairs[(11 * (day - 1) + number) * 5 % len(pairs)]
        found.append(
            f"2024-03-{day - before:02}T{2 * number:02}:30:00Z,{GROUPS[one % 7 % 3]},"
            f"{PLACES['region'][one % 3]},{PLACES['city'][one % 3]},u{one % 6},"
            f"{one % 19 / 2:g},{1 + one % 5},{day * 100 + number},{nodes[0]},{nodes[1]},"
            f"{'ab'[one % 2]}"
        )
    return found


def events(case: Night, night: int) -> str:
    """The file of a night, CSV: rows of its two days, or of all days so far."""
    days = range(2 * night + 1 if case.append else 1, 2 * night + 3)
    return "\n".join([HEADER, *(row for day in days for row in rows(day, late=case.late)), ""])


PLACED = {"state": "s.db", "stream": "it", "output": "out.csv"}


def job_file(case: Night, night: int) -> str:
    """The job as it stands in a file, TOML."""
    asked = {"events": f"{night}.csv", **PLACED, "unlisted_groups": "drop", **case.asked}
    if "page" not in (asked.get("group_by"), asked.get("columns")) and "groups" not in asked:
        del asked["unlisted_groups"]
    if "other_group" in asked or asked.get("unlisted_groups") == "discover":
        asked = {**case.asked, "events": f"{night}.csv", **PLACED}
    parts = asked.pop("statistics", None)
    if "time" in asked:
        asked["until"] = f"2024-03-{2 * night + 3:02}"
    if case.append:
        asked |= {"append": True, "allow_empty_windows": True}
    table = "jobs.it" if parts is None else "report.it"
    if parts is not None:
        del asked["statistic"]
    lines = [f"[{table}]", *_lines(asked)]
    for name, own in (parts or {}).items():
        lines += [f"[{table}.{name}]", *_lines(own)]
    return "\n".join(lines) + "\n"


def _lines(asked: Mapping[str, Any]) -> Iterator[str]:
    for name, value in asked.items():
        if isinstance(value, Mapping):
            inner = ", ".join(f"{key} = {json.dumps(one)}" for key, one in value.items())
            yield f"{name.replace('_', '-')} = {{ {inner} }}"
        else:
            yield f"{name.replace('_', '-')} = {json.dumps(value)}"


def counton(*words: str) -> str:
    """What the command prints.

    Raises:
        RuntimeError: it ends with another code than 0.
    """
    from counton.cli.__main__ import main

    out = io.StringIO()
    err = io.StringIO()
    with patch("sys.argv", ["counton", *words]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(
                    f"{words}: {end.code} {out.getvalue()} {err.getvalue()}"
                ) from None
    return out.getvalue()


def released(case: Night, folder: Path) -> list[str]:
    """The table of all nights: of each row the estimate, and the ends of its interval.

    Args:
        case: the job.
        folder: an empty one, which is the working directory.
    """
    columns = ",".join(PLACES)
    places = ("\n".join([columns, *map(",".join, zip(*PLACES.values(), strict=True))])) + "\n"
    (folder / "places.csv").write_text(places)
    for night in range(case.nights):
        (folder / f"{night}.csv").write_text(events(case, night))
        (folder / "jobs.toml").write_text(job_file(case, night))
        counton("run", "jobs.toml")
    with (folder / "out.csv").open(newline="") as file:
        table = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [*_shown(table)]


def _shown(table: list[dict[str, str]]) -> Iterator[str]:
    """What was released in each window and group: estimate and interval, of each series."""
    windows = iter([row for row in table if row.get("series") == "per-window"])
    several = any(row.get("series") == "cumulative" for row in table)
    for row in table:
        if row.get("measure") == "running total":
            continue
        is_quantile = row.get("quantile") and "statistic" not in row
        names = ("lower", "upper") if is_quantile else ("estimate", "lower", "upper")
        if not several or row["series"] == "cumulative":
            numbers = [_digits(row[name]) for name in names]
            window = next(windows, None) if several else None
            if window is not None:
                numbers += [_digits(window[name]) for name in names]
            yield " ".join(numbers)


def _digits(text: str) -> str:
    """A number: a whole one as it is, another by ten digits, since a processor rounds the rest."""
    return text if text.lstrip("-").isdigit() or not text else f"{float(text):.10g}"
