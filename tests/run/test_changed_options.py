"""Options that change from night to night, while the rows stay the same.

An event that never changes counts once, whatever a later run states: either that run is refused, or
it reads the event as before. All options are tried, in windows that are released once and in
revised ones, for events, ids and users.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from otherwise import OTHERWISE
from run_results import releases_of

from counton.base.errors import CountonError, InvalidInputError, StreamMismatchError
from counton.job.statistics import model_of
from counton.run import Job, run

MODEL = model_of("sum")
#: Options that name a file.
FILES = ("events", "state", "key", "rollback_guard", "output", "chart")
#: Other values than those of `OTHERWISE`, under which the rows can be read in another way.
VALUES: dict[str, Any] = {
    **OTHERWISE,
    "append": True,
    "lookback": "2h",
    "events": None,
    "allowed_lateness": "1h",
    "over": 1,
    "time": "other_time",
    "time_format": "%Y-%d-%m %H:%M",
    "timezone": "America/New_York",
    "until": None,
    "user": "other_user",
}
#: Options of which there is another value.
CHANGED = [name for name in MODEL.model_fields if VALUES.get(name) is not None]
#: Ends of the nights' windows; clocks go back at 03:00, so 02:30 occurs twice.
NIGHTS = ("2024-10-27T03:00+02:00", "2024-10-27T03:00+01:00", "2024-10-27T06:00+01:00")
FIRST: dict[str, Any] = {
    "time": "time",
    "every": "1h",
    "start": "2024-10-27",
    "windows": 24,
    "timezone": "Europe/Berlin",
    "epsilon": 10**9,
    "value": "paid",
    "lower": 0,
    "upper": 8,
    "resolution": "0.5",
    "time_format": "%Y-%m-%d %H:%M",
    "ambiguous": "earliest",
    "bad_rows": "quarantine:bad.csv",
    "allow_empty_windows": True,
}
KINDS: dict[str, dict[str, Any]] = {
    "windows": {},
    "revised": {"allowed_lateness": "6h"},
    "ids": {"row_id": "id"},
    "users": {"user": "user", "max_contributions": 1},
    "users of revised windows": {"user": "user", "max_contributions": 1, "allowed_lateness": "6h"},
}
HEADER = "time,other_time,paid,user,other_user,id,place\n"
OTHERS = [
    "2024-10-27 00:30,2024-10-27 00:30,1.5,u1,v1,1,home",
    "2024-10-27 02:10,2024-10-27 02:10,2.5,u2,v2,2,home",
    "2024-10-27 04:30,2024-10-27 04:30,3.5,u3,v3,3,home",
]
EVENT = "2024-10-27 02:30,2024-10-27 04:40,7.5,u4,v4,4,home"


def released(
    folder: Path, rows: list[str], kind: str, changed: dict[str, Any]
) -> np.ndarray[Any, Any]:
    """Run three nights over the same rows, the second with changed options; return the versions."""
    folder.mkdir()
    events = folder / "events.csv"
    events.write_text(HEADER + "".join(f"{row}\n" for row in rows))
    first = {**FIRST, **KINDS[kind], "bad_rows": f"quarantine:{folder / 'bad.csv'}"}
    with run(Job("sum", events, folder / "s.db", until=NIGHTS[0], **first)):
        pass
    for until, options in ((NIGHTS[1], changed), (NIGHTS[2], {})):
        job = Job(
            "sum",
            events,
            folder / "s.db",
            stream="sum_of_paid",
            until=until,
            allow_empty_windows=True,
        )
        with run(job.derive(**options)) as outcome:
            values = np.asarray(releases_of(outcome), float)
    if "allowed_lateness" not in first:
        return np.diff(values, prepend=0)
    # The newest window comes first: (night, lag) is the version ``lag`` of window night - lag.
    steps, lags = values.shape
    changes = np.zeros((steps, lags))
    for window in range(steps):
        versions = [values[window + lag, lag] for lag in range(min(lags, steps - window))]
        changes[window, : len(versions)] = np.diff(versions, prepend=0)
    return changes


def moved(folder: Path, kind: str, changed: dict[str, Any]) -> float:
    """Return by how much one event that stays changes all released numbers together."""
    with_event = released(folder / "with", [*OTHERS, EVENT], kind, changed)
    without = released(folder / "without", OTHERS, kind, changed)
    return float(np.abs(with_event - without).sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", [name for name in MODEL.model_fields if VALUES.get(name) is not None]
)
def test_event_that_stays_counts_once_when_option_changes(
    name: str, kind: str, tmp_path: Path
) -> None:
    value = VALUES[name]
    if name in FILES:
        value = tmp_path / str(value)
    with suppress(CountonError):  # such a run may be refused
        assert moved(tmp_path, kind, {name: value}) == 7.5


READING = ["time_format", "ambiguous", "decimal"]


@pytest.mark.parametrize("kind", ["windows", "revised"])
@pytest.mark.parametrize("name", READING)
def test_later_run_that_reads_rows_differently_is_refused(
    name: str, kind: str, tmp_path: Path
) -> None:
    with pytest.raises(StreamMismatchError, match=rf" {name} \(here \S.*, there \S.*\)"):
        moved(tmp_path, kind, {name: VALUES[name]})


def test_later_run_may_state_usual_values_and_gets_kept_ones(tmp_path: Path) -> None:
    alike = {name: FIRST[name] for name in READING if name in FIRST}
    assert moved(tmp_path, "windows", {**alike, "decimal": "."}) == 7.5


def test_clock_change_is_stated_first_by_later_run(tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text(HEADER + f"{OTHERS[0]}\n")
    first = {**FIRST, "bad_rows": None, "ambiguous": None}
    run(Job("sum", events, tmp_path / "s.db", until=NIGHTS[0], **first)).close()
    events.write_text(HEADER + f"{OTHERS[0]}\n{EVENT}\n")
    later = Job(
        "sum",
        events,
        tmp_path / "s.db",
        stream="sum_of_paid",
        until=NIGHTS[1],
        allow_empty_windows=True,
    )
    with pytest.raises(InvalidInputError, match="skips or repeats"):
        run(later)
    with run(later.derive(ambiguous="latest")) as outcome:
        assert outcome.read().table()["estimate"].to_list()[-1] == 9.0
    for other in ("earliest", "raise"):
        with pytest.raises(StreamMismatchError, match=f"ambiguous .here {other}, there latest."):
            run(later.derive(ambiguous=other))
    with run(later.derive(until=NIGHTS[2])) as outcome:  # it gets the kept value
        assert outcome.read().table()["estimate"].to_list()[-1] == 9.0
