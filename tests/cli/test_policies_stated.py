"""An option that equals the default is stated: it changes the one that a stream has kept."""

import pytest

from .conftest import Workplace

STREAM = (
    "release", "count", "visits.csv", "--time", "at", "--every", "24h", "--timezone",
    "Europe/Berlin", "--start", "2024-10-25", "--windows", "9", "--group-by", "shop", "--groups",
    "north,south", "--epsilon", "1", "--state", "s.db", "--max-empty-windows", "9",
)  # fmt: skip
GOOD = "at,shop\n2024-10-25 09:00,north\n"
#: An option, its default, another policy, and a row that only the other policy leaves out.
POLICIES = [
    ("missing-values", "fail", "drop", "2024-10-25 10:00,\n"),
    ("bad-rows", "fail", "quarantine:bad.csv", "soon,north\n"),
    ("unlisted-groups", "error", "drop", "2024-10-25 10:00,west\n"),
]


@pytest.mark.parametrize(("option", "usual", "other", "row"), POLICIES, ids=lambda one: one[:9])
def test_a_policy_that_equals_the_default_changes_the_kept_one(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, option: str, usual: str, other: str, row: str
) -> None:
    monkeypatch.chdir(place.folder)
    visits = place.folder / "visits.csv"

    def run(day: int, rows: str, *policy: str) -> int:
        visits.write_text(GOOD + rows)
        until = f"2024-10-{day}" if day < 32 else f"2024-11-0{day - 31}"
        return int(place.by_file(*STREAM, "--until", until, *policy).code)

    assert run(28, "", f"--{option.replace('_', '-')}", other) == 0
    assert run(29, row) == 0  # the other policy is kept
    assert (
        run(30, row, f"--{option.replace('_', '-')}", usual) == 2
    )  # and a refused run leaves it as it was
    assert run(30, row) == 0
    assert run(31, "", f"--{option.replace('_', '-')}", usual) == 0
    assert run(32, row) == 2
    assert run(32, row, f"--{option.replace('_', '-')}", other) == 0


def test_groups_that_are_found_cannot_be_refused_later(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    (place.folder / "visits.csv").write_text(GOOD)
    found = [word for word in STREAM if word not in ("--groups", "north,south")]
    found += ["--delta", "1e-6", "--until"]
    assert place.by_file(*found, "2024-10-27", "--unlisted-groups", "discover").code == 0
    done = place.by_file(*found, "2024-10-28", "--unlisted-groups", "error")
    assert (done.code, "unlisted-groups (here error" in done.err) == (2, True)
    assert place.by_file(*found, "2024-10-28").code == 0
