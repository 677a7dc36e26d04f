"""Leaves of the smooth binary mechanism against enumeration."""

import pytest

from counton.strategies.published.smooth import forks_before, unrank


@pytest.mark.parametrize(("height", "zeros"), [(2, 1), (4, 2), (7, 2), (7, 5), (10, 4)])
def test_leaf_ranks_equal_enumeration(height: int, zeros: int) -> None:
    leaves = [n for n in range(2**height) if n.bit_count() == height - zeros]
    assert [unrank(height, zeros, rank) for rank in range(len(leaves))] == leaves
    for level in range(height):
        forks = sorted({leaf >> level + 1 for leaf in leaves if leaf >> level & 1})
        for prefix in range(2 ** (height - level - 1)):
            expected = sum(fork < prefix for fork in forks)
            # Prefixes with too many zeros have no leaves, and are never asked for.
            if any(leaf >> level + 1 == prefix for leaf in leaves):
                assert forks_before(height, zeros, level, prefix) == expected
