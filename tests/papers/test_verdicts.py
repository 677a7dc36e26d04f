"""What a row says, and what the command makes of it."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from counton.charts.style import PALETTE
from papers import PAPERS, Comparison, Evidence, Figure, drawing
from papers.__main__ import main
from papers.evidence import Report, counted

RIGHT = Comparison("Table 1", "epsilon", "0.1341", 0.13407, note="known to four digits")
KNOWN = Comparison("Cor. C.3", "constant", "0.1238", 0.12387, note="cut off", expected="0.1239")
WRONG = replace(RIGHT, computed=0.1343)


def test_a_note_alone_excuses_nothing() -> None:
    assert [row.verdict for row in (RIGHT, KNOWN, WRONG)] == ["agrees", "explained", "DIFFERS"]
    assert replace(KNOWN, note="").verdict == "DIFFERS"
    assert KNOWN.difference == pytest.approx(7e-5)
    assert Evidence("A paper", (RIGHT, KNOWN, WRONG)).wrong == (WRONG,)


def test_evidence_is_a_table_of_its_numbers() -> None:
    limit = Comparison("Lemma 5", "distance", "1", 0.5, at_most=True)
    table = Evidence("A paper", (RIGHT, KNOWN, WRONG, limit)).table()
    assert table.columns == [
        *("place", "quantity", "printed", "allowed", "computed", "difference", "kind"),
        *("verdict", "note"),
    ]
    assert table["verdict"].to_list() == ["agrees", "explained", "DIFFERS", "agrees"]
    assert table["allowed"].to_list() == ["0.1341", "0.1238", "0.1341", "≤ 1"]
    assert table["computed"].to_list() == [0.13407, 0.12387, 0.1343, 0.5]
    assert table["kind"].to_list()[2:] == ["digits", "limit"]


def test_tables_of_evidence_without_rows_have_their_columns() -> None:
    nothing = Evidence("A paper", ())
    assert nothing.table().schema["place"] == pl.String
    assert nothing.table().schema["difference"] == pl.Float64
    assert nothing.errors_table().schema["horizon"] == pl.Int64
    assert nothing.errors_table().height == nothing.table().height == 0


def test_explained_number_must_equal_known_value() -> None:
    for computed in (0.1238, 0.124, 1.0, math.nan, math.inf):
        assert replace(KNOWN, computed=computed).verdict == "DIFFERS"
    wide = replace(KNOWN, spread=0.01)
    assert replace(wide, computed=0.13).verdict == "explained"
    assert replace(wide, computed=0.14).verdict == "DIFFERS"
    # It is said to be too large, and is not: what the note says would be wrong.
    assert replace(wide, computed=0.1231, at_most=True).verdict == "DIFFERS"
    assert replace(wide, computed=0.1239, at_most=True).verdict == "explained"
    assert replace(RIGHT, computed=math.nan, at_most=True).verdict == "DIFFERS"


def test_counted_describes_rows_by_their_tolerance() -> None:
    rows = (
        RIGHT,
        replace(RIGHT, tolerance=0.1),
        replace(RIGHT, at_most=True),
        replace(RIGHT, at_most=True, printed="0.5"),
        replace(RIGHT, at_most=True, printed="0.5", unproved=True),
        replace(RIGHT, own=True),
        Comparison.with_formula("Lemma 1", "norm", 2, 2),
        Comparison.with_zero("Lemma 1", "norm less its formula", 2e-12, 1e-11),
        KNOWN,
        WRONG,
    )
    kinds = ["digits", "interval", "limit", "far limit", "unproved", "own", "formula", "rounding"]
    assert [row.kind for row in rows[:8]] == kinds
    told = "1 of 9 numbers agree with the printed digits. Of the others: 1 DIFFER, 1 with an "
    told += "explained difference, 1 with the value of a printed formula, 1 in an interval around "
    told += (
        "the printed value, 1 zero except for rounding, 1 within a limit, 1 within a limit more "
    )
    told += "than three times as large (which says little), 1 within a limit that is proved only "
    told += (
        "for other sizes (which tests nothing). No paper prints the rest: 1 that counton states "
    )
    told += "or computes in another way"
    assert counted(rows) == told
    assert [row.allowed for row in rows[:3]] == ["0.1341", "0.1341 ± 0.1", "≤ 0.1341"]


def test_a_formula_is_held_to_nine_digits() -> None:
    assert Comparison.with_formula("Lemma 1", "norm", 2 / 3, 2 / 3).agrees
    assert Comparison.with_formula("Lemma 1", "norm", 2e9 / 3, 2e9 / 3).agrees
    assert not Comparison.with_formula("Lemma 1", "norm", 2 / 3, 0.6666667).agrees
    assert not Comparison.with_formula("Lemma 1", "norm", 2e9, 2e9 + 100).agrees


def test_rounding_is_held_to_a_bound_and_to_no_record() -> None:
    """2.843e-12 on one processor is 2.864e-12 on another; a mistake is larger than both."""
    zero = Comparison.with_zero("Lemma 1", "norm less its formula", 2.843e-12, 1e-11)
    for computed in (2.864e-12, 0.0, -9e-12):
        assert replace(zero, computed=computed, recorded=2.843e-12).verdict == "agrees"
    for computed in (1.1e-11, -1.1e-11, 1.0, math.nan, math.inf):
        assert replace(zero, computed=computed, recorded=2.843e-12).verdict == "DIFFERS"


def test_recorded_numbers_are_larger_than_rounding_errors() -> None:
    """What is recorded is held to three digits, which rounding does not have."""
    known = json.loads(Path(__file__).parents[2].joinpath("papers", "recorded.json").read_text())
    small = {
        (paper, name.partition(":")[0])
        for paper, rows in known.items()
        for name, value in rows.items()
        if 0 < abs(value) < 1e-9
    }
    # Probabilities and a distance, by formulas that lose no digits.
    assert small == {
        ("elders", "Lemma 6.2"),
        ("elders", "Theorem 1.2"),
        ("expiration", "Corollary B.4"),
        ("ranges", "Theorem 3.9"),
    }


@pytest.mark.parametrize("rows", [(RIGHT, KNOWN), (RIGHT, WRONG)])
def test_main_writes_folder_per_paper_and_exits_by_worst_row(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rows: tuple[Comparison, ...],
) -> None:
    def found(paper: str, folder: Path, *, quick: bool, report: Report) -> Evidence:
        assert quick
        report("half", 0.5)
        return Evidence(paper, rows, (Figure(folder / "figure-1.png", "Figure 1", "A. B."),))

    monkeypatch.setattr("papers.__main__.reproduce", found)
    words = ["all", "--quick", "--folder", str(tmp_path)]
    assert main([*words, "--json"]) == (WRONG in rows)
    papers = json.loads(capsys.readouterr().out)["papers"]
    assert list(papers) == list(PAPERS)
    for name, told in papers.items():
        assert told["figures"] == [str(tmp_path / name / "figure-1.png")]
        assert [row["verdict"] for row in told["comparisons"]] == [row.verdict for row in rows]
        assert [row["expected"] for row in told["comparisons"]] == [
            row.expected or None for row in rows
        ]
        assert [row["difference"] for row in told["comparisons"]] == [
            row.difference for row in rows
        ]
    each = len(PAPERS)
    end = f"{each} papers: {each} of {2 * each} numbers agree with the printed digits. Of the "
    end += f"others: {each} " + ("DIFFER" if WRONG in rows else "with an explained difference")
    assert main(words) == (WRONG in rows)
    assert capsys.readouterr().out.splitlines()[-1] == end


def test_the_help_names_every_paper(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    told = capsys.readouterr().out
    assert [paper for paper in (*PAPERS, "all") if paper not in told] == []


def test_one_paper_is_compared_and_its_figures_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def draw(folder: Path) -> Iterator[Figure]:  # that of the evidence has a test of its own
        folder.mkdir()
        (folder / "figure-1.png").touch()
        yield Figure(folder / "figure-1.png", "Figure 1", "Nothing. It is empty.")

    monkeypatch.setattr("papers.expiration.figures.draw_all", draw)
    folder = tmp_path / "figures"
    assert main(["expiration", "--folder", str(folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    table = [row for row in report["comparisons"] if row["place"].startswith("Table 1")]
    assert len(table) == 35
    assert all(row["agrees"] for row in table)
    assert max(abs(row["difference"]) for row in table) < 0.2
    others = [row for row in report["comparisons"] if row not in table]
    assert {row["verdict"] for row in others} == {"agrees", "explained"}
    assert all(row["note"] for row in others if not row["agrees"])
    assert report["figures"] == [str(folder / "figure-1.png")]
    assert Path(report["figures"][0]).exists()
    with pytest.raises(SystemExit) as end:
        main(["nothing"])
    assert end.value.code == 2


@pytest.mark.slow
@pytest.mark.long
def test_sheet_shows_panels_boxes_and_legend_in_few_colours(tmp_path: Path) -> None:
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
