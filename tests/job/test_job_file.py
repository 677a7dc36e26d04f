"""Job files: what they may hold, and what is refused."""

from pathlib import Path

import pytest

from counton.base.errors import CountonError, InvalidInputError
from counton.job.incompatible import refuse_of_service
from counton.job.job_file import load, load_each, published_to, select_jobs
from counton.job.job_file_tables import read_table, read_tables
from counton.job.json_schema import schema
from counton.job.option_fields import Section, option
from counton.job.statistics import all_models
from counton.job.statistics.count import CountJob

FILE = """
[defaults]
state = "v.db"
events = "e.csv"
time = "time"
every = "1d"
start = 2024-03-01
windows = 30
epsilon = 0.5

[jobs.visits]
group-by = "page"
groups = ["home", "shop"]
output = "visits.csv"

[jobs.paid]
statistic = "average"
value = "paid"
lower = 0
upper = 9
resolution = "0.5"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nightly.toml"
    path.write_text(FILE)
    return path


def refused(file: Path, text: str) -> str:
    """Return the message with which a file of this text is refused."""
    file.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        load(file)
    return str(caught.value)


def test_load_returns_jobs_with_defaults_and_paths_of_the_folder(file: Path) -> None:
    jobs = load(file)
    assert list(jobs) == ["visits", "paid"]
    visits = jobs["visits"]
    assert (visits.statistic, visits.stream, str(visits.epsilon)) == ("count", "visits", "1/2")
    assert (visits.start, visits.value_of("groups")) == ("2024-03-01", ("home", "shop"))
    assert visits.events == str(file.parent / "e.csv")
    assert visits.output == str(file.parent / "visits.csv")
    assert visits.value_of("group_by") == ("page",)
    assert not jobs["paid"].has_stated("group_by")


def test_load_ignores_defaults_of_other_statistics(file: Path) -> None:
    file.write_text(FILE.replace("epsilon = 0.5", 'epsilon = 0.5\nlevels = "a,b"\ntop = 3'))
    assert list(load(file)) == ["visits", "paid"]


def test_load_gives_every_report_its_statistics(file: Path) -> None:
    report = """
