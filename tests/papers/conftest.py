"""The evidence of each paper, computed once in its quick form: tests of a paper share it.

Test processes each have their own session: tests that ask for a paper belong to one group
(`pytestmark = pytest.mark.xdist_group("elders")`), so that one process runs them all.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from papers import Evidence, reproduce

#: What takes seconds to compute: fixtures below.
_EVIDENCE = {"drawn", "expiration", "less_noise", "smooth", "constants", "elders"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        asked = _EVIDENCE & {*getattr(item, "fixturenames", ())}
        if asked and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.evidence)


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Evidence]:
    """A paper's evidence with its figures, in quick form; each paper is drawn once."""
    folder = tmp_path_factory.mktemp("figures")

    @lru_cache
    def draw(paper: str) -> Evidence:
        told: list[float] = []
        found = reproduce(
            paper, folder / paper, quick=True, report=lambda _stage, share: told.append(share)
        )
        assert told == sorted(told)
        assert told[0] == 0
        # It moves, and comes to its end: nothing is left out of the count of stages.
        assert len({*told}) > (2 if paper == "less-noise" else 7)
        assert told[-1] == 1
        assert max(told[:-1]) < 1
        return found

    return draw


def quick(paper: str) -> Any:
    """A fixture: a paper's evidence in quick form, without figures."""
    return pytest.fixture(scope="session", name=paper.replace("-", "_"))(
        lambda: reproduce(paper, quick=True)
    )


expiration = quick("expiration")
less_noise = quick("less-noise")
smooth = quick("smooth")
constants = quick("constants")
elders = quick("elders")
flights = quick("flights")
