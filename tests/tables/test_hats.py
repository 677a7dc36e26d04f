"""Hats: what the constructor refuses, and variances against dense matrices."""

import json
import re
from typing import Any

import numpy as np
import pytest

from counton.base.errors import InvalidInputError
from counton.strategies.lines import hats
from counton.strategies.participation import Norm
from counton.strategies.strategy import built_from
from counton.tables import Hats


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cells": 0}, "cells is 0"),
        ({"spacings": (0,)}, "spacing is 0"),
        ({"spacings": ((0, 4, 3, 8),)}, "over 8 cells are a value of type tuple"),
        ({"spacings": ((0, 8, 9),)}, "only the last of them may be 8 or more"),
        ({"spacings": (4, 4)}, "2 spacings and 1 rows of amplitudes"),
        ({"amplitudes": [[8, 4]]}, "an integer for each of its 3 knots"),
        ({"amplitudes": [[8, -1, 8]]}, "they must be from 0 to 2^4"),
        ({"amplitudes": [[16, 16, 8]]}, "the measurements of cell 0 use 16 of the 16"),
        ({"norm": 3}, "norm is 3"),
        ({"bits": 99}, "bits is 99"),
        ({"cells": "8"}, "cells is '8'"),
        ({"cells": 8.5}, "cells is 8.5"),
        ({"spacings": (None,)}, "spacing is None"),
        ({"spacings": (True,)}, "spacing is True"),
        ({"spacings": 4}, "values of spacing are 4; give a list"),
        ({"spacings": ([0, 2.5, 8],)}, "knot is 2.5"),
        ({"spacings": ([0, 4, 2**40],)}, "knot is 1099511627776; it must be an integer between"),
        ({"spacings": (range(10**30),)}, "more than 9 values of knot are given"),
        ({"spacings": (1,) * 99, "amplitudes": [[0] * 9] * 99}, "more than 64 values of spacing"),
        ({"amplitudes": None}, "values of amplitude are None"),
        ({"amplitudes": [None]}, "values of amplitude are None"),
        ({"amplitudes": [[[8], [4, 8], 8]]}, "an integer for each of its 3 knots"),
        ({"amplitudes": [range(10**30)]}, "more than 9 values of amplitude are given"),
        ({"norm": True}, "norm is True"),
    ],
)
def test_hats_refuse_invalid_arguments(changed: dict[str, Any], said: str) -> None:
    arguments = {"cells": 8, "spacings": (4,), "amplitudes": [[8, 4, 8]], "bits": 4, **changed}
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        Hats(**arguments)


def test_numbers_of_numpy_are_those_of_python() -> None:
    four: Any = np.int64(4)
    norm: Any = np.int64(1)
    rows: Any = np.array([[8, 4, 8]])
    strategy = Hats(8, (four,), rows, norm, bits=four)
    assert strategy == Hats(8, (4,), [[8, 4, 8]], bits=4)
    assert built_from(Hats, json.loads(json.dumps(strategy.to_dict()))) == strategy


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cells": 10**12}, "cells is 1000000000000; it must be an integer between 1 and 2^22"),
        ({"spacings": None}, "values of spacing are None"),
        ({"norm": [1]}, "norm is a value of type list"),
    ],
)
def test_descriptions_of_no_hats_are_refused(changed: dict[str, Any], said: str) -> None:
    described = Hats(8, (4,), [[8, 4, 8]], bits=4).to_dict()
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        built_from(Hats, {**described, **changed})


@pytest.mark.parametrize("norm", [1, 2])
def test_columns_at_the_largest_knots_are_exact(norm: Norm) -> None:
    """Far knots make hats level: no product on the way leaves int64."""
    height = 2**23 - 1
    last = hats.LARGEST_KNOT
    far = Hats(8, (last, (5, last)), [[height] * 2, [height // 2] * 2], norm, hats.MOST_BITS)
    matrix = far.matrix().astype(object)
    assert matrix.min() >= 0
    assert matrix[0, 0] == height
    assert (abs(matrix) ** norm).sum(axis=0).max() <= 2 ** (hats.MOST_BITS * norm)
    assert far.l1_sensitivity() == matrix.sum(axis=0).max()
    assert far.squared_sensitivity() == (matrix**2).sum(axis=0).max()


@pytest.mark.parametrize(("norm", "chunk"), [(1, 2**16), (2, 2**7)])
def test_variances_of_a_long_line_are_those_of_its_matrix(
    norm: Norm, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hats, "_ENTRIES_PER_CHUNK", chunk)
    spacings = (7, 30, 100, 1000)
    amplitudes = [0.15 + 0.1 * np.cos(np.arange(-(-700 // s) + 1)) for s in spacings]
    strategy = Hats(700, spacings, [np.rint(2**16 * row).astype(int) for row in amplitudes], norm)
    matrix = strategy.matrix().astype(float)
    covariance = np.linalg.inv(matrix.T @ matrix)
    joint = np.cumsum(np.cumsum(covariance, axis=0), axis=1)
    # in parts too small for the whole line, and from positions within cells
    equations = strategy.equations(strategy.own.astype(float) ** 2)
    sums, singles = equations.variances
    assert np.allclose(sums[1:], joint.diagonal(), rtol=1e-11)
    assert np.allclose(singles, covariance.diagonal(), rtol=1e-11)
    rng = np.random.default_rng(7)
    low, high = np.sort(rng.uniform(0, 700, (2, 50)), axis=0)
    at = np.arange(700)
    weights = np.clip(high[:, None] - at, 0, 1) - np.clip(low[:, None] - at, 0, 1)
    expected = np.einsum("qi,ij,qj->q", weights, covariance, weights)
    assert np.allclose(equations.range_variance(low, high), expected, rtol=1e-10)


def test_columns_have_one_norm() -> None:
    spacings = (5, 17)
    amplitudes = [np.linspace(6554, 19661, -(-200 // s) + 1).astype(int) for s in spacings]
    sums = np.abs(Hats(200, spacings, amplitudes).matrix()).sum(axis=0)
    assert set(sums.tolist()) == {2**16}
    squares = (Hats(200, spacings, amplitudes, norm=2).matrix() ** 2).sum(axis=0)
    assert squares.max() <= 2**32
    assert squares.min() > 2**32 - 2**17
