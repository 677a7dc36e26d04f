"""What editors and type checkers are told of `release` is what a job has."""

import inspect
from pathlib import Path

import polars as pl
import pytest

from counton import PureDP, release
from counton.base.errors import InvalidInputError
from counton.job.common_options import Job
from counton.job.statistics import all_models
from counton.job.typed_kwargs import JobOptions
from tools import keywords

FRAME = pl.DataFrame({"time": ["2024-03-01"]})


def test_file_of_keywords_is_current() -> None:
    """``python -m tools.keywords`` writes the file; a field with another type makes another."""
    pytest.importorskip("ruff", reason="ruff formats the file, and is not installed")
    is_current = keywords.FILE.read_text("utf-8") == keywords.text()
    assert is_current, f"run python -m tools.keywords, which writes {keywords.FILE.name} anew"


def test_long_list_of_choices_is_broken_as_formatted() -> None:
    pytest.importorskip("ruff", reason="ruff formats the file, and is not installed")
    choices = ", ".join(f'"choice number {number}"' for number in range(9))
    code = f"class Options:\n    series: (Literal[{choices}] | None)\n"
    lines = keywords.formatted(code).splitlines()
    assert lines[1:4] == ["    series: (", "        Literal[", '            "choice number 0",']


def test_names_and_types_are_those_of_a_job() -> None:
    told = {name: kind.__forward_arg__ for name, kind in JobOptions.__annotations__.items()}
    has = {name for model in all_models().values() for name in model.model_fields}
    assert {*told} == {*has, *Job.model_fields, "columns"} - {"statistic", "events", "state"}
    assert told["max_contributions"] == "int | None"
    assert told["every"] == "str | timedelta | None"
    assert told["lower"] == "Number | None"


def test_wrong_keywords_are_rejected_by_types_and_at_start(tmp_path: Path) -> None:
    """mypy wants an error at each line that is exempt: an exemption without need fails."""
    state = tmp_path / "a.db"
    with pytest.raises(InvalidInputError, match="has no option 'tme'; did you mean time"):
        release("count", FRAME, state=state, tme="time")  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError, match="windows=many is not a whole number"):
        release("count", FRAME, state=state, windows="many")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"no statistic 'cuont'.*did you mean '?count'?"):
        release("cuont", FRAME, state=state)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidInputError, match="unlisted_groups=skip is not possible for count; give error"
    ):
        release("count", FRAME, state=state, unlisted_groups="skip")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="events"):
        release("count", time="time", guarantee=PureDP(1), state=state)
    assert not state.exists()


def test_a_signature_shows_all_fields_with_types_and_defaults() -> None:
    shown = inspect.signature(release).parameters
    assert {*JobOptions.__annotations__} <= {*shown}
    assert str(shown["windows"]) == "windows: 'int | None' = None"
    assert str(shown["separator"]) == "separator: 'str | None' = None"
    assert shown["unlisted_groups"].annotation == "Literal['error', 'drop', 'discover'] | None"
    assert shown["state"].kind is inspect.Parameter.KEYWORD_ONLY
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in shown.values())


def test_a_dictionary_of_a_stream_has_a_type(tmp_path: Path) -> None:
    stream: JobOptions = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": 9, "until": "latest-event",
    }  # fmt: skip
    found = release("count", FRAME, state=tmp_path / "a.db", guarantee=PureDP(1), **stream)
    assert not found.steps
