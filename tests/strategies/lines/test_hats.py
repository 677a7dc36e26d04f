"""Hats: what the constructor refuses, and variances against dense matrices."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from counton.errors import InvalidInput
from counton.strategies.lines import Hats, hats


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cells": 0}, "cells is 0"),
        ({"spacings": (0,)}, "spacing is 0"),
        ({"spacings": ((0, 4, 3, 8),)}, "knots of a level over 8 cells are (0, 4, 3, 8)"),
        ({"spacings": ((0, 8, 9),)}, "of which the last, and no other, is 8 or more"),
        ({"spacings": (4, 4)}, "2 spacings and 1 rows of amplitudes"),
        ({"amplitudes": [[8, 4]]}, "an integer for each of its 3 knots"),
        ({"amplitudes": [[8, -1, 8]]}, "they must lie between 0 and 2^4"),
        ({"amplitudes": [[16, 16, 8]]}, "the hats over cell 0 add up to 16 of 16"),
        ({"norm": 3}, "norm is 3"),
        ({"bits": 99}, "bits is 99"),
    ],
)
def test_what_no_strategy_of_hats_can_be_is_refused(changed: dict[str, Any], said: str) -> None:
    arguments = {"cells": 8, "spacings": (4,), "amplitudes": [[8, 4, 8]], "bits": 4, **changed}
    with pytest.raises(InvalidInput, match=re.escape(said)):
        Hats(**arguments)


@pytest.mark.parametrize(("norm", "chunk"), [(1, 2**16), (2, 2**7)])
def test_variances_of_a_long_line_are_those_of_its_matrix(
    norm: Any, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hats, "_CHUNK", chunk)
    spacings = (7, 30, 100, 1000)
    amplitudes = [0.15 + 0.1 * np.cos(np.arange(-(-700 // s) + 1)) for s in spacings]
    strategy = Hats.rounded(700, spacings, amplitudes, norm)
    matrix = strategy.matrix().astype(float)
    covariance = np.linalg.inv(matrix.T @ matrix)
    joint = np.cumsum(np.cumsum(covariance, axis=0), axis=1)
    assert np.allclose(strategy.prefix_variance, joint.diagonal(), rtol=1e-11)
    # in parts too small for the whole line, and from positions within cells
    equations = strategy.equations(strategy.own.astype(float) ** 2)
    assert np.allclose(equations.cell_variance, covariance.diagonal(), rtol=1e-11)
    rng = np.random.default_rng(7)
    low, high = np.sort(rng.uniform(0, 700, (2, 50)), axis=0)
    at = np.arange(700)
    weights = np.clip(high[:, None] - at, 0, 1) - np.clip(low[:, None] - at, 0, 1)
    expected = np.einsum("qi,ij,qj->q", weights, covariance, weights)
    assert np.allclose(equations.range_variance(low, high), expected, rtol=1e-10)


def test_columns_have_one_norm() -> None:
    spacings = (5, 17)
    amplitudes = [np.linspace(0.1, 0.3, -(-200 // s) + 1) for s in spacings]
    sums = np.abs(Hats.rounded(200, spacings, amplitudes).matrix()).sum(axis=0)
    assert set(sums.tolist()) == {2**16}
    squares = (Hats.rounded(200, spacings, amplitudes, norm=2).matrix() ** 2).sum(axis=0)
    assert squares.max() <= 2**32
    assert squares.min() > 2**32 - 2**17
