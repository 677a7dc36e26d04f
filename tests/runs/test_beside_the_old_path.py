"""The new path of a run releases what the old path releases, number by number.

Both paths get the same key, the same name of the stream, the same secret of digests, and so the
same noise. After each run the released tables, the designs, the totals and the digests that the
states keep must be equal; a run that one path refuses, the other must refuse.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from histories_of_jobs import (
    OTHER_OPTIONS,
    history_of_slots,
    history_of_users,
    random_history,
)

from counton import Key
from counton.base.errors import CountonError, InvalidInput, RequestMismatch
from counton.base.private import open_private
from counton.options.messages import parse_options
from counton.options.statistics import model_of
from counton.run import Job, first_rows
from counton.run import run as run_old
from counton.runs import remembered_rows, row_buffer
from counton.runs.run_job import run as run_new
from counton.state import Stream, seen
from counton.state.seen import Secret


@pytest.fixture(autouse=True)
def _alike() -> Iterator[None]:
    """Give both paths one secret, small portions and few sets."""
    with pytest.MonkeyPatch.context() as patch:
        make_alike(patch)
        yield


def make_alike(patch: Any) -> None:
    """Give both paths one secret, small portions and few sets."""
    patch.setattr(Secret, "fresh", classmethod(lambda cls: cls(bytes(range(32)))))
    patch.setattr(first_rows, "_TOGETHER", 4)
    patch.setattr(first_rows.Pool, "least", 5)
    patch.setattr(row_buffer.RowBuffer, "least", 5)
    patch.setattr(row_buffer, "_ROWS_OF_PORTION", 7)
    patch.setattr(seen, "MOST_PARTS", 2)
    patch.setattr(remembered_rows, "MOST_PARTS", 2)


def written(folder: Path, frames: list[pl.DataFrame], night: int) -> list[str]:
    """Write the frames of a night as files."""
    paths = []
    for number, frame in enumerate(frames):
        path = folder / f"night-{night}-{number}.csv"
        frame.write_csv(path)
        paths.append(str(path))
    return paths


def kept_totals(state: Path, key: Key) -> dict[tuple[int, ...], int]:
    """Return all totals that a state keeps and that are not 0."""
    with Stream.open(state, "visits", key=key) as stream:
        arrivals = open_private(stream.arrivals)
        found: dict[tuple[int, ...], int] = {(): arrivals.arrived, (0,): arrivals.late}
        if stream.details["discovery"]:  # rows whose group has no cell yet arrive later, now
            found = {}
        for windows, totals in open_private(stream.observed_blocks()):
            for place in np.argwhere(totals):
                window, *rest = place.tolist()
                found[int(windows[window]), *rest] = int(totals[tuple(place)])
        return found


def kept_digests(state: Path, key: Key) -> Counter[tuple[Any, ...]]:
    """Return all digests of users and ids that a state keeps, with the facts beside them."""
    digests: Counter[tuple[Any, ...]] = Counter()
    with Stream.open(state, "visits", key=key) as stream:
        for kind in ("user", "id"):
            for kept in open_private(stream.marks(kind)):
                facts = [fact.tolist() for fact in kept.facts]
                digests[kind, "sets", kept.period] += 1
                for row in zip(kept.digests.tolist(), *facts, strict=True):
                    digests[kind, kept.period, *row] += 1
        digests["arrivals", *open_private(stream.arrivals)] += 1
    return digests


def play(seed: int, folder: Path, history_of: Any = random_history) -> list[str]:
    """Play a history on both paths; return what happened on each night."""
    history, key = history_of(seed), Key.generate()
    old_state, new_state = folder / "old.db", folder / "new.db"
    happened = []
    (folder / "tree.csv").write_text("page,device\nhome,big\nhome,small\nshop,big\nhelp,\n")
    for night, (options, frames, now) in enumerate(history.nights):
        (folder / "in").mkdir(exist_ok=True)
        events: Any = written(folder / "in", frames, night)
        if history.in_folder:
            events = str(folder / "in")
        told = {**history.options, **options} if night == 0 else {**options}
        again = random.Random(1000 * seed + night)
        if night and again.random() < 0.6:
            told = {**history.options, **options}
        if night and again.random() < 0.1:
            told |= again.choice([*OTHER_OPTIONS, *history.other_options])
        for name in ("bad_rows", "domain"):
            if isinstance(told.get(name), str):
                told[name] = told[name].replace("FOLDER", str(folder))
        bad_rows = folder / "bad.csv"
        results: list[Any] = []
        set_aside = []
        try:
            out = folder / "old.parquet"
            job = Job(history.statistic, events, old_state, name="visits", key=key, out=out, **told)
            with run_old(job, now=now) as outcome:
                release, counts = outcome.read(), outcome.for_operator()
                results.append((outcome.before, outcome.after, release, counts))
                outcome.outputs.write(outcome.stream, outcome.definition)
        except CountonError as error:
            results.append(error)
        try:
            set_aside.append(bad_rows.read_bytes() if bad_rows.exists() else b"")
            bad_rows.unlink(missing_ok=True)
            out = folder / "new.parquet"
            options_new = {"events": events, "state": str(new_state), "name": "visits", "out": out}
            asked = parse_options(model_of(history.statistic), {**options_new, **told})
            result = run_new(asked, now=now, key=key)
            numbers_new = open_private(result.counts)
            results.append((result.before, result.after, result.release, numbers_new))
        except CountonError as error:
            results.append(error)
        set_aside.append(bad_rows.read_bytes() if bad_rows.exists() else b"")
        bad_rows.unlink(missing_ok=True)
        old, new = results
        # The new path refuses some jobs before it reads rows.
        is_refused_early = isinstance(results[1], Exception) and not set_aside[1]
        assert set_aside[0] == set_aside[1] or is_refused_early
        assert isinstance(old, Exception) == isinstance(new, Exception), (seed, night, old, new)
        if isinstance(old, Exception):
            # A job that contradicts itself and its stream is told the one or the other.
            kinds = (InvalidInput, RequestMismatch)
            both = isinstance(old, kinds) and isinstance(new, kinds)
            assert both or isinstance(old, type(new)), (seed, night, old, new)
            happened.append(f"{type(old).__name__}: {old} | {new}")
            continue
        assert old[:2] == new[:2], (seed, night, old[:2], new[:2])
        assert old[2].numbers.design.to_dict() == new[2].numbers.design.to_dict(), (seed, night)
        assert old[2].numbers.definition.public() == new[2].numbers.definition.public()
        if new[1]:
            assert old[2].table().equals(new[2].table()), (
                seed,
                night,
                old[2].table(),
                new[2].table(),
            )
            assert old[2].describe() == new[2].describe()
            if "revise" in history.options:
                assert old[2].versions().equals(new[2].versions()), (seed, night)
            tables = [(folder / f"{path}.parquet").read_bytes() for path in ("old", "new")]
            assert tables[0] == tables[1], (seed, night)
        read = old[3]
        numbers = new[3].rows
        assert (read.rows, read.before, read.beyond) == (
            numbers.read,
            numbers.before_start,
            numbers.after_last_window,
        )
        assert (read.unknown, read.skipped, read.quarantined) == (
            numbers.unlisted,
            numbers.missing,
            numbers.quarantined,
        ), (seed, night)
        kept_old, kept_new = kept_totals(old_state, key), kept_totals(new_state, key)
        assert kept_old == kept_new, (seed, night, set(kept_old.items()) ^ set(kept_new.items()))
        told_old = operator_numbers(read)
        told_new = new_operator_numbers(new[3])
        by_choice = new[3].input.choice.after_final
        if told_old["after_final"] == by_choice:
            told_new["after_final"] = by_choice
        assert told_old == told_new, (seed, night, told_old, told_new)
        digests = [kept_digests(state, key) for state in (old_state, new_state)]
        only = digests[0] - digests[1], digests[1] - digests[0]
        assert digests[0] == digests[1], (seed, night, *only)
        happened.append(f"{new[0]} to {new[1]}, {told_new}")
    return happened


def operator_numbers(counts: Any) -> dict[str, Any]:
    """Return what the old path tells the operator."""
    return {
        "late": counts.late,
        "after_final": counts.closed or counts.shut,
        "outside": counts.outside,
        "beyond": counts.beyond_most,
        "retracted": counts.taken_back,
        "changed": [(one.step, one.before, one.now) for one in counts.differing],
        "late_by": counts.late_by,
        "empty": counts.empty,
    }


def new_operator_numbers(counts: Any) -> dict[str, Any]:
    """Return what the new path tells the operator."""
    of_input = counts.input
    return {
        "late": of_input.waiting,
        "after_final": of_input.after_final,
        "outside": of_input.outside_snapshot,
        "beyond": of_input.choice.beyond_bound,
        "retracted": of_input.choice.retracted,
        "changed": [(one.step, one.before, one.now) for one in of_input.changed],
        "late_by": of_input.late_by,
        "empty": counts.empty_windows,
    }


@pytest.mark.parametrize("seed", range(40))
def test_run_random_history_releases_the_same(seed: int, tmp_path: Path) -> None:
    assert play(seed, tmp_path)


@pytest.mark.parametrize("seed", range(60))
def test_run_history_of_users_counts_the_same_rows(seed: int, tmp_path: Path) -> None:
    assert play(seed, tmp_path, history_of_users)


@pytest.mark.parametrize("seed", range(20))
def test_run_history_of_slots_replaces_the_same(seed: int, tmp_path: Path) -> None:
    assert play(seed, tmp_path, history_of_slots)
