"""The list of slips fits the code: each place is there once, and its tests too."""

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.file}: {one.harm}")
def test_each_mutant_has_one_place_and_existing_tests(mutant: Mutant) -> None:
    text = (ROOT / "src/counton" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1
    assert mutant.wrong != mutant.right
    for test in mutant.killed_by:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists()
        assert not name or f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_reference_alone_finds_eight_mutants() -> None:
    """Of rows, norms, calibration, strategies, rounding, addresses and samplers."""
    found = [one for one in MUTANTS if one.by_reference]
    assert len(found) == 8
    assert len({one.file for one in found}) == 8
    for one in found:
        assert one.by_reference.startswith("tests/reference/")
        assert (ROOT / one.by_reference).is_file()
