"""Theorems checked by Coq: ``python -m tools.proof`` compiles ``proofs/`` in a folder of its own.

Files that assert anything without a proof are refused. Each theorem of ``proofs/Statements.v`` is
printed with what it assumes, which may be nothing but axioms of the real numbers of Coq's standard
library and of its classical logic.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent.parent / "proofs"
#: Where the theorems stand.
STATEMENTS = "Statements.v"
#: Words that stand where a proof is left out, or switch a check off.
_FORBIDDEN = (
    "Abort", "Admitted", "Axiom", "Axioms", "Conjecture", "Declare ML", "Parameter", "Parameters",
    "Primitive", "Unset", "admit", "bypass_check", "give_up", "native_cast_no_check",
    "type_in_type", "vm_cast_no_check",
)  # fmt: skip
FORBIDDEN = re.compile(rf"\b(?:{'|'.join(_FORBIDDEN)})\b")
#: Words that are assumed within a section, and are a lie outside of one.
LOCAL = re.compile(r"^\s*(?:Variables?|Hypothes[ie]s|Context|Let|Section|End)\b", re.MULTILINE)
#: Axioms of the real numbers of the standard library, and of classical logic.
ASSUMED = (
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
)


class UnprovedError(Exception):
    """The error that a file asserts something without a proof, or a theorem assumes more than it
    may.
    """


def without_comments(text: str) -> str:
    """Return the text of a Coq file without its comments, which may be nested.

    >>> without_comments("Lemma a : 1 = 1. (* by (* pure *) thought *) Proof. auto. Qed.")
    'Lemma a : 1 = 1.  Proof. auto. Qed.'
    """
    kept = []
    depth = 0
    for part in re.split(r"(\(\*|\*\))", text):
        if part == "(*":
            depth += 1
        elif part == "*)":
            depth -= 1
        elif not depth:
            kept.append(part)
    return "".join(kept)


def check_words(name: str, text: str) -> None:
    """Refuse a file that asserts something without a proof.

    >>> check_words("A.v", "Axiom false : False.")
    Traceback (most recent call last):
    tools.proof.UnprovedError: A.v says 'Axiom': prove it, or take it out

    Raises:
        UnprovedError: naming the word.
    """
    code = without_comments(text)
    if found := FORBIDDEN.search(code):
        raise UnprovedError(f"{name} says {found[0]!r}: prove it, or take it out")
    depth = 0
    for match in LOCAL.finditer(code):
        word = match[0].strip()
        depth += {"Section": 1, "End": -1}.get(word, 0)
        if word not in ("Section", "End") and not depth:
            raise UnprovedError(
                f"{name} says {word!r} outside of a section: prove it, or take it out"
            )


def theorems(text: str) -> list[str]:
    """Return the names of the theorems in the text of a Coq file, in order.

    >>> theorems("Theorem a : 1 = 1. (* Theorem b : 1 = 2. *) Theorem c : 2 = 2.")
    ['a', 'c']
    """
    return re.findall(r"\bTheorem\s+(\w+)", without_comments(text))


def in_order(folder: Path) -> list[Path]:
    """Return the Coq files of a folder, each after those that it imports."""
    files = {path.stem: path for path in sorted(folder.glob("*.v"))}
    found: list[Path] = []

    def visit(name: str) -> None:
        if name not in files or files[name] in found:
            return
        code = without_comments(files[name].read_text("utf-8"))
        for line in re.findall(r"From Counton Require Import ([\w\s]+)\.", code):
            for other in line.split():
                visit(other)
        found.append(files[name])

    for name in files:
        visit(name)
    return found


def assumptions(printed: str) -> list[str]:
    """Return the names of axioms in the output of Coq's ``Print Assumptions``.

    >>> assumptions("Axioms:\\nA.b : Prop\\nc\\n  : forall x,\\n    x")
    ['A.b', 'c']
    """
    lines = [line for line in printed.splitlines() if line and line != "Axioms:"]
    if lines == ["Closed under the global context"]:
        return []
    return [line.split()[0] for line in lines if not line.startswith(" ")]


def check_assumptions(name: str, assumed: Iterable[str]) -> None:
    """Refuse a theorem that assumes more than axioms of real numbers and classical logic.

    Raises:
        UnprovedError: the theorem has other assumptions; the message names them.
    """
    more = [one for one in assumed if one not in ASSUMED]
    if more:
        raise UnprovedError(f"{name} assumes {', '.join(more)}, which is no axiom of real numbers")


def _coq(folder: Path, file: Path) -> str:
    done = subprocess.run(
        ["coqc", "-q", "-Q", str(folder), "Counton", str(file)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UnprovedError(f"{file.name} does not compile:\n{done.stdout}{done.stderr}")
    return done.stdout


def check_folder(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Compile all Coq files of a folder; yield each theorem's name with the axioms that it assumes.

    Raises:
        UnprovedError: a file asserts something without a proof or does not compile, or a theorem
            assumes too much.
    """
    files = in_order(folder)
    for path in files:
        check_words(path.name, path.read_text("utf-8"))
    names = theorems((folder / STATEMENTS).read_text("utf-8"))
    with TemporaryDirectory() as made:
        for path in files:
            _coq(Path(made), Path(shutil.copy(path, made)))
        asked = Path(made) / "Asked.v"
        asked.write_text(
            "From Coq Require Import String.\n"
            f"From Counton Require Import {Path(STATEMENTS).stem}.\n"
            + "".join(f'Print Assumptions {name}.\nCheck "next"%string.\n' for name in names)
        )
        printed = _coq(Path(made), asked)
    parts = re.split(r'^"next"[^:]*: string\s*', printed, flags=re.MULTILINE)
    for name, part in zip(names, parts[:-1], strict=True):
        found = assumptions(part)
        check_assumptions(name, found)
        yield name, found


def main() -> int:
    """Print each theorem with what it assumes. Return 1 if anything is not proved, 2 without Coq,
    else 0.
    """
    if shutil.which("coqc") is None:
        print(  # noqa: T201
            "coqc is not installed: apt-get install --no-install-recommends coq", file=sys.stderr
        )
        return 2
    try:
        found = dict(check_folder(FOLDER))
    except UnprovedError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    for name, assumed in found.items():
        said = f"assumes {', '.join(assumed)}" if assumed else "assumes nothing"
        print(f"{name}\n  {said}")  # noqa: T201
    print(f"{len(found)} theorems are proved")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
