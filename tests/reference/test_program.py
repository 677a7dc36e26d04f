"""The program that runs alone: what it says of right files, of wrong ones, and of bad input."""

import ast
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counton import Key, PureDP, release
from counton.strategies import KAry
from proofs import reference

PROGRAM = Path(reference.__file__)
SUMS = "step,group,sum\n1,home,2\n1,shop,1\n2,home,2\n2,shop,1\n3,home,3\n3,shop,1\n"
ROWS = "day,page\n2024-03-01,home\n2024-03-01,home\n2024-03-01,shop\n2024-03-03,home\n"


def count(folder: Path, state: str, out: str, **more: Any) -> None:
    release(
        "count", folder / "rows.csv", state=folder / state, output=folder / out,
        time="day", every="1d", start="2024-03-01", until="2024-03-04", windows=5,
        group_by="page", groups=["home", "shop"], strategy="kary", guarantee=PureDP(1), **more,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A count of three days, its table, key and sums."""
    (tmp_path / "rows.csv").write_text(ROWS)
    count(tmp_path, "s.db", "out.json")
    shutil.copy(tmp_path / "s.db.key", tmp_path / "key")
    (tmp_path / "sums.csv").write_text(SUMS)
    return tmp_path


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own."""
    files = ["out.json", "key", "sums.csv"]
    return subprocess.run(
        [sys.executable, str(PROGRAM), "check", *files, *options],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip


def test_reference_runs_alone_with_one_package(folder: Path) -> None:
    modules = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(PROGRAM.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert modules - sys.stdlib_module_names == {"cryptography"}
    done = run(folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "6 values are right\n", "")
    copied = folder / "elsewhere"
    copied.mkdir()
    for file in (PROGRAM, *(folder / name for name in ("out.json", "out.json.json", "key"))):
        shutil.copy(file, copied)
    command = [sys.executable, "-I", "reference.py", "check", "out.json", "key", "../sums.csv"]
    alone = subprocess.run(command, cwd=copied, capture_output=True, text=True)
    assert (alone.returncode, alone.stdout) == (0, "6 values are right\n")


def test_reference_shows_measurements_and_releases(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(folder / name) for name in ("out.json", "key", "sums.csv")]
    assert reference.main(["check", *files, "--show"]) == 0
    said = capsys.readouterr().out
    shown = json.loads((folder / "out.json").read_text())
    for group in ("home", "shop"):
        values = [row["estimate"] for row in shown if row["group"] == group]
        assert f"released, from y alone: {values}" in said
    for line in said.splitlines():
        if line.startswith("  ("):
            counted, drawn = line.split(": ")[1].split(" = ")[0].split(" + ")
            assert int(counted) + int(drawn) == int(line.split(" = ")[1])
    assert any(node.index for step in (1, 2, 3) for node in KAry(5, 3).column(step))


def altered(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    """Another text in a file."""

    def apply(folder: Path) -> None:
        (folder / name).write_text(change((folder / name).read_text(encoding="utf-8")))

    return apply


def _another_value(text: str) -> str:
    rows = json.loads(text)
    rows[3]["estimate"] += 1
    return json.dumps(rows)


def _described(**terms: Any) -> Callable[[str], str]:
    def change(text: str) -> str:
        told = json.loads(text)
        told["description"]["terms"] |= terms
        return json.dumps(told)

    return change


CASES: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "another value": (altered("out.json", _another_value), 1, "not right: step 2 of 'shop'"),
    "another sum": (
        altered("sums.csv", lambda text: text.replace("3,home,3", "3,home,4")),
        1,
        "not right: step 3 of 'home' was released as",
    ),
    "another key": (
        altered("key", lambda text: f"counton-key-1:{Key.generate().derive(b'')[:32].hex()}"),
        2,
        "the key is not that of the stream",
    ),
    "no key": (altered("key", lambda text: text[:-9]), 2, "the key is no key of counton"),
    "another privacy budget": (
        altered("out.json.json", _described(guarantee={"guarantee": "pure", "epsilon": "2"})),
        2,
        "the key is not that of the stream, or its terms were changed",
    ),
    "a cut table": (
        altered("out.json", lambda text: text[:-40]),
        2,
        "is not JSON that counton wrote",
    ),
    "rows of others": (altered("out.json", lambda _: '[{"a": 1}]'), 2, "is not what counton"),
    "no rows": (altered("out.json", lambda _: "17"), 2, "is not what counton writes"),
    "no values": (
        altered("out.json", lambda _: "[]"),
        2,
        "the table has no released values: export one after its first release",
    ),
    "sums of other groups": (
        altered("sums.csv", lambda text: text.replace("shop", "help")),
        2,
        "there is no sum for step 1 and group 'shop'",
    ),
    "words for sums": (
        altered("sums.csv", lambda text: text.replace(",3\n", ",three\n")),
        2,
        "each row needs the columns step, group and sum",
    ),
    "other columns": (
        altered("sums.csv", lambda text: text.replace("sum", "total")),
        2,
        "each row needs the columns step, group and sum",
    ),
    "sums between numbers": (
        altered("sums.csv", lambda text: text.replace(",3\n", ",2.5\n")),
        2,
        "the sum of step 3 and group 'home' is 5/2: give a multiple of 1",
    ),
    "sums of a thousand digits": (
        altered("sums.csv", lambda text: text.replace(",3\n", f",{'9' * 1000}\n")),
        2,
        "of 1, at most 2^62 times as large",
    ),
    "sums with an exponent of nine digits": (
        altered("sums.csv", lambda text: text.replace(",3\n", ",1e999999999\n")),
        2,
        "a number is 1e999999999, which has too many digits",
    ),
    "a law with such an exponent": (
        altered("out.json.json", _described(law={"law": "discrete Laplace", "scale": "1e9999"})),
        2,
        "which has too many digits",
    ),
    "a strategy that would take for ever": (
        altered(
            "out.json.json",
            _described(
                strategy={"strategy": "SmoothBinary", "horizon": 9, "height": 10**6, "zeros": 9}
            ),
        ),
        2,
        "the key is not that of the stream, or its terms were changed",
    ),
    "values of a thousand digits": (
        altered(
            "out.json",
            lambda text: re.sub('"estimate": ?-?[0-9]', f'"estimate":{"1" * 1000}', text),
        ),
        1,
        "was released as 1111",
    ),
    "a step of a thousand digits": (
        altered(
            "out.json",
            lambda text: re.sub(
                '"window_index": ?1', f'"window_index": {"1" * 1000}', text, count=1
            ),
        ),
        2,
        "has step 1111111111111111111111111111111111111111..., but the stream has the steps 1 to 5",
    ),
    "a step before the first": (
        altered(
            "out.json",
            lambda text: re.sub('"window_index": ?1', '"window_index": 0', text, count=1),
        ),
        2,
        "has step 0, but the stream has the steps 1 to 5",
    ),
    "lists within lists": (
        altered("out.json.json", lambda _: "[" * 100_000),
        2,
        "is not JSON that counton wrote",
    ),
    "a field that never ends": (
        altered("sums.csv", lambda text: f'{text}"{"9" * 200_000}'),
        2,
        "the sums are not valid CSV",
    ),
    "bytes": (
        lambda folder: (folder / "out.json").write_bytes(b"\xff\xfe\x00"),  # type: ignore[dict-item]
        2,
        "is not JSON that counton wrote",
    ),
    "no file": (lambda folder: (folder / "out.json").unlink(), 2, "No such file"),
    "no description": (lambda folder: (folder / "out.json.json").unlink(), 2, "No such file"),
}


@pytest.mark.parametrize("name", CASES)
def test_reference_reports_each_mistake_with_its_exit_code(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, code, words = CASES[name]
    change(folder)
    files = [str(folder / name) for name in ("out.json", "key", "sums.csv")]
    assert reference.main(["check", *files]) == code
    said = capsys.readouterr()
    (line,) = f"{said.out}{said.err}".splitlines()
    assert words in line, line
    assert len(line) < 2500


@pytest.mark.parametrize("words", [[], ["check"], ["check", "a", "b"], ["show", "a", "b", "c"]])
def test_reference_without_files_prints_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        reference.main(words)
    assert ended.value.code == 2
    assert "RELEASED.json KEY SUMS.csv" in capsys.readouterr().err


def test_a_key_of_several_states_needs_its_salt(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = Key.generate()
    shared.save(folder / "shared")
    count(folder, "t.db", "more.json", key=folder / "shared")
    files = [str(folder / name) for name in ("more.json", "shared", "sums.csv")]
    assert reference.main(["check", *files]) == 2
    assert "the key is not that of the stream" in capsys.readouterr().err
    with closing(sqlite3.connect(folder / "t.db")) as connection:
        (salt,) = connection.execute("SELECT key_salt FROM counton_streams").fetchone()
    assert reference.main(["check", *files, "--salt", salt]) == 0
    assert capsys.readouterr().out == "6 values are right\n"


def test_a_strategy_of_another_package_needs_its_matrices() -> None:
    with pytest.raises(
        reference.UnreadableError, match="the strategy Ternary belongs to another package"
    ):
        reference.strategy_of({"strategy": "Ternary"})
