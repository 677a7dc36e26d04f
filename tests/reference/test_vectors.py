"""Known answers: counton gives them, and so do the reference and a program in another language."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from counton.privacy import PureDP
from counton.strategies import EndlessHats
from proofs import reference
from tools import vectors

ROOT = Path(__file__).parents[2]
FILES = sorted(vectors.FOLDER.glob("*.json"))
ANSWERS: list[dict[str, Any]] = [one for file in FILES for one in json.loads(file.read_text())]


def test_vector_files_equal_released_values() -> None:
    """Whoever changes one of them changes what everybody's stream releases."""
    answers = vectors.answers()
    assert {path.stem for path in FILES} == set(answers)
    for file, some in answers.items():
        path = vectors.FOLDER / f"{file}.json"
        assert path.read_text("ascii") == vectors.text_of(some), "run: python -m tools.vectors"


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: one["terms"]["name"])
def test_reference_computes_the_vectors(answer: dict[str, Any]) -> None:
    stream = reference.Stream(answer["terms"], bytes.fromhex(answer["key"]))
    last = len(answer["sums"][0])
    cells = range(len(answer["sums"]) // stream.strategy.versions)
    each = [one for cell in cells for one in stream.strategy.numbers(stream.z(cell), last)]
    for noise, sums, released in zip(each, answer["sums"], answer["released"], strict=True):
        shift = stream.strategy.places
        assert [(a << shift) + b for a, b in zip(sums, noise, strict=True)] == released
    bound = reference.address(answer["terms"]).encode()
    secret = reference.subkey(bytes.fromhex(answer["key"]), b"counter", bound)
    assert secret.hex() == answer["subkey"]
    if len(answer["sums"][0]) > 100:  # of so many draws of wide Gaussian noise some are rejected
        assert any(block[15] == reference.RETRY for block, _ in stream._bits.read)


def test_vectors_cover_strategies_distributions_and_scales() -> None:
    assert len(ANSWERS) == 48
    named = {one["terms"]["strategy"]["strategy"] for one in ANSWERS}
    assert named | {"AsOf"} == set(reference.STRATEGIES)  # with which no stream begins
    distributions = [reference.law_of(one["terms"]["law"]) for one in ANSWERS]
    for family in ("laplace", "gaussian"):
        assert max(float(width) for kind, width in distributions if kind == family) > 2**39
    assert max(len(one["sums"]) * len(one["sums"][0]) for one in ANSWERS) > 1000


def program(*files: Path) -> subprocess.CompletedProcess[str]:
    """What the program in JavaScript says of files of answers."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: examples/check.mjs is not run")
    command = [node, str(ROOT / "examples/check.mjs"), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.long
def test_javascript_program_computes_the_vectors() -> None:
    done = program(*FILES)
    assert (done.returncode, done.stdout, done.stderr) == (0, "48 of 48 answers are met\n", "")


@pytest.fixture(scope="module")
def two_levels() -> dict[str, Any]:
    """A known answer of hats with two levels; those of the folder have one."""
    strategy = EndlessHats(2, 20, 6, 2, 18)
    case = vectors.Case("EndlessHats", strategy, PureDP(1), shape=(2,), steps=30)
    return vectors.answer_of(1001, case)


def test_two_levels_of_hats_release_what_they_did(two_levels: dict[str, Any]) -> None:
    assert two_levels["terms"]["strategy"] == {
        "strategy": "EndlessHats", "spacing": 2, "height": 20, "bits": 6, "multiple": 2,
        "wide_height": 18,
    }  # fmt: skip
    released = json.dumps(two_levels["released"]).encode()
    assert hashlib.sha256(released).hexdigest()[:16] == "d3b9884f8f08bbf2"


def test_reference_computes_two_levels_of_hats(two_levels: dict[str, Any]) -> None:
    test_reference_computes_the_vectors(two_levels)


@pytest.mark.long
def test_javascript_program_computes_two_levels_of_hats(
    two_levels: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "hats.json").write_text(vectors.text_of([two_levels]))
    done = program(tmp_path / "hats.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 of 1 answers are met\n", "")


def test_reference_names_wrong_vector(tmp_path: Path) -> None:
    right, answer = json.loads((vectors.FOLDER / "Expiring.json").read_text())
    answer["released"][0][0] += 1
    (tmp_path / "wrong.json").write_text(vectors.text_of([right, answer]))
    done = program(tmp_path / "wrong.json")
    assert done.returncode == 1
    assert f"{answer['terms']['name']}: " in done.stdout
    assert f"{right['terms']['name']}: " not in done.stdout
    assert done.stdout.endswith("1 of 2 answers are met\n")