[report.all]
group-by = "page"
groups = ["home"]
[report.all.time]
statistic = "average"
value = "paid"
lower = 0
upper = 9
resolution = 1
[report.all.rows]
"""
    file.write_text(FILE.partition("[jobs.visits]")[0] + report)
    job = load(file)["all"]
    assert job.statistic == "report"
    assert list(job.value_of("statistics")) == ["time", "rows"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("[jobs.visits]", "[job.visits]"), "unknown section 'job'"),
        (("[jobs.visits]", "[limit]\nrho = 1\n[jobs.visits]"), "counton ledger"),
        (('time = "time"', 'tiem = "time"'), "did you mean time"),
        (("windows = 30", 'windows = "30"'), "windows 30 is not a whole number"),
        (("windows = 30", "windows = true"), "windows is not a whole number"),
        (("windows = 30", "windows = 0"), "at least 1"),
        (("epsilon = 0.5", "epsilon = true"), "epsilon is not a number"),
        (("epsilon = 0.5", "epsilon = 10:00:00"), "is not a number"),
        (('statistic = "average"', 'statistic = "mean"'), "did you mean average"),
        (('statistic = "average"', "statistic = 3"), "give one of count, sum"),
        (('group-by = "page"', 'lower = 3\ngroup-by = "page"'), "lower', which is for"),
        (('group-by = "page"', 'value = "n"'), "did you mean count-column"),
        (('group-by = "page"', 'at_least = 3\ngroup-by = "page"'), "at_least"),
        (('group-by = "page"', "file_format = 'csv'"), "did you mean format"),
        (('group-by = "page"', 'comment = "ours"'), "no option 'comment'; leave it out"),
        (("epsilon = 0.5", "epsilon = ["), "not valid TOML"),
        (('events = "e.csv"', ""), "the key 'events' is missing"),
        (('state = "v.db"', ""), "the key 'state' is missing"),
        (("[jobs.visits]", "[jobs.visits]\nambiguous = 'twice'"), "ambiguous twice"),
        (('groups = ["home", "shop"]', "groups = { page = 'home' }"), "without a list"),
        (('groups = ["home", "shop"]', "groups = [['home']]"), "groups"),
        (('groups = ["home", "shop"]', "groups = [{ a = 1 }]"), "groups"),
        (('group-by = "page"', "group-by = [1, ['a']]"), "by"),
        (('output = "visits.csv"', 'output = "a\\u0000b"'), "jobs.visits.out"),
        (('output = "visits.csv"', '"a\\u0000b" = 1'), "a key of jobs.visits"),
        (("[jobs.visits]", "[jobs]\nvisits = 3\n[jobs.others]"), "write the line [jobs.visits]"),
        (("[defaults]", "defaults = 3\n[serve]"), "write the line [defaults]"),
        (("[defaults]", "[report.visits]\n[defaults]"), "a job and a report called 'visits'"),
        (("[defaults]", "[report]\nall = 3\n[defaults]"), "write the line [report.all]"),
        (("[defaults]", "[report.all]\ngroup-by = 'page'\n[defaults]"), "contains no statistic"),
    ],
)
def test_load_refuses_invalid_job_file(changed: tuple[str, str], words: str, file: Path) -> None:
    assert words in refused(file, FILE.replace(*changed))


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        (('every = "1d"', "every = 1d"), "every"),
        (('time = "time"', "time = time"), "time"),
        (('time = "time"', 'time = "time'), "time"),
        (('time = "time"', 'time "time"'), "time"),
        (('time = "time"', 'time = "time"\ntime = "at"'), "time"),
        (("windows = 30", "windows ="), "windows"),
        (("epsilon = 0.5", "epsilon = 0,5"), "epsilon"),
        (("start = 2024-03-01", "start = ["), "start"),
        (('group-by = "page"', 'group-by = ["page",'), "group-by"),
        ((FILE, FILE.rstrip() + "\nuser"), "user"),
    ],
)
def test_load_names_key_that_is_not_valid_toml(
    changed: tuple[str, str], key: str, file: Path
) -> None:
    assert changed[0] in FILE
    told = refused(file, FILE.replace(*changed))
    assert f"not valid TOML: key '{key}': " in told
    assert "write text and dates in quotation marks" in told


@pytest.mark.parametrize(
    "changed", [("[jobs.visits]", "[jobs.visits"), ("[defaults]", "[defaults")]
)
def test_load_names_no_key_of_another_line(changed: tuple[str, str], file: Path) -> None:
    told = refused(file, FILE.replace(*changed))
    assert "not valid TOML: Expected ']'" in told
    assert "key '" not in told


@pytest.mark.parametrize(
    "text", ["", "[defaults]\nwindows = 3", "[jobs]", "[serve]\npublic = true"]
)
def test_load_refuses_a_file_without_jobs(text: str, file: Path) -> None:
    assert "has no jobs" in refused(file, text)


def test_load_refuses_a_file_that_cannot_be_read(file: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load(file.parent / "other.toml")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load(file.parent)
    with pytest.raises(InvalidInputError, match="NUL"):
        load("a\0b")
    file.write_bytes(b"a = '\xff'")
    with pytest.raises(InvalidInputError, match="not valid TOML"):
        load(file)


def test_load_refuses_tables_that_are_nested_too_deep(file: Path) -> None:
    assert "nested too deep" in refused(file, "a = " + "[" * 200 + "]" * 200)
    assert "nested too deep" in refused(file, ".".join(["a"] * 50_000) + " = 1")


@pytest.mark.parametrize(
    "key", ["events", "state", "key", "rollback-guard", "output", "chart", "bad-rows"]
)
@pytest.mark.parametrize("value", ['""', '"  "', '"${NOTHING}"', '["e.csv", ""]'])
def test_load_refuses_an_empty_path(
    key: str, value: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joined to the folder of the file, it would be the folder."""
    if value.startswith("[") and key != "events":
        return
    monkeypatch.setenv("NOTHING", "")
    if key == "bad-rows":
        value = value.replace('"', '"quarantine:', 1)
    lines = [line for line in FILE.splitlines() if not line.startswith(f"{key} ")]
    text = "\n".join(lines).replace("[defaults]", f"[defaults]\n{key} = {value}")
    message = refused(file, text)
    assert f"job 'visits' of {str(file)!r}: {key} " in message


