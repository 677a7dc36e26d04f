"""What a row says, and what the command makes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from counton.cli.app import app
from counton.plots.style import PALETTE
from counton.reproduce import PAPERS, Comparison, Evidence, Figure, drawing

RIGHT = Comparison("Table 1", "epsilon", "0.1341", 0.13407, note="known to four digits")
KNOWN = Comparison("Cor. C.3", "constant", "0.1238", 0.12387, note="cut off", differs=True)
WRONG = replace(RIGHT, computed=0.1343)


def test_a_note_alone_excuses_nothing() -> None:
    assert [row.verdict for row in (RIGHT, KNOWN, WRONG)] == ["agrees", "explained", "DIFFERS"]
    assert replace(KNOWN, note="").verdict == "DIFFERS"
    assert replace(KNOWN, computed=0.1238).verdict == "agrees"
    assert KNOWN.difference == pytest.approx(7e-5)
    assert Evidence("A paper", (RIGHT, KNOWN, WRONG)).wrong == (WRONG,)


def test_a_formula_is_held_to_nine_digits() -> None:
    assert Comparison.with_formula("Lemma 1", "norm", 2 / 3, 2 / 3).agrees
    assert Comparison.with_formula("Lemma 1", "norm", 2e9 / 3, 2e9 / 3).agrees
    assert not Comparison.with_formula("Lemma 1", "norm", 2 / 3, 0.6666667).agrees
    assert not Comparison.with_formula("Lemma 1", "norm", 2e9, 2e9 + 100).agrees


@pytest.mark.parametrize("rows", [(RIGHT, KNOWN), (RIGHT, WRONG)])
def test_all_papers_have_a_folder_each_and_the_worst_row_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: tuple[Comparison, ...]
) -> None:
    def found(paper: str, folder: Path, *, quick: bool) -> Evidence:
        assert quick
        return Evidence(paper, rows, (Figure(folder / "figure-1.png", "Figure 1", "A. B."),))

    monkeypatch.setattr("counton.cli.reproduction.reproduce", found)
    words = ["reproduce", "all", "--quick", "--folder", str(tmp_path)]
    done, plain = (CliRunner().invoke(app, [*words, *more]) for more in (["--json"], []))
    assert done.exit_code == plain.exit_code == int(WRONG in rows)
    papers = json.loads(done.stdout)["papers"]
    assert list(papers) == list(PAPERS)
    for name, told in papers.items():
        assert told["figures"] == [str(tmp_path / name / "figure-1.png")]
        assert [row["verdict"] for row in told["comparisons"]] == [row.verdict for row in rows]
        assert [row["difference"] for row in told["comparisons"]] == [
            row.difference for row in rows
        ]
    each = len(PAPERS)
    end = f"{each} papers: {2 * each} numbers compared: {each} agree, "
    end += f"0 explained, {each} DIFFER" if WRONG in rows else f"{each} explained"
    assert plain.stdout.splitlines()[-1] == end


def test_the_help_names_every_paper() -> None:
    told = CliRunner().invoke(app, ["reproduce", "--help"], terminal_width=200).stdout
    assert [paper for paper in (*PAPERS, "all") if paper not in told] == []


@pytest.mark.slow
def test_a_sheet_shows_panels_boxes_and_a_legend_in_few_colours(tmp_path: Path) -> None:
    from matplotlib.image import imread

    canvas, axes = drawing.panels("Title", "all that is assumed", (1, 2), legend=0.6)
    left, right = axes[0]
    left.plot([1, 2, 3], color=PALETTE[0], label="a line")
    drawing.label(left, "(a) a panel", "step", "variance")
    drawing.draw_boxes(
        right, [drawing.Box(1, 2, 1, PALETTE[1], "read"), drawing.Box(1, 1, 0, "#ffffff")]
    )
    drawing.legend_below(canvas)
    figure = drawing.save(canvas, tmp_path / "new" / "sheet.png", "Figure 1", "One. Two.")
    pixels = imread(figure.path)
    assert pixels.shape[1] == 900
    shown = {
        tuple(round(255 * float(part)) for part in pixel[:3])
        for pixel in pixels.reshape(-1, pixels.shape[-1])
    }
    assert 20 < len(shown) <= 96
    for colour in PALETTE[:2]:
        assert tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5)) in shown
