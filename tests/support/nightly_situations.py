"""Small situations of nightly jobs, drawn by a seed: the job, and the file and clock of each night.

A situation is one that a small organisation may have: a file of events, of users, or of counts,
whose rows arrive late, twice or not at all, or are written wrongly.
"""

import csv
import io
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

#: First moments of streams, near changes of clocks, by length of windows and zone.
STARTS = {
    "1h": {"UTC": "2024-03-30T21:00", "Europe/Berlin": "2024-03-30T23:00",
           "America/Chicago": "2024-11-02T22:00"},
    "1d": {"UTC": "2024-02-27", "Europe/Berlin": "2024-03-29", "America/Chicago": "2024-11-01"},
    "1w": {"UTC": "2024-02-26", "Europe/Berlin": "2024-10-14", "America/Chicago": "2024-02-26"},
    "1mo": {"UTC": "2024-01-01", "Europe/Berlin": "2024-02-01", "America/Chicago": "2024-09-01"},
}  # fmt: skip
#: Lengths of windows with shorter and longer periods of users.
PERIODS = {
    "1h": ("1d",),
    "1d": ("1d", "1d", "1w", "1mo"),
    "1w": ("1d", "1w", "1w", "1mo"),
    "1mo": ("1d", "1mo", "1mo"),
}
USERS = ("ann", "bob", "cid", "dan")
LISTED = ("north", "south")
UNLISTED = "east"
OTHER = "rest"