def test_load_refuses_empty_groups_in_report(file: Path) -> None:
    message = refused(
        file, f'{FILE}[report.all]\n[report.all.rows]\ngroup-by = "page"\ngroups = ""\n'
    )
    assert "groups" in message


def test_load_accepts_list_of_groups_longer_than_path(file: Path) -> None:
    names = ",".join(f"group-{number}" for number in range(200))
    file.write_text(FILE.replace('["home", "shop"]', f'"{names}"'))
    assert load(file)["visits"].value_of("groups") == names


def test_load_reads_list_of_groups_as_names_despite_file(file: Path) -> None:
    (file.parent / "home").write_text("page\nhome\n")
    assert load(file)["visits"].value_of("groups") == ("home", "shop")
    file.write_text(FILE.replace('["home", "shop"]', '"home"'))
    assert load(file)["visits"].value_of("groups") == str(file.parent / "home")


@pytest.mark.parametrize(
    "key",
    [
        "time",
        "time-format",
        "timezone",
        "start",
        "until",
        "group-by",
        "groups",
        "other-group",
        "user",
        "max-contributions",
    ],
)
def test_load_refuses_a_line_of_init_that_is_still_empty(key: str, file: Path) -> None:
    lines = [line for line in FILE.splitlines() if not line.startswith(f"{key} ")]
    message = refused(file, "\n".join([*lines, f'{key} = ""']))
    assert f"these keys are empty: {key}. Fill" in message
    assert ("protect single rows" in message) == (key == "user")


# --------------------------------------------------------------------- variables of the environment
def test_load_replaces_variables_in_texts_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = FILE.replace('"v.db"', '"${PLACE}/v.db"').replace('"e.csv"', '"${WHERE_1}/e.csv"')
    named = named.replace("[jobs.visits]", '[jobs.visits]\ntitle = "$PLACE, ${TITLE} and $5 {x}"')
    monkeypatch.setenv("TITLE", "${PLACE}")
    message = refused(file, named)
    assert "PLACE (defaults.state), WHERE_1 (defaults.events)" in message
    monkeypatch.setenv("PLACE", str(file.parent / "states"))
    monkeypatch.setenv("WHERE_1", ".")
    visits = load(file)["visits"]
    assert visits.state == str(file.parent / "states" / "v.db")
    assert visits.events == str(file.parent / "e.csv")
    assert visits.title == "$PLACE, ${PLACE} and $5 {x}"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('title = "${A-b}"', "jobs.visits.title has '${A-b}', which is not a variable"),
        ('title = "${"', "is not a variable"),
        ('events = ["a.csv", "${"]', "jobs.visits.events has '${'"),
        ('query = "select ${A}"', "jobs.visits.query contains ${, and environment variables"),
    ],
)
def test_load_refuses_invalid_variable(line: str, words: str, file: Path) -> None:
    assert words in refused(file, FILE.replace("[jobs.visits]", f"[jobs.visits]\n{line}"))


# ---------------------------------------------------------------------------- errors of single jobs
def test_load_each_returns_an_error_in_place_of_its_job(file: Path) -> None:
    file.write_text(FILE.replace("lower = 0", "lower = 99"))
    jobs = load_each(file)
    assert isinstance(jobs["visits"], CountJob)
    assert not isinstance(jobs["paid"], CountonError)  # the table of options compares them later
    file.write_text(FILE.replace("lower = 0", "lower = false"))
    error = load_each(file)["paid"]
    assert isinstance(error, InvalidInputError)
    assert str(error).startswith(f"job 'paid' of {str(file)!r}: lower ")


def test_load_each_refuses_events_from_file_and_caller(file: Path) -> None:
    jobs = load_each(file, object())
    assert all(isinstance(job, InvalidInputError) for job in jobs.values())
    file.write_text(FILE.replace('events = "e.csv"', ""))
    rows = object()
    job = load_each(file, rows)["visits"]
    assert isinstance(job, CountJob)
    assert job.events is rows


