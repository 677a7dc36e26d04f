"""Lines on which privacy hangs, each broken once: ``python -m tests.mutants`` tries the tests.

``tests/mutants.toml`` has them: places of ``src/counton`` in which a slip would take protection
from somebody, of every room of ``tools/review.py``, and the tests that fail with the slip. The
command copies the package, makes one slip, and runs those tests alone: a slip with which they pass
*lives*, and is a defect of the tests. ``python -m tests.mutants noise`` tries those whose file or
harm has this word; ``python -m tests.mutants --by-reference`` the eight of samplers, addresses,
strategies, norms, calibration, rounding and ids that tests of ``proofs/reference.py`` find alone.

``tests/project/test_mutants.py`` holds that each place is there, once: who moves a line moves it in
the list too.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Mutant(NamedTuple):
    """One slip.

    Attributes:
        file: below ``src/counton``.
        right: a text that stands there once.
        wrong: what the slip makes of it.
        harm: what is no longer true.
        killed_by: tests that fail with it, files or names of single ones.
        by_reference: of the eight mistakes that the reference alone finds, a test of it that does.
    """

    file: str
    right: str
    wrong: str
    harm: str
    killed_by: tuple[str, ...]
    by_reference: str = ""


def _listed() -> tuple[Mutant, ...]:
    text = (ROOT / "tests/mutants.toml").read_text(encoding="utf-8")
    return tuple(
        Mutant(**{**one, "killed_by": tuple(one["killed_by"])})
        for one in tomllib.loads(text)["slip"]
    )


MUTANTS = _listed()
#: Asks for the slips that the reference alone finds.
BY_REFERENCE = "--by-reference"


def mutated(mutant: Mutant, folder: Path) -> Path:
    """A copy of the package with one slip; where to import it from."""
    shutil.copytree(
        ROOT / "src/counton", folder / "counton", ignore=shutil.ignore_patterns("__pycache__")
    )
    path = folder / "counton" / mutant.file
    text = path.read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1, f"{mutant.file} has {mutant.right!r} not once"
    path.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
    return folder


def lives(mutant: Mutant) -> str | None:
    """What the tests said that pass with the slip; None where one of them fails."""
    with TemporaryDirectory() as name:
        folder = mutated(mutant, Path(name))
        paths = os.pathsep.join([str(folder), str(ROOT)])
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:randomly",
                   "-p", "no:cacheprovider", *mutant.killed_by]  # fmt: skip
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
        )
        return None if done.returncode == 1 else done.stdout[-400:] + done.stderr[-400:]


def main() -> None:
    """Try all slips, or those with a word; exit with 1 if one lives."""
    words = [word for word in sys.argv[1:] if word != BY_REFERENCE]
    some = MUTANTS
    if BY_REFERENCE in sys.argv:
        some = tuple(
            one._replace(killed_by=(one.by_reference,)) for one in MUTANTS if one.by_reference
        )
    chosen = [one for one in some if not words or any(w in f"{one.file} {one.harm}" for w in words)]
    alive = 0
    for one in chosen:
        said = lives(one)
        alive += said is not None
        print(f"{'LIVES ' if said else 'killed'}  {one.file}: {one.harm}", flush=True)
        if said:
            print(said)
    print(f"{len(chosen) - alive} of {len(chosen)} killed")
    sys.exit(1 if alive else 0)


if __name__ == "__main__":
    main()
