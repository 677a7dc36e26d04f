"""Whatever fails, and whenever: what is acknowledged is counted once, and what is not, not at all.

``COUNTON_BATCHES=5000`` sends so many.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from databases import heard
from inside import EXACT, Inside, metric, visit
from services import START, job_file

from counton.base.errors import CountonError

pytestmark = pytest.mark.slow

BATCHES = int(os.environ.get("COUNTON_BATCHES", "20"))
MINUTES = 8


class Faults:
    """Lets what a service asks of its database fail now and then, before and after it is done."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.on = False
        self.seen = 0

    def __call__(self, *_given: Any) -> None:
        if self.on and self._chance.random() < 0.015:
            self.seen += 1
            raise sqlite3.OperationalError("disk I/O error")

    def __enter__(self) -> Faults:
        self._hearing = heard(self, self)
        self._hearing.__enter__()
        return self

    def __exit__(self, *_given: object) -> None:
        self._hearing.__exit__(None, None, None)


@pytest.mark.parametrize("policies", [True, False])
@pytest.mark.long
def test_over_many_batches_with_faults_sums_are_equal(policies: bool, tmp_path: Path) -> None:
    """Statements and commits fail, services end in between; senders repeat what is not answered.

    Rows of each batch are for its own minute, an earlier one, or none; some cannot be read.
    """
    chance = random.Random(2026 + policies)
    more: dict[str, Any] = {"missing_values": "drop"} if policies else {}
    job: dict[str, Any] = {**EXACT, **more, "windows": MINUTES, "release_delay": "5s"}
    file = job_file(tmp_path, **job)
    counted = Counter[str]()
    answers = Counter[int]()
    restarts = 0
    service = Inside(file)
    end = START + timedelta(minutes=MINUTES, seconds=5)
    first, last = (visit(minute)["time"] for minute in (0, MINUTES))
    with Faults(chance) as faults:
        try:
            for number in range(BATCHES):
                came = timedelta(minutes=(MINUTES + 1) * number / BATCHES)
                service.time = START + came
                rows = []
                for _ in range(chance.randrange(1, 5)):
                    minute = came.total_seconds() / 60 - chance.choice((0, 0, 1, 3, 30))
                    rows.append(visit(minute, chance.choice(("home", "shop"))))
                inside = [row for row in rows if first <= row["time"] < last]
                pages = Counter(row["page"] for row in inside)
                if policies and chance.random() < 0.2:
                    rows.append(visit(1, None))
                faults.on = True
                for _ in range(50):
                    answer = service.post(f"b{number}", rows)
                    answers[answer.status_code] += 1
                    if answer.status_code != 503:
                        break
                faults.on = False
                if answer.status_code in (200, 202):
                    counted += pages
                    assert answer.json()["counted"] == len(inside)
                else:
                    assert answer.status_code == 410
                    assert service.time >= end
                if number % 10 == 9:
                    service.service.close()
                    service = Inside(file)
                    restarts = restarts + 1
                    service.time = START + came
                if chance.random() < 0.3:
                    faults.on = True
                    with suppress(CountonError):
                        service.work()
                    faults.on = False
            service.time = end + timedelta(minutes=1)
            for _ in range(50):
                faults.on = True
                with suppress(CountonError):
                    service.work()
                faults.on = False
            service.work()
            told = {row["group"]: row["estimate"] for row in service.rows(last=1)}
            lost = metric(service, "waiting_rows")
        finally:
            faults.on = False
            service.service.close()
    assert lost == 0
    assert (len(told), told) == (2, {page: counted[page] for page in told})
    assert faults.seen > BATCHES / 60
    assert answers[410]
    assert restarts
