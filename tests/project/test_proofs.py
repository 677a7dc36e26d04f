"""Theorems are named where they are told of, and nothing in ``proofs/`` is left unproved."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.proof import (
    FOLDER,
    STATEMENTS,
    UnprovedError,
    assumptions,
    check_assumptions,
    check_folder,
    check_words,
    in_order,
    theorems,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees" / "verification.md").read_text("utf-8")


def told_of(page: str) -> list[str]:
    """Names of theorems that begin an item of a list of the page."""
    return re.findall(r"^- `(\w+)`:", page, re.MULTILINE)


def test_the_page_names_each_theorem_in_order() -> None:
    assert told_of(PAGE) == theorems((FOLDER / STATEMENTS).read_text("utf-8"))


def test_theorems_page_names_existing_checks() -> None:
    """Files of tests and sources, and functions in them."""
    named = re.findall(r"`((?:tests|src)/[\w/.]+\.py)(?:: (\w+))?`", PAGE)
    assert len(named) > 10
    for path, name in named:
        text = (ROOT / path).read_text("utf-8")
        assert not name or re.search(rf"^\s*(?:def|class) {name}\b", text, re.MULTILINE), name


def test_every_theorem_file_is_proved() -> None:
    files = in_order(FOLDER)
    assert {path.name for path in files} == {path.name for path in FOLDER.glob("*.v")}
    for path in files:
        check_words(path.name, path.read_text("utf-8"))
        assert path.name == STATEMENTS or not theorems(path.read_text("utf-8")), path.name


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Lemma a : 1 = 2. Admitted.", "Admitted"),
        ("Lemma a : 1 = 2. Proof. admit. Qed.", "admit"),
        ("Axiom a : 1 = 2.", "Axiom"),
        ("Local Axiom a : 1 = 2.", "Axiom"),
        ("Parameter a : 1 = 2.", "Parameter"),
        ("Conjecture a : 1 = 2.", "Conjecture"),
        ("Hypothesis a : 1 = 2.", "Hypothesis"),
        ("Section A.\nEnd A.\nVariable a : 1 = 2.", "Variable"),
        ("Set Guard Checking.\nUnset Guard Checking.", "Unset"),
        ("(* Axiom *) Lemma a : 1 = 1. (* (* admit *) *) Abort.", "Abort"),
    ],
)
def test_check_words_refuses_unproved_theorem(text: str, word: str) -> None:
    with pytest.raises(UnprovedError, match=rf"A\.v says '{word}'"):
        check_words("A.v", text)


def test_words_in_comments_and_sections_are_let_through() -> None:
    check_words("A.v", "(* Axiom (* admit *) *)\nSection A.\nVariable a : nat.\nEnd A.")


def test_assumptions_are_named_and_others_refused() -> None:
    printed = "Axioms:\nClassical_Prop.classic : forall P : Prop, P \\/ ~ P\nfalse\n  : False\n"
    assert assumptions(printed) == ["Classical_Prop.classic", "false"]
    assert assumptions("Closed under the global context\n") == []
    check_assumptions("a", ["Classical_Prop.classic"])
    with pytest.raises(UnprovedError, match="a assumes false, which is no axiom"):
        check_assumptions("a", assumptions(printed))


needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")


@needs_coq
@pytest.mark.parametrize(
    ("lemma", "refused"),
    [
        ("Lemma a : 1 + 1 = 2. Proof. reflexivity. Qed.", None),
        ("Lemma a : 1 + 1 = 3. Proof. reflexivity. Qed.", "Lemmas.v does not compile"),
        (
            "From Coq Require Import ProofIrrelevance.\n"
            "Lemma a : forall p q : 1 + 1 = 2, p = q. Proof. intros. apply proof_irrelevance. Qed.",
            "b assumes ProofIrrelevance.proof_irrelevance, which is no axiom",
        ),
    ],
)
def test_check_folder_rejects_false_lemma(tmp_path: Path, lemma: str, refused: str | None) -> None:
    (tmp_path / "Lemmas.v").write_text(lemma)
    said = re.search(r"Lemma a : (.*?)\. Proof", lemma, re.DOTALL)
    assert said is not None
    (tmp_path / STATEMENTS).write_text(
        f"From Counton Require Import Lemmas.\nTheorem b : {said[1]}. Proof. exact a. Qed.\n"
    )
    if refused is None:
        assert list(check_folder(tmp_path)) == [("b", [])]
    else:
        with pytest.raises(UnprovedError, match=re.escape(refused)):
            list(check_folder(tmp_path))


def test_proof_tool_fails_without_coq(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.proof"], cwd=ROOT, env={"PATH": str(tmp_path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "apt-get install --no-install-recommends coq" in done.stderr
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "install --no-install-recommends coq" in script
    stages = re.search(r"for stage in ([\w ]+);", script)
    assert stages is not None
    assert "proof" in stages[1].split()
    optional = (ROOT / ".ci" / "optional").read_text("utf-8")
    assert not re.search("coq|proof", optional)
