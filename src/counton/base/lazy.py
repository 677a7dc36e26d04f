"""Imports on first use: public names of packages, and optional modules."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from counton.base.errors import MissingDependencyError

#: An indented import of one name, also over several lines. To parse a package costs much more.
_HOME = re.compile(r"^ +from (\S+) import (?:\(\s*)?(\w+) as \2\b", re.MULTILINE)


def attach(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Build a package's ``__getattr__``, ``__dir__`` and ``__all__`` for imports on first use.

    Args:
        package: name of the package.
        file: path of its ``__init__.py``. Public names stand in it once, as ``from counton.x import
            Y as Y`` under ``if TYPE_CHECKING``.

    >>> import counton.statistics
    >>> load, names, public = attach("counton.statistics", counton.statistics.__file__)
    >>> load("Count").__module__, "Count" in public
    ('counton.statistics.count', True)
    >>> load("Counts")
    Traceback (most recent call last):
    ...
    AttributeError: module 'counton.statistics' has no attribute 'Counts'
    """
    home = homes_of(Path(file).read_text("utf-8"))

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return load, names, [*home]


def homes_of(source: str) -> dict[str, str]:
    """Map each public name of a package, given its source, to the module that defines it.

    >>> homes_of("if TYPE_CHECKING:\\n    from counton.noise import Key as Key")
    {'Key': 'counton.noise'}
    """
    return {name: module for module, name in _HOME.findall(source)}


#: The purpose of each optional module, and the extra of the installation that contains it.
OPTIONAL_MODULES = {
    "click": ("the command line needs click", "cli"),
    "fastapi": ("the service needs FastAPI", "serve"),
    "matplotlib": ("charts need matplotlib", "plot"),
    "optax": ("training with JAX needs optax", "jax"),
    "prometheus_client": ("the service needs prometheus_client", "serve"),
    "polars": ("event files and data frames need polars", "cli"),
    "pandas": ("data frames of pandas need it", "pandas"),
    "pyarrow": ("data frames of Spark need pyarrow", "spark"),
    "pyspark": ("jobs over Spark need PySpark", "spark"),
    "pydantic": ("jobs need pydantic", "cli"),
    "psycopg": ("PostgreSQL states need the driver psycopg", "postgresql"),
    "rich": ("the command line needs rich", "cli"),
    "tomlkit": ("job files are written with tomlkit", "cli"),
    "torch": ("training with PyTorch needs torch", "torch"),
    "uvicorn": ("the service needs the server uvicorn", "serve"),
    "zstandard": ("files compressed by zstd are read with zstandard", "cli"),
}


def require(module: str) -> None:
    """Import an optional module.

    Args:
        module: a key of `OPTIONAL_MODULES`.

    Raises:
        MissingDependencyError: the import fails; the message says how to install the module.
    """
    try:
        import_module(module)
    except ImportError as error:
        raise missing(module, error) from error


def require_installed(module: str) -> None:
    """Raise an error if an optional module is not installed; do not import it.

    Args:
        module: a key of `OPTIONAL_MODULES`.

    Raises:
        MissingDependencyError: the module is not installed; the message says how to install it.
    """
    if find_spec(module) is None:
        raise missing(module, ModuleNotFoundError(name=module))


def software() -> str:
    """Return the name and version of this package. Finding the version is slow."""
    from importlib.metadata import version

    return f"counton {version('counton')}"


def missing(module: str, error: ImportError) -> MissingDependencyError:
    """Build the error that says how to install an optional module."""
    need, extra = OPTIONAL_MODULES[module]
    absent = isinstance(error, ModuleNotFoundError) and error.name == module
    why = "is not installed" if absent else f"cannot be imported ({error})"
    return MissingDependencyError(
        f"{need}, which {why}: install counton's extra {extra!r} (in a checkout: pip install "
        f"'.[{extra}]')",
        name=module,
    )
