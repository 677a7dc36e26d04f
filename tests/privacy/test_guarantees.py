"""Guarantees are exact, validated, printable and can be saved."""

import math
from dataclasses import FrozenInstanceError, dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest
from once import kept

from counton import ZCDP, ApproxDP, ExpiringDP, ExpiringZCDP, PureDP
from counton.base.errors import InvalidInputError
from counton.privacy import Guarantee, guarantee_from_dict
from counton.privacy.contribution import Relation
from counton.privacy.guarantees import AgesWithData, guarantee_when_replaced, when_replaced
from counton.run import methods


def test_parameters_equal_fractions_of_their_text() -> None:
    assert PureDP(epsilon=0.1).epsilon == Fraction(1, 10)
    assert ZCDP(rho="1/3").rho == Fraction(1, 3)
    assert ApproxDP(epsilon=Decimal("0.5"), delta=1e-9) == ApproxDP("0.5", Fraction(1, 10**9))
    assert hash(PureDP(0.1)) == hash(PureDP("0.10"))


@pytest.mark.parametrize("bad", [0, -1, -0.5, math.nan, math.inf, "nan", "x", True, None])
@pytest.mark.parametrize(
    ("name", "make"),
    [("epsilon", PureDP), ("epsilon", lambda value: ApproxDP(value, 1e-6)), ("rho", ZCDP)],
)
def test_losses_must_be_finite_and_positive(name: str, make: Any, bad: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} is .*; it must be"):
        make(bad)


@pytest.mark.parametrize("bad", [0, 1, -1e-9, 1.5, math.nan, math.inf])
def test_delta_must_lie_strictly_between_0_and_1(bad: float) -> None:
    with pytest.raises(InvalidInputError, match=r"delta is .*; it must be"):
        ApproxDP(1, bad)


def test_guarantees_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        PureDP(1).epsilon = Fraction(2)  # type: ignore[misc]


@pytest.mark.parametrize(
    "guarantee", [PureDP("1/3"), PureDP(2.5), ApproxDP(0.1, 1e-9), ZCDP(0.5), PureDP(800)]
)
def test_saved_and_read_back_exactly(guarantee: Guarantee) -> None:
    saved = guarantee.to_dict()
    assert all(isinstance(value, str) for value in saved.values())
    assert guarantee_from_dict(saved) == guarantee
    assert eval(repr(guarantee).replace("=1/3", "='1/3'")) == guarantee
    assert guarantee.meaning.startswith("between neighbouring datasets, which differ in one unit")
    assert guarantee.meaning_for("visit") == guarantee.meaning.replace("one unit", "one visit")


@pytest.mark.parametrize("given", [PureDP(0.3), ZCDP("0.01"), ApproxDP(0.7, "1e-9")], ids=str)
def test_guarantee_when_replaced_is_inverse_of_when_replaced(
    given: PureDP | ApproxDP | ZCDP,
) -> None:
    assert when_replaced(guarantee_when_replaced(given)) == given
    assert guarantee_when_replaced(when_replaced(given)) == given


@pytest.mark.parametrize(
    "guarantee", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5), ExpiringDP(1), ExpiringZCDP(1)]
)
def test_meaning_of_guarantee_describes_replaced_unit(
    guarantee: Guarantee,
) -> None:
    said = guarantee.meaning_for("letter", "replace")
    assert "differ in one letter that is replaced by another" in said
    assert "added or removed" not in said


def test_single_table_states_replace_relation(tmp_path: Path) -> None:
    given: dict[str, Any] = {"count_column": "n", "label": "town", "groups": "x,y"}
    frame = {"town": ["x", "y"], "n": [3, 4]}
    kept("ranges", frame, tmp_path / "s.db", "b", replace=True, privacy_unit="answer", **given)
    said = methods(tmp_path / "s.db", "b", full=True)["b"]
    assert "differ in one answer that is replaced by another" in said
    assert "added or removed" not in said


def test_str_is_plain_words() -> None:
    assert str(PureDP(1.0)) == "pure differential privacy with epsilon = 1"
    assert str(ApproxDP(0.5, 1e-9)) == (
        "approximate differential privacy with epsilon = 0.5 and delta = 1e-9"
    )
    assert str(ZCDP("1/3")) == "zero-concentrated differential privacy with rho = 1/3"


@pytest.mark.parametrize(
    "saved",
    [
        {},
        {"guarantee": "best"},
        {"guarantee": "pure"},
        {"guarantee": "pure", "epsilon": "1", "delta": "0.1"},
        {"guarantee": "pure", "epsilon": "-1"},
    ],
)
def test_unknown_or_incomplete_saved_guarantees_are_refused(saved: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        guarantee_from_dict(saved)


def test_a_new_kind_joins_by_being_defined() -> None:
    @dataclass(frozen=True)
    class UserErasure(Guarantee):
        kind: ClassVar[str] = "forgetting, for this test"
        epsilon: Fraction

        def meaning_for(self, unit: str, relation: Relation = "add_remove") -> str:
            return "test"

        def at_age(self, age: int) -> PureDP | ZCDP:
            return PureDP(self.epsilon * (1 + age))

    try:
        saved = UserErasure(Fraction(2)).to_dict()
        assert saved == {"guarantee": "forgetting, for this test", "epsilon": "2"}
        assert isinstance(guarantee_from_dict(saved), UserErasure)
        assert isinstance(UserErasure(Fraction(2)), AgesWithData)
        assert not isinstance(PureDP(1), AgesWithData)
    finally:
        del Guarantee._kinds[UserErasure.kind]
