"""Made-up batches of rows, as lines and as Arrow, and what a service has to say to them."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import polars as pl
from inside import Inside, metric
from services import START

#: A batch: its media type, and its body.
Batch = tuple[str, bytes]
ARROW, LINES = "application/vnd.apache.arrow.stream", "application/x-ndjson"
LONG = (-(2**63), -(2**62), -1, 0, 1, 2**53 + 1, 2**62, 2**63 - 1)
DAY, US = 20513, 1772355600000000  # of the first windows

TEXTS: tuple[str | None, ...] = (
    *("", " ", "home", "shop", "cellar", "\0", "nan", "1e999", "3", "9" * 400, "x" * 70_000, None),
    *("2026-03-01T09:00:30Z", "2026-03-01T09:00:30", "9999-12-31T23:59:59-14:00", "0000-00-00"),
    *("+262142-12-31T00:00:00", "\u202e", "e\u0301", "\U0001f600"),
)
FLOATS: tuple[float | None, ...] = (
    *(0.0, 1.0, 2.5, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324, None),
)
BYTES: tuple[bytes, ...] = (b"", b"home", b"\xff", b"\0")

#: Columns of all types, with values at their ends.
SERIES: tuple[Callable[[random.Random, int], pl.Series], ...] = (
    lambda chance, n: pl.Series([chance.choice(TEXTS) for _ in range(n)], dtype=pl.String),
    lambda chance, n: pl.Series([chance.choice(["home", "shop"]) for _ in range(n)]),
    lambda chance, n: pl.Series([chance.choice(LONG) for _ in range(n)], dtype=pl.Int64),
    lambda chance, n: pl.Series([chance.choice(FLOATS) for _ in range(n)], dtype=pl.Float64),
    lambda chance, n: pl.Series([chance.choice([True, False, None]) for _ in range(n)]),
    lambda chance, n: pl.Series([None] * n, dtype=pl.Null),
    lambda chance, n: pl.Series([chance.choice(BYTES) for _ in range(n)], dtype=pl.Binary),
    lambda chance, n: pl.Series([chance.choice([[], [1], None]) for _ in range(n)]),
    lambda chance, n: pl.Series([chance.choice([{"a": 1}, None]) for _ in range(n)]),
    lambda chance, n: pl.Series(["a"] * n, dtype=pl.Categorical),
    lambda chance, n: pl.Series(["home"] * n, dtype=pl.Enum(["home", ""])),
    lambda chance, n: pl.Series([1] * n, dtype=pl.Decimal(38, chance.choice([0, 2]))),
    lambda chance, n: pl.Series([chance.choice(LONG) for _ in range(n)]).cast(
        pl.Datetime(chance.choice(["ms", "us", "ns"]), chance.choice([None, "UTC", "Asia/Tokyo"]))
    ),
    lambda chance, n: pl.Series([US] * n).cast(pl.Datetime("us", "UTC")),
    lambda chance, n: pl.Series([chance.choice(LONG[2:5]) for _ in range(n)]).cast(pl.Duration),
    lambda chance, n: pl.Series(
        [chance.choice([DAY, -(2**31), 2**31 - 1]) for _ in range(n)], dtype=pl.Int32
    ).cast(pl.Date),
    lambda chance, n: pl.Series([0] * n).cast(pl.Time),
    lambda chance, n: pl.Series([1] * n, dtype=chance.choice([pl.Int8, pl.UInt64, pl.Int128])),
)  # fmt: skip

#: Jobs of which each reads other columns in other ways.
JOBS: dict[str, dict[str, Any]] = {
    "groups": {"unknown": "drop"},
    "refused": {},
    "users": {"user": "who", "most": 2, "unit": "visitor", "unknown": "drop"},
    "ids": {"id": "id", "unknown": "drop"},
    "sum": {
        "statistic": "sum",
        "value": "paid",
        "lower": 0,
        "upper": 9,
        "resolution": 1,
        "unknown": "drop",
    },
    "other": {"other": "elsewhere"},
    "found": {"domain": None, "unknown": "discover", "epsilon": 10, "delta": 1e-9},
    "format": {"time-format": "epoch", "unknown": "drop"},
}


def line_of(chance: random.Random) -> bytes:
    """A line, which is a row now and then."""
    kind = chance.randrange(8)
    if kind == 0:
        return chance.choice((b"", b"{", b"[1]", b"null", b'"a"', b"\xff\xfe", b"{" * 3000, b"1e9"))
    said: dict[str, Any] = {"time": (START + timedelta(seconds=chance.uniform(-60, 4000)))}
    said["time"] = said["time"].isoformat()
    for name in ("page", "who", "id", "paid"):
        said[name] = chance.choice(("home", "shop", "3", 3, 2.5)) if kind < 5 else "home"
    if chance.random() < 0.8:
        said["paid"] = chance.choice(("3", 3, 2.5))
    if kind == 1:
        said[chance.choice([*said])] = chance.choice((*TEXTS, *LONG, True, [1], {"a": 1}, 2**400))
    if kind == 2:
        del said[chance.choice([*said])]
    if kind == 3:
        said["more"] = [[[1e300 * 1e300]]]
    text = json.dumps(said).encode()
    return text.replace(b'"home"', b'"\\ud800"', 1) if kind == 4 else text


def lines_of(chance: random.Random) -> bytes:
    return b"\n".join(line_of(chance) for _ in range(chance.randrange(6)))


def arrow_of(chance: random.Random) -> bytes:
    """A frame of any types, written as Arrow; now and then other bytes stand in it."""
    rows, columns = chance.randrange(4), {}
    for name in ("time", "page", "who", "id", "paid"):
        usual = {"time": -5, "page": 1}.get(name, 0)
        make = SERIES[usual] if chance.random() < 0.6 else chance.choice(SERIES)
        if chance.random() < 0.95:
            columns[name] = make(chance, rows)
    whole = io.BytesIO()
    pl.DataFrame(columns).write_ipc_stream(whole)
    found = bytearray(whole.getvalue())
    if chance.random() < 0.5 and found:
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(min(len(found), 1200))
            found[place] = chance.choice((0, 1, 255, chance.randrange(256)))
    if chance.random() < 0.1:
        found = found[: chance.randrange(len(found) + 1)]
    return bytes(found)


def drawn_batches(chance: random.Random, count: int) -> list[Batch]:
    """So many, each with its type."""
    found = []
    for _ in range(count):
        media = chance.choice((ARROW, LINES))
        found.append((media, (arrow_of if media == ARROW else lines_of)(chance)))
    return found


def check(service: Inside, batches: Sequence[Batch]) -> int:
    """Send batches, and count them every now and then; how many rows are said to be counted."""
    form = service.service.served["visits"].job.format.time_format
    time: Any = START.isoformat() if form is None else START.timestamp()
    good = {"time": time, "page": "home", "who": "u", "id": "i", "paid": 3}
    assert service.post("good", [good]).status_code == 202
    accepted = 1
    for number, (media, body) in enumerate(batches):
        service.time = START + timedelta(seconds=20 * number / len(batches))
        answer = service.send(f"b{number}", body, media)
        said = answer.json()
        if answer.status_code == 202:
            assert said["counted"] == said["rows"] - sum(said["counted_nowhere"].values())
            accepted += said["counted"]
        else:
            assert answer.status_code in (413, 422), (answer.text, body)
            assert len(said["detail"]) > 10
    service.at(59)
    service.at(60.1)
    assert service.service.state_of("visits").inbox.load().batches == 0
    assert metric(service, "left_out_rows") == 0
    assert metric(service, "unwritten_rows") == 0
    assert metric(service, "steps") == 60
    return accepted
