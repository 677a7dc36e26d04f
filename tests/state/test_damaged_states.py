"""Damaged states: each command refuses them in a sentence, or shows the same numbers.

No damage gives other numbers of which `verify` is content, and none a traceback. The state is that
of this version in ``tests/corpus``, with rows in every table.
"""

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import damages
import pytest
from click.testing import CliRunner
from corpus_states import about, copied
from damages import TABLES, Damage

import counton
from counton.base.errors import CountonError
from counton.cli.app import app
from counton.cli.exits import ExitCode, exit_code
from counton.state import journal, public_rows, verify
from tools import corpus

VERSION = counton.__version__
SEED = 2024
#: Refusals of a state: it is damaged; it lacks a release that its witness knows; a stream or an
#: option is another one; its key is; its witness is missing.
REFUSED = (
    ExitCode.CORRUPT_STATE, ExitCode.STATE_ROLLED_BACK, ExitCode.INVALID_INPUT,
    ExitCode.NOISE_KEY, ExitCode.UNAVAILABLE,
)  # fmt: skip
#: Commands that read a state and write nothing.
COMMANDS = (
    ("inspect", "{state}"), ("inspect", "{state}", "--json"), ("ledger", "{state}", "--history"),
    ("export", "{state}", "--stream", "revised"), ("methods", "{state}", "--stream", "orders"),
)  # fmt: skip


class Trial:
    """States that are damaged one after the other, and what becomes of each."""

    def __init__(self, folder: Path) -> None:
        self.whole = copied(VERSION, folder / "whole")
        self._damaged = folder / "damaged"
        self._about = about(VERSION)
        self.refusals: Counter[ExitCode] = Counter()
        self.same = 0

    @property
    def state(self) -> Path:
        """The state before any damage."""
        return self.whole / "state.db"

    def faults_of(self, damage: Damage) -> Iterator[str]:
        """Damage a copy of the state, use it, and yield what went wrong."""
        shutil.rmtree(self._damaged, ignore_errors=True)
        shutil.copytree(self.whole, self._damaged)
        state = self._damaged / "state.db"
        damage.do(state)
        yield from self._faults_of_commands(state)
        others = []
        for name, options in self._about["streams"].items():
            try:
                table = corpus.run_night(self._damaged, name, options, self._about["nights"] + 1)
            except CountonError as error:
                yield from self._faults_of_refusal(error)
            except Exception as error:
                yield f"the night of {name} ended with {error!r}"
            else:
                self.same += table == self._about["after"][name]
                if table != self._about["after"][name]:
                    others.append(name)
        try:
            content = all(
                one.right for one in verify(state, rollback_guard=self._damaged / "witness")
            )
        except CountonError as error:
            content = False
            yield from self._faults_of_refusal(error)
        except Exception as error:
            content = False
            yield f"verify ended with {error!r}"
        if others and content:
            yield f"{', '.join(others)} has other numbers, and verify is content"

    def _faults_of_commands(self, state: Path) -> Iterator[str]:
        for words in COMMANDS:
            typed = [word.format(state=state) for word in words]
            done = CliRunner().invoke(app, typed, prog_name="counton")
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                yield f"{words[0]} ended with {done.exception!r}"
            elif done.exit_code not in (0, *REFUSED):
                yield f"{words[0]} ended with {done.exit_code}: {done.stderr}"
            elif done.exit_code:
                self.refusals[ExitCode(done.exit_code)] += 1

    def _faults_of_refusal(self, error: CountonError) -> Iterator[str]:
        code = exit_code(error)
        self.refusals[code] += 1
        if code not in REFUSED:
            yield f"refused with {code!r}: {error}"
        if "\n" in str(error):
            yield f"refused in several lines: {error}"


def check(folder: Path, chosen: Callable[[Path], Iterable[Damage]]) -> Trial:
    """Try damages; fail with all that went wrong."""
    trial = Trial(folder)
    faults = {
        damage.what: found
        for damage in chosen(trial.state)
        if (found := [*trial.faults_of(damage)])
    }
    assert not faults, json.dumps(faults, indent=1)
    return trial


