"""Made-up batches: each is answered by a status and a sentence, and the run takes what is accepted.

``COUNTON_FUZZ=300`` tries so many times as many.
"""

from __future__ import annotations

import io
import os
import random
import struct
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from inside import EXACT, inside, metric
from made_up_batches import ARROW, JOBS, check, drawn_batches

pytestmark = pytest.mark.slow

BATCHES = 15 * int(os.environ.get("COUNTON_FUZZ", "1"))


@pytest.mark.parametrize(
    ("job", "policies"),
    [  # what becomes of bad rows is one thing for jobs that read no more columns than another
        *((job, True) for job in JOBS),
        *((job, False) for job in ("refused", "ids", "found", "format")),
    ],
)
def test_what_is_made_up_is_answered_and_what_is_accepted_is_counted(
    job: str, policies: bool, tmp_path: Path
) -> None:
    more = {"bad-rows": f"quarantine:{tmp_path}/bad.csv", "missing": "skip"} if policies else {}
    chance = random.Random(f"{job} {policies}")
    with inside(tmp_path, **{**EXACT, **more, **JOBS[job]}) as service:
        accepted = check(service, drawn_batches(chance, BATCHES))
        if job in ("groups", "refused", "other"):
            counted = sum(row["estimate"] for row in service.rows(last=1))
            assert counted == accepted


def test_a_decimal_that_the_reader_panics_at_is_refused(tmp_path: Path) -> None:
    """Decimals of 256 bits, which polars has not been taught, are made from those of 128."""
    frame = pl.DataFrame({"time": pl.Series([1], dtype=pl.Decimal(38, 7)), "page": ["home"]})
    whole = io.BytesIO()
    frame.write_ipc_stream(whole)
    told = set[int]()
    with inside(tmp_path, **EXACT) as service:
        body = whole.getvalue()
        for place in range(0, 400, 4):
            if body[place : place + 4] == struct.pack("<i", 128):
                wide = body[:place] + struct.pack("<i", 256) + body[place + 4 :]
                told.add(service.send(f"w{place}", wide, ARROW).status_code)
        service.at(1)
    assert told == {422}


def test_lengths_that_no_body_has_end_no_process(tmp_path: Path) -> None:
    """A reader takes the memory that a length asks for, and ends the process if there is none."""
    whole = io.BytesIO()
    pl.DataFrame({"time": ["2026-03-01T09:00:30Z"] * 3, "page": ["home"] * 3}).write_ipc_stream(
        whole
    )
    body, told = whole.getvalue(), Counter[int]()
    with inside(tmp_path, **EXACT) as service:
        for place in range(0, len(body) - 8, 8):
            huge = body[:place] + struct.pack("<q", 2**56) + body[place + 8 :]
            told[service.send(f"h{place}", huge, ARROW).status_code] += 1
        service.at(1)
        assert metric(service, "left_out_rows") == 0
    assert told.keys() <= {202, 413, 422}
    assert told[422] > 10
