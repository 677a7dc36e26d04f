"""Fields of requests: each of a wrong type is refused in words, before anything happens."""

import pathlib
from typing import Any

import numpy as np
import pytest

from counton.base.errors import InvalidInputError
from counton.run import Job, run

COUNT = Job(
    "count", "visits.csv", "visits.db", time="time", every="1h", start="2013-01-01", windows=3,
    until="latest-event",
    epsilon=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        *[("windows", value, "is not a whole number") for value in ("30", 30.0, True)],
        ("every", 5, "is not a length of time"),
        ("timezone", 5, "is not a time zone"),
        ("time_format", 5, "does not say a day and its year"),
        ("time", 5, "is not the name of a column"),
        ("group_by", 5, "is not a list of names"),
        ("privacy_unit", 5, "is the name of the protected unit"),
        ("stream", True, "is not a text"),
        *[(name, 5, "is not a time; write a date or a time") for name in ("start", "until")],
        *[("key", wrong, "is not a key; give a counton.Key, a file") for wrong in (5, b"s.key")],
        ("state", None, "is missing. Give the path of a file or a database URL"),
        ("events", {"time": []}, "no source of rows; give a file, a folder"),
        *[
            (name, "no", "is neither true nor false")
            for name in ("append", "allow_empty_windows", "expiring")
        ],
        *[
            (name, "a\0b", "is not valid UTF-8")
            for name in ("stream", "group_by", "state", "events")
        ],
    ],
)
def test_a_field_of_a_wrong_type_is_named(
    field: str, value: Any, words: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("visits.csv").write_text("time\n2013-01-01T00:10\n2013-01-01T01:10\n")
    with pytest.raises(InvalidInputError, match=f"{field}( |=).*{words}"):
        run(COUNT.derive(**{field: value}))
    assert [path.name for path in tmp_path.iterdir()] == ["visits.csv"]


def test_whole_numbers_of_numpy_count(tmp_path: pathlib.Path) -> None:
    events = tmp_path / "visits.csv"
    events.write_text("time\n2013-01-01T00:10\n2013-01-01T01:10\n")
    steps: Any = np.int64(3)
    with run(COUNT.derive(events=events, state=tmp_path / "s.db", windows=steps)) as outcome:
        assert outcome.spec.metadata().windows.steps == 3
