"""What is refused: the message says what is wrong and what to do, and nothing changes."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from counton.continual import design

from .conftest import Workplace

EVENTS = ["00:10,a", "00:50,b", "01:30,a", "03:00,b"]

Contents = Callable[[], dict[str, bytes]]

OPTIONS: list[tuple[dict[str, str | None], str]] = [
    ({"epsilon": "-1"}, r"--epsilon -1 is not above 0"),
    ({"epsilon": "nan"}, r"--epsilon nan is not"),
    ({"epsilon": None}, r"a new stream of count needs --epsilon or --rho"),
    ({"delta": "1"}, r"--delta 1 is not between 0 and 1"),
    ({"rho": "1"}, r"--rho 1 cannot be used with --epsilon 100"),
    (
        {"epsilon": None, "delta": "1e-9", "rho": "1"},
        r"--rho 1 cannot be used with --delta 1e-9",
    ),
    ({"epsilon": None, "delta": "1e-9"}, r"a new stream of count needs --epsilon or --rho"),
    ({"time": None}, r"a new stream of count needs --time"),
    ({"time": "when"}, r"has no column 'when'. Its columns are time, group"),
    ({"group_by": "colour"}, r"has no column 'colour'. Its columns are time, group"),
    (
        {"groups": None},
        r"--group-by group needs --groups or --unlisted-groups discover, because .* would reveal "
        r"whose rows",
    ),
    (
        {"group_by": None},
        r"--groups a,b needs --group-by",
    ),
    (
        {"groups": "a"},
        r"groups in column 'group' that are not listed: 'b' .*row 2.*--unlisted-groups drop",
    ),
    ({"windows": "six"}, r"'six' is not a whole number"),
    ({"confidence_level": "high"}, r"'high' is not a number"),
    ({"windows": "0"}, r"--windows 0 is below 1"),
    (
        {"windows": "2"},
        r"after the last window of the stream, 2, .* 2013-01-01T02:00:00.* Give --until",
    ),
    (
        {"until": "2013-01-02"},
        r"--until 2013-01-02T00:00:00.* is after the last window of the stream, 6",
    ),
    ({"until": "soon"}, r"--until soon is not a time; write ISO 8601"),
    ({"start": "then"}, r"--start then is not a time; write ISO 8601"),
    ({"every": "1x"}, r"--every 1x is not a length of time"),
    ({"strategy": "magic"}, r"--strategy magic is not known; give auto"),
    ({"confidence_level": "1"}, r"--confidence-level 1.0 is not between 0 and 1"),
    ({"other_group": " "}, r"--other-group is ' '"),
    (
        {"series": "all"},
        r"--series all is not possible for count; give cumulative, per-window",
    ),
    (
        {"unlisted_groups": "ignore"},
        r"--unlisted-groups ignore is not possible for count; give error, drop or discover",
    ),
    ({"format": "xls"}, r"--format xls is not possible for count; give csv, parquet or jsonl"),
    ({"output": "out.xls"}, r"'out.xls' has .* must end in one of .parquet, .csv"),
    ({"output": "nowhere/out.csv"}, r"the folder of 'nowhere/out.csv' does not exist"),
    ({"chart": "chart.gif"}, r"'chart.gif' has .* must end in one of .png, .svg, .pdf"),
]


@pytest.mark.parametrize(("changed", "words"), OPTIONS, ids=lambda value: str(value)[:40])
def test_options_out_of_range_are_refused_without_files(
    changed: dict[str, str | None], words: str, place: Workplace
) -> None:
    events = place.write("e.csv", EVENTS)
    said = place("release", "count", events, *place.new(**changed)).refused()
    assert re.search(words, said)


@pytest.mark.parametrize(
    "option",
    ["groups", "state", "time", "key", "stream", "privacy_unit", "group_by", "output", "chart"],
)
def test_bytes_of_another_encoding_leave_no_trace(option: str, place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    word = {"groups": "a,b,\udc80", "output": "\udc80.csv", "chart": "\udc80.png"}.get(
        option, "\udc80"
    )
    said = place("release", "count", events, *place.new(**{option: word})).refused()
    assert re.search(
        rf"{option.replace('_', '-')} is '.*\\udc80.*', which is not valid UTF-8", said
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_refusal_of_file_in_utf_16_prints_no_bytes(
    encoding: str, place: Workplace, contents: Contents
) -> None:
    events = Path(place.write("e.csv", EVENTS))
    events.write_bytes(events.read_text().encode(encoding))
    before = contents()
    done = place.count(str(events))
    assert done.code == 2
    assert (
        "is UTF-16 or not text at all, and a csv file must be text in UTF-8; convert it" in done.err
    )
    assert done.err.rstrip("\n").isprintable()
    assert contents() == before


def test_a_truncated_file_is_no_matter_of_permissions(place: Workplace) -> None:
    import gzip

    whole = gzip.compress(Path(place.write("e.csv", EVENTS)).read_bytes())
    (place.folder / "t.csv.gz").write_bytes(whole[:30])
    said = place.count(str(place.folder / "t.csv.gz")).refused()
    assert "permissions" not in said
    assert "it may be truncated: write it again" in said


@pytest.mark.parametrize(("upper", "resolution"), [("1e300", "1"), ("1", "1e-300")])
def test_numbers_of_hundreds_of_digits_are_shown_short(
    upper: str, resolution: str, place: Workplace
) -> None:
    new = place.new(value="group", lower="0", upper=upper, resolution=resolution)
    done = place("release", "sum", place.write("e.csv", EVENTS), *new)
    assert done.code == 2
    assert (
        "one unit may change a sum by 1e+300 times the resolution; at most 2^40 times are allowed"
        in done.err
    )
    assert len(done.err) < 200


@pytest.mark.parametrize(
    ("option", "name"), [("output", "e"), ("output", "state"), ("output", "groups"), ("chart", "k")]
)
def test_output_over_file_of_run_is_refused(
    option: str, name: str, place: Workplace, contents: Contents
) -> None:
    end = {"output": "csv", "chart": "png"}[option]
    files = {n: f"{place.folder / n}.{end}" for n in ("e", "state", "k", "groups")}
    place.write(f"e.{end}", EVENTS)
    (place.folder / f"groups.{end}").write_text("group\na\nb\n")
    listed = files["groups"] if end == "csv" else "a,b"
    new = place.new(state=files["state"], key=files["k"], groups=listed)
    place("release", "count", files["e"], *new, "--format", "csv")
    before = contents()
    for path in (files[name], str(place.folder / "link") + f".{end}"):
        if "link" in path:
            Path(path).symlink_to(files[name])
        said = place(
            "release",
            "count",
            files["e"],
            *new,
            "--format",
            "csv",
            f"--{option.replace('_', '-')}",
            path,
        ).refused()
        assert "which the run reads or keeps, and would be overwritten; give another path" in said
    Path(path).unlink()
    assert contents() == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder.csv", r"folder.csv' is a folder; name a file in it"),
        (
            "out.csv.gz",
            r"out.csv.gz' would be compressed, and this format is not; remove the ending .gz",
        ),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_before_release(
    name: str, words: str, place: Workplace
) -> None:
    events = place.write("e.csv", EVENTS)
    (place.folder / "folder.csv").mkdir()
    said = place.count(events, "--output", str(place.folder / name)).refused()
    assert re.search(words, said)


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.json", "chart.png"])
def test_failed_output_keeps_old_file_and_can_be_repeated(
    name: str, place: Workplace, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.folder / name
    option = "--chart" if name.endswith("png") else "--output"
    place.count(place.write("e.csv", EVENTS))
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = contents()
    with monkeypatch.context() as patched:
        patched.setattr("os.replace", full)
        done = place(
            "release", "count", str(place.folder / "e.csv"), *place.again, option, str(path)
        )
    assert done.code == 1
    # A chart is drawn when all else is written and told.
    assert (done.out == "") == (option == "--output")
    said = " ".join(done.err.split())
    assert re.search(r"could not be written \(No space left on device\): check .* again", said)
    assert set(contents()) == set(before)
    assert path.read_text() == "old"
    place("release", "count", str(place.folder / "e.csv"), *place.again, option, str(path)).fine()
    assert path.read_bytes() != b"old"


DATA = [
    ("time,group\n2013-01-01T00:00Z,a\nnoon,b\n", r"row 2 .* cannot be read .*'noon'.* ISO 8601"),
    ("time,group\n2013-01-01T00:00Z,a\n,b\n", r"row 2 .* has no time"),
    ("time,group\n2013-01-01T00:00Z,a,x,y\n", r"cannot be read as csv"),
]


@pytest.mark.parametrize(("text", "words"), DATA, ids=lambda value: value[:40])
@pytest.mark.parametrize("exists", [False, True])
def test_refused_events_leave_state_unchanged(
    text: str, words: str, exists: bool, place: Workplace
) -> None:
    if exists:
        place.count(place.write("e.csv", EVENTS))
    (place.folder / "bad.csv").write_text(text)
    said = place.count(str(place.folder / "bad.csv"), "--until", "2013-01-01T05:00").refused()
    assert re.search(words, said)


def test_no_events_release_nothing_unless_until_is_stated(place: Workplace) -> None:
    (place.folder / "none.csv").write_text("time,group\n")
    said = place.count(str(place.folder / "none.csv")).refused()
    assert "There are no rows, so none tells which windows have ended. Give --until" in said


SUMS: list[tuple[dict[str, str | None], str]] = [
    ({"value": None}, r"a new stream of sum needs --value"),
    ({"lower": "5", "upper": "1"}, r"--lower 5 is not below --upper 1"),
    (
        {"resolution": "3"},
        r"upper is 10, which is not a multiple of the resolution 3; give 9 or 12",
    ),
    ({"value": "group"}, r"row 1 .* not a finite number in column 'group'"),
]


def sum_options(place: Workplace, **changed: str | None) -> list[str]:
    options = {"value": "value", "lower": "0", "upper": "10", "resolution": "0.5"} | changed
    return place.new(**options)


@pytest.mark.parametrize(("changed", "words"), SUMS, ids=lambda value: str(value)[:40])
def test_sums_without_sound_bounds_are_refused(
    changed: dict[str, str | None], words: str, place: Workplace
) -> None:
    events = place.write("e.csv", ["00:10,a,1", "02:10,b,1"], "time,group,value")
    said = place("release", "sum", events, *sum_options(place, **changed)).refused()
    assert re.search(words, said)


def test_sums_beyond_the_exact_range_are_refused(
    place: Workplace, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(design, "LARGEST_SUM", 60)  # in steps of 0.5
    events = place.write("e.csv", ["00:10,a,10", "01:10,a,10", "02:10,a,10.5"], "time,group,value")
    before = contents()
    place("release", "sum", events, *sum_options(place), "--until", "2013-01-01T02:00").fine()
    grown = place.write("e.csv", ["00:10,a,10"] * 5, "time,group,value")
    before = contents()
    said = place(
        "release", "sum", grown, *sum_options(place, stream="s"), "--until", "2013-01-01T02:00"
    ).refused()
    words = r"the values add up to 100 measured units, and at most 60 are exact.*--resolution"
    assert re.search(words, said)
    assert contents() == before


CONTRADICTIONS: list[tuple[dict[str, str], str]] = [
    ({"epsilon": "2"}, r": --epsilon .here 2, there 100."),
    ({"every": "2h"}, r"stream 'count' exists .*: --every .here 2h, there 1h."),
    ({"groups": "a,b,c", "group_by": "group"}, r": --groups .here 3 groups .*, there 2 groups"),
    ({"strategy": "binary"}, r": --strategy .here binary, there auto."),
]


@pytest.mark.parametrize(("options", "words"), CONTRADICTIONS, ids=str)
def test_options_that_contradict_the_stream_are_refused(
    options: dict[str, str], words: str, place: Workplace
) -> None:
    events = place.write("e.csv", EVENTS)
    place.count(events)
    asked = [
        word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    said = place("release", "count", events, *place.again, *asked).refused()
    assert re.search(words, said)


def test_command_refuses_option_of_job_files(place: Workplace) -> None:
    done = place(
        "release", "count", place.write("e.csv", EVENTS), *place.new(), "--ambiguous", "latest"
    )
    assert (done.code, place.state.exists()) == (2, False)
    told = " ".join(done.err.split())
    assert "--ambiguous is an option of job files alone: let --plan --save-job nightly.toml" in told