def edges_of(every: str, start: str, zone: str, n_windows: int) -> list[datetime]:
    """Return the moments at which windows begin and end, in UTC."""
    first = datetime.fromisoformat(start)
    edges = []
    for number in range(n_windows + 1):
        if every == "1h":
            edge = first.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) + timedelta(hours=number)
        else:
            local = first + timedelta(days=number * (7 if every == "1w" else 1))
            if every == "1mo":
                months = first.month - 1 + number
                local = first.replace(year=first.year + months // 12, month=months % 12 + 1)
            edge = local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        edges.append(edge)
    return edges


@dataclass(frozen=True)
class Row:
    """A row with the time from which on, and up to which, the organisation's file has it."""

    at: datetime
    arrives: datetime
    leaves: datetime | None
    cells: dict[str, str]


@dataclass(frozen=True)
class Night:
    """A run of the job.

    Attributes:
        now: the clock.
        rows: cells of the rows of the file.
        until: up to when windows are released; None: the clock decides.
        allows_empty: whether the run is given ``--allow-empty-windows``.
    """

    now: datetime
    rows: Sequence[dict[str, str]]
    until: str | None
    allows_empty: bool = False


@dataclass
class Situation:
    """A job and its nights."""

    seed: int
    kind: str
    every: str
    zone: str
    start: str
    n_windows: int
    options: dict[str, Any]
    columns: list[str]
    edges: list[datetime]
    nights: list[Night] = field(default_factory=list)
    ending: str = "csv"

    @property
    def mode(self) -> str:
        """Which rows each file has: all, those of the last windows, or new ones."""
        if self.options.get("append"):
            return "append"
        return "lookback" if "lookback" in self.options else "complete"

    def job_text(self, until: str | None) -> str:
        """Return the job file of one night."""
        options = {**self.options, **({} if until is None else {"until": until})}
        lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
        return "\n".join(["[jobs.told]", *lines, ""])

    def write(self, path: Path, rows: Sequence[dict[str, str]]) -> None:
        """Write the rows of a night into the file of events."""
        if self.ending == "parquet":
            import polars as pl

            frame = pl.DataFrame(
                {name: [row[name] or None for row in rows] for name in self.columns},
                schema=dict.fromkeys(self.columns, pl.String),
            )
            if self.kind == "counts":
                frame = frame.with_columns(pl.col("number").cast(pl.Int64))
            frame.write_parquet(path)
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(text.getvalue())


class Drawer:
    """Draws one situation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < share

    def situation(self) -> Situation:
        """Return the situation."""
        pick = self.random.choice
        every = pick(("1h", "1d", "1d", "1d", "1w", "1w", "1mo"))
        zone = pick(("UTC", "Europe/Berlin", "America/Chicago"))
        start = STARTS[every][zone]
        kind = pick(("events", "users", "users", "users", "counts"))
        n_windows = self.random.randint(3, 7)
        ending = "parquet" if self.chance(0.15) else "csv"
        options: dict[str, Any] = {
            "statistic": "count", "events": f"e.{ending}", "state": "s.db", "output": "out.csv",
            "time": "time", "timezone": zone, "every": every, "start": start, "epsilon": 10**6,
            "series": pick(("per-window", "cumulative", "both")),
        }  # fmt: skip
        options["windows"] = n_windows
        columns = ["time"]
        modes = ("complete", "complete", "append", "lookback")
        mode = pick(modes)
        if mode == "append":
            options["append"] = True
        if mode == "lookback":
            n_back = self.random.randint(2, 4)
            options["lookback"] = f"{n_back}{every[1:]}"
        if kind == "users":
            columns.append("who")
            period = pick(PERIODS[every])
            options |= {
                "user": "who", "max-contributions": pick((1, 1, 3)), "privacy-unit": "guest",
                "contribution-period": period, "event-name": "visit",
            }  # fmt: skip
            if self.chance(0.25):
                options["once-per-window"] = True
                del options["event-name"]
        else:
            options["privacy-unit"] = "visit"
        if self.chance(0.5):
            columns.append("street")
            options |= {"group-by": "street", "groups": ",".join(LISTED)}
            policy = pick(("other", "drop", ""))
            if policy == "other":
                options["other-group"] = OTHER
            elif policy == "drop":
                options["unlisted-groups"] = "drop"
        if kind == "counts":
            columns.append("number")
            options["count-column"] = "number"
        elif mode == "append" and self.chance(0.4):
            columns.append("id")
            options["row-id"] = "id"
        if self.chance(0.6):
            options["bad-rows"] = "quarantine:bad.csv"
            options["max-bad-rows"] = 100
        if self.chance(0.6):
            options["missing-values"] = "drop"
        if self.chance(0.2) and kind != "users":
            options["allowed-lateness"] = f"{self.random.randint(1, 2)}{every[1:]}"
            options["series"] = "per-window"
            if self.chance(0.5):
                del options["windows"]
        delay = {"1h": "30m", "1d": "6h", "1w": "1d", "1mo": "2d"}[every]
        whole = {"1h": "1h", "1d": "1d", "1w": "7d", "1mo": "31d"}[every]
        chosen_delay = pick((None, None, "0s", delay, whole))
        if chosen_delay is not None:
            options["release-delay"] = chosen_delay
        if self.chance(0.4):
            options["max-empty-windows"] = self.random.randint(0, 2)
        options["ambiguous"] = "earliest"
        drawn = Situation(
            self.seed, kind, every, zone, start, n_windows, options, columns,
            edges_of(every, start, zone, n_windows + 6), ending=ending,
        )  # fmt: skip
        rows = self.rows(drawn)
        self.add_nights(drawn, rows)
        return drawn

    # ----------------------------------------------------------------------------------- rows
    def rows(self, drawn: Situation) -> list[Row]:
        """Return all rows of a situation, whenever they arrive."""
        rows: list[Row] = []
        spans = list(pairwise(drawn.edges))
        for number, (begin, end) in enumerate(spans[: drawn.n_windows + 2]):
            if self.chance(0.15):
                continue  # nothing happened, or a file is missing
            if drawn.kind == "counts":
                for group in self.groups(drawn):
                    if not self.chance(0.1):
                        rows += self.counts(drawn, begin, end, group)
                continue
            for _ in range(self.random.randint(1, 4)):
                at = self.moment(begin, end)
                rows += self.events(drawn, number, at)
        if drawn.kind != "counts":
            width = spans[0][1] - spans[0][0]
            if self.chance(0.3):
                early = self.moment(spans[0][0] - width, spans[0][0])
                rows += self.events(drawn, 0, early)
            if self.chance(0.15):
                wrong = self.moment(spans[0][0], spans[0][1])
                year = self.random.choice((2023, 2062))
                rows += self.events(drawn, 0, wrong.replace(year=year, day=min(wrong.day, 28)))
        return rows

    def groups(self, drawn: Situation) -> list[str]:
        if "street" not in drawn.columns:
            return [""]
        groups = [*LISTED]
        if self.has_unlisted(drawn) and self.chance(0.4):
            groups.append(UNLISTED)
        return groups

    def has_unlisted(self, drawn: Situation) -> bool:
        return "other-group" in drawn.options or "unlisted-groups" in drawn.options

    def moment(self, begin: datetime, end: datetime) -> datetime:
        """Return a whole minute in a span."""
        minutes = int((end - begin).total_seconds() // 60)
        return begin + timedelta(minutes=self.random.randrange(minutes))

    def text_of(self, drawn: Situation, at: datetime) -> str:
        """Return a local time that occurs once, as text."""
        local = at.astimezone(ZoneInfo(drawn.zone))
        return local.replace(tzinfo=None).isoformat(timespec="minutes")

    def arrival(self, drawn: Situation, at: datetime) -> datetime:
        width = drawn.edges[1] - drawn.edges[0]
        is_revised = "allowed-lateness" in drawn.options
        if self.chance(0.5 if is_revised else 0.15):
            return at + width * self.random.choice((0.6, 1, 1.7, 2.5, 3))
        if self.chance(0.03):  # its time is wrong, or the clock that wrote it
            return at - width * self.random.choice((1, 2))
        return at

    def events(self, drawn: Situation, number: int, at: datetime) -> list[Row]:
        if drawn.zone != "UTC" and at.astimezone(ZoneInfo(drawn.zone)).fold:
            at += timedelta(hours=1)  # an hour that comes twice is ambiguous
        user = self.random.choice(USERS)
        cells = {"time": self.text_of(drawn, at)}
        if "who" in drawn.columns:
            cells["who"] = user
        if "street" in drawn.columns:
            cells["street"] = self.random.choice(self.groups(drawn))
        if "id" in drawn.columns:
            cells["id"] = f"{self.random.randrange(10**9)}"
        defect = self.random.random()
        if defect < 0.05 and "bad-rows" in drawn.options:
            cells["time"] = "yesterday"
        elif defect < 0.1 and ({"bad-rows", "missing-values"} & {*drawn.options}):
            column = self.random.choice([name for name in drawn.columns if name != "id"])
            if len(drawn.columns) > 1:  # a line needs another field
                cells[column] = ""
        arrives = self.arrival(drawn, at)
        leaves = None
        if self.chance(0.06):
            leaves = arrives + (drawn.edges[1] - drawn.edges[0]) * self.random.choice((1, 2))
        row = Row(at, arrives, leaves, cells)
        if self.chance(0.08):
            later = self.arrival(drawn, at)
            return [row, Row(at, later, leaves, dict(cells))]
        return [row]

    def counts(self, drawn: Situation, begin: datetime, end: datetime, group: str) -> list[Row]:
        at = begin
        cells = {"time": self.text_of(drawn, at), "number": str(self.random.randrange(20))}
        if drawn.every != "1h":
            cells["time"] = cells["time"][:10]
        if "street" in drawn.columns:
            cells["street"] = group
        defect = self.random.random()
        if defect < 0.05 and "bad-rows" in drawn.options and drawn.ending == "csv":
            cells["number"] = "many"
        elif defect < 0.12 and ({"bad-rows", "missing-values"} & {*drawn.options}):
            cells["number"] = ""
        arrives = self.arrival(drawn, end - timedelta(minutes=1))
        row = Row(at, arrives, None, cells)
        if self.chance(0.1) and cells["number"].isdigit():
            later = arrives + (drawn.edges[1] - drawn.edges[0]) * self.random.choice((1, 2))
            changed = {**cells, "number": str(int(cells["number"]) + self.random.randint(-1, 3))}
            if int(changed["number"]) < 0:
                changed["number"] = "0"
            return [Row(at, arrives, later, cells), Row(at, later, None, changed)]
        return [row]

    # --------------------------------------------------------------------------------- nights
    def add_nights(self, drawn: Situation, rows: Sequence[Row]) -> None:
        """Add the nights, on which the clock goes on."""
        ended = self.random.choice((0, 1, 1, 2, 2, 3))
        more_ended = (0, 1, 1, 1, 2, 3)
        if "allowed-lateness" in drawn.options:  # rows come before the release that revises
            more_ended = (0, 0, 0, 1, 1, 2)
        last_now: datetime | None = None
        for number in range(self.random.randint(1, 4)):
            if number:
                ended += self.random.choice(more_ended)
            ended = min(ended, drawn.n_windows + 2)
            begin, end = drawn.edges[ended], drawn.edges[ended + 1]
            now = begin + (end - begin) * self.random.choice((0.01, 0.3, 0.6, 0.97))
            now = now.replace(second=0, microsecond=0)
            if last_now is not None and now < last_now:
                now = last_now
            is_again = bool(drawn.nights) and self.chance(0.1)
            here = drawn.nights[-1].rows if is_again else self.file(drawn, rows, now, last_now)
            until = self.until(drawn, now)
            drawn.nights.append(Night(now, here, until, allows_empty=self.chance(0.25)))
            if not is_again:
                last_now = now

    def until(self, drawn: Situation, now: datetime) -> str | None:
        choice = self.random.random()
        if choice < 0.6:
            return None
        if choice < 0.75 and drawn.mode != "lookback":
            return "latest-event"
        past = [edge for edge in drawn.edges[: drawn.n_windows + 1] if edge <= now]
        if not past:
            return None
        edge = self.random.choice(past[-2:])
        local = edge.astimezone(ZoneInfo(drawn.zone)).replace(tzinfo=None)
        return local.isoformat(timespec="minutes")

    def file(
        self, drawn: Situation, rows: Sequence[Row], now: datetime, last: datetime | None
    ) -> list[dict[str, str]]:
        """Return the cells of the rows that a file has."""
        there = [
            row
            for row in rows
            if (row.arrives <= now or row.at.year == 2062)
            and (row.leaves is None or row.leaves > now)
        ]
        if drawn.mode == "append" and last is not None:
            there = [row for row in there if row.arrives > last and row.at.year != 2062]
        if drawn.mode == "lookback":
            n_back = int("".join(filter(str.isdigit, drawn.options["lookback"])))
            ended = [edge for edge in drawn.edges if edge <= now]
            first = drawn.edges[max(0, len(ended) - 1 - n_back - self.random.choice((0, 0, 0, 1)))]
            there = [row for row in there if row.at >= first]
        return [row.cells for row in there]


def draw(seed: int) -> Situation:
    """Return the situation of a seed."""
    return Drawer(seed).situation()
