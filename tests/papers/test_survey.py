"""Who is how precise: rows are right, the page has them, and counts say what is meant."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counton.base.literature import VENUES
from counton.strategies import KAry
from papers import Comparison, reproduce
from papers.evidence import ErrorRow, Evidence, counted
from papers.less_noise.numbers import BOUND, GUARANTEES, PLANNED
from papers.survey import lengths
from papers.survey.indexed import indexed_tree
from papers.survey.numbers import (
    HORIZONS,
    NOT_COMPUTED,
    PUBLISHED,
    SEARCHED,
    STATED,
    group_algebra,
    markdown,
    odd_arity,
    privelet,
)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "research" / "accuracy.md"


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return reproduce("survey", tmp_path_factory.mktemp("survey"), quick=True)


@pytest.mark.long
def test_nothing_published_for_streams_is_below_the_plan(survey: Evidence) -> None:
    for row in survey.errors:
        at = (row.guarantee, row.metric, row.horizon)
        ours = next(o.std for o in survey.errors if (*o[:3], o.mechanism) == (*at, PLANNED))
        if row.mechanism == BOUND:
            assert row.std < ours
        else:
            assert row.std >= ours * (1 - 1e-9), row
    assert not survey.wrong
    (figure,) = survey.figures
    assert figure.path.exists()


@pytest.mark.long
def test_the_page_has_the_rows(survey: Evidence) -> None:
    """What the quick form computes; the page has a million of steps beside it, and searches."""
    page = PAGE.read_text("utf-8").splitlines()
    for guarantee in GUARANTEES:
        for line in markdown(survey.errors, guarantee)[2:]:
            begin = line.rstrip("| ").rstrip()
            assert any(one.startswith(begin) for one in page), begin
    for one in PUBLISHED:
        assert re.search(r"\b(19|20)\d\d$", one.venue.removesuffix(", a workshop")), one.name


def test_the_page_has_all_mechanisms_at_all_horizons() -> None:
    """But for searches, which stop where they would take minutes, and the law they are for."""
    page = PAGE.read_text("utf-8")
    tables = [part.split("\n\n")[1] for part in page.split("## ")[1:3]]
    for one in PUBLISHED:
        begin = f"| {one.name} | "
        rows = [row for table in tables for row in table.splitlines() if row.startswith(begin)]
        assert rows, one.name
        for row in rows:
            cells = [cell.strip() for cell in row.removeprefix(begin).strip("|").split("|")]
            assert len(cells) == 2 * len(HORIZONS)
            searched = one.name.partition(",")[0] in SEARCHED
            assert cells.count(NOT_COMPUTED) == (4 if searched else 0)


def test_the_front_page_states_rows_of_the_table() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    table = readme[readme.index("| mechanism | noise standard deviation |") :].split("\n\n")[0]
    stated = {std for at, horizon, _, std in STATED if (at[:4], horizon) == ("pure", 8760)}
    assert {*re.findall(r"\d+\.\d", table)} == stated
    assert "`python -m papers survey` computes this table" in readme


def test_odd_arities_are_looked_through() -> None:
    best = odd_arity(365, 1, "mean")
    assert best.arity % 2 == 1
    errors = [KAry(365, arity).overall_variance("mean") * KAry(365, arity).height**2
              for arity in range(3, 366, 2)]  # fmt: skip
    assert best.overall_variance("mean") * best.height**2 == min(errors)


@pytest.mark.parametrize("horizon", [2, 5, 16])
def test_the_square_root_of_a_circulant_matrix(horizon: int) -> None:
    """By its matrices: they give running sums, and their norms are those of the formula."""
    size = 2 * horizon
    first = np.r_[np.ones(horizon), np.zeros(horizon)]
    root = np.sqrt(np.fft.fft(first).astype(complex))
    root[size // 2 + 1 :] = np.conj(root[1 : size // 2][::-1])
    column = np.real(np.fft.ifft(root))
    whole = np.array([[column[(i - j) % size] for j in range(size)] for i in range(size)])
    b = whole[:horizon]
    c = whole[:, :horizon]
    if abs(root[size // 2].imag) < 1e-12:
        assert np.allclose(b @ c, np.tril(np.ones((horizon, horizon))))
    norms = np.sqrt((b**2).sum(axis=1).max() * (c**2).sum(axis=0).max())
    assert norms == pytest.approx(group_algebra(horizon))


def test_privelet_is_its_matrix() -> None:
    from counton.tables.haar import Haar

    for horizon in (8, 13):
        matrix = Haar.wavelet(horizon).matrix().astype(float)
        read = np.tril(np.ones((horizon, horizon))) @ np.linalg.pinv(matrix)
        squares = (read**2).sum(axis=1) * (matrix**2).sum(axis=0).max()
        found = privelet(horizon, "zCDP, rho = 1/2")
        assert found is not None
        assert found["max"] == pytest.approx(np.sqrt(squares.max()), rel=1e-2)


def test_a_binary_indexed_tree_is_its_matrix() -> None:
    """FDA and BCRG: steps share a weight of 1, and a total is read from its nodes."""
    steps = np.arange(1, 14)
    holds = np.array([[node - (node & -node) < step <= node for step in steps] for node in steps])
    reads = np.zeros((13, 13))
    for step in steps:
        node = step
        while node:
            reads[step - 1, node - 1] = 1
            node = node & (node - 1)
    assert (reads @ holds == np.tri(13)).all()
    for norm in (1, 2):
        variances = indexed_tree(13, norm)
        nodes = np.linalg.solve(reads, variances)  # of each node's sum
        shares = holds.T @ (1 / nodes ** (norm / 2))
        assert shares.max() == pytest.approx(1)
    assert (indexed_tree(13, 2, spare=True) <= indexed_tree(13, 2)).all()


@pytest.mark.evidence
def test_plans_are_near_the_best_at_every_length() -> None:
    """As recorded, and as it is for a handful."""
    rows = {row.steps: row for row in lengths.recorded()}
    assert list(rows) == lengths.LENGTHS
    for row in rows.values():
        assert row.excess < 0.001, row
        assert lengths.plan_std(row.steps) == pytest.approx(row.plan, rel=1e-5)
    for steps in (9, 45, 181, 256, 512):
        again = lengths.Length.of(steps)
        assert again.hdmm == pytest.approx(rows[steps].hdmm, rel=5e-4)
        assert again.searched == pytest.approx(rows[steps].searched, rel=5e-4)
    page = PAGE.read_text("utf-8").splitlines()
    assert all(line in page for line in lengths.markdown())


def test_counted_separates_own_and_printed_numbers() -> None:
    own = Comparison("here", "std", "7.89", 7.8897, own=True)
    printed = Comparison("Table 1", "std", "7.89", 7.8897)
    limit = Comparison("here", "std", "8", 7.8897, at_most=True, own=True)
    assert counted([own, own, limit]) == (
        "No paper prints these numbers: 2 that counton states or computes in another way, "
        "1 within a limit that counton states"
    )
    assert counted([limit, replace(limit, computed=8.1)]) == (
        "No paper prints these numbers: 1 DIFFER, 1 within a limit that counton states"
    )
    assert counted([own, printed]).startswith("1 of 1 numbers agree with the printed digits")


def test_every_venue_is_one_of_the_references() -> None:
    """Venues stand at two places: where a method is cited, and in the survey."""
    named = " ".join(one.source for one in PUBLISHED)
    for venue in ("TCC 2006", "FORC 2025", "FORC 2026", "NeurIPS 2023", "ICML 2023", "STOC 2010"):
        assert venue in named
        assert any(venue in one for one in VENUES.values())
    assert {one.name.partition(",")[0] for one in PUBLISHED} >= {*SEARCHED}
    assert HORIZONS == (365, 8760, 10**6)
    assert ErrorRow._fields[-1] == "std"
