"""Every statistic with the least that defines it, over rows that all of them take."""

from pathlib import Path
from typing import Any

from counton.run import Job

HEADER = "at,page,user,paid,from,to,comes,letter,id\n"
ROWS = ["00:10,home,ann,3,u,v,1,a,1", "00:40,shop,bob,5,v,w,1,b,2", "02:30,home,ann,4,u,w,1,a,3"]
OWN: dict[str, dict[str, Any]] = {
    "count": {},
    "sum": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "average": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "quantiles": {"value": "paid", "edges": "0,4,9", "line": "identity"},
    "report": {
        "statistics": {
            "rows": {"statistic": "count"},
            "paid": {
                "statistic": "average", "value": "paid", "lower": 0, "upper": 9, "resolution": 1,
            },
        }
    },
    "top-k": {"group_by": "page", "groups": "home,shop", "top": 1},
    "distinct": {"user": "user"},
    "reach": {"user": "user", "at_least": "1,2", "contribution_period": "1d"},
}  # fmt: skip
TALLIED = ("count", "sum", "average", "quantiles", "top-k", "distinct", "reach", "report")
#: Tables, and those of them that are released once where their rows have no times.
TABLES: dict[str, dict[str, Any]] = {
    "hierarchy": {
        "levels": "page,user",
        "groups": {"page": ["home", "home", "shop"], "user": ["ann", "cy", "bob"]},
    },
    "ranges": {"label": "page", "groups": "home,shop"},
    "contingency": {"columns": "page,user", "groups": "page=home,shop;user=ann,bob,cy"},
    "moments": {"columns": "paid,id", "bounds": "0:9,0:9"},
}
ONCE = ("quantiles", "hierarchy", "ranges", "contingency")


def made(name: str, folder: Path, rows: list[str] = ROWS) -> Job:
    name, _, once = name.partition(" ")
    events = written(folder, rows)
    state = folder / "s.db"
    own = {**OWN, **TABLES}[name]
    if once:
        return Job(name, events, state, epsilon=1, stream="it", **own)
    return Job(
        name, events, state, time="at", every="1h", start="2024-03-01", windows=6,
        until="2024-03-01T03:00", epsilon=1, strategy="binary", stream="it", **own,
    )  # fmt: skip


def written(folder: Path, rows: list[str]) -> Path:
    (folder / "e.csv").write_text(HEADER + "".join(f"2024-03-01T{row}\n" for row in rows))
    return folder / "e.csv"
