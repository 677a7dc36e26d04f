"""The documentation's page of a paper is what the command that writes it would write."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from counton.base.errors import InvalidInputError
from papers import Comparison, Evidence, Figure
from papers.gallery import BEGIN, END, filled, numbers, pictures, write_pages

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = sorted(page.stem for page in (DOCS / "papers").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "paper", [pytest.param(paper, marks=pytest.mark.xdist_group(paper)) for paper in SHOWN]
)
def test_a_page_shows_every_figure_of_its_paper(
    paper: str, drawn: Callable[[str], Evidence]
) -> None:
    from matplotlib.image import imread

    page = (DOCS / "papers" / f"{paper}.md").read_text("utf-8")
    found = drawn(paper)
    assert found.figures
    written = re.search(f"{re.escape(BEGIN)}\n(.*?)\n## Numbers", page, re.DOTALL)
    assert written, f"run make gallery: {paper}.md"
    assert written[1].strip() == pictures(paper, found.figures).strip(), "run make gallery"
    assert f"python -m papers {paper}" in page
    images = {path.name for path in (DOCS / "images" / paper).iterdir()}
    assert images == {figure.path.name for figure in found.figures}
    assert sum((DOCS / "images" / paper / name).stat().st_size for name in images) < 800_000
    for path, title, shows in found.figures:
        assert imread(path).std() > 0.05
        assert len(title) < 70
        assert shows.count(".") >= 2


def test_the_gallery_has_a_page_for_each_of_its_papers() -> None:
    assert {"constants"} <= set(SHOWN)
    navigation = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    for paper in SHOWN:
        assert f"papers/{paper}.md" in navigation


def test_filled_page_keeps_handwritten_text() -> None:
    row = Comparison("Table 1", "one | two", "1", 1.5, note="it does", expected="1.50")
    found = Evidence(
        "A paper",
        (row, row, Comparison("Table 1", "three", "3", 3)),
        (Figure(Path("f.png"), "F", "A. B."),),
    )
    page = f"# Title\n\n{BEGIN}\nold\n{END}\n\nAfter.\n"
    new = filled(page, "elders", found)
    assert new.startswith("# Title\n\n")
    assert new.endswith("\n\nAfter.\n")
    assert "old" not in new
    assert "![F](../images/elders/f.png)" in new
    assert (
        "1 of 3 numbers agree with the printed digits. Of the others: 2 with an explained "
        "difference."
    ) in new
    assert "prints each number that differs, with the reason." in new
    assert filled(new, "elders", found) == new
    with pytest.raises(InvalidInputError, match="0 places to write to"):
        filled("# Title\n", "elders", found)


def test_page_of_paper_without_differences_states_agreement() -> None:
    told = numbers(Evidence("A paper", (Comparison("Table 1", "three", "3", 3),)))
    assert "1 of 1 numbers agree with the printed digits." in told
    assert "differs" not in told


@pytest.mark.parametrize("why", [{}, {"note": "a reason", "expected": "1.7"}])
def test_no_page_is_written_of_numbers_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: dict[str, str]
) -> None:
    found = Evidence("A paper", (Comparison("Table 1", "one", "1", 1.5, **why),))  # type: ignore[arg-type]
    monkeypatch.setattr("papers.gallery.reproduce", lambda paper, folder: found)
    page = tmp_path / "papers" / "elders.md"
    page.parent.mkdir()
    page.write_text(f"{BEGIN}\nold\n{END}\n")
    with pytest.raises(InvalidInputError, match="differ and no row says why"):
        write_pages(tmp_path, ("elders",))
    assert "old" in page.read_text()
