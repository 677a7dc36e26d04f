"""Who is how precise: rows are right, the page has them, and counts say what is meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counton.base.literature import VENUES
from papers import Comparison, reproduce
from papers.evidence import ErrorRow, Evidence, counted
from papers.less_noise.numbers import GUARANTEES, PLANNED
from papers.survey.numbers import HORIZONS, PUBLISHED, SEARCHED, group_algebra, markdown, privelet

PAGE = Path(__file__).parents[2] / "docs" / "survey.md"


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return reproduce("survey", tmp_path_factory.mktemp("survey"), quick=True)


def test_nothing_published_for_streams_is_below_the_plan(survey: Evidence) -> None:
    for row in survey.errors:
        at = (row.guarantee, row.metric, row.horizon)
        ours = next(o.std for o in survey.errors if (*o[:3], o.mechanism) == (*at, PLANNED))
        assert row.std >= ours * (1 - 1e-9), row
    assert not survey.wrong
    (figure,) = survey.figures
    assert figure.path.exists()


def test_the_page_has_the_rows(survey: Evidence) -> None:
    """What the quick form computes; the page has a million of steps beside it, and searches."""
    page = PAGE.read_text("utf-8").splitlines()
    for guarantee in GUARANTEES:
        for line in markdown(survey.errors, guarantee)[2:]:
            begin = line.rstrip("| ").rstrip()
            assert any(one.startswith(begin) for one in page), begin
    for one in PUBLISHED:
        assert any(line.startswith(f"| {one.name} | {one.source}") for line in page), one.name


@pytest.mark.parametrize("horizon", [2, 5, 16])
def test_the_square_root_of_a_circulant_matrix(horizon: int) -> None:
    """By its matrices: they give running sums, and their norms are those of the formula."""
    size = 2 * horizon
    first = np.r_[np.ones(horizon), np.zeros(horizon)]
    root = np.sqrt(np.fft.fft(first).astype(complex))
    root[size // 2 + 1 :] = np.conj(root[1 : size // 2][::-1])
    column = np.real(np.fft.ifft(root))
    whole = np.array([[column[(i - j) % size] for j in range(size)] for i in range(size)])
    b, c = whole[:horizon], whole[:, :horizon]
    if abs(root[size // 2].imag) < 1e-12:
        assert np.allclose(b @ c, np.tril(np.ones((horizon, horizon))))
    norms = np.sqrt((b**2).sum(axis=1).max() * (c**2).sum(axis=0).max())
    assert norms == pytest.approx(group_algebra(horizon))


def test_privelet_is_its_matrix() -> None:
    from counton.strategies.lines.haar import Haar

    for horizon in (8, 13):
        matrix = Haar.wavelet(horizon).matrix().astype(float)
        read = np.tril(np.ones((horizon, horizon))) @ np.linalg.pinv(matrix)
        squares = (read**2).sum(axis=1) * (matrix**2).sum(axis=0).max()
        found = privelet(horizon, "zCDP, rho = 1/2")
        assert found is not None
        assert found["max"] == pytest.approx(np.sqrt(squares.max()), rel=1e-2)


def test_counts_say_what_is_meant() -> None:
    own = Comparison("here", "std", "7.89", 7.8897, own=True)
    printed = Comparison("Table 1", "std", "7.89", 7.8897)
    limit = Comparison("here", "std", "8", 7.8897, at_most=True, own=True)
    assert counted([own, own, limit]) == (
        "No paper prints these numbers: 2 are what counton states, or computes in another way, "
        "1 keep a limit that counton states"
    )
    assert counted([limit, replace(limit, computed=8.1)]) == (
        "No paper prints these numbers: 1 DIFFER, 1 keep a limit that counton states"
    )
    assert counted([own, printed]).startswith("1 of 1 numbers have the digits")


def test_every_venue_is_one_of_the_references() -> None:
    """Venues stand at two places: where a method is cited, and in the survey."""
    named = " ".join(one.source for one in PUBLISHED)
    for venue in ("FORC 2025", "FORC 2026", "NeurIPS 2023", "ICML 2023", "STOC 2010"):
        assert venue in named
        assert any(venue in one for one in VENUES.values())
    assert {one.name.partition(",")[0] for one in PUBLISHED} >= {*SEARCHED}
    assert HORIZONS == (365, 8760, 10**6)
    assert ErrorRow._fields[-1] == "std"
