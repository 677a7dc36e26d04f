"""What a reviewer of privacy has to read: ``python -m tools.review`` lists it, with lines of code.

Two wings and one door. What rows say is private; what was released is public; between them exact
integers meet noise. Whoever asks whether counton is private reads the private wing (what does one
unit change?) and the door (is what leaves noise plus that?), and need not read the rest.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools.parsed_source import parsed

SOURCE = Path(__file__).parent.parent / "src/counton"


class Room(NamedTuple):
    """Files that together ensure one claim about privacy.

    Attributes:
        files: files and folders in ``src/counton``.
        claim: a sentence that must be true of them.
        attack: tests that try to show that the claim is false.
    """

    files: tuple[str, ...]
    claim: str
    attack: tuple[str, ...]


#: Rows become exact changes of cells: what does one unit change?
PRIVATE = (
    Room(
        ("base/private.py",),
        "what travels from room to room shows nothing, and one function opens it",
        ("tests/project/test_wall.py",),
    ),
    Room(
        ("io",),
        "what a row says, and in which window, hangs on that row alone; policies refuse it or not",
        ("tests/io/test_rows_alone.py", "tests/run/test_neighbours.py"),
    ),
    Room(
        ("run/counting/contribution_choice.py", "run/counting/contribution_slots.py",
         "run/counting/chosen_rows.py", "run/rows/row_buffer.py",
         "run/counting/remembered_rows.py", "run/erasure.py", "state/dedup.py"),
        "no more of a person's rows count than stated, in files of all events and of new ones",
        ("tests/run/test_people.py", "tests/run/test_first_rows.py", "tests/run/test_slots.py",
         "tests/run/test_neighbours.py"),
    ),
    Room(
        ("run/counting/step_inputs.py", "run/counting/seen_rows.py", "run/counting/kept_totals.py",
         "run/counting/measurement.py", "run/counting/unchanged_rows.py",
         "run/rows/window_sums.py", "run/rows/row_reading.py", "run/rows/kept_sums.py",
         "run/rows/discovered_groups.py",
         "run/rows/uncounted_files.py", "run/counting/missing_rows.py", "run/close_stream.py"),
        "a row counts once, late or again, whatever other rows come and go; what waits is shown to "
        "nobody",
        ("tests/run/test_intake.py", "tests/run/test_events_again.py",
         "tests/run/test_erased_rows.py"),
    ),
    Room(
        ("run/new_job/input_preview.py", "run/dry_run.py"),
        "what a first look finds is told to the operator alone, and no row decides a line of a job",
        ("tests/cli/test_init.py",),
    ),
    Room(
        ("run/run_job.py", "run/prepared_run.py", "run/rows/read_rows.py",
         "run/counting/rows_of_run.py", "run/counting/plan_steps.py",
         "run/spec/stream_spec.py", "run/spec/changed_options.py", "run/spec/plan_spec.py",
         "run/spec/parsing.py",
         "run/opened_state.py", "run/windows/due_windows.py", "run/outputs/read_journal.py",
         "job/incompatible.py", "job/contradictions.py"),
        "all that can be refused is refused before a release; when it happens is public",
        ("tests/run/test_guards_of_all.py", "tests/run/test_unreadable_lines.py"),
    ),
    Room(
        ("serve/batch_intake.py", "serve/bodies.py", "serve/release_times.py",
         "serve/served_jobs.py", "state/inbox.py"),
        "which rows are counted together hangs on when each came, and on no other row",
        ("tests/serve/test_jobs_served.py", "tests/serve/test_fuzz_the_door.py"),
    ),
    Room(
        ("spark/source.py", "spark/streaming.py"),
        "executors add up what one machine would, and have no secret",
        ("tests/spark/test_batch.py", "tests/spark/test_streaming.py"),
    ),
    Room(
        ("statistics",),
        "the stated contribution covers what one unit changes in the cells, in every norm",
        ("tests/testing/test_every_statistic_claim_has_a_law.py", "tests/run/test_neighbours.py"),
    ),
)  # fmt: skip
#: Exact integers meet noise, once: is what leaves noise plus that?
DOOR = (
    Room(
        ("privacy",),
        "a calibrated law keeps its guarantee for the stated shift; a ledger adds guarantees up",
        ("tests/privacy/test_calibration.py", "tests/privacy/test_filter.py"),
    ),
    Room(
        ("noise",),
        "a draw is a function of key and address, with exactly the law it claims",
        ("tests/noise/test_samplers.py", "tests/noise/test_field.py"),
    ),
    Room(
        ("continual/design.py", "continual/node_distribution.py", "continual/sensitivity.py",
         "continual/counter.py", "continual/noise_cache.py", "continual/checkpoint.py"),
        "one address has one data set and one law; sums that are not exact are refused",
        ("tests/continual/test_counter.py", "tests/run/test_discovery.py"),
    ),
    Room(
        ("tables/table_calibration.py",),
        "what a table measures moves by no more than its strategy says",
        ("tests/continual/test_contingency.py", "tests/testing/test_tree_laws.py"),
    ),
    Room(
        ("strategies/strategy.py", "strategies/participation.py", "testing"),
        "what the door believes of a strategy is a law, and each law catches a wrong example",
        ("tests/testing/test_every_claim_has_a_law.py", "tests/testing/test_strategy_laws.py"),
    ),
    Room(
        ("state/stream.py", "state/stream_reader.py", "state/journal.py", "state/stream_rows.py",
         "state/ledger_rows.py"),
        "a step is released once: journaled before it is shown, and other data are refused",
        ("tests/state/test_kill.py", "tests/run/test_tables_once.py"),
    ),
    Room(
        ("state/authenticated_rows.py", "state/public_rows.py"),
        "a thief of the state learns no later noise, and cannot change what counts",
        ("tests/state/test_stolen_copy.py", "tests/state/test_authenticated_rows.py"),
    ),
    Room(
        ("state/rollback_guard.py", "state/keys.py", "state/verification.py"),
        "a state that has forgotten what its witness knows releases nothing",
        ("tests/state/test_witness.py", "tests/state/test_put_back.py"),
    ),
    Room(
        ("training/noise.py", "training/batch_samplers.py", "training/accounting.py",
         "training/bins.py"),
        "two sets of gradients never meet one noise; batches are those that the plan promises",
        ("tests/training/test_training_runs.py", "tests/training/test_secret_places.py"),
    ),
)  # fmt: skip


class Promise(NamedTuple):
    """One promise about privacy, with the code that states it and the code that enforces it.

    Attributes:
        text: the promise.
        stated, enforced: file in ``src/counton``, and a function or class in it.
    """

    text: str
    stated: str
    enforced: str


#: What privacy is made of: read these functions, and what they call, in this order.
PROMISES = (
    Promise(
        "no more of a person's rows count than is stated, over all nights",
        "run/counting/chosen_rows.py: RowChoice",
        "run/counting/contribution_choice.py: within_bound",
    ),
    Promise(
        "a person's rows are known again until their period is over, and forgotten then",
        "run/counting/remembered_rows.py: FirstOpen",
        "run/counting/remembered_rows.py: change_of_memory",
    ),
    Promise(
        "a row counts once, in one step, late or not",
        "run/counting/step_inputs.py: PlannedSteps",
        "run/counting/step_inputs.py: PlannedSteps.values",
    ),
    Promise(
        "a file of new events that was counted is not counted again",
        "run/rows/uncounted_files.py: UncountedFiles",
        "run/rows/uncounted_files.py: leave_out_counted_files",
    ),
    Promise(
        "what one unit changes in the cells of a step",
        "privacy/contribution.py: ContributionBound",
        "privacy/contribution.py: ContributionBound.sensitivities",
    ),
    Promise(
        "how far a unit moves all that is measured",
        "continual/sensitivity.py: sensitivity_of",
        "continual/node_distribution.py: distribution_for",
    ),
    Promise(
        "noise as wide as a guarantee needs for such a move",
        "privacy/guarantees.py: Guarantee",
        "privacy/calibration.py: calibrate",
    ),
    Promise(
        "an attacker who waits for his step gains nothing",
        "strategies/strategy.py: StreamStrategy",
        "privacy/calibration.py: approximate_ahead",
    ),
    Promise(
        "all releases about a unit together stay within a limit",
        "privacy/filter.py: PrivacyFilter",
        "privacy/ledger.py: Ledger.spend",
    ),
    Promise(
        "one address of noise has one data set and one law",
        "continual/design.py: Design.noise_field",
        "noise/noise_field.py: NoiseField.run",
    ),
    Promise(
        "what leaves is an exact integer with noise, or a function of it",
        "continual/counter.py: Counter",
        "continual/counter.py: Counter._compute",
    ),
    Promise(
        "a step is released once, and other data for it are refused",
        "state/stream.py: Stream.commit",
        "state/stream.py: Stream._answer_or_release",
    ),
    Promise(
        "nothing is shown before it is journaled",
        "state/stream.py: Stream._release_new_steps",
        "state/stream.py: Stream._write_transaction",
    ),
    Promise(
        "a state that has forgotten what was released releases nothing",
        "state/rollback_guard.py: RollbackGuard",
        "state/stream.py: Stream._write_transaction",
    ),
)
#: Files to be read whole besides the reference; `tools.brute_force` and tests try the rest.
BESIDES = (
    "base/private.py",
    "run/counting/chosen_rows.py",
    "run/counting/contribution_choice.py",
    "run/counting/contribution_slots.py",
    "run/counting/remembered_rows.py",
    "run/counting/step_inputs.py",
    "run/counting/seen_rows.py",
    "run/counting/kept_totals.py",
    "run/rows/uncounted_files.py",
    "privacy/filter.py",
    "privacy/ledger.py",
    "state/journal.py",
    "state/rollback_guard.py",
    "state/stream.py",
)
#: Whoever reads the reference need not read these: it computes again what they do.
RECOMPUTED = (
    "privacy/contribution.py",
    "privacy/unit_changes.py",
    "privacy/guarantees.py",
    "privacy/calibration.py",
    "continual/node_distribution.py",
    "continual/sensitivity.py",
    "continual/design.py",
    "continual/counter.py",
    "noise/key.py",
    "noise/blocks.py",
    "noise/noise_field.py",
)
#: The same in one file.
REFERENCE = "../../proofs/reference.py"
#: Published numbers and descriptions alone: nothing here can hurt anybody.
PUBLIC = ("results", "charts")


def files_of(room: Room) -> list[Path]:
    """Return the Python files of a room."""
    found: list[Path] = []
    for name in room.files:
        path = SOURCE / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


@cache
def code_lines(path: Path) -> int:
    """Count the lines of a file that contain code; blank lines, comments and docstrings do not
    count.
    """
    kept: set[int] = set()
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    begins = True  # a text that is a statement of its own is a docstring
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            begins = begins or token.type != tokenize.NL
        elif token.type == tokenize.STRING and begins:
            begins = False
        elif token.type not in (*skip, tokenize.ENDMARKER, tokenize.ENCODING):
            kept.update(range(token.start[0], token.end[0] + 1))
            begins = False
    return len(kept)


def listed() -> Iterator[tuple[str, Room]]:
    """Yield each room with the name of its wing, "private" or "door"."""
    for wing, rooms in (("private", PRIVATE), ("door", DOOR)):
        yield from ((wing, room) for room in rooms)


@cache
def numbers() -> tuple[int, int]:
    """Return the lines of code of the reference, and of the other files that a reviewer reads."""
    besides = sum(code_lines(SOURCE / name) for name in BESIDES)
    return code_lines(SOURCE / REFERENCE), besides


class Opening(NamedTuple):
    """A function that takes the value out of a `Private`.

    Attributes:
        file: path in ``src/counton``.
        function: name of the function, after the name of its class if it has one.
    """

    file: str
    function: str


def uses(source: str, name: str) -> list[str]:
    """Return the functions of a module in whose code a name occurs, in order.

    "" stands for code outside of all functions.

    >>> uses("class A:\\n    def f(self):\\n        return [opened(x) for x in y]", "opened")
    ['A.f']
    """
    found: list[str] = []

    def walk(node: ast.AST, where: tuple[str, ...], inside: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not inside:
            where = (*where, node.name)
            inside = not isinstance(node, ast.ClassDef)
        named = (
            (isinstance(node, ast.Name) and node.id == name)
            or (isinstance(node, ast.Attribute) and node.attr == name)
            or (isinstance(node, ast.Constant) and node.value == name)
            or (isinstance(node, ast.alias) and node.name == name and node.asname is not None)
        )
        if named:
            found.append(".".join(where))
        for child in ast.iter_child_nodes(node):
            walk(child, where, inside)

    walk(parsed(source), (), False)
    return list(dict.fromkeys(found))


@cache
def openings(name: str = "reveal") -> list[Opening]:
    """Return all functions that call `counton.base.private.reveal`, or the function ``name``,
    by file.
    """
    return [
        Opening(str(path.relative_to(SOURCE)), function)
        for path in sorted(SOURCE.rglob("*.py"))
        if name in (source := path.read_text(encoding="utf-8"))
        for function in uses(source, name)
    ]


def main() -> None:
    """Print what a reviewer of privacy has to read."""
    for one in PROMISES:
        print(f"promise  {one.text}")  # noqa: T201
        print(f"{'':9}stated by {one.stated}, enforced by {one.enforced}")  # noqa: T201
    for word, names in (("read", (REFERENCE, *BESIDES)), ("or read", RECOMPUTED)):
        for name in names:
            lines = code_lines(SOURCE / name)
            said = name.removeprefix("../../")
            print(f"{word:8} {lines:6,}  {said}")  # noqa: T201
    for wing, room in listed():
        lines = sum(map(code_lines, files_of(room)))
        print(f"{wing:8} {lines:6,}  {', '.join(room.files)}\n{'':17}claim: {room.claim}")  # noqa: T201
        print(f"{'':17}attacked by: {', '.join(room.attack)}")  # noqa: T201
    for opening in openings():
        print(f"opens    {opening.file}: {opening.function}")  # noqa: T201
    once_more, besides = numbers()
    every = sum(map(code_lines, SOURCE.rglob("*.py")))
    print(  # noqa: T201
        f"{besides:,} lines are read besides the {once_more:,} of the reference, of {every:,}"
    )


if __name__ == "__main__":
    main()
