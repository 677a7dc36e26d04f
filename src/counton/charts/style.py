"""Common style of all charts: width, colours, headings, and file formats."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

from counton.base.errors import InvalidInputError, param
from counton.base.lazy import require
from counton.base.outside_input import printable, shown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours that readers with any kind of colour vision can distinguish (Okabe and Ito 2008, with a
#: darker yellow).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D00", "#E69F00", "#444444")

INK = "#1a1a1a"
FAINT = "#6b6b6b"
GRID = "#e6e6e6"
#: Default width of a chart, and smallest and largest allowed width, in inches.
WIDTH = 7.5
NARROWEST = 3.0
WIDEST = 30.0
#: Width in inches below which the names of curves are under a chart, not beside it.
NARROW = 5.5
#: Largest number of letters of a name beside a chart.
LONGEST_NAME = 24
_TITLE_LETTERS = 50
_SUBTITLE_LETTERS = 88
_FOOT_LETTERS = 104
#: Fonts that have letters which matplotlib's font lacks; installed ones are tried in this order.
_FONTS = (
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
    "Arial Unicode MS",
    "Unifont",
)
_Given = ParamSpec("_Given")


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress matplotlib's warnings about fonts and folders, which would fill a scheduled job's
    mail.

    Letters that its font lacks are taken from an installed font, or drawn as boxes.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            require("matplotlib")
            from matplotlib import font_manager, rc_context

            installed = {font.name for font in font_manager.fontManager.ttflist}
            fonts = [font for font in _FONTS if font in installed]
            with rc_context({"font.family": ["DejaVu Sans", *fonts], "svg.hashsalt": "counton"}):
                yield
    finally:
        log.setLevel(level)


def drawing(draw: Callable[_Given, Figure]) -> Callable[_Given, Figure]:
    """Decorate a drawing function: it runs `quietly`, and notebooks show the figure once."""

    @wraps(draw)
    def quiet(*args: _Given.args, **more: _Given.kwargs) -> Figure:
        with quietly():
            figure = draw(*args, **more)
            _write_signs_as_codes(figure)
        # IPython asks for this name; matplotlib provides it only if its backend is set up.
        vars(figure)["_repr_png_"] = partial(image_of, figure, "png")
        return figure

    return quiet


def _write_signs_as_codes(figure: Figure) -> None:
    """Replace control characters in a figure by codes: SVG files must not contain them."""
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(_without_control_characters(text.get_text()))
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        for formatter in (axis.get_major_formatter(), axis.get_minor_formatter()):
            if isinstance(formatter, FixedFormatter):
                formatter.seq = [_without_control_characters(str(name)) for name in formatter.seq]


def _without_control_characters(text: str) -> str:
    """Replace control characters, and two that XML forbids, by codes."""
    return printable(text).replace("\ufffe", r"\ufffe").replace("\uffff", r"\uffff")


def image_of(figure: Figure, kind: str, **more: Any) -> bytes:
    """Return a figure as bytes, such as of "png" or "svg"."""
    file = BytesIO()
    with quietly():
        figure.savefig(file, format=kind, **more)
    return file.getvalue()


def check_width(width: Any) -> float:
    """Return the width of a chart in inches; None stands for the default.

    Raises:
        InvalidInputError: the width is too small for words, or too large.

    >>> check_width(None), check_width(4)
    (7.5, 4.0)
    """
    if width is None:
        return WIDTH
    is_number = isinstance(width, int | float) and not isinstance(width, bool)
    if not is_number or not NARROWEST <= width <= WIDEST:  # also false for NaN
        raise InvalidInputError(
            f"{param('width', width)} is too small or too large for a chart; give {NARROWEST:g} to "
            f"{WIDEST:g} inches: 4 for a telephone, {WIDTH:g} for a page"
        )
    return float(width)


def heading_inches(title: str, subtitle: str, width: float = WIDTH) -> float:
    """Return the height, in inches, of title and subtitle.

    >>> heading_inches("Visits", "each one is protected") < heading_inches("Visits", "long " * 40)
    True
    """
    lines = _lines(title, subtitle, width)
    return 0.2 + 0.27 * len(lines[0]) + 0.19 * len(lines[1])


class Caption(NamedTuple):
    """The words around a chart, and its width.

    >>> Caption("Visits").adding("per day").subtitle
    'per day'
    """

    title: str
    subtitle: str = ""
    axis: str = ""
    foot: str = ""
    width: float = WIDTH

    def adding(self, words: str) -> Caption:
        """Return a copy with more words at the end of its subtitle.

        Args:
            words: the words, with the space or comma that comes before them.
        """
        return self._replace(subtitle=self.subtitle + words)


def frame(
    words: Caption, middle: float, *, above: float = 0.0, below: float = 0.0
) -> tuple[Figure, float, float]:
    """Return an empty chart, and both ends of its middle part as fractions of its height.

    ``middle``, and the free space ``above`` and ``below``, are in inches.

    >>> figure, bottom, top = frame(Caption("Visits", width=4.0), 2.0, above=0.5, below=1.0)
    >>> round(float((top - bottom) * figure.get_figheight()), 6)
    2.0
    """
    from matplotlib.figure import Figure

    head = heading_inches(words.title, words.subtitle, words.width) + above
    bottom = below + foot_inches(words.foot, words.width)
    tall = head + middle + bottom
    figure = Figure(figsize=(words.width, tall), dpi=150, facecolor="white")
    write_heading(figure, words.title, words.subtitle)
    foot = "\n".join(_foot(words.foot, words.width))
    style: dict[str, Any] = {"size": 8.5, "color": FAINT, "linespacing": 1.25}
    figure.text(0.15 / words.width, 0.1 / tall, foot, va="bottom", parse_math=False, **style)
    return figure, bottom / tall, 1 - head / tall


def write_heading(figure: Figure, title: str, subtitle: str) -> None:
    """Write title and subtitle; dollar signs do not begin a formula."""
    tall = figure.get_figheight()
    wide = figure.get_figwidth()
    above, below = _lines(title, subtitle, wide)
    styles: tuple[dict[str, Any], ...] = (
        {"size": 15, "weight": "bold", "color": INK},
        {"size": 10, "color": FAINT, "linespacing": 1.25},
    )
    middle = 1 - (0.16 + 0.27 * len(above)) / tall
    for y, lines, style in zip((1 - 0.12 / tall, middle), (above, below), styles, strict=True):
        figure.text(0.15 / wide, y, "\n".join(lines), va="top", parse_math=False, **style)


def _lines(title: str, subtitle: str, width: float) -> tuple[list[str], list[str]]:
    share = width / WIDTH
    return wrap(title, int(_TITLE_LETTERS * share)), wrap(subtitle, int(_SUBTITLE_LETTERS * share))


def foot_inches(foot: str, width: float = WIDTH) -> float:
    """Return the height, in inches, of the foot.

    >>> foot_inches(""), foot_inches("Source: the museums") > 0
    (0.0, True)
    """
    lines = _foot(foot, width)
    return 0.15 + 0.16 * len(lines) if lines else 0.0


def _foot(foot: str, width: float) -> list[str]:
    return wrap(foot, int(_FOOT_LETTERS * width / WIDTH))


def names_inches(names: Sequence[tuple[str, str]], width: float) -> float:
    """Return the height, in inches, of names below a narrow chart; 0 if they are beside curves.

    >>> names_inches([("this plan", "black")], 7.5), names_inches([("this plan", "black")], 4) > 0
    (0.0, True)
    """
    if width >= NARROW:
        return 0.0
    return 0.1 + 0.2 * sum(len(_name_lines(name, width)) for name, _ in names)


def names_below(figure: Figure, names: Sequence[tuple[str, str]], bottom: float) -> None:
    """Write the names of curves, from top to bottom, below a narrow chart."""
    tall = figure.get_figheight()
    width = figure.get_figwidth()
    y = bottom + names_inches(names, width)
    for name, colour in names:
        for line in _name_lines(name, width):
            y -= 0.2
            figure.text(0.15 / width, y / tall, line, size=10, color=colour, parse_math=False)


def name_ends(ax: Axes, ends: Sequence[tuple[str, float, str]], size: float) -> None:
    """Write names beside the ends of curves (fractions of the axis), moved apart."""
    placed = []
    free = 1.0
    floor = 0.0
    for name, end, colour in sorted(ends, key=lambda end: -end[1]):
        height = 0.0058 * size * (name.count("\n") + 1)
        middle = min(end, free - height / 2)
        placed.append((name, middle, height, colour))
        free = middle - height / 2 - 0.02
    for name, middle, height, colour in reversed(placed):
        raised = max(middle, floor + height / 2)
        floor = raised + height / 2 + 0.02
        ax.annotate(
            name,
            (1.02, raised),
            xycoords="axes fraction",
            va="center",
            size=size,
            color=colour,
            weight="bold" if colour == PALETTE[0] else "normal",
            annotation_clip=False,
        )


def _name_lines(name: str, width: float) -> list[str]:
    return wrap(name.replace("\n", " "), int(_FOOT_LETTERS * 0.85 * width / WIDTH))


def clean(ax: Axes, *, grid: str | None = None) -> None:
    """Remove the box around axes, and draw grid lines at the ticks of "x", "y" or "both"."""
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color("#b0b0b0")
    ax.tick_params(colors=FAINT, labelsize=9, length=0)
    if grid is not None:
        ax.grid(axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
    ax.set_axisbelow(True)


def tick(value: float) -> str:
    """Format a round number with all its digits.

    >>> tick(180_000_000.0), tick(0.25)
    ('180,000,000', '0.25')
    """
    shown = f"{value:,.0f}" if value == round(value) else f"{value:,.6g}"
    return shown.replace("-", "−") if value else "0"


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a name as a chart shows it, without characters that cannot be drawn.

    A long name keeps its beginning and its end, in which names often differ.

    >>> shorten("visits of the north wing", longest=12)
    'visits… wing'
    """
    name = shown_name(name)
    if len(name) <= longest:
        return name
    return _cut(name, (longest - 1) // 2, longest)


def _cut(name: str, tail: int, longest: int) -> str:
    """Return a name of ``longest`` letters that keeps the last ``tail`` letters."""
    tail = min(tail, longest - 1)
    return f"{name[: longest - 1 - tail]}…{name[len(name) - tail :]}"


def shorten_all(names: Sequence[str], longest: Sequence[int]) -> list[str]:
    """Return names as a chart shows them, each of which can be told from all others.

    A name is cut where the rest fits no other name. If there is no such place, it ends with its
    number in the list.

    Args:
        names: the names.
        longest: for each name, how many letters fit; at least 4.

    >>> shorten_all(["north wing, 1st floor", "north wing, 2nd floor"], [14, 14])
    ['north …t floor', 'north …d floor']
    >>> shorten_all(["aaaaaaaaXbbbbbbbb", "aaaaaaaaYbbbbbbbb"], [6, 6])
    ['aa…b 1', 'aa…b 2']
    """
    texts = [shown_name(name) for name in names]
    shown: list[str] = []
    for place, (text, most) in enumerate(zip(texts, longest, strict=True)):
        if len(text) <= most:
            shown.append(text)
            continue
        others = {*texts[:place], *texts[place + 1 :]}
        middle = (most - 1) // 2
        tails = sorted(range(most), key=lambda tail: abs(tail - middle))
        distinct = [tail for tail in tails if not _is_ambiguous(text, tail, most, others)]
        if distinct:
            shown.append(_cut(text, distinct[0], most))
            continue
        number = f" {place + 1}"
        room = most - len(number)
        shown.append(_cut(text, (room - 1) // 2, room) + number)
    return shown


def _is_ambiguous(name: str, tail: int, longest: int, others: Collection[str]) -> bool:
    """Return whether a cut name may be one of the others."""
    begin = name[: longest - 1 - tail]
    end = name[len(name) - tail :]
    if _cut(name, tail, longest) in others:
        return True
    return any(other.startswith(begin) and other.endswith(end) for other in others)


#: Metadata with which matplotlib writes no time, by the ending of the file.
_NO_TIME: Mapping[str, dict[str, object]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure to a PNG, SVG or PDF file.

    The same figure gives the same bytes: no time is written.
    """
    with quietly():
        figure.savefig(path, facecolor="white", metadata=_NO_TIME.get(Path(path).suffix.lower()))
