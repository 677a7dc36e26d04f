"""A dry run tells the operator all that the run tells of its rows, in the same words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from .conftest import Workplace

COUNTED = {
    "state": "v.db", "events": "e.csv", "time": "time", "every": "1d", "start": "2024-03-01",
    "series": "per-window", "epsilon": 100,
}  # fmt: skip
HORIZON = {"windows": 365}
USERS = {
    "user": "who", "max-contributions": 1, "contribution-period": "1d", "privacy-unit": "visitor",
}  # fmt: skip
FIRST = (
    "2024-03-01T09:00,ann,a", "2024-03-01T10:00,bob,b", "2024-03-02T09:00,ann,a",
    "2024-03-02T11:00,cid,b",
)  # fmt: skip
THIRD = "2024-03-03T09:00,ann,a"
FUTURE = ("2062-03-01T09:00,ann,a", "2062-03-02T09:00,ann,a")
LATE_NOTE = (
    "rows of this input, new or changed and within their user's limit, that arrived after their "
    "window was released, not counted (to wait: release-delay; to add them later: a new stream "
    "with allowed-lateness, which spends the privacy loss again): 1"
)
FUTURE_NOTE = (
    "rows of windows that begin in the future, not counted before these windows end (the newest is "
    "of 2062-03-02 09:00+00:00): 2"
)


@dataclass(frozen=True)
class Night:
    """A run of a job: the rows of its file, and what it releases.

    Attributes:
        rows: the rows of the file.
        until: up to when windows are released.
        told: a part of a note that this night has; "" for none.
    """

    rows: tuple[str, ...]
    until: str
    told: str = ""


SITUATIONS: Mapping[str, tuple[Mapping[str, object], tuple[Night, ...]]] = {
    "rows before the first window": (
        HORIZON,
        (Night(("2024-02-01T09:00,ann,a", *FIRST), "2024-03-03", "before the first window"),),
    ),
    "rows after the last window": (
        {"windows": 2},
        (Night((*FIRST, "2025-03-01T09:00,ann,a"), "2024-03-03", "after the last window"),),
    ),
    "rows of the future": (
        {"windows": 20_000},
        (
            Night((*FIRST, *FUTURE), "2024-03-03", FUTURE_NOTE),
            Night((*FIRST, *FUTURE), "2024-03-03", FUTURE_NOTE),
            Night((*FIRST, THIRD, *FUTURE), "2024-03-04", FUTURE_NOTE),
        ),
    ),
    "rows of the future in new files": (
        {"windows": 20_000, **USERS, "append": True},
        (
            Night((*FIRST, *FUTURE), "2024-03-03", FUTURE_NOTE),
            Night((THIRD,), "2024-03-04"),
        ),
    ),
    "rows of the future after the last window": (
        {"windows": 2},
        (Night((*FIRST, *FUTURE), "2024-03-03", "rows after the last window"),),
    ),
    "late rows without users": (
        HORIZON,
        (
            Night(FIRST, "2024-03-03"),
            Night((*FIRST, FIRST[0], THIRD), "2024-03-04", "after their window was released"),
        ),
    ),
    "late rows without a new window": (
        HORIZON,
        (
            Night(FIRST, "2024-03-03"),
            Night((*FIRST, FIRST[0]), "2024-03-03", "previously 2 (1 added, 0 missing)"),
        ),
    ),
    "late rows of users": (
        {**HORIZON, **USERS},
        (
            Night(FIRST, "2024-03-03"),
            Night((*FIRST, "2024-03-01T11:00,dan,a", THIRD), "2024-03-04", "counted in window 3"),
        ),
    ),
    "late rows of users that wait": (
        {**HORIZON, **USERS},
        (
            Night(FIRST, "2024-03-03"),
            Night((*FIRST, "2024-03-01T11:00,dan,a"), "2024-03-03", "at the next release: 1"),
        ),
    ),
    "rows of users too old": (
        {**HORIZON, **USERS, "allow-empty-windows": True},
        (
            Night((*FIRST, "2024-05-01T09:00,ann,a"), "2024-05-02"),
            Night(
                (*FIRST, "2024-03-02T09:00,dan,a", "2024-05-01T09:00,ann,a"),
                "2024-05-02",
                "new rows whose visitor's day ended at least 35 days (840 hours) before",
            ),
        ),
    ),
    "changed rows of revised windows": (
        {"allowed-lateness": "2d"},
        (
            Night(FIRST, "2024-03-03"),
            Night((*FIRST, FIRST[0], FIRST[1], THIRD), "2024-03-04", "window updated"),
        ),
    ),
    "missing rows of users": (
        {**HORIZON, **USERS},
        (
            Night((*FIRST, THIRD), "2024-03-04"),
            Night((*FIRST[1:], THIRD), "2024-03-04", "are missing now, still counted"),
        ),
    ),
    "unlisted groups": (
        {**HORIZON, "group-by": "page", "groups": "a", "unlisted-groups": "drop"},
        (
            Night(FIRST, "2024-03-03", "rows of undeclared groups, not counted"),
            Night((*FIRST, THIRD, "2024-03-03T10:00,x,x"), "2024-03-04", "undeclared groups"),
        ),
    ),
    "rows of the group of all others": (
        {**HORIZON, "group-by": "page", "groups": "a", "other-group": "rest"},
        (
            Night(FIRST, "2024-03-03", "for group 'rest'"),
            Night((*FIRST, THIRD, "2024-03-03T10:00,x,x"), "2024-03-04", "for group 'rest'"),
        ),
    ),
    "rows beyond a limit": (
        {**HORIZON, **USERS},
        (
            Night((*FIRST, FIRST[0]), "2024-03-03", "beyond their user's limit"),
            Night((*FIRST, FIRST[0], THIRD, THIRD), "2024-03-04", "beyond their user's limit"),
        ),
    ),
    "unreadable rows": (
        {**HORIZON, "bad-rows": "quarantine:bad.csv"},
        (
            Night((*FIRST, "soon,ann,a"), "2024-03-03", "set aside: 1"),
            Night((*FIRST, "soon,ann,a", "late,bob,a", THIRD), "2024-03-04", "1 more were set"),
            Night((*FIRST, "soon,ann,a", "late,bob,a", THIRD), "2024-03-04"),
        ),
    ),
    "rows of the last days": (
        {**HORIZON, "lookback": "2d"},
        (
            Night(FIRST, "2024-03-03"),
            Night((*FIRST, THIRD), "2024-03-04", "does not cover"),
        ),
    ),
    "windows that a first run holds back": (
        {**HORIZON, "until": "latest-event"},
        (Night((*FIRST, THIRD), "", "3 March 2024"),),
    ),
    "windows without rows": (
        HORIZON,
        (Night((*FIRST, "2024-05-01T09:00,ann,a"), "2024-05-02", "without any readable row"),),
    ),
    "missing values": (
        {**HORIZON, "missing-values": "drop", "group-by": "page", "groups": "a,b"},
        (Night((*FIRST, "2024-03-02T09:00,ann,"), "2024-03-03", "with a missing value"),),
    ),
    "new rows alone": (
        {**HORIZON, **USERS, "append": True},
        (
            Night(FIRST, "2024-03-03"),
            Night(("2024-03-01T11:00,dan,a", THIRD), "2024-03-04", "counted in window 3"),
            Night(("2024-03-01T11:00,dan,a", THIRD), "2024-03-04", "has counted this input"),
        ),
    ),
    "late rows of users in files of the last days": (
        {**HORIZON, **USERS, "lookback": "7d"},
        (
            Night(FIRST, "2024-03-03"),
            Night((*FIRST, "2024-03-01T11:00,dan,a", THIRD), "2024-03-04", LATE_NOTE),
            Night((*FIRST, "2024-03-01T11:00,dan,a", THIRD), "2024-03-04", LATE_NOTE),
        ),
    ),
    "no new row": (HORIZON, (Night(FIRST, "2024-03-03"), Night(FIRST, "2024-03-03"))),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_dry_run_has_the_notes_of_the_run(place: Workplace, situation: str) -> None:
    options, nights = SITUATIONS[situation]
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**COUNTED, **options}.items()]
    job_file = place.folder / "nightly.toml"
    job_file.write_text("\n".join(["[jobs.visits]", *lines]) + "\n")
    for night in nights:
        (place.folder / "e.csv").write_text("\n".join(["time,who,page", *night.rows]) + "\n")
        words = ["run", str(job_file), "--json", *(["--until", night.until] if night.until else [])]
        dry = json.loads(place.plain(*words, "--dry-run").fine().out)["jobs"]["visits"]
        real = json.loads(place.plain(*words).fine().out)["jobs"]["visits"]
        assert dry["not_private"]["notes"] == real["not_private"]["notes"]
        for name in ("rows", "dropped", "quarantined"):
            assert dry["not_private"][name] == real["not_private"][name]
        assert (dry["released"], dry["would_release"]) == (
            real["released"] - real["new"],
            real["new"],
        )
        notes = " ".join(real["not_private"]["notes"])
        assert night.told in notes
        assert ("begin in the future" in notes) == (night.told == FUTURE_NOTE)


def test_dry_run_prints_late_rows_and_rows_before_the_first_window(place: Workplace) -> None:
    job_file = place.folder / "nightly.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**COUNTED, **HORIZON}.items()]
    job_file.write_text("\n".join(["[jobs.visits]", *lines]) + "\n")
    events = place.folder / "e.csv"
    rows = ["time,who,page", "2024-02-01T09:00,ann,a", *FIRST]
    events.write_text("\n".join(rows) + "\n")
    first = place.plain("run", str(job_file), "--dry-run", "--until", "2024-03-03").fine()
    assert not first.changed
    assert "rows before the first window (2024-03-01T00:00:00+00:00), not counted: 1" in first.err
    place.plain("run", str(job_file), "--until", "2024-03-03").fine()
    events.write_text("\n".join([*rows, FIRST[0]]) + "\n")
    second = place.plain("run", str(job_file), "--dry-run", "--until", "2024-03-03").fine()
    assert not second.changed
    assert "arrived after their window was released, not counted" in second.err


@pytest.mark.parametrize(
    ("late", "told", "not_told"),
    [
        (("2024-04-30T09:00,dan,a",), "The next release counts the late rows\n", "too old"),
        (
            ("2024-03-02T09:00,dan,a", "2024-04-30T09:00,dan,a"),
            "The next release counts the late rows that are not too old. Rows that are too old "
            "count only in a new stream with another name, which spends the privacy loss again",
            "late rows\n",
        ),
    ],
)
def test_new_stream_is_not_proposed_for_rows_that_will_count(
    place: Workplace, late: tuple[str, ...], told: str, not_told: str
) -> None:
    options = {**COUNTED, **HORIZON, **USERS, "allow-empty-windows": True, "until": "2024-05-02"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
    job_file = place.folder / "nightly.toml"
    job_file.write_text("\n".join(["[jobs.visits]", *lines]) + "\n")
    events = place.folder / "e.csv"
    rows = ["time,who,page", *FIRST, "2024-05-01T09:00,ann,a"]
    events.write_text("\n".join(rows) + "\n")
    place.plain("run", str(job_file)).fine()
    events.write_text("\n".join([*rows, *late]) + "\n")
    said = place.plain("run", str(job_file)).fine().err
    assert told in said
    assert not_told not in said
    assert "begin a new stream" not in said
