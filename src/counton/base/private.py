"""Private rows and exact numbers, wrapped so that no part of the program leaks them by accident.

A mistake in a message, a log, a table or a chart cannot show a wrapped value. Only `reveal`
unwraps it; `docs/guarantees/verification.md` lists every function that calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar, final

T = TypeVar("T")
Inside = TypeVar("Inside", covariant=True)


@final
class Private(Generic[Inside]):
    """A private value that cannot be printed, converted, compared, copied or read by attributes.

    It can be passed on; its ``repr`` shows the value's type. Everything else raises an error, in
    the type checker where possible, and always at run time.

    >>> from counton.base.private import Private, reveal
    >>> sums = Private([3, 1, 4])
    >>> sums
    Private[list]
    >>> reveal(sums)
    [3, 1, 4]
    """

    __slots__ = ("_inside",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, inside: Inside) -> None:
        _SLOT.__set__(self, inside)

    def __repr__(self) -> str:
        return f"Private[{type(reveal(self)).__name__}]"

    def __str__(self) -> NoReturn:
        raise _refusal("Text")

    def __format__(self, spec: str) -> NoReturn:
        raise _refusal("Text")

    def __eq__(self, other: object) -> NoReturn:
        raise _refusal("A comparison")

    def __ne__(self, other: object) -> NoReturn:
        raise _refusal("A comparison")

    def __bool__(self) -> NoReturn:
        raise _refusal("The truth value")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise _refusal("A copy")

    if not TYPE_CHECKING:  # a type checker would take the class for a number or an array

        def __array__(self, *_: object, **__: object) -> NoReturn:
            raise _refusal("An array")

        __array_ufunc__ = None

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(f"{_refusal(f'The attribute {name!r}')}")


#: The only access to the wrapped value; the objects themselves have no attribute for it.
_SLOT: Final[Any] = Private.__dict__["_inside"]
del Private._inside  # type: ignore[attr-defined]


def reveal(private: Private[T]) -> T:
    """Return the private value.

    Only functions that `docs/guarantees/verification.md` lists may call this.
    """
    inside: T = _SLOT.__get__(private)
    return inside


def _refusal(call: str) -> TypeError:
    return TypeError(
        f"{call} of private data was asked for: only the functions that "
        "docs/guarantees/verification.md lists (reveal) may read rows and exact numbers"
    )
