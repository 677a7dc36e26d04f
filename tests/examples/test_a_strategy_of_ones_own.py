"""A strategy of another package is planned, streamed, printed with its file, and verified."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_reference import state_by_reference
from click.testing import CliRunner
from inside import Inside
from own_statistic import EXAMPLES, left_by_pip

import counton
from counton import PureDP, plan
from counton.base.errors import InvalidInputError
from counton.cli.app import app
from counton.job.job_file import load
from counton.run import Job, run
from counton.strategies import KAry, StreamStrategy, sensitivity, strategy_from_dict
from counton.testing import check_strategy

PACKAGE = EXAMPLES / "blocks"
ROWS = "at\n" + "".join(f"2024-03-{day:02}T{day:02}:10\n" for day in (1, 1, 2, 2, 3))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As pip leaves the package behind; its class is known meanwhile."""
    left_by_pip("blocks", tmp_path / "installed")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    for name in ("blocks.json", "jobs.toml"):
        shutil.copy(PACKAGE / name, tmp_path)
    (tmp_path / "visits.csv").write_text(ROWS)
    return tmp_path


def blocks(horizon: int, block: int) -> StreamStrategy:
    return strategy_from_dict({"strategy": "Blocks", "horizon": horizon, "block": block})


@pytest.mark.parametrize(("horizon", "block"), [(1, 2), (7, 3), (24, 5), (64, 8)])
def test_own_strategy_passes_check_strategy(horizon: int, block: int, installed: Path) -> None:
    check_strategy(blocks(horizon, block))


def test_own_strategy_has_known_sensitivity_and_variance(installed: Path) -> None:
    mine = blocks(168, 24)
    assert sensitivity(mine, 1) == 2.0
    steps = np.arange(1, 169)
    assert mine.variance(steps).tolist() == (steps // 24 + steps % 24).tolist()
    assert mine.overall_variance("max") == 6 + 23


def test_plan_compares_own_strategy(installed: Path) -> None:
    every_step = KAry(168, 169, False)
    found = plan(168, PureDP(1), strategies=[every_step, blocks(168, 24)])
    assert [each.strategy for each in found] == [blocks(168, 24), every_step]
    assert found.best.errors.std([24]) == pytest.approx(found.best.distribution.std)


def said(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.output


def test_own_strategy_of_job_file_is_verified(installed: Path) -> None:
    job = load(installed / "jobs.toml")["visits"]
    out = installed / "o.parquet"
    with run(job.derive(until="2024-03-04", max_empty_windows=48)) as outcome:
        assert outcome.spec.strategy == blocks(168, 24)
        assert outcome.after == 72
    with run(job.derive(until="2024-03-05")) as outcome:  # and goes on
        assert outcome.after == 96
    assert state_by_reference(installed / "visits.db") == 96
    found = said("verify", str(installed / "visits.db"))
    assert "96 values recomputed" in found
    for words in (("inspect", "--json"), ("methods", "--full")):
        assert "blocks" in said(words[0], str(installed / "visits.db"), words[1]).lower()
    said("export", str(installed / "visits.db"), f"--output={out}")
    read = counton.read(out)
    assert read.numbers.design.strategy == blocks(168, 24)
    assert read.table().height == 96
    assert "blocks; 168 windows, block 24" in read.methods(full=True)


def test_own_strategy_runs_in_service(installed: Path) -> None:
    file = installed / "served.toml"
    job = (installed / "jobs.toml").read_text().replace('events = "visits.csv"\n', "")
    file.write_text(job.replace("2024-03-01", "2026-03-01T09:00").replace('"at"', '"time"'))
    service = Inside(file)
    try:
        rows = [{"time": "2026-03-01T09:10"}] * 3
        assert service.post("first", rows).status_code == 202
        service.at(61)
        (row,) = service("GET", "/v1/streams/visits/series", "read").json()["rows"]
        assert row["noise_std"] == pytest.approx(2 * 2**0.5, rel=0.02)
        assert service("GET", "/v1/streams/visits/release", "read").status_code == 200
    finally:
        service.service.close()


def test_job_accepts_instance_of_own_strategy(installed: Path) -> None:
    stream: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 1}
    job = Job(
        "count", installed / "visits.csv", installed / "p.db", strategy=blocks(7, 3), windows=7,
        until="2024-03-03", **stream,
    )  # fmt: skip
    with run(job) as outcome:
        assert outcome.spec.public_facts()["record"]["strategy"] == "own"


def test_file_of_missing_strategy_package_lists_known_strategies(tmp_path: Path) -> None:
    saved = json.loads((PACKAGE / "blocks.json").read_text())
    with pytest.raises(
        InvalidInputError, match="strategy is 'Blocks', which is not known; known are Binary"
    ):
        strategy_from_dict(saved)
