"""A call that lacks an argument is told the call that works."""

import re

import pytest

from counton import Counter, Key, PureDP
from counton.strategies import KAry, SmoothBinary

NAMES = {"Counter": Counter, "PureDP": PureDP, "KAry": KAry, "SmoothBinary": SmoothBinary}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("SmoothBinary(1000)", "call SmoothBinary.best(1000), or SmoothBinary(horizon, height"),
        ("KAry()", "call KAry.best(horizon), or KAry(horizon, arity"),
        ("Counter(KAry.best(8), PureDP(1))", "missing a required argument: 'key'; call Counter("),
        ("Counter(42)", "call Counter(KAry.best(1000), PureDP(epsilon=1), key=Key.gen"),
    ],
)
def test_a_call_that_works_is_named(call: str, told: str) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        eval(call, NAMES)


def test_the_calls_that_are_named_work() -> None:
    assert SmoothBinary.best(1000).horizon == 1000
    assert Counter(KAry.best(1000), PureDP(epsilon=1), key=Key.generate(), name="visits").step == 0