#: Cells that once ended in a traceback.
CELLS = (
    "counton_journal.std", "counton_streams.step", "counton_streams.details",
    "counton_streams.key_salt", "counton_streams.seal", "counton_streams.forgotten",
    "counton_streams.arrived", "counton_streams.late", "counton_streams.writer_epoch",
    "counton_streams.terms", "counton_streams.checkpoint", "counton_marks.marks",
    "counton_observed.totals", "counton_observed.shape",
    "counton_names.names", "counton_ledger.guarantee", "counton_database.budget_limit",
)  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
def test_text_in_numeric_cell_gives_exit_code_3(cell: str, tmp_path: Path) -> None:
    folder = copied(VERSION, tmp_path / "state")
    state = folder / "state.db"
    table, _, column = cell.partition(".")
    with closing(sqlite3.connect(state)) as connection:
        rows = connection.execute(f"SELECT rowid FROM {table}").fetchall()  # noqa: S608
    for (row,) in rows:
        damages.set_cell(table, column, row, f"x{row}")(state)
    # A shape that is a text is a key, so all of them differ.
    for words in _run_of_visitors(folder):
        _assert_refused(words)


#: By column of `counton_streams`: values that no version writes there.
IMPOSSIBLE = {
    "terms": ("[" * 50_000, '{"a":' * 20_000, "[]", "null", "1e999"),
    "details": ("[" * 50_000, '{"a":' * 20_000, "[]", "null", '"x"', "1e999"),
    "key_fingerprint": ("9" * 5000, "a/b", "../../a", "", "0123456789abcdeX", "0123456789abcdef\n"),
    "step": (2**63 - 1, -1, -(2**63)),
    "forgotten": (2**63 - 1, -1),
}


@pytest.mark.parametrize(
    ("column", "value"),
    [(column, value) for column, values in IMPOSSIBLE.items() for value in values],
    ids=lambda value: repr(value)[:20],
)
def test_impossible_public_value_with_valid_checksum_is_corrupt_state(
    column: str, value: Any, tmp_path: Path
) -> None:
    folder = copied(VERSION, tmp_path / "state")
    state = folder / "state.db"
    with closing(sqlite3.connect(state)) as connection:
        connection.row_factory = sqlite3.Row
        said = f"UPDATE counton_streams SET {column} = ? WHERE name = 'visitors'"  # noqa: S608
        connection.execute(said, (value,))
        row = connection.execute("SELECT * FROM counton_streams WHERE name = 'visitors'").fetchone()
        said = "UPDATE counton_streams SET checksum = ? WHERE name = 'visitors'"
        connection.execute(said, (public_rows.checksum_of(dict(row)),))
        connection.commit()
    night, verified = _run_of_visitors(folder)
    _assert_refused(night)
    _assert_refused(["inspect", str(state)])
    # The witness knows no stream under another key, so `verify` may miss the stream, too.
    _assert_refused(verified, {ExitCode.CORRUPT_STATE, ExitCode.STATE_ROLLED_BACK})


#: Public facts that no version writes, by place in the details of a stream.
MALFORMED: dict[tuple[str, ...], Any] = {
    ("record",): {},
    ("left_out",): [],
    ("remembered",): 5,
    ("by",): "\ud800",
    ("record", "timezone"): 5,
    ("record", "start"): None,
    ("discovery",): {},
    ("record", "every"): "x",
    ("what",): "sum",
}


@pytest.mark.parametrize("place", MALFORMED, ids=".".join)
def test_malformed_details_with_their_checksum_are_refused_in_a_sentence(
    place: tuple[str, ...], tmp_path: Path
) -> None:
    folder = copied(VERSION, tmp_path / "state")
    state = folder / "state.db"
    _write_fact(state, "found", place, MALFORMED[place])
    _assert_refused(["inspect", str(state)])
    _assert_refused(["export", str(state), "--stream", "found"])
    _assert_refused(_run_of_visitors(folder)[1])


def test_malformed_terms_with_their_checksum_are_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = copied(VERSION, tmp_path / "state")
    state = folder / "state.db"
    _write_fact(state, "revised", ("contribution", "per_cell"), None, column="terms")
    _write_fact(state, "visitors", ("record", "contribution_period"), "9" * 5000)
    _assert_refused(["inspect", str(state), "--stream", "visitors"])
    _assert_refused(_run_of_visitors(folder)[1])


def test_export_of_a_stream_whose_windows_were_altered_is_refused(tmp_path: Path) -> None:
    folder = copied(VERSION, tmp_path / "state")
    state = folder / "state.db"
    _write_fact(state, "revised", ("record", "allowed_lateness"), None)
    _assert_refused(["export", str(state), "--stream", "revised"])


def test_malformed_budget_change_is_corrupt_state(tmp_path: Path) -> None:
    folder = copied(VERSION, tmp_path / "state")
    state = folder / "state.db"
    damages.set_cell("counton_limits", "after", 1, "[]")(state)
    _assert_refused(["ledger", str(state), "--history"])


def test_record_that_is_a_list_is_refused_by_a_run(tmp_path: Path) -> None:
    folder = copied(VERSION, tmp_path / "state")
    _write_fact(folder / "state.db", "visitors", ("record",), [])
    for words in _run_of_visitors(folder):
        _assert_refused(words)


