"""The wall between what rows say and what is published: closed values, imports, and a list.

A mistake in a public face is tried out in each of them: it prints an exact number that the face has
at hand. It fails when types are checked, or when it happens, or because it opens where nobody may.
"""

import ast
import copy
import csv
import gc
import io
import json
import logging
import operator
import pickle
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from observed_windows import observed_of
from programs import run_program
from telling import tells

from counton import Counter, PureDP
from counton.base.private import Private, reveal
from counton.continual.html_table import html_table
from counton.run import Job, RunResult, run
from counton.run.counting.plan_steps import plan_steps
from counton.run.opened_state import OpenedState
from counton.run.outputs.output_files import write_table
from counton.run.prepared_run import prepare
from counton.run.rows.read_rows import read_rows
from counton.run.run_job import decide
from counton.serve.log_lines import note
from counton.state import Stream
from counton.strategies import Binary
from tools.review import DOOR, PRIVATE, SOURCE, files_of, openings, uses

ROOT = Path(__file__).parents[2]
REVIEW = (ROOT / "docs/guarantees/verification.md").read_text(encoding="utf-8")
#: A number that nothing but an exact sum shows.
EXACT = 7919


# ------------------------------------------------------------------------------ what is closed


REFUSED: dict[str, Callable[[Any], object]] = {
    "text": str,
    "a formatted text": lambda closed: f"{closed}",
    "an old formatted text": lambda closed: "%s" % closed,  # noqa: UP031
    "a formatted number": lambda closed: f"{closed:,.0f}",
    "a sum": lambda closed: closed + 1,
    "a sum with a number of numpy": lambda closed: np.int64(1) + closed,
    "a product with an array": lambda closed: np.arange(3) * closed,
    "an array": np.asarray,
    "a column": lambda closed: np.array([closed, closed]),
    "a negative": operator.neg,
    "a whole number": int,
    "a number": float,
    "a range": range,
    "a loop": list,
    "a length": len,
    "an item": lambda closed: closed[0],
    "a search": lambda closed: EXACT in closed,
    "the truth": bool,
    "a comparison": lambda closed: closed == EXACT,
    "a difference": lambda closed: closed != EXACT,
    "an order": lambda closed: closed < EXACT,
    "a hash": hash,
    "a set": lambda closed: {closed},
    "a pickle": pickle.dumps,
    "a copy": copy.copy,
    "a deep copy": copy.deepcopy,
    "JSON": json.dumps,
    "JSON of what is no JSON": lambda closed: json.dumps(closed, default=str),
    "its attributes": vars,
    "an attribute": lambda closed: closed.cells,
    "the attribute that holds it": lambda closed: closed._inside,
    "a dictionary": dict,
    "a row of CSV": lambda closed: csv.writer(io.StringIO()).writerow([closed]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_private_value_refuses_every_use(what: str) -> None:
    for inside in (EXACT, np.array([EXACT]), {1: EXACT}, pl.DataFrame({"n": [EXACT]})):
        with pytest.raises((TypeError, AttributeError)) as refused:
            REFUSED[what](Private(inside))
        assert not tells(str(refused.value), EXACT)


def test_private_value_shows_only_its_type_until_revealed() -> None:
    closed = Private([EXACT])
    assert repr(closed) == "Private[list]"
    assert repr([closed]) == "[Private[list]]"
    assert reveal(closed) == [EXACT]
    assert not [name for name in dir(closed) if "inside" in name]


# ------------------------------------------------------------------------------- where it opens


def rows_below(heading: str) -> list[list[str]]:
    """Rows of the table after a text of the page, cell by cell."""
    after = REVIEW.partition(heading)[2].lstrip("\n").splitlines()
    table = after[: next(at for at, line in enumerate(after) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def listed(heading: str) -> list[tuple[str, str]]:
    """Files and functions that a table of the page names."""
    named = [re.findall(r"`([\w/.]+): ([\w.]+)`", row[0]) for row in rows_below(heading)]
    return sorted(one for several in named for one in several)


OPENS = "These functions open one:\n\n"
TOLD = "the operator sees exact numbers of rows:\n\n"


def test_the_page_lists_each_function_that_opens() -> None:
    assert listed(OPENS) == sorted(map(tuple, openings()))


def test_page_lists_each_function_that_returns_confidential_counts() -> None:
    assert listed(TOLD) == sorted(map(tuple, openings("confidential_counts")))


def test_reveal_is_called_only_in_reviewed_files() -> None:
    read = {path for room in (*PRIVATE, *DOOR) for path in files_of(room)}
    assert {SOURCE / file for file, _ in openings()} <= read


def test_nothing_but_the_two_names_is_taken_from_the_module() -> None:
    for path in SOURCE.rglob("*.py"):
        if "counton.base.private" not in (source := path.read_text(encoding="utf-8")):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module == "counton.base.private":
                assert {one.name for one in node.names} <= {"Private", "reveal"}, path
                assert not [one for one in node.names if one.asname], path
            elif isinstance(node, ast.Import):
                assert "counton.base.private" not in [one.name for one in node.names], path


@pytest.mark.parametrize(
    "mistake",
    [
        "def table(outcome):\n    return reveal(outcome.counts).rows",
        "class Page:\n    def table(self, outcome):\n        return private.reveal(outcome)",
        "def table(outcome):\n    def row():\n        return reveal(outcome)\n    return row",
        "def table(outcome):\n    return getattr(private, 'reveal')(outcome.counts)",
        "table = lambda outcome: reveal(outcome.counts)",
        "from counton.base.private import reveal as shown",
    ],
)
def test_check_detects_unlisted_reveal(mistake: str) -> None:
    assert len(uses(mistake, "reveal")) == 1


# ------------------------------------------------------------------------ how many things there are

#: Lengths of what is open that are plain integers, each with where they stay.
LENGTHS = {
    (
        "run/outputs/read_journal.py: _read_found_groups",
        "len(names)",
    ): "how many steps are read at a time",
    (
        "run/rows/uncounted_files.py: recognise_files",
        "len(files.parts)",
    ): "how many files a job names",
    ("state/stream_reader.py: JournalReader.amounts", "totals.size"): "whether there are cells",
}
#: Calls whose arguments say how large an array is, and nothing else.
SHAPES = {"full", "empty", "zeros", "range"}


def is_length(node: ast.AST) -> bool:
    """Whether an expression says how many things there are in another one."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "len"
    return isinstance(node, ast.Attribute) and node.attr in ("height", "size", "shape")


def open_names(function: ast.AST) -> set[str]:
    """Names in a function that hold what was opened, or a part of it."""
    found: set[str] = set()
    while True:
        before = len(found)
        for node in ast.walk(function):
            pairs: list[tuple[ast.expr, ast.expr]] = []
            if isinstance(node, ast.Assign):
                pairs = [(target, node.value) for target in node.targets]
            elif isinstance(node, ast.NamedExpr):
                pairs = [(node.target, node.value)]
            elif isinstance(node, ast.comprehension | ast.For):
                pairs = [(node.target, node.iter)]
            for target, value in pairs:
                each: list[tuple[ast.expr, ast.expr]] = [(target, value)]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    each += zip(target.elts, value.elts, strict=False)
                for name, of in each:
                    if is_open(of, found):
                        found |= {one.id for one in ast.walk(name) if isinstance(one, ast.Name)}
        if len(found) == before:
            return found


def is_open(expression: ast.AST, names: set[str]) -> bool:
    return any(
        isinstance(node, ast.Name) and (node.id == "reveal" or node.id in names)
        for node in ast.walk(expression)
    )


def plain_lengths(function: ast.AST) -> set[str]:
    """Lengths of what is open that may leave a function, as it writes them.

    One that is compared, that is the size of an array, or that is closed at once does not.
    """
    names = open_names(function)
    found = set[str]()

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.Compare) or (
            isinstance(node, ast.Call)
            and (ast.unparse(node.func).rpartition(".")[2] in SHAPES | {"Private"})
        ):
            return
        if is_length(node) and is_open(node, names):
            found.add(ast.unparse(node))
        for child in ast.iter_child_nodes(node):
            walk(child)

    walk(function)
    return found


def functions(source: str, name: str) -> list[ast.AST]:
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == name.rpartition(".")[2]
        and is_open(node, set())
    ]


def test_lengths_of_revealed_values_are_plain_only_where_listed() -> None:
    """A number of rows, labels or users leaves as `Private`, which no public field takes."""
    found = set()
    for file, name in openings():
        for function in functions((SOURCE / file).read_text(encoding="utf-8"), name):
            found |= {(f"{file}: {name}", length) for length in plain_lengths(function)}
    assert found == {*LENGTHS}


@pytest.mark.parametrize(
    ("line", "leaves"),
    [
        ("return End(3, len(rows))", True),
        ("return [len(part) for part in rows]", True),
        ("note('read', rows=rows.height)", True),
        ("self.rows = rows.to_numpy().size", True),
        ("raise InvalidInputError(f'there are {len(rows)} rows')", True),
        ("some = rows.first\n    return len(some)", True),
        ("return len(reveal(closed))", True),
        ("return End(3, Private(len(rows)))", False),
        ("return np.zeros(len(rows))", False),
        ("return None if len(rows) < 3 else closed", False),
        ("return len(closed.names)", False),
    ],
)
def test_check_detects_plain_length_of_revealed_value(line: str, leaves: bool) -> None:
    source = f"def told(closed):\n    rows = reveal(closed)\n    {line}\n"
    (function,) = functions(source, "told")
    assert bool(plain_lengths(function)) is leaves


# --------------------------------------------------------------------------- what may not import

FACES = {
    "a table on the screen": ("counton.cli.run_report", "counton.cli.print_forms"),
    "the machine's report": ("counton.cli.run_report",),
    "a file": ("counton.results.release_files", "counton.run.outputs.output_files"),
    "a chart": ("counton.charts.totals", "counton.charts.style"),
    "the page": ("counton.serve.read_paths", "counton.serve.public_series"),
    "metrics": ("counton.serve.metrics",),
    "methods": (
        "counton.continual.methods",
        "counton.results.text",
        "counton.results.privacy_text",
        "counton.results.error_text",
    ),
    "a notebook": ("counton.results.terminal",),
    "an export": ("counton.run.outputs.exports",),
    "tables of SQL": ("counton.run.outputs.exports", "counton.state.sql_view"),
    "messages": ("counton.base.errors",),
    "logs": ("counton.serve.log_lines",),
}


CONTRACTS: list[dict[str, Any]] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["tool"]["importlinter"]["contracts"]
(OF_FACES,) = (
    one for one in CONTRACTS if one["name"].startswith("What prints, draws, writes and answers")
)


@pytest.mark.parametrize("face", FACES)
def test_public_modules_are_forbidden_to_import_private(face: str) -> None:
    assert "counton.base.private" in OF_FACES["forbidden_modules"]
    for module in FACES[face]:
        assert (SOURCE.parent / f"{module.replace('.', '/')}.py").is_file()
        parts = module.split(".")
        above = {".".join(parts[:size]) for size in range(1, len(parts) + 1)}
        assert above & {*OF_FACES["source_modules"]}, module


def test_files_that_reveal_are_forbidden_imports() -> None:
    """A room that opens, and that a face need not import, is on the list of forbidden ones."""
    forbidden = {module for one in CONTRACTS for module in one.get("forbidden_modules", ())}
    rooms = {f"counton.{file.removesuffix('.py').replace('/', '.')}" for file, _ in openings()}
    called = {  # what a command or a page calls, and what hands on what is closed
        *("counton.run.outputs.read_journal", "counton.run.close_stream", "counton.run.erasure"),
        *("counton.run.run_job", "counton.run.rows.read_rows", "counton.run.counting.rows_of_run"),
        *(
            "counton.run.counting.plan_steps",
            "counton.run.dry_run",
            "counton.run.new_job.input_preview",
        ),
        "counton.run.opened_state",
        *("counton.serve.served_jobs", "counton.state.stream_reader", "counton.state.stream"),
        # what a program counts with
        *("counton.continual.counter", "counton.statistics.live_statistic"),
    }
    assert rooms - called <= forbidden


#: Of the room of events: what says how rows are called, found and cut, and holds none.
OF_NO_ROWS = {
    "__init__", "declared_groups", "other_formats", "input_paths", "error_policy", "timestamps",
    "problem_codes", "unreadable_counts", "written_numbers",
}  # fmt: skip


def test_no_public_face_names_where_rows_lie_open() -> None:
    """A `Source` is as it is while it is read: what prints, draws and writes cannot name one."""
    rooms = {path.stem for path in (SOURCE / "io").glob("*.py")} - OF_NO_ROWS
    assert {"sources", "files", "databases", "aggregation"} <= rooms
    assert {f"counton.io.{room}" for room in rooms} <= {*OF_FACES["forbidden_modules"]}


# ------------------------------------------------------------------------- mistakes, by their types

#: A mistake in each face: what it has at hand, and a line that shows an exact number of it.
MISTAKES = {
    "a table on the screen": "table.add_row(result.counts.rows)",
    "a column of the screen": "table.add_row(*result.counts)",
    "the machine's report": "report['rows'] = result.counts['rows']",
    "CSV": "csv.writer(file).writerow(stream.observed_blocks())",
    "Parquet": "frame = pl.DataFrame(stream.observed_blocks())",
    "JSON": "json.dumps(dict(stream.observed_blocks()))",
    "a chart": "numbers: list[float] = [stream.amounts]",
    "a line of a chart": "Figure().subplots().plot([0], [stream.amounts])",
    "a longest bar": "height = max(0, stream.amounts)",
    "the page": "found = {step: sums for step, sums in reader.observed_blocks()}",
    "a row of the page": "row: dict[str, float] = {'estimate': stream.amounts.largest}",
    "methods": "words = 'of ' + result.counts + ' rows'",
    "a notebook": "page = html_table('rows', stream.observed_blocks()[1])",
    "an export": "names: list[str] = list(reader.labels())",
    "tables of SQL": "rows: list[int] = [part.period for part in stream.digest_sets('user')]",
    "a message": "raise InvalidInputError(result.counts)",
    "logs": "note('released', rows=len(stream.labels()))",
    "what waits": "body: bytes = fold.bodies[0]",
    "rows of a batch": "sent: bytes = batch.body",
    "new rows": "total = sum(sum_rows(source, reading))",
    "rows of a cluster": "height = spread.some(reading, pl.lit(True), 9).height",
    "rows that waited": "report['rows'] = end.dropped",
    "a sum of rows that waited": "rows: int = end.dropped + 1",
    "rows that wait": "words = f'{waiting_rows(reader, spec) + 1} rows'",
    "rows that were read": "height = read.sums.frame.height",
    "what a run adds": "added = [np.sum(addition) for _, addition in steps.transactions()]",
}
HEAD = """
import csv, io, json
import numpy as np, polars as pl
from matplotlib.figure import Figure
from rich.table import Table
from counton.continual.html_table import html_table
from counton.base.errors import InvalidInputError
from counton.io.sources import Source
from counton.io.remote_rows import RemoteRows
from counton.io.row_assignment import RowMapping
from counton.io.aggregation import sum_rows
from counton.run.close_stream import ClosedStream, waiting_rows
from counton.run.counting.step_inputs import PlannedSteps
from counton.run.rows.read_rows import ReadRows
from counton.run.run_job import RunResult
from counton.run.spec.stream_spec import StreamSpec
from counton.base.private import reveal
from counton.serve.log_lines import note
from counton.state import Stream
from counton.state.inbox import Batch, InboxDrain
from counton.state.stream_reader import JournalReader
"""
HANDS = (
    "result: RunResult, stream: Stream, reader: JournalReader, table: Table, "
    "report: dict[str, int], "
    "file: io.StringIO, fold: InboxDrain, batch: Batch, source: Source, reading: RowMapping, "
    "spread: RemoteRows, spec: StreamSpec, read: ReadRows, steps: PlannedSteps, end: ClosedStream"
)


@pytest.mark.slow
@pytest.mark.types  # a type checker reads the package, from its cache where there is one
def test_a_mistake_in_each_public_face_is_no_type(tmp_path: Path) -> None:
    # Other options than those of `make lint` would make its cache useless, here and there.
    lines = ["# mypy: disable-error-code=no-redef", *HEAD.splitlines()]
    lines += [f"def face({HANDS}) -> None:", "    if table.columns:"]
    places = {}
    for what, line in MISTAKES.items():
        lines.append(f"        {line}")
        places[len(lines)] = what
        lines.append("    if table.columns:")
    lines.append("        report['rows'] = reveal(result.counts).rows.read")
    right = len(lines)
    file = tmp_path / "faces.py"
    file.write_text("\n".join([*lines, ""]))
    done = run_program([sys.executable, "-m", "mypy", "--no-error-summary", str(file)], cwd=ROOT)
    wrong = {int(at) for at in re.findall(r"faces\.py:(\d+): error", done.stdout)}
    assert [what for at, what in places.items() if at not in wrong] == [], done.stdout
    assert right not in wrong, done.stdout
    assert min(wrong) >= min(places), done.stdout  # what a face has at hand is known


# -------------------------------------------------------------------- mistakes, when they happen


class Reached(NamedTuple):
    """A run, and its stream."""

    result: RunResult
    stream: Stream


@pytest.fixture
def outcome(tmp_path: Path) -> Iterator[Reached]:
    """A run over rows of which one number is nowhere but in what is exact."""
    rows = pl.DataFrame({"at": ["2024-03-01T10:00"] * EXACT, "page": ["home"] * EXACT})
    job = Job(
        *("count", rows, tmp_path / "visits.db"),
        time="at", every="1d", start="2024-03-01", windows=9, until="2024-03-02",
        group_by="page", groups=["home", "shop"], epsilon="1e-3",
    )  # fmt: skip
    result = run(job)
    with Stream.open(tmp_path / "visits.db", result.name) as stream:
        yield Reached(result, stream)


def closed_in(outcome: Reached) -> list[Private[Any]]:
    """What a face can reach of a run that is exact."""
    stream = outcome.stream
    found = [outcome.result.counts, stream.observed_blocks(), stream.amounts]
    return [*found, stream.labels(), stream.digest_sets("user")]


def test_exact_values_of_a_run_are_private(outcome: Reached) -> None:
    assert reveal(outcome.result.counts).rows.read == EXACT
    assert reveal(outcome.stream.amounts).largest == EXACT
    assert observed_of(outcome.stream)[1].max() == EXACT
    assert not tells(repr((outcome, vars(outcome.result), closed_in(outcome))), EXACT)


def all_held_by(*begin: object) -> list[Any]:
    """Whatever can be reached from some objects that is of this package, opened as it lies."""
    seen = set[int]()
    waiting = list[object](begin)
    found = list[Any]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType):
            continue
        seen.add(id(one))
        if type(one).__module__.startswith("counton."):
            found.append(one)
        waiting += gc.get_referents(one)
    return found


def test_repr_of_no_object_of_a_run_shows_exact_values(outcome: Reached) -> None:
    """A debugger, a log of locals or a rich traceback shows what ``repr`` says."""
    held = all_held_by(outcome)
    names = {type(one).__name__ for one in held}
    assert {"Private", "RowCounts", "Counter", "StreamProgress", "Stream"} <= names
    shown = {type(one).__name__ for one in held if tells(repr(one), EXACT)}
    assert shown == set()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("RowCounts(rows=7919)", True),
        ("array([7919,    1])", True),
        ("7919.0 rows, -7919.", True),
        ("7,919 rows", True),
        ("(1,7919)", True),
        (repr("estimate\n7919\n"), True),
        ("dtype=int64 object at 0x7fd6f77919d0>", False),
        ("0x7919", False),
        ("estimate 17919.25, std 0.7919, 7919.25, digest a7919b, 117,919", False),
    ],
)
def test_tells_matches_number_but_not_part_of_another(text: str, told: bool) -> None:
    assert tells(text, EXACT) is told


def test_a_counter_holds_its_sums_closed() -> None:
    counter = Counter(Binary(9), PureDP(1), key=chosen_key(), name="s", shape=(2,))
    counter.release([EXACT, 1])
    assert reveal(counter.totals_taken).tolist() == [EXACT, 1]
    again = Counter.resume(counter.checkpoint(), key=chosen_key())
    for one in (counter, again):
        assert not tells(repr((one, vars(one), one.totals_taken)), EXACT)
        assert type(one._done) is Private
        said = {type(each).__name__: repr(each) for each in all_held_by(one)}
        assert said["StreamProgress"] == "StreamProgress(step=1, secret)"


def test_rows_and_file_digests_are_private(tmp_path: Path) -> None:
    """From what is settled to what is changed: digests of exact sums are as secret as the sums."""
    rows = pl.DataFrame({"at": ["2024-03-01T10:00"] * EXACT})
    job = Job(
        *("count", rows, tmp_path / "visits.db"),
        time="at", every="1d", start="2024-03-01", windows=9, until="2024-03-02", epsilon="1e-3",
        append=True,
    )  # fmt: skip
    with OpenedState(job) as state:
        prepared = prepare(job, state, None, datetime.now(UTC))
        assert type(prepared.source) is Private
        assert not tells(repr(prepared), EXACT)
        read = read_rows(prepared)
        steps = plan_steps(prepared, read, decide(prepared, read), None)
    digests = [*read.files.digests]
    assert digests
    ((_, addition),) = steps.transactions()
    assert set(digests) <= set(reveal(addition).sources)
    shown = repr((prepared, read, vars(read), steps, addition))
    assert not [digest for digest in digests if digest.rpartition(":")[2] in shown]
    assert not tells(shown, EXACT)


def pretty_on_screen(closed: object) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=200)
    console.print(closed, {"rows": closed}, [closed])
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def in_a_chart(closed: Any) -> str:
    from matplotlib.figure import Figure

    (line,) = Figure().subplots().plot([0, 1], [closed, closed])
    return str(line.get_ydata(orig=False))


def on_a_title(closed: object) -> str:
    from matplotlib.figure import Figure

    title = Figure().subplots().set_title(closed)  # type: ignore[arg-type]
    return title.get_text()


def in_a_file(ending: str) -> Callable[[Any], str]:
    def written(closed: object) -> str:
        file = Path(f"table.{ending}")
        write_table(pl.DataFrame({"estimate": [closed]}), file)
        return str(pl.read_parquet(file).rows() if ending == "parquet" else file.read_bytes())

    return written


def in_a_log(closed: object) -> str:
    stream = io.StringIO()
    log = logging.Logger("counton.wall")
    handler = logging.StreamHandler(stream)
    log.addHandler(handler)
    handler.setFormatter(logging.Formatter("%(message)s"))
    told = logging.raiseExceptions
    logging.raiseExceptions = False
    try:
        log.warning("released %s", closed)
    finally:
        logging.raiseExceptions = told
    note("released", rows=closed)
    return stream.getvalue()


def in_sql(closed: object) -> str:
    import sqlite3
    from contextlib import closing

    from counton.state.sql import Connection

    with closing(sqlite3.connect(":memory:")) as driver:
        return str(Connection(driver, is_sqlite=True).value("SELECT :rows", rows=closed))


def on_the_page(closed: object) -> str:
    from fastapi.encoders import jsonable_encoder
    from fastapi.responses import JSONResponse

    return str(JSONResponse(jsonable_encoder({"estimate": closed})).body)


SHOWS: dict[str, Callable[[Any], str]] = {
    "anything on the screen": pretty_on_screen,
    "CSV": in_a_file("csv"),
    "Parquet": in_a_file("parquet"),
    "JSON": in_a_file("json"),
    "a chart": in_a_chart,
    "a chart's title": on_a_title,
    "the page": on_the_page,
    "a notebook": lambda closed: html_table("rows", {"rows": np.array([closed], object)}),
    "tables of SQL": in_sql,
    "a message of what is wrong": lambda closed: repr(ValueError(closed)),
    "a log": in_a_log,
}


@pytest.mark.parametrize("face", SHOWS)
def test_public_output_of_private_value_shows_no_exact_number(
    face: str,
    outcome: Reached,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It raises, or what comes out says what kind of thing is inside."""
    monkeypatch.chdir(tmp_path)
    for closed in (*closed_in(outcome), Private(EXACT)):
        try:
            shown = SHOWS[face](closed)
        except Exception as error:
            shown = repr(error)
        assert not tells("".join([shown, *capfd.readouterr()]), EXACT)


@pytest.mark.parametrize("face", SHOWS)
def test_public_output_of_plain_value_shows_exact_number(
    face: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without the wall these faces show the number: else the test above would pass for nothing."""
    monkeypatch.chdir(tmp_path)
    shown = SHOWS[face](EXACT)
    assert tells("".join([shown, *capfd.readouterr()]), EXACT)
