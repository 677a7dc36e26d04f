"""Made-up batches: each is answered by a status and a sentence, and the run takes what is accepted.

``COUNTON_FUZZ=300`` tries so many times as many.
"""

import os
import random
from pathlib import Path

import pytest
from inside import EXACT, inside
from made_up_batches import JOBS, check, drawn_batches

pytestmark = pytest.mark.slow

BATCHES = 10 * int(os.environ.get("COUNTON_FUZZ", "1"))


@pytest.mark.parametrize(
    ("job", "policies"),
    [  # what becomes of bad rows is one thing for jobs that read no more columns than another
        *((job, True) for job in JOBS),
        *((job, False) for job in ("refused", "ids", "found", "format")),
    ],
)
def test_random_batches_are_answered_and_accepted_rows_are_counted(
    job: str, policies: bool, tmp_path: Path
) -> None:
    more = {"missing_values": "drop"} if policies else {}
    chance = random.Random(f"{job} {policies}")
    with inside(tmp_path, **{**EXACT, **more, **JOBS[job]}) as service:
        accepted = check(service, drawn_batches(chance, BATCHES))
        if job in ("groups", "refused", "other"):
            counted = sum(row["estimate"] for row in service.rows(last=1))
            assert counted == accepted
