"""Terms: complete, without secrets, and different wherever the noise is."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import ZCDP, ContributionBound, Counter, PureDP
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError, StateError
from counton.continual import Design
from counton.strategies import Binary

KEY = chosen_key()
TERMS: dict[str, Any] = {
    "name": "visits",
    "strategy": Binary(9),
    "guarantee": PureDP(1),
    "contribution": ContributionBound.add_remove(),
    "shape": (8,),
    "distribution": DiscreteLaplace(Fraction(3)),
    "statistic": {"statistic": "Ranges", "labels": 8},
}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "visitors"},
        {"strategy": Binary(16)},
        {"statistic": {"statistic": "Ranges", "labels": 8, "name": "hour"}},
        {"guarantee": PureDP(2)},
        {"contribution": ContributionBound.replace()},
        {"distribution": DiscreteLaplace(Fraction(4))},
    ],
    ids=lambda change: str(*change),
)
def test_other_noise_has_other_terms(change: dict[str, Any]) -> None:
    one = Design(**TERMS)
    two = Design(**{**TERMS, **change})
    first, second = (terms.noise_field(KEY) for terms in (one, two))
    assert not np.array_equal(first.run(0, range(64)), second.run(0, range(64)))
    # The subkeys differ, and not only the width of the noise that the same bits give.
    assert second.cipher.decrypt(first.cipher.encrypt(b"drawn", b""), b"") is None
    assert one.to_dict() != two.to_dict()


def test_design_from_json_draws_same_noise() -> None:
    stream = Counter(Binary(9), ZCDP(1), key=KEY, name="visits", shape=(2,)).design
    read = Design.from_dict(json.loads(json.dumps(stream.to_dict())))
    assert read.bound_to_key(KEY.fingerprint) == stream
    assert np.array_equal(
        read.noise_field(KEY).run(0, range(9)), stream.noise_field(KEY).run(0, range(9))
    )
    with pytest.raises(StateError, match="describes a 'ranges', not a stream"):
        Design.from_dict({**stream.to_dict(), "kind": "ranges"})
    with pytest.raises(StateError, match="format 7"):
        Design.from_dict({**stream.to_dict(), "format": 7})


@pytest.mark.parametrize("name", ["", None, 3, b"visits", "visits \ud800"])
def test_design_and_counter_refuse_invalid_name(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="name is"):
        Design(**{**TERMS, "name": name})
    with pytest.raises(InvalidInputError, match="name is"):
        Counter(Binary(9), PureDP(1), key=KEY, name=name)
