"""Published tables of a database answer what a file answers, to the bit, without state or key."""

import json
import shutil
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from databases import looked_into

import counton
from counton.base.errors import InvalidInput, StateError
from counton.run import Job, export, publish, run
from counton.state.published import is_published

ROWS = pl.DataFrame(
    {
        "time": [datetime(2024, 3, 1) + timedelta(hours=7 * n) for n in range(40)],
        "page": [("home", "shop", "home", "far")[n % 4] for n in range(40)],
        "paid": [n % 9 for n in range(40)],
    }
)
BY: dict[str, Any] = {"by": "page", "domain": ["home", "shop", "far"]}
JOBS: dict[str, dict[str, Any]] = {
    "count": {"what": "count", **BY, "release": "both"},
    "sum": {
        "what": "sum", "value": "paid", "lower": 0, "upper": 9, "resolution": 1, "strategy": "sqrt"
    },
    "average": {
        "what": "average", "value": "paid", "lower": 0, "upper": 9, "resolution": 1, **BY, "over": 2
    },
}  # fmt: skip


def counted(kind: str, folder: Path, until: str = "2024-03-07", **more: Any) -> Path:
    """A state in which a job has released up to a day; the same again goes on."""
    state = folder / "s.db"
    own = {**JOBS[kind], "rho": 1, "steps": 30, **more}
    what = own.pop("what")
    job = Job(
        what, ROWS, own.pop("state", state), time="time", every="1d", start="2024-03-01",
        until=until, **own,
    )  # fmt: skip
    run(job).close()
    return state


def changed(file: Path, *statements: str) -> Path:
    """A copy of a database in which somebody has changed something."""
    copy = file.with_name("changed.db")
    shutil.copy(file, copy)
    connection = sqlite3.connect(copy)
    with connection:
        for statement in statements:
            assert connection.execute(statement).rowcount
    connection.close()
    return copy


@pytest.mark.parametrize("kind", JOBS)
def test_what_grows_by_the_night_is_read_whole(kind: str, tmp_path: Path) -> None:
    public = tmp_path / "public.db"
    for until in ("2024-03-04", "2024-03-05", "2024-03-09"):
        state = counted(kind, tmp_path, until)
        publish(state, public)
        export(state, tmp_path / "t.parquet")
        mine, theirs = counton.read(public), counton.read(tmp_path / "t.parquet")
        assert mine.table().equals(theirs.table())
        assert mine.methods() == theirs.methods()
        assert mine.steps == theirs.steps
    assert counton.read(f"sqlite:///{public}", level=0.5).numbers.level == 0.5


def test_another_level_is_described_anew(tmp_path: Path) -> None:
    state, public = counted("count", tmp_path, "2024-03-04"), tmp_path / "public.db"
    publish(state, public)
    publish(state, public, level=0.5)
    assert counton.read(public).numbers.level == 0.5
    assert counton.read(public).table().equals(export(state, level=0.5).table())


def test_streams_of_one_database_are_told_apart(tmp_path: Path) -> None:
    state, public = counted("sum", tmp_path), tmp_path / "public.db"
    counted("sum", tmp_path, name="next")
    publish(state, public, name="sum_of_paid")
    publish(state, public, name="next")
    export(state, tmp_path / "t.parquet", name="next")
    found, own = counton.read(public, name="next"), counton.read(tmp_path / "t.parquet")
    assert found.table().equals(own.table())
    with pytest.raises(StateError, match=r"has 'next', 'sum_of_paid': choose with name"):
        counton.read(public)
    with pytest.raises(
        StateError, match=r"stream 'it' is not published in .*, which has 'next', 'sum_of_paid'"
    ):
        counton.read(public, name="it")
    with pytest.raises(InvalidInput, match=r"belongs to stream 'next': correct name"):
        counton.read(tmp_path / "t.parquet", name="sum_of_paid")
    export(state, tmp_path / "first.parquet", name="sum_of_paid")
    with pytest.raises(
        InvalidInput, match=r"belong to different streams, because their terms differ"
    ):
        counton.read([tmp_path / "t.parquet", tmp_path / "first.parquet"])
    several = counton.read([str(public), str(tmp_path / "t.parquet")], name="next")
    assert several.table().equals(own.table())


def test_a_database_without_descriptions_is_refused_and_published_again(tmp_path: Path) -> None:
    for kind in ("count", "average"):
        folder = tmp_path / kind
        folder.mkdir()
        state, public = counted(kind, folder), folder / "public.db"
        publish(state, public)
        old = changed(public, "UPDATE counton_published_streams SET description = ''")
        with pytest.raises(
            StateError, match=r"has no description of stream .* publish the stream again"
        ):
            counton.read(old)
        assert publish(state, old).after == 6  # nothing is new but what is public of it
        assert counton.read(old).table().equals(counton.read(public).table())
        assert publish(state, old, remove=True).after == 0
        with pytest.raises(StateError, match="has no published stream"):
            counton.read(old)