def _write_fact(
    state: Path, name: str, place: tuple[str, ...], value: Any, *, column: str = "details"
) -> None:
    """Write a value into JSON of a stream's row, and compute the checksum of the row anew."""
    with closing(sqlite3.connect(state)) as connection:
        connection.row_factory = sqlite3.Row
        said = "SELECT * FROM counton_streams WHERE name = ?"
        row = dict(connection.execute(said, (name,)).fetchone())
        details = inner = json.loads(row[column])
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = value
        row[column] = json.dumps(details)
        changed = row[column], public_rows.checksum_of(row), name
        said = f"UPDATE counton_streams SET {column} = ?, checksum = ? WHERE name = ?"  # noqa: S608
        connection.execute(said, changed)
        connection.commit()


def test_impossible_budget_is_corrupt_state(tmp_path: Path) -> None:
    folder = copied(VERSION, tmp_path / "state")
    state = folder / "state.db"
    damages.set_cell("counton_database", "budget_limit", 1, "[" * 50_000)(state)
    for words in (*_run_of_visitors(folder)[1:], ["inspect", str(state)], ["ledger", str(state)]):
        _assert_refused(words)


def test_journal_with_a_negative_step_is_refused_by_verify(tmp_path: Path) -> None:
    folder = copied(VERSION, tmp_path / "state")
    state = folder / "state.db"
    with closing(sqlite3.connect(state)) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM counton_journal").fetchone())
        row["step"] = -(2**63)
        row["checksum"] = journal.checksum_of(**row)
        places = ", ".join(f":{column}" for column in row)
        connection.execute(f"INSERT INTO counton_journal VALUES ({places})", row)  # noqa: S608
        connection.commit()
    _assert_refused(_run_of_visitors(folder)[1])


def _run_of_visitors(folder: Path) -> tuple[list[str], list[str]]:
    """Return the words of a night of a stream, and of the verification of its state."""
    state = str(folder / "state.db")
    witness = ["--rollback-guard", str(folder / "witness")]
    night = ["release", "count", str(folder / "rows" / "5" / "new.csv"), "--state", state]
    night += ["--stream", "visitors", "--key", f"{state}.key", "--until", "2024-03-06", "--append"]
    return [*night, *witness], ["verify", state, *witness]


def _assert_refused(words: list[str], codes: Iterable[int] = (ExitCode.CORRUPT_STATE,)) -> None:
    """Fail unless a command ends with one of some exit codes, and with one refusal at most."""
    done = CliRunner().invoke(app, words, prog_name="counton")
    assert isinstance(done.exception, SystemExit), (words[0], done.exception)
    assert done.exit_code in codes, (words[0], done.output, done.stderr)
    refusals = [line for line in done.stderr.splitlines() if line.startswith("counton: ")]
    assert len(refusals) <= 1  # `verify` reports what is wrong with each stream instead


@pytest.mark.long
@pytest.mark.every_case
@pytest.mark.parametrize("table", TABLES)
def test_damaged_cells_are_refused_or_show_the_same_numbers(table: str, tmp_path: Path) -> None:
    trial = check(tmp_path, lambda state: damages.of_cells(state, table, SEED))
    if table != "counton_noise":
        assert trial.refusals[ExitCode.CORRUPT_STATE]


@pytest.mark.long
@pytest.mark.every_case
@pytest.mark.parametrize("table", TABLES)
def test_deleted_rows_are_refused_or_show_the_same_numbers(table: str, tmp_path: Path) -> None:
    check(tmp_path, lambda state: damages.of_rows(state, table, SEED))


@pytest.mark.long
@pytest.mark.every_case
@pytest.mark.parametrize("part", range(4))
def test_flipped_bits_are_refused_or_show_the_same_numbers(part: int, tmp_path: Path) -> None:
    trial = check(tmp_path, lambda state: damages.of_bytes(state, 20, SEED + part))
    assert trial.refusals[ExitCode.CORRUPT_STATE]


@pytest.mark.long
def test_zeroed_pages_are_refused_or_show_the_same_numbers(tmp_path: Path) -> None:
    trial = check(tmp_path, lambda state: damages.of_pages(state, 24, SEED))
    assert trial.refusals[ExitCode.CORRUPT_STATE]


@pytest.mark.long
def test_cut_states_are_refused(tmp_path: Path) -> None:
    trial = check(tmp_path, lambda state: damages.of_ends(state, 20, SEED))
    assert trial.refusals[ExitCode.CORRUPT_STATE]
    assert not trial.same
