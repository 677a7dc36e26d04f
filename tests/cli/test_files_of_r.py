"""Files as R and spreadsheets write them: what ``init``, a dry run and a run say of them."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Workplace

#: All that no file tells; single rows are protected.
SAID = (
    *("--timezone", "UTC", "--start", "2024-03-01", "--until", "latest-event"),
    *("--privacy-unit", "visit"),
)
#: The same for users.
OF_USERS = ("--user", "patient", "--max-contributions", "1", "--contribution-period", "1d")
LIKE_MISSING = ["NA", "N/A", "NULL", "null", "None", "NaN", "nan"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def visits(patients: Sequence[str], header: str = "time,patient") -> str:
    """One row for each patient, on days of March 2024."""
    days = range(1, len(patients) + 1)
    rows = [f"2024-03-{day:02},{who}" for day, who in zip(days, patients, strict=True)]
    return "\n".join([header, *rows, ""])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", LIKE_MISSING)
def test_users_named_like_missing_values_are_reported(text: str, place: Workplace) -> None:
    Path("v.csv").write_text(visits(["ann", text, "bob", text, text, "dan"]))
    note = f"3 rows have the user '{text}' in column 'patient', which is one user."
    done = place.plain("init", "v.csv", *SAID, *OF_USERS).fine()
    assert f"confidential: column 'patient' has the text '{text}' in 3 rows." in done.err
    assert 'write an empty field instead (in R: na = "")' in done.err
    assert text not in Path("nightly.toml").read_text().replace("latest-event", "")
    rehearsal = place.plain("run", "nightly.toml", "--dry-run").fine()
    assert f"confidential: job v: {note}" in rehearsal.err
    assert f"confidential: job v: {note}" in place.plain("run", "nightly.toml").fine().err


@pytest.mark.usefixtures("folder")
def test_users_whose_names_contain_such_a_text_are_not_reported(place: Workplace) -> None:
    Path("v.csv").write_text(visits(["NAN", "Na", "NA1", " NA", "na", "dan"]))
    said = place.plain("init", "v.csv", *SAID, *OF_USERS).fine().err
    said += place.plain("run", "nightly.toml").fine().err
    assert "one user" not in said


@pytest.mark.usefixtures("folder")
def test_init_without_user_names_each_column_of_texts_like_missing_values(
    place: Workplace,
) -> None:
    Path("v.csv").write_text(visits(["a,NA", "NULL,NA", "b,c"], "time,patient,count"))
    said = place.plain("init", "v.csv").fine().err
    assert "column 'patient' has the text 'NULL' in 1 row." in said
    assert "column 'count' has the text 'NA' in 2 rows." in said
    assert "has the text" not in place.plain("init", "v.csv", *SAID, "--force").fine().err


@pytest.mark.usefixtures("folder")
def test_init_reports_rows_that_are_not_utf_8(place: Workplace) -> None:
    text = visits(["Nord", "Süd", "Nord", "Süd", "Nord", "Nord"], "time,clinic")
    Path("v.csv").write_bytes(text.encode("latin-1"))
    said = place.plain("init", "v.csv", *SAID).fine().err
    assert "confidential: 2 rows of v.csv cannot be read" in said
    assert "iconv -f LATIN1 -t UTF-8 v.csv > utf8.csv" in said
    Path("v.csv").write_text(text, "utf-8")
    assert "iconv" not in place.plain("init", "v.csv", *SAID, "--force").fine().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("until", ["latest-event", "2024-03-09"])
@pytest.mark.parametrize(
    ("times", "why"),
    [
        (
            "2024-W09 2024-W10",
            "Row 1 of v.csv has a time that cannot be read in column 'week' ('2024-W09') (one of 2 "
            "such rows); an ISO week is no moment: write its Monday, as in 2024-02-26",
        ),
        ("2024-W09-3", "write the day of an ISO week as a date, as in 2024-02-28"),
        ("2024-W60", "write ISO 8601"),
        ("x,y", "Line 2 of v.csv cannot be read as csv (it has 2 fields, 1 more than the header)"),
    ],
)
def test_rows_of_which_none_can_be_read_are_refused_with_the_reason(
    times: str, why: str, until: str, place: Workplace
) -> None:
    Path("v.csv").write_text("\n".join(["week", *times.split(" "), ""]))
    Path("job.toml").write_text(
        '[jobs.v]\nstatistic = "count"\nevents = "v.csv"\nstate = "v.db"\ntime = "week"\n'
        'every = "1d"\nstart = "2024-03-01"\nwindows = 100\nepsilon = "1"\n'
        f'privacy-unit = "visit"\nuntil = "{until}"\nbad-rows = "quarantine:bad.csv"\n'
    )
    for more in (["--dry-run"], []):
        said = place.plain("run", "job.toml", *more)
        assert said.code == 2
        assert "No row can be counted" in said.err
        assert why in said.err
        assert "There are no rows" not in said.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("sign", "option", "key"), [(";", "';'", ";"), ("|", "'|'", "|"), ("\t", "tab", "tab")]
)
def test_separator_of_quoted_names_is_found(
    sign: str, option: str, key: str, place: Workplace
) -> None:
    Path("v.csv").write_text(f'"week"{sign}"number"\n"2024-03-04"{sign}1\n"2024-03-11"{sign}2\n')
    place.plain("init", "v.csv", *SAID).fine()
    (job,) = tomllib.loads(Path("nightly.toml").read_text())["jobs"].values()
    assert (job["separator"], job["time"]) == (key, "week")
    said = place.plain(
        "release", "count", "v.csv", "--time", "week", "--every", "1d", "--start", "2024-03-01",
        "--windows", "9", "--epsilon", "1", "--until", "2024-03-05",
    ).refused()  # fmt: skip
    assert f"say which character separates columns, --separator {option}" in said


@pytest.mark.usefixtures("folder")
def test_table_of_groups_without_header_is_refused(place: Workplace) -> None:
    Path("v.csv").write_text(visits(["Nord", "Ost", "Nord"], "time,clinic"))
    Path("groups.csv").write_text("Nord\nOst\n")
    options = ("--group-by", "clinic", "--groups", "groups.csv", "--other-group", "other")
    line = (
        *("--time", "time", "--every", "1d", "--start", "2024-03-01", "--windows", "9"),
        *("--epsilon", "1", "--until", "2024-03-04"),
    )
    words = "the first line of --groups groups.csv must be 'clinic', the column of the groups"
    assert words in place.plain("init", "v.csv", *SAID, *options).refused()
    assert words in place.plain("release", "count", "v.csv", *line, *options).refused()
    assert not Path("v.counton.db").exists()
    Path("groups.csv").write_text("clinic\nNord\nOst\n")
    place.plain("release", "count", "v.csv", *line, *options).fine()


@pytest.mark.usefixtures("folder")
def test_comments_leave_out_columns_without_a_name(place: Workplace) -> None:
    Path("v.csv").write_text('"","time","patient"\n"1","2024-03-01","a"\n"2","2024-03-02","b"\n')
    place.plain("init", "v.csv").fine()
    assert "names the user (patient), with" in Path("nightly.toml").read_text()
