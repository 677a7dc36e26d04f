"""Whole jobs under dp-recorder: what is measured is recorded, and what is released is frozen.

A mechanism is one release: what goes in is C x of all steps so far (exact integers, a node whose
noise is twice as wide counts half), what is declared is the sensitivity for which its noise was
calibrated. On the neighbour's rows the recorder hands out what the first run released, so that
everything else must be equal: tables, files, words, refusals.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from folders import job_folder
from neighbouring_jobs import EPOCH, Row, declared, distance_of, measured

from counton import Counter, CountonError
from counton.results.metadata_codec import facts_of
from counton.run import Job, run

COLUMNS = ("at", "group", "user", "id", "value", "letter", "one", "two", "weight")


class Neighbours(NamedTuple):
    """A job, its rows by night, and the rows of one unit, by night."""

    what: str
    options: dict[str, Any]
    nights: Sequence[Sequence[Row]]
    unit: Sequence[tuple[int, Row]]

    def rows(self, *, with_unit: bool) -> list[list[Row]]:
        """All rows of each night."""
        nights = [list(rows) for rows in self.nights]
        for night, row in self.unit if with_unit else ():
            nights[night].append(row)
        return nights


@contextmanager
def recorded(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each release of a counter goes through the recorder."""
    from dp_recorder.auditing import audit_spec

    compute = Counter._compute
    past: dict[str, list[np.ndarray[Any, Any]]] = {}

    def under_audit(self: Counter, totals: Any) -> Any:
        released, progress = compute(self, totals)
        design = self.design
        before = past.setdefault(design.name, [])
        del before[self.step :]
        before.extend(np.array(totals))

        def release(
            nodes: Any, sensitivity: float, stream: str, steps: str, distribution: str
        ) -> Any:
            return released

        spec = audit_spec("release", "nodes", "sensitivity", distance_of(design))
        shown = spec(release)(
            nodes=measured(design, before),
            sensitivity=declared(design),
            stream=design.name,
            steps=f"{self.step + 1}-{progress.step}",
            distribution=f"{design.distribution} {design.strategy!r} {design.shape}",
        )
        return np.array(shown), progress

    with patch.context() as patched:
        patched.setattr(Counter, "_compute", under_audit)
        yield


def frame_of(nights: Sequence[Sequence[Row]], second: int = 0) -> pl.DataFrame:
    """Rows of all nights; files of other nights hold other bytes, as their times say."""
    rows = [row for night in nights for row in night]
    return pl.DataFrame(
        [[EPOCH + 3600 * row[0] + second, *row[1:]] for row in rows], schema=list(COLUMNS),
        orient="row", strict=False,
    )  # fmt: skip


def published(pair: Neighbours, *, with_unit: bool, say: Callable[[str, Any], Any]) -> None:
    """Run the nights of a job; all that anybody sees is said."""
    number = itertools.count()

    def token_bytes(size: int) -> bytes:  # one key for both: it is part of what is written
        return hashlib.shake_256(str(next(number)).encode()).digest(size)

    so_far: list[Row] = []
    with job_folder() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", folder)
        patched.setattr("counton.noise.key.secrets.token_bytes", token_bytes)
        for night, rows in enumerate(pair.rows(with_unit=with_unit)):
            so_far = sorted([*so_far, *rows], key=lambda row: int(row[0]))
            events = Path(folder, f"{night}.csv")
            frame_of([so_far], night).write_csv(events)
            job = Job(
                pair.what, events, Path(folder, "s.db"), time="at", time_format="epoch", every="1h",
                start="2024-03-01", windows=6, until=f"2024-03-01T0{3 * night + 3}:00",
                allow_empty_windows=True,
                **{"epsilon": 1, "strategy": "binary", **pair.options},
            )  # fmt: skip
            try:
                with run(job) as outcome:
                    result = outcome.read()
                    say("table", result.table().write_csv())
                    say("facts", str(facts_of(result.numbers)))
                    say("words", str(result))
            except CountonError as error:
                say("refusal", f"{type(error).__name__}: {error}".replace(folder, ""))


def audit(pair: Neighbours, patch: pytest.MonkeyPatch) -> None:
    """Record without the unit's rows, replay with them, and compare.

    Raises:
        AssertionError: what is measured moves by more than is declared, or anything else differs.
        RuntimeError: the second run releases more often.
    """
    from dp_recorder.auditing import Auditor, ensure_equality

    auditor = Auditor()
    for with_unit in (False, True):
        if with_unit:
            auditor.set_replay()
        with recorded(patch), auditor:
            published(
                pair, with_unit=with_unit, say=lambda what, value: ensure_equality(**{what: value})
            )
    said = [entry.value_d for entry in auditor.log if entry.label == "refusal"]
    assert any(entry.kind == "release" for entry in auditor.log), f"nothing was released: {said}"
    assert auditor._cursor == len(auditor.log), "the second run released less"
    auditor.validate_records()