def test_rows_that_are_gone_are_said(tmp_path: Path) -> None:
    state, public = counted("count", tmp_path), tmp_path / "public.db"
    publish(state, public)
    cut = changed(
        public,
        "DELETE FROM counton_published_rows WHERE step = 3 AND \"group\" = 'shop'",
        "UPDATE counton_published_rows SET estimate = NULL WHERE step = 5 AND row = 2",
    )
    found: Any = counton.read(cut)
    assert len(found.table()) == 16
    own: Any = counton.read(public)
    assert found.difference("home", "far") == own.difference("home", "far")
    with pytest.raises(InvalidInput, match=r"step 3 of 'shop' is not in the file"):
        found.difference("home", "shop", steps="4:5")
    wrong = changed(public, "UPDATE counton_published_rows SET estimate = 'many'")
    with pytest.raises(StateError, match="has been changed since it was published"):
        counton.read(wrong)
    wrong = changed(public, "UPDATE counton_published_streams SET description = 'x'")
    with pytest.raises(StateError, match="has no description of stream 'count'"):
        counton.read(wrong)


def test_cells_that_are_too_many_are_left_out_as_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = tmp_path / "public.db"
    publish(counted("average", tmp_path, "2024-03-04"), public)
    for module in ("released.release_facts", "released.release_files"):
        monkeypatch.setattr(f"counton.{module}.MOST_CELLS", 20)
    publish(counted("average", tmp_path, "2024-03-09"), public)
    with pytest.raises(InvalidInput, match="shows only results of 'average_of_paid'"):
        counton.read(public)


def test_a_state_is_no_published_database(tmp_path: Path) -> None:
    state = counted("count", tmp_path)
    with pytest.raises(StateError, match="is a state, which is secret and not for readers"):
        counton.read(state)
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(StateError, match="nothing is published there: publish a stream"):
        counton.read(other)
    with pytest.raises(
        StateError, match="is not a file: give a database that counton publish wrote"
    ):
        counton.read(f"sqlite:///{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists()


def test_what_is_published_besides_is_what_a_file_carries(tmp_path: Path) -> None:
    state, public = counted("average", tmp_path), tmp_path / "public.db"
    publish(state, public)
    connection = sqlite3.connect(public)
    (kept,) = connection.execute("SELECT description FROM counton_published_streams").fetchone()
    connection.close()
    described = json.loads(kept)["description"]
    export(state, tmp_path / "t.parquet")
    facts = pl.read_parquet_metadata(tmp_path / "t.parquet")["counton"]
    carried = json.loads(facts)["description"]
    assert described == carried


@pytest.mark.slow
def test_a_server_answers_alike_and_its_reader_sees_no_state(tmp_path: Path, postgres: str) -> None:
    key, schema = str(tmp_path / "the.key"), postgres.rpartition("%3D")[2]
    for kind, own in JOBS.items():
        counted(kind, tmp_path, **own, state=postgres, key=key, name=kind)
        publish(postgres, name=kind, key=key)
        counted(kind, tmp_path, "2024-03-09", **own, state=postgres, key=key, name=kind)
        out = tmp_path / f"{kind}.parquet"
        export(postgres, out, name=kind)
        found, file = counton.read(postgres, name=kind), counton.read(out)
        assert found.table().equals(file.table())
        assert found.methods() == file.methods()
        assert (
            counton.read(postgres, name=kind, level=0.5)
            .table()
            .equals(counton.read(out, level=0.5).table())
        )
    with pytest.raises(StateError, match="has 'average', 'count', 'sum': choose"):
        counton.read(postgres)
    role = f"reader_{schema}"
    theirs = postgres.replace("//counton@", f"//{role}@")
    given = "counton_releases, counton_published_streams"
    with looked_into(postgres) as connection:
        for statement in (
            f"CREATE ROLE {role} LOGIN",
            f"GRANT USAGE ON SCHEMA {schema} TO {role}",
            f"GRANT SELECT ON counton_releases TO {role}",
        ):
            connection.execute(statement)
    try:
        with pytest.raises(StateError, match="a reader on a server is granted SELECT on counton_"):
            counton.read(theirs, name="count")
        with looked_into(postgres) as connection:
            connection.execute(f"GRANT SELECT ON {given} TO {role}")
        # Whoever may read the state asks the state; others ask what is published there.
        assert (is_published(postgres), is_published(theirs)) == (False, True)
        assert (
            counton.read(theirs, name="count")
            .table()
            .equals(counton.read(tmp_path / "count.parquet").table())
        )
    finally:
        with looked_into(postgres) as connection:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")
