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

import damages
import pytest
from click.testing import CliRunner
from corpus_states import about, copied
from damages import TABLES, Damage

import counton
from counton.base.errors import CountonError
from counton.cli.app import app
from counton.cli.exits import ExitCode, exit_code
from counton.state import verify
from tools import corpus

VERSION = counton.__version__
SEED = 2024
#: Refusals of a state: it is damaged; it lacks a release that its witness knows; a stream or an
#: option is another one; its key is; its witness is missing.
REFUSED = (
    ExitCode.STATE, ExitCode.OLD_COPY, ExitCode.INPUT, ExitCode.KEY, ExitCode.UNAVAILABLE,
)  # fmt: skip
#: Commands that read a state and write nothing.
COMMANDS = (
    ("show", "{state}"), ("show", "{state}", "--json"), ("ledger", "{state}", "--history"),
    ("export", "{state}", "--name", "revised"), ("methods", "{state}", "--name", "orders"),
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
            content = all(one.right for one in verify(state, witness=self._damaged / "witness"))
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
def test_run_and_verify_with_a_text_in_a_cell_end_with_exit_code_3(
    cell: str, tmp_path: Path
) -> None:
    folder = copied(VERSION, tmp_path / "state")
    state = folder / "state.db"
    table, _, column = cell.partition(".")
    with closing(sqlite3.connect(state)) as connection:
        rows = connection.execute(f"SELECT rowid FROM {table}").fetchall()  # noqa: S608
    for (row,) in rows:
        damages.set_cell(table, column, row, f"x{row}")(state)
    # A shape that is a text is a key, so all of them differ.
    night = [str(folder / "rows" / "5" / "new.csv"), "--state", str(state), "--name", "visitors"]
    night += ["--key", str(folder / "state.db.key"), "--witness", str(folder / "witness")]
    verified = ["verify", str(state), "--witness", str(folder / "witness")]
    for words in (["count", *night, "--until", "2024-03-06", "--append"], verified):
        done = CliRunner().invoke(app, words, prog_name="counton")
        assert done.exit_code == ExitCode.STATE, (words[0], done.output, done.stderr)
        assert isinstance(done.exception, SystemExit)
        refusals = [line for line in done.stderr.splitlines() if line.startswith("counton: ")]
        assert len(refusals) <= 1  # `verify` reports what is wrong with each stream instead


@pytest.mark.long
@pytest.mark.every_case
@pytest.mark.parametrize("table", TABLES)
def test_damaged_cells_are_refused_or_show_the_same_numbers(table: str, tmp_path: Path) -> None:
    trial = check(tmp_path, lambda state: damages.of_cells(state, table, SEED))
    if table != "counton_noise":
        assert trial.refusals[ExitCode.STATE]


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
    assert trial.refusals[ExitCode.STATE]


@pytest.mark.long
def test_zeroed_pages_are_refused_or_show_the_same_numbers(tmp_path: Path) -> None:
    trial = check(tmp_path, lambda state: damages.of_pages(state, 24, SEED))
    assert trial.refusals[ExitCode.STATE]


@pytest.mark.long
def test_cut_states_are_refused(tmp_path: Path) -> None:
    trial = check(tmp_path, lambda state: damages.of_ends(state, 20, SEED))
    assert trial.refusals[ExitCode.STATE]
    assert not trial.same
