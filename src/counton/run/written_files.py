"""The names of `counton.runs.output_files` by which the old path of a run calls them."""

from counton.runs.output_files import (
    PAGES,
    PICTURES,
    check_output,
    draw_release,
    refuse_another_streams,
    table_paths,
    write_figure,
    write_page,
    write_release,
    write_table,
)
from counton.runs.output_files import chart_paths as pictures_of
from counton.runs.output_files import description_path as beside
from counton.runs.output_files import escape_formulas as no_formulas

__all__ = [
    "PAGES",
    "PICTURES",
    "beside",
    "check_output",
    "draw_release",
    "no_formulas",
    "pictures_of",
    "refuse_another_streams",
    "table_paths",
    "write_figure",
    "write_page",
    "write_release",
    "write_table",
]
