"""Figures show themselves in a notebook, whatever its backend is."""

import importlib
import pkgutil

import pytest

from counton import ZCDP, charts, plan
from counton.charts import plot_plan


def test_every_chart_function_returns_displayable_figure() -> None:
    found = {
        name: getattr(module, name)
        for info in pkgutil.iter_modules(charts.__path__)
        for module in [importlib.import_module(f"counton.charts.{info.name}")]
        for name in vars(module)
        if name.startswith("plot_") and getattr(module, name).__module__ == module.__name__
    }
    assert len(found) >= 3
    for name, function in found.items():
        assert hasattr(function, "__wrapped__"), f"{name} is not made by `drawing`"


@pytest.mark.slow
def test_a_figure_is_a_picture_to_a_notebook() -> None:
    figure = plot_plan(plan(24, ZCDP(1)), title="plan")
    assert vars(figure)["_repr_png_"]().startswith(b"\x89PNG")
