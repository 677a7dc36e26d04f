"""What all pictures share: colours, and how they are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Distinct to readers with any kind of colour vision (Okabe and Ito 2008, yellow darkened).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D00", "#E69F00", "#444444")

INK, FAINT = "#1a1a1a", "#6b6b6b"


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure; the format follows the name (PNG, SVG, PDF)."""
    figure.savefig(path, facecolor="white")