@pytest.mark.parametrize(
    ("line", "is_taken"),
    [
        ("", True),
        ('bad-rows = "fail"', True),
        ("max-bad-rows = 1000", True),
        ('separator = ","', True),
        ('separator = ";"', False),
        ('bad-rows = "quarantine:b.csv"', False),
        ("max-empty-windows = 2", False),
        ('until = "latest-event"', False),
        ('until = "2024-03-04"', False),
        ('query = "select 1"', False),
    ],
)
def test_load_without_rows_refuses_options_that_a_service_decides(
    line: str, is_taken: bool, file: Path
) -> None:
    text = FILE.replace('events = "e.csv"', line).replace('output = "visits.csv"\n', "")
    file.write_text(text)
    jobs = load_each(file, without_rows=True)
    assert isinstance(jobs["visits"], CountJob) == is_taken
    with pytest.raises(InvalidInputError, match="the key 'events' is missing"):
        load(file)


def test_refuse_of_service_names_option_and_value() -> None:
    with pytest.raises(
        InvalidInputError, match=r"output=t\.csv cannot be used in a service, because"
    ):
        refuse_of_service(CountJob(output="t.csv"))
    refuse_of_service(CountJob(time="at", every="1h", append=True, allow_empty_windows=True))


def test_select_jobs_returns_named_jobs_in_file_order() -> None:
    jobs = {"a": 1, "b": 2, "c": 3}
    assert select_jobs(jobs, None) == jobs
    assert list(select_jobs(jobs, "c, a")) == ["a", "c"]
    assert list(select_jobs(jobs, ["b"])) == ["b"]
    for only in ("d", "", "a,"):
        with pytest.raises(InvalidInputError, match="its jobs are a, b, c"):
            select_jobs(jobs, only)


# ----------------------------------------------------------------------------------- other sections
@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("[publish]\nwhom = 3\n", "whom"),
        ("[publish]\ntoo = 'a.db'\n", "did you mean to"),
        ("[publish]\n", "does not name the database"),
        ('[publish]\nto = "mysql://h/d"\n', "'to' in [publish]"),
        ("[publish]\nto = 3\n", "to 3 is not the path"),
        ('[publish]\nto = " "\n', "is empty"),
        ('[publish]\nto = "."\n', "is a folder"),
        ('[publish]\nto = "nowhere/public.db"\n', "lies in a folder that does not exist"),
    ],
)
def test_published_to_refuses_invalid_database(section: str, words: str, file: Path) -> None:
    file.write_text(FILE + section)
    with pytest.raises(InvalidInputError) as caught:
        published_to(file)
    assert words in str(caught.value)
    assert repr(str(file)) in str(caught.value)


def test_published_to_returns_the_database_of_the_file(file: Path) -> None:
    assert published_to(file) is None
    file.write_text(f'{FILE}[publish]\nto = "public.db"\n')
    assert published_to(file) == str(file.parent / "public.db")
    file.write_text(f'{FILE}[publish]\nto = "postgresql://ann@db/public"\n')
    assert published_to(file) == "postgresql://ann@db/public"


class Settings(Section):
    """The options of a section."""

    heading = "[serve]"

    is_public: bool = option("Whether anybody may read.", default=False, key="public")
    lines: int = option("Number of lines.", default=3)


def test_read_table_parses_a_section_as_its_model(file: Path) -> None:
    file.write_text(f"{FILE}[serve]\npublic = true\n")
    assert read_table(file, read_tables(file), "serve", Settings) == Settings(is_public=True)
    file.write_text(FILE)
    assert read_table(file, read_tables(file), "serve", Settings) == Settings()
    file.write_text(f"{FILE}[serve]\npublic = 'yes'\n")
    with pytest.raises(InvalidInputError) as caught:
        read_table(file, read_tables(file), "serve", Settings)
    assert f"[serve] of {str(file)!r}: public yes is neither true nor false" in str(caught.value)


# ------------------------------------------------------------------------------------------- schema
def test_schema_has_every_option_of_every_statistic() -> None:
    tables = schema()["$defs"]
    for name, model in all_models().items():
        keys = {field.alias for field in model.model_fields.values()}
        assert keys == tables[name]["properties"].keys()
    assert tables["count"]["properties"]["groups"]["anyOf"]
    assert tables["count"]["properties"]["max-bad-rows"]["type"] == "integer"
    shared = schema()["properties"]["defaults"]["properties"]
    assert {"levels", "value", "statistic"} < shared.keys()
