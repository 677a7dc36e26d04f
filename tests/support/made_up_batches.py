"""Made-up batches of rows, and what a service has to say to them."""

import json
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from inside import Inside, metric
from services import START

LONG = (-(2**63), -(2**62), -1, 0, 1, 2**53 + 1, 2**62, 2**63 - 1)

TEXTS: tuple[str | None, ...] = (
    *("", " ", "home", "shop", "cellar", "\0", "nan", "1e999", "3", "9" * 400, "x" * 70_000, None),
    *("2026-03-01T09:00:30Z", "2026-03-01T09:00:30", "9999-12-31T23:59:59-14:00", "0000-00-00"),
    *("+262142-12-31T00:00:00", "\u202e", "e\u0301", "\U0001f600"),
)
#: Jobs of which each reads other columns in other ways.
JOBS: dict[str, dict[str, Any]] = {
    "groups": {"unlisted_groups": "drop"},
    "refused": {},
    "users": {"user": "who", "max_contributions": 2, "privacy_unit": "visitor",
    "unlisted_groups": "drop"},
    "ids": {"row_id": "id", "unlisted_groups": "drop"},
    "sum": {
        "statistic": "sum", "value": "paid", "lower": 0, "upper": 9, "resolution": 1,
        "unlisted_groups": "drop",
    },
    "other": {"other_group": "elsewhere"},
    "found": {"groups": None, "unlisted_groups": "discover", "epsilon": 10, "delta": 1e-9},
    "format": {"time-format": "epoch", "unlisted_groups": "drop"},
}  # fmt: skip


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


def drawn_batches(chance: random.Random, count: int) -> list[bytes]:
    """So many."""
    return [lines_of(chance) for _ in range(count)]


def check(service: Inside, batches: Sequence[bytes]) -> int:
    """Send batches, and count them every now and then; how many rows are said to be counted."""
    form = service.service.served["visits"].job.time_format
    time: Any = START.isoformat() if form is None else START.timestamp()
    good = {"time": time, "page": "home", "who": "u", "id": "i", "paid": 3}
    assert service.post("good", [good]).status_code == 202
    accepted = 1
    for number, body in enumerate(batches):
        service.time = START + timedelta(seconds=20 * number / len(batches))
        answer = service.send(f"b{number}", body)
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
    assert metric(service, "steps") == 60
    return accepted
