"""Linear algebra on one thread, because the number of threads changes the last digits of sums."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one thread in the ``with`` block, in the whole process.

    Without the package threadpoolctl it has no effect.

    >>> from threadpoolctl import threadpool_info
    >>> with one_thread():
    ...     {library["num_threads"] for library in threadpool_info()
    ...      if library["user_api"] == "blas"}
    {1}
    """
    # A search consists of thousands of small products. Threads that wait for each other, while
    # other processes use the processors, make it 5 to 30 times slower; on an idle machine they gain
    # little.
    try:
        controller = _libraries(len(sys.modules))
    except ModuleNotFoundError:
        yield
        return
    with controller.limit(limits=1, user_api="blas"):
        yield


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    @wraps(function)
    def alone(*args: P.args, **more: P.kwargs) -> R:
        with one_thread():
            return function(*args, **more)

    return alone


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Find the libraries again once more ``modules`` are loaded, because these may bring others."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
