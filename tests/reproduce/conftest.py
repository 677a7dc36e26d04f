"""The evidence of each paper, computed once in its quick form: tests of a paper share it.

Test processes each have their own session: tests that ask for a paper belong to one group
(`pytestmark = pytest.mark.xdist_group("elders")`), so that one process runs them all.
"""

from __future__ import annotations

import pytest

from counton.reproduce import Evidence, reproduce


@pytest.fixture(scope="session")
def expiration() -> Evidence:
    return reproduce("expiration", quick=True)


@pytest.fixture(scope="session")
def less_noise() -> Evidence:
    return reproduce("less-noise", quick=True)


@pytest.fixture(scope="session")
def smooth() -> Evidence:
    return reproduce("smooth", quick=True)
