"""The attack finds mistakes that are put in on purpose, keeps the case, and finds nothing else."""

import json
from pathlib import Path
from typing import Any

import histories
import pytest
import slips_on_purpose as mistakes
from some_cases import long

from tests.attack.__main__ import again, attack
from tests.attack.kinds import KINDS


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_attack_tries_only_stated_kind(kind: str, tmp_path: Path) -> None:
    tried, kept = attack(4, 600, only=kind, keep=tmp_path, most=1)
    assert sum(tried.values()) == 1, tried
    assert not kept, [path.read_text() for path in kept]


@pytest.mark.long
def test_a_kept_case_is_small_and_finds_the_same_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        mistakes.half_the_noise(patched)
        _, (path,) = attack(8, 600, only="files", keep=tmp_path, enough=1, say=lambda _: None)
        found = again(path)
    kept = json.loads(path.read_text())
    assert found is not None
    assert kept["found"] == found
    assert "for pure differential privacy" in found
    rows = [len(night) for night in kept["case"]["nights"]]
    assert [*rows, len(kept["case"]["unit"])] == [0, 0, 0]  # no row is needed to see it
    assert again(path) is None


def test_noise_that_is_used_twice_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patched:
        mistakes.one_draw_for_all_steps(patched)
        _, (path,) = attack(0, 600, only="noise", keep=tmp_path, enough=1, say=lambda _: None)
        found = again(path)
    assert found == json.loads(path.read_text())["found"]
    assert str(found).startswith("noise")
    assert again(path) is None


@pytest.mark.long
def test_another_value_than_the_reference_finds_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mistakes.one_draw_for_all_steps(monkeypatch)
    _, (path,) = attack(1, 600, only="reference", keep=tmp_path, enough=1, say=lambda _: None)
    assert again(path) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "kind", "seed", "says"),
    [
        (mistakes.late_rows_for_vanished_ones, "deliveries", 172, "is claimed"),
        (histories.in_silence, "copies", 57, "was shown twice"),
        long(mistakes.no_clip, "neighbours", 1357, "one unit moves"),
        long(mistakes.one_row_more, "neighbours", 220, "one unit moves"),
        long(mistakes.refusal_by_a_row, "neighbours", 37, "ann has too many rows"),
        long(histories.left_behind, "histories", 149, ""),
    ],
)
def test_attack_finds_each_mistake_in_a_small_case(
    mistake: Any, kind: str, seed: int, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.attack.__main__.SHRINKING", 0)
    mistake(monkeypatch)
    _, (path,) = attack(seed, 600, only=kind, keep=tmp_path, enough=1, say=lambda _: None)
    assert says in json.loads(path.read_text())["found"]
