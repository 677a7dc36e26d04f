"""A statistic of another package is a command, a job, a page, and a file that answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inside import Inside
from one_interpreter import printed_by_each
from own_statistic import forget, installed

import counton
from counton.base.errors import InvalidInputError
from counton.job.job_file import load
from counton.job.json_schema import schema
from counton.run import Job, run
from counton.statistics import catalogue as known
from counton.testing import PropertyViolationError, check_statistic

pytestmark = pytest.mark.slow
ROWS = "at,shop,paid\n2024-03-01T00:10,a,3\n2024-03-01T00:20,b,9\n2024-03-01T01:10,a,12\n"
STREAM: dict[str, Any] = {
    "time": "at", "every": "1h", "start": "2024-03-01", "windows": 24, "epsilon": 10**6,
    "strategy": "binary", "group_by": "shop", "groups": "a,b", "value": "paid", "threshold": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def above(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with installed(tmp_path_factory.mktemp("above")) as folder:
        yield folder


def estimates(rows: list[dict[str, Any]]) -> list[int]:
    return [row["estimate"] for row in rows]


def test_own_statistic_has_release_command(above: Path, tmp_path: Path) -> None:
    events = tmp_path / "e.csv"
    out = tmp_path / "o.parquet"
    events.write_text(ROWS)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in STREAM.items()]
    state = str(tmp_path / "s.db")
    files = [f"--state={state}", f"--output={out}"]
    until = "--until=2024-03-01T02:00"
    helped, said, _, methods, verified = printed_by_each(
        [
            ["release", "above", "--help"],
            ["release", "above", str(events), *words, *files, until],
            ["export", state, f"--output={tmp_path / 'again.csv'}"],
            ["methods", state],
            ["verify", state],
        ],
        tmp_path,
        {"PYTHONPATH": str(above)},  # where the package lies
    )
    assert "--threshold" in helped
    assert "Released 2 new windows" in said
    read = counton.read(out)
    assert estimates(read.table().to_dicts()) == [0, 1, 1, 1]
    assert counton.read(tmp_path / "again.csv").table().equals(read.table())
    assert read.methods(full=True).startswith("The running statistic Above")
    assert "The cumulative statistic Above by shop" in methods
    assert "4 values recomputed" in verified


def test_own_statistic_runs_from_job_file_and_python(above: Path, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(ROWS)
    assert "threshold" in schema()["$defs"]["above"]["properties"]
    lines = "".join(
        f"{key.replace('_', '-')} = {json.dumps(value)}\n" for key, value in STREAM.items()
    )
    file = tmp_path / "nightly.toml"
    file.write_text(
        f'[jobs.big]\nstatistic = "above"\nevents = "e.csv"\nstate = "a.db"\n{lines}'
        f'until = "2024-03-01T02:00"\n'
    )
    with run(load(file)["big"]) as outcome:
        from_file = outcome.read().table()
    own = {name: value for name, value in STREAM.items() if name != "threshold"}
    given = known.statistic_named("above")(5)  # type: ignore[call-arg]
    job = Job(given, tmp_path / "e.csv", tmp_path / "b.db", until="2024-03-01T02:00", **own)
    with run(job) as outcome:
        assert estimates(outcome.read().table().to_dicts()) == estimates(from_file.to_dicts())
        assert outcome.spec.metadata().statistic_name == "above"
    with pytest.raises(InvalidInputError, match="count has no option 'threshold'"):
        run(job.derive(what="count", value=None, threshold=5, state=tmp_path / "c.db"))
    with pytest.raises(InvalidInputError, match="above needs threshold"):
        run(Job("above", tmp_path / "e.csv", tmp_path / "c.db", until="2024-03-01T02:00", **own))


def test_own_statistic_runs_in_service(above: Path, tmp_path: Path) -> None:
    keys = {**STREAM, "time": "time", "start": "2026-03-01T09:00", "every": "1h", "epsilon": 10**6}
    lines = "".join(
        f"{key.replace('_', '-')} = {json.dumps(value)}\n" for key, value in keys.items()
    )
    file = tmp_path / "jobs.toml"
    file.write_text(f'[jobs.big]\nstatistic = "above"\nstate = "s.db"\n{lines}')
    service = Inside(file)
    try:
        rows = [{"time": "2026-03-01T09:10", "shop": "a", "paid": paid} for paid in (3, 6, 9)]
        assert service.post("first", rows).status_code == 202
        service.at(61)
        series = service("GET", "/v1/streams/big/series", "read").json()["rows"]
        assert estimates(series) == [2, 0]
        assert service("GET", "/v1/streams/big/release", "read").status_code == 200
    finally:
        service.service.close()


def test_check_statistic_accepts_own_statistic_and_rejects_wrong_one(above: Path) -> None:
    kind: Any = known.statistic_named("above")
    batches: list[list[float]] = [[3, 9, 5], [], [12], [5.1, -7]]
    check_statistic(kind(5), batches)

    class Twice(kind):  # type: ignore[misc]
        def encode(self, *parts: Any) -> Any:
            return 2 * super().encode(*parts)

    with pytest.raises(PropertyViolationError):
        check_statistic(Twice(5), batches)


def test_file_of_missing_statistic_package_names_statistic(above: Path, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(ROWS)
    out = tmp_path / "o.parquet"
    job = Job("above", tmp_path / "e.csv", tmp_path / "s.db", until="2024-03-01T02:00", **STREAM)
    with run(job) as outcome:
        released = outcome.read()
        counton.release(
            "above",  # type: ignore[arg-type]  # of another package
            tmp_path / "e.csv",
            state=tmp_path / "s.db",
            output=out,
            until="2024-03-01T02:00",
        )
        assert released.table().height == 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "_others", dict)
        known.statistic_named.cache_clear()
        with pytest.raises(
            InvalidInputError,
            match=r"statistic is 'Above', which is not known.*install the package",
        ):
            counton.read(out)
    known.statistic_named.cache_clear()


class Other:
    """What is no statistic."""


@pytest.mark.parametrize("where", ["own_statistic:PACKAGE", "nowhere:Above", "os:nothing"])
def test_an_entry_point_that_does_not_fit_is_refused(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "_others", lambda: {"wrong": where})
    known.statistic_named.cache_clear()
    with pytest.raises(InvalidInputError, match=f"statistic 'wrong' is {where}"):
        known.statistic_named("wrong")
    monkeypatch.undo()
    forget()
