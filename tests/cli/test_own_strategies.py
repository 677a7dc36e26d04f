"""A strategy of one's own is one of jobs, streams, job files, and files that answer."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counton
from counton.base.errors import InvalidInputError, StateError
from counton.job.custom_strategies import own_strategy, write_strategy
from counton.job.job_file import load
from counton.job.saved_job import save
from counton.run import Job, export, run
from counton.strategies import Binary, Factorisation, KAry

from .conftest import Workplace

STEPS = 6
ROWS = "at,page\n2024-03-01T00:10,home\n2024-03-01T01:40,shop\n2024-03-01T02:30,home\n"
STREAM: dict[str, Any] = {
    "time": "at", "every": "1h", "start": "2024-03-01", "windows": STEPS, "epsilon": 1,
    "group_by": "page", "groups": "home,shop", "until": "2024-03-01T03:00",
}  # fmt: skip


def root() -> Factorisation:
    lag = np.subtract.outer(np.arange(STEPS), np.arange(STEPS))
    return Factorisation(np.where(lag < 0, 0.0, 1 / np.sqrt(1.0 + 3 * np.abs(lag))), 12)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    (tmp_path / "e.csv").write_text(ROWS)
    return tmp_path / "e.csv"


def test_any_factorisation_is_the_strategy_of_a_stream(
    events: Path, tmp_path: Path, place: Workplace
) -> None:
    mine = root()
    out = tmp_path / "o.parquet"
    job = Job("count", events, tmp_path / "s.db", strategy=mine, output=out, **STREAM)
    with run(job) as outcome:
        assert outcome.spec.strategy == mine
        assert outcome.spec.public_facts()["record"]["strategy"] == "own"
        released = outcome.read().table()
        stds = released.filter(group="home")["noise_std"].to_numpy()
    promised = counton.plan(STEPS, counton.PureDP(1), strategies=[mine]).best.errors.std([1, 2, 3])
    np.testing.assert_allclose(stds, promised, rtol=1e-3)
    assert job.state is not None
    export(job.state, output=out)
    read = counton.read(out)
    assert read.table().equals(released)
    assert read.numbers.design.strategy == mine
    assert place("verify", str(job.state)).code == 0


def test_later_run_may_omit_or_repeat_own_strategy(events: Path, tmp_path: Path) -> None:
    job = Job("count", events, tmp_path / "s.db", strategy=root(), **STREAM)
    run(job).close()
    for strategy in (None, root()):
        with run(job.with_options(strategy=strategy, until="2024-03-01T04:00")) as outcome:
            assert outcome.after == 4
    for other in (Factorisation(np.eye(STEPS)), "binary"):
        with pytest.raises(StateError, match=r"stream .* exists .*: strategy .here "):
            run(job.with_options(strategy=other))


def test_own_strategy_is_stated_by_option_or_job_file(
    events: Path, tmp_path: Path, place: Workplace
) -> None:
    write_strategy(root(), tmp_path / "mine.json")
    lines = "".join(
        f"{key.replace('_', '-')} = {json.dumps(value)}\n" for key, value in STREAM.items()
    )
    file = tmp_path / "jobs.toml"
    file.write_text(
        f'[jobs.visits]\nevents = "e.csv"\nstate = "a.db"\nstrategy = "mine.json"\n{lines}'
    )
    with run(load(file)["visits"]) as outcome:
        assert outcome.spec.strategy == root()
    words = [f"--{key.replace('_', '-')}={value}" for key, value in STREAM.items()]
    place(
        "release",
        "count",
        str(events),
        *words,
        f"--strategy={tmp_path / 'mine.json'}",
        f"--state={tmp_path}/b.db",
    ).fine()
    with pytest.raises(InvalidInputError, match="strategy is an object in memory"):
        save(Job("count", str(events), "c.db", strategy=root(), **STREAM), tmp_path / "new.toml")


@pytest.mark.parametrize(
    ("strategy", "more", "words"),
    [
        (Binary(7), {}, "Binary.*for 7 steps, and the stream has 6 steps"),
        (
            root(),
            {"series": "per-window"},
            "cannot be used with series=per-window",
        ),
        (root(), {"series": "both"}, "cannot be used with series=both"),
        (root(), {"windows": None, "expected_windows": 6}, "the stream has no last step"),
        (
            root(),
            {"unlisted_groups": "discover", "groups": None, "delta": "1e-6"},
            "cannot be used with",
        ),
        (np.eye(6), {}, "strategy is of type ndarray; give a strategy for streams"),
        ("nowhere.json", {}, "strategy=nowhere.json cannot be read"),
    ],
)
def test_unsuitable_own_strategy_is_refused_before_state_is_created(
    strategy: Any, more: dict[str, Any], words: str, events: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        run(Job("count", events, tmp_path / "s.db", strategy=strategy, **{**STREAM, **more}))
    assert not (tmp_path / "s.db").exists()


class Private(KAry):
    """A strategy that cannot build it again."""


def test_own_strategy_of_unknown_class_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"cannot build it again.*Factorisation"):
        own_strategy(Private(6, 3))


def test_a_file_that_holds_no_strategy_is_refused(tmp_path: Path) -> None:
    for text in ("[]", "{", '{"strategy": "None"}'):
        (tmp_path / "mine.json").write_text(text)
        with pytest.raises(InvalidInputError):
            own_strategy(str(tmp_path / "mine.json"))
