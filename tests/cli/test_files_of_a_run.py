"""Files of one run: none takes another's place, also where both are still to be made."""

from collections.abc import Callable

import pytest

from .conftest import Workplace

EVENTS = ["00:10,a", "00:50,b", "01:30,a"]
Contents = Callable[[], dict[str, bytes]]


@pytest.mark.parametrize("part", ["", "-wal", "-shm", "-journal", ".key"])
@pytest.mark.parametrize("through_a_link", [False, True])
def test_an_output_takes_no_place_of_a_new_state(
    part: str, through_a_link: bool, place: Workplace, contents: Contents
) -> None:
    events = place.write("e.csv", EVENTS)
    folder = place.folder
    (folder / "link").symlink_to(folder, target_is_directory=True)
    before = contents()
    kept = folder / f"new.csv{part}"
    out = (folder / "link" if through_a_link else folder) / kept.name
    state = str(folder / "new.csv")
    link = folder / "out.csv"
    if part:  # no ending of a table: a link has one
        link.symlink_to(out)
        out = link
    said = place(
        "release", "count", events, *place.new(state=state), "--output", str(out)
    ).refused()
    assert "which the run reads or keeps, and would be overwritten; give another path" in said
    assert contents() == before


@pytest.mark.parametrize(
    ("option", "name"), [("--output", "k.csv"), ("--chart", "k.png"), ("--chart", "s.png")]
)
def test_an_output_takes_no_place_of_a_new_key(
    option: str, name: str, place: Workplace, contents: Contents
) -> None:
    events = place.write("e.csv", EVENTS)
    before = contents()
    path = str(place.folder / name)
    kept = {"key": path} if name[0] == "k" else {"state": path}
    said = place("release", "count", events, *place.new(**kept), option, path).refused()
    assert "which the run reads or keeps, and would be overwritten; give another path" in said
    assert contents() == before


def test_table_and_picture_are_two_files(place: Workplace, contents: Contents) -> None:
    events = place.write("e.csv", EVENTS)
    (place.folder / "out.csv").symlink_to(place.folder / "out.png")
    before = contents()
    files = [str(place.folder / name) for name in ("out.csv", "out.png")]
    done = place(
        "release", "count", events, *place.new(), "--output", files[0], "--chart", files[1]
    )
    assert (done.code, contents()) == (2, before)


@pytest.mark.parametrize("part", ["", "-wal"])
def test_a_key_takes_no_place_of_a_state(part: str, place: Workplace, contents: Contents) -> None:
    events = place.write("e.csv", EVENTS)
    before = contents()
    key = f"{place.state}{part}"
    said = place("release", "count", events, *place.new(key=key)).refused()
    assert f"--key {key} is also a file of the state" in said
    assert "give another file for the key" in said
    assert contents() == before


def test_a_missing_folder_is_the_states_and_not_the_keys(place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    said = place(
        "release", "count", events, *place.new(state=str(place.folder / "no" / "s.db"))
    ).refused()
    assert "cannot be created (its folder does not exist): make the folder" in said
    assert "key file" not in said


# ------------------------------------------------------------------------------- limit first


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 2),
        (["--budget-epsilon", "-1"], 2),
        (["--budget-epsilon", "1", "--budget-age", "-2"], 2),
        (["--budget-epsilon", "1", "--budget-approximate-delta", "2"], 2),
        (["--budget-relation", "replace"], 2),
    ],
)
def test_ledger_with_invalid_budget_creates_no_state(
    words: list[str], code: int, place: Workplace, contents: Contents
) -> None:
    assert place("ledger", str(place.state), *words).code == code
    assert contents() == {}


@pytest.mark.parametrize(
    ("ending", "theirs"),  # the table, its description, or a table described by it
    [("csv", "csv.json"), ("csv.json", "csv"), ("json", "json"), ("parquet", "parquet")],
)
def test_a_table_is_replaced_by_its_own_stream_alone(
    ending: str, theirs: str, place: Workplace, contents: Contents
) -> None:
    events = place.write("e.csv", ["00:10,a", "01:10,b"])
    out = ["--output", str(place.folder / f"out.{ending}")]
    place("release", "count", events, *place.new(), *out).fine()
    place.write("e.csv", ["00:10,a", "01:10,b", "02:10,b"])
    place("release", "count", events, *place.again, *out).fine()
    table = contents()
    # Another state, also by a link; another name in the state; the state and its key lost.
    other = place.new(state=str(place.folder / "other.db"))
    said = place(
        "release", "count", events, *other, "--output", str(place.folder / f"out.{theirs}")
    ).refused()
    assert "was released by another stream ('count'), and this one would replace it" in said
    assert "give another --output, or move this table away" in said
    for name in {ending, theirs} & {one.removeprefix("out.") for one in table}:
        link = place.folder / f"link.{name}"
        link.symlink_to(f"out.{name}")
        place("release", "count", events, *other, "--output", str(link)).refused()
    place("release", "count", events, *place.new(), "--stream", "more", *out).refused()
    place("release", "count", events, *place.new(), "--stream", "more").fine()
    place("release", "count", events, *place.again, "--stream", "more", *out).refused()
    for path in place.folder.glob("state.db*"):
        path.unlink()
    place("release", "count", events, *place.new(), *out).refused()
    kept = {name: one for name, one in contents().items() if name.startswith("out")}
    assert kept == {name: one for name, one in table.items() if name.startswith("out")}
    # A file of another program is no table of a stream, and a description is no table.
    free = place.folder / f"free.{ending}"
    free.write_bytes(b"PAR1" if ending == "parquet" else b"{}")
    free.with_name(f"{free.name}.json").write_text('{"name": "visits", "description": {}}')
    free.with_name(f"{free.name}.json.json").write_bytes(table.get(f"out.{ending}.json", b""))
    place("release", "count", events, *other, "--output", str(free)).fine()
    place("export", str(place.folder / "other.db"), "--output", str(free)).fine()
    assert "by another stream" in place("export", str(place.folder / "other.db"), *out).refused()
