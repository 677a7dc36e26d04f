"""One word checks whatever there is, and a plug-in of pytest checks what others write."""

from fractions import Fraction
from pathlib import Path

import pytest

from counton.base.errors import InvalidInputError
from counton.statistics import Count, Sum
from counton.strategies import Binary
from counton.tables import Haar
from counton.testing import PropertyViolationError, check

EXAMPLES = Path(__file__).parents[2] / "examples"


class Wrong(Binary):
    """Less sensitive than its columns are."""

    def l1_sensitivity(self) -> Fraction:
        return Fraction(1)


@pytest.mark.parametrize("subject", [Binary, Binary(3)], ids=str)
def test_check_accepts_correct_subjects(subject: object) -> None:
    check(subject)


def test_check_rejects_wrong_sensitivity() -> None:
    with pytest.raises(PropertyViolationError, match="largest 1-norm"):
        check(Wrong(2))


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        (Count(), "give the events of each step"),
        (7, "no checks for 7"),
        (Sum, "has no examples"),
        (Haar, "has no examples"),
    ],
    ids=str,
)
def test_check_refuses_subjects_without_properties(subject: object, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        check(subject)
