"""Optional packages: which part of counton needs them, and which extra brings them."""

from __future__ import annotations

from importlib import import_module

from counton.errors import MissingExtra

#: What needs a module, and the extra of the installation that contains it.
NEEDED = {
    "matplotlib": ("charts need matplotlib", "plot"),
    "polars": ("event files and data frames need polars", "cli"),
    "psycopg": ("PostgreSQL states need the driver psycopg", "postgresql"),
    "rich": ("the command line needs rich", "cli"),
    "sqlalchemy": ("durable streams need SQLAlchemy", "store"),
    "typer": ("the command line needs typer", "cli"),
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
