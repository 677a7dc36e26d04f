"""Numbers that mean what was written: decimal text in, exact fractions out.

The float ``0.1`` is not exactly a tenth. Budgets are added up and compared, so every parameter of a
guarantee or of a noise distribution is the fraction that its shortest decimal text states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal, Inexact, InvalidOperation
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any, Final, TypeGuard, TypeVar, cast

import numpy as np

from counton.base.errors import InvalidInputError, SumOverflowError, is_one

T = TypeVar("T")

#: Types of a parameter. A float stands for its shortest decimal text.
Number = int | float | str | Decimal | Fraction

_LARGEST_EXPONENT = 300  # within float64; "1e-999999999" would otherwise fill the memory with zeros
_LARGEST_MAGNITUDE = 10**_LARGEST_EXPONENT
#: Largest absolute value of counters, indices and sums.
LARGEST_INTEGER = 2**62
#: Fraction of a stream's largest exact sum that the rows sent to a service may add up to. What is
#: left is for the rounding of fractions, so that whatever is acknowledged can be counted.
LARGEST_SENT_SHARE: Final = 0.5
_LONGEST_TEXT = 1000
#: Most parts of the name of a number, such as ("covariance", "a", "b").
_MOST_PARTS = 3
#: Most decimal places of a number that is written as a decimal, and not as a fraction.
_MOST_DECIMAL_PLACES = 40


def shorten(value: object) -> str:
    """Return the beginning of a value as text, for messages; only its type unless `is_one` allows.

    >>> shorten("1e999"), shorten(10**5000), shorten({"user": ["ann"]})
    ('1e999', 'a number of thousands of digits', 'a value of type dict')
    """
    if not is_one(value):
        return _by_type(value)
    try:
        return str(value)[:80]
    except ValueError:  # Python refuses to write integers of more than 4,300 digits
        return "a number of thousands of digits"


def quote(value: object) -> str:
    """Return the beginning of a value's ``repr``, for an error message.

    Args:
        value: what the caller passed.

    Returns:
        At most 80 characters; only the value's type unless `is_one` allows the value.

    >>> quote("8"), quote(None), quote(["ann", "bob"]), quote(np.array([3, 4]))
    ("'8'", 'None', 'a value of type list', 'a value of type ndarray')
    """
    if not is_one(value):
        return _by_type(value)
    try:
        return repr(value)[:80]
    except ValueError:  # long integers
        return _by_type(value)


def quote_name(name: object) -> str:
    """Return the name of a released number for messages; it may be a pair or a triple.

    >>> quote_name(("70", "60")), quote_name("mean"), quote_name([("ann", 3)])
    ("('70', '60')", "'mean'", 'a value of type list')
    """
    is_short = isinstance(name, tuple) and 0 < len(name) <= _MOST_PARTS
    if not is_short or not all(is_one(part) for part in cast("tuple[object, ...]", name)):
        return quote(name)
    return repr(name)[:80]


def short_repr(value: object) -> str:
    """Return the ``repr`` of a value; of a long one the first 80 characters, and dots."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}..."


def quoted_numbers(values: object) -> str:
    """Return the beginning of a list of numbers that cannot be private rows, for messages."""
    plain = isinstance(values, list | tuple) and all(isinstance(value, Real) for value in values)
    return repr(values)[:80] if plain else quote(values)


def _by_type(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def exact(value: Number, name: str) -> Fraction:
    """Convert a number to the fraction that its shortest decimal text states.

    >>> exact(0.1, "epsilon"), exact("1/3", "epsilon"), exact(1e-6, "delta")
    (Fraction(1, 10), Fraction(1, 3), Fraction(1, 1000000))
    """
    number = None
    cause = None
    untyped = cast("object", None if isinstance(value, bool) else value)
    if isinstance(untyped, Rational):
        number = _in_range(Fraction(int(untyped.numerator), int(untyped.denominator)))
    elif isinstance(untyped, (str, Decimal, Real)):
        try:
            number = _from_text(str(untyped).strip())
        except (ValueError, InvalidOperation, ZeroDivisionError) as error:
            cause = error
    if number is not None:
        return number
    if not isinstance(value, str):
        remedy = "give an int, a float, a Fraction, a Decimal or decimal text"
    elif value.count(",") == 1 and value.strip().replace(",", "").isdigit():
        remedy = f"write it with a point, as in {shorten(value.strip()).replace(',', '.')}"
    else:
        remedy = "write decimal text or a fraction, as in 0.5, 1e-6 or 1/3"
    raise InvalidInputError(
        f"{name} is {repr(shorten(value)) if is_one(value) else _by_type(value)}; it must be a "
        f"finite number from 1e-300 to 1e300: {remedy}"
    ) from cause


def _from_text(text: str) -> Fraction | None:
    """Return the fraction that a text states; None if it is too long or too large.

    Raises:
        ValueError, InvalidOperation, ZeroDivisionError: the text is no number.
    """
    if not text.isascii():  # digits of other scripts look like other numbers
        raise ValueError("digits of another script")
    if len(text) > _LONGEST_TEXT:
        return None
    if "/" in text:
        return _in_range(Fraction(text))
    decimal = Decimal(text)
    if not decimal.is_finite() or abs(decimal.adjusted()) > _LARGEST_EXPONENT:
        return None
    return Fraction(decimal)


def _in_range(number: Fraction) -> Fraction | None:
    """Return a fraction that is 0 or of a magnitude from 1e-300 to 1e300; else None."""
    is_in_range = not number or 1 <= abs(number) * _LARGEST_MAGNITUDE <= _LARGEST_MAGNITUDE**2
    return number if is_in_range else None


def text(value: Fraction) -> str:
    """Return the shortest text that `exact` parses to a fraction: a decimal, or else ``p/q``.

    >>> text(Fraction(1, 10)), text(Fraction(1, 3)), text(Fraction(1, 10**9))
    ('0.1', '1/3', '1e-9')
    """
    if value.denominator == 1 and abs(value.numerator) < 10**15:
        return str(value.numerator)
    context = Context(prec=value.numerator.bit_length() // 3 + _MOST_DECIMAL_PLACES + 2)
    number = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context)
    if context.flags[Inexact] or int(number.as_tuple().exponent) < -_MOST_DECIMAL_PLACES:
        return f"{value.numerator}/{value.denominator}"
    return f"{number:e}" if number.adjusted() <= -5 else f"{number:f}"


def first_digits(value: Fraction, digits: int = 3) -> str:
    """Return the first digits of a number of any size, for messages."""
    try:
        return f"{float(value):.{digits}g}"
    except OverflowError:
        return f"{Decimal(value.numerator) / Decimal(value.denominator):.{digits}g}"


def readable(value: Fraction) -> str:
    """Format a fraction for people: exactly if that is short, else by its first digits.

    >>> readable(Fraction(1, 10)), readable(Fraction(1, 3)), readable(Fraction(10**30, 3**60))
    ('0.1', '1/3', 'about 23.5898')
    """
    if value.denominator.bit_length() > _LONGEST_TEXT:
        return f"about {first_digits(value, 6)}"
    exactly = text(value)
    return exactly if len(exactly) <= 16 else f"about {first_digits(value, 6)}"


def rounded_up(value: float, bits: int = 34) -> Fraction:
    """Round up to a fraction with a short denominator, with a relative error below ``2**-bits``."""
    exponent = bits - math.frexp(value)[1] + 1
    scaled = Fraction(value) * (Fraction(2) ** exponent)
    return Fraction(math.ceil(scaled)) / (Fraction(2) ** exponent)


def root_rounded_up(square: Fraction) -> Fraction:
    """Return the square root: exact if rational, else rounded up to a short fraction.

    >>> 0 <= root_rounded_up(Fraction(2)) ** 2 - 2 < 1e-9
    True
    """
    top = math.isqrt(square.numerator)
    bottom = math.isqrt(square.denominator)
    if Fraction(top, bottom) ** 2 == square:
        return Fraction(top, bottom)
    size = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    unit = Fraction(2) ** (size - 34)
    return (math.isqrt(math.floor(square / unit**2)) + 1) * unit


def float_below(value: Fraction) -> float:
    """Return the largest float that is not above ``value``."""
    near = float(value)
    top, bottom = near.as_integer_ratio()
    below = top * value.denominator <= value.numerator * bottom
    return near if below else math.nextafter(near, -math.inf)


def float_above(value: Fraction) -> float:
    """Return the smallest float that is not below ``value``."""
    near = float(value)
    top, bottom = near.as_integer_ratio()
    above = top * value.denominator >= value.numerator * bottom
    return near if above else math.nextafter(near, math.inf)


def root_above(square: Fraction) -> float:
    """Return the smallest float whose square is at least ``square``, or the next larger one."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number, of Python or another library, and no boolean.

    >>> is_whole(np.int8(3)), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    # The type tells an int at once; for other integers Python has to ask abstract classes.
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def in_parts(name: object) -> tuple[Any, ...]:
    """Return a tuple or list as a tuple, and any other value as a tuple of it alone.

    >>> in_parts(["CA", "Napa"]), in_parts("CA")
    (('CA', 'Napa'), ('CA',))
    """
    return tuple(name) if isinstance(name, (tuple, list)) else (name,)


def has_parts(value: object, count: int) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a tuple or list of ``count`` elements.

    >>> has_parts(("ann", "JFK"), 2), has_parts("AB", 2)
    (True, False)
    """
    return isinstance(value, (tuple, list)) and len(value) == count


def check_integer(
    name: str, value: object, low: int, high: int = LARGEST_INTEGER, remedy: str = ""
) -> int:
    """Return ``value`` as an int within [low, high]; booleans and floats are refused."""
    number = int(value) if is_whole(value) else None
    if number is not None and low <= number <= high:
        return number
    value_text = quote(value) if number is None else shorten(value)
    power = high.bit_length() - 1
    largest = f"2^{power}" if power >= 16 and high == 1 << power else f"{high:,}"
    raise InvalidInputError(
        f"{name} is {value_text}; it must be an integer between {low:,} and {largest}"
        + (f": {remedy}" if remedy else "")
    )


def check_positive(name: str, value: Number, remedy: str) -> Fraction:
    """Return ``value`` as an exact fraction; refuse it if it is not above 0."""
    number = exact(value, name)
    if number <= 0:
        raise InvalidInputError(f"{name} is {text(number)}; it must be above 0: {remedy}")
    return number


def check_integers(
    name: str, values: Any, low: int, high: int = LARGEST_INTEGER, most: int = 64
) -> tuple[int, ...]:
    """Return integers within [low, high] from a flat collection; refuse more than ``most``.

    >>> check_integers("radix", np.array([2, 3]), 2), check_integers("radix", [], 2)
    ((2, 3), ())
    """
    check_sequence(name, values, most)
    return tuple(check_integer(name, value, low, high) for value in values)


def check_sequence(name: str, values: object, most: int) -> None:
    """Refuse values that are no list, tuple, range or array, or more than ``most`` elements."""
    flat = values.ndim > 0 if isinstance(values, np.ndarray) else True
    if not isinstance(values, (list, tuple, range, np.ndarray)) or not flat:
        raise InvalidInputError(f"values of {name} are {quote(values)}; give a list")
    # a range may be longer than ``len`` can return
    if values[most:] if isinstance(values, range) else len(values) > most:
        raise InvalidInputError(
            f"more than {most:,} values of {name} are given; give at most {most:,}"
        )


def decimals(error: float) -> int:
    """Return how many decimals of a number are meaningful: as many as show two digits of its error.

    >>> decimals(53.2), decimals(4.5), decimals(0.021)
    (0, 1, 3)
    """
    return 0 if error >= 10 else max(0, min(2 - math.ceil(math.log10(error)), 12))


def quantity(value: float, error: float, whole: bool = False) -> str:
    """Format a number with thousands separators and as many decimals as its ``error`` allows.

    >>> quantity(58_650.4, 53.2), quantity(0.12345, 0.021), quantity(1e-40, 1e-40)
    ('58,650', '0.123', '0')
    """
    if 0 < abs(value) < 1e-12:  # a deviation of next to no noise would print as zeros
        return "0"
    if whole or error > 0:
        text = f"{value:,.{0 if whole else decimals(error)}f}"
    else:  # known exactly
        text = f"{value:,.12g}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.lstrip("-")


def figures(value: float) -> str:
    """Format a number without noise: four digits, or an integer from 10,000 on; no exponent.

    >>> figures(13.3912), figures(31_371.4), figures(0.000021234), figures(0.0)
    ('13.39', '31,371', '0.00002123', '0')
    """
    if not math.isfinite(value) or not value:
        return f"{value:g}"
    decimals = 0 if abs(value) >= 10_000 else max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def figures_up(value: float) -> str:
    """Format an upper bound as `figures` does, but rounded up.

    >>> figures_up(1.41421), figures_up(2.0), figures_up(31_371.4)
    ('1.415', '2', '31,372')
    """
    if not math.isfinite(value) or not value:
        return f"{value:g}"
    decimals = 0 if abs(value) >= 10_000 else max(0, 3 - math.floor(math.log10(abs(value))))
    step = Decimal(1).scaleb(-decimals)
    # digits of a float beyond the twelfth are rounding
    above = (Decimal(f"{value:.12g}") / step).to_integral_value(ROUND_CEILING) * step
    return f"{above.normalize():,f}"


def percent(confidence_level: float) -> str:
    """Format a probability in percent, so that a probability below 1 does not read as 100.

    >>> percent(0.95), percent(0.29), percent(1 - 1e-9)
    ('95', '29', '99.9999999')
    """
    return f"{100 * confidence_level:.9g}"


def figures_above(value: float) -> str:
    """Format an upper bound on an error for a sentence: at least two digits, rounded up.

    >>> figures_above(18.64), figures_above(2.41), figures_above(0.0123), figures_above(20.0)
    ('19', '2.5', '0.013', '20')
    """
    if not math.isfinite(value) or not value:
        return f"{value:g}"
    step = Decimal(10) ** min(0, math.floor(math.log10(abs(value))) - 1)
    # digits of a float beyond the twelfth are rounding
    above = (Decimal(f"{value:.12g}") / step).to_integral_value(ROUND_CEILING) * step
    return f"{above.normalize():,f}"


#: Types of numbers and texts, which contain no further values.
_PLAIN_TYPES = frozenset(
    {int, float, bool, str, bytes, type(None), Fraction, Decimal, np.int64, np.float64, np.str_}
)
_TYPES_HOLDING_PLAIN = (str, bytes, bytearray, memoryview, range, np.generic, Mapping)
_MOST_DIMENSIONS = 64  # no array has more dimensions


def without_mask(values: Any, name: str, depth: int = _MOST_DIMENSIONS) -> Any:
    """Return values, or what their ``__array__`` returns; refuse masked elements of any depth.

    A mask hides arbitrary numbers. ``name`` names the values in messages.
    """
    kind = type(values)
    if kind in _PLAIN_TYPES or not depth or (kind is np.ndarray and values.dtype != object):
        return values
    if kind is list and len(values) == 1 and type(values[0]) in _PLAIN_TYPES:  # a single step
        return values
    parts = values
    if not isinstance(values, np.ndarray) and hasattr(values, "__array__"):
        if isinstance(values, np.generic):
            return values
        try:
            values = np.asanyarray(values)  # keeps a mask
        except (ValueError, TypeError):
            return values  # a caller who needs an array reports the error
    if isinstance(values, np.ndarray):
        # asked last, since numpy.ma takes long to import
        if type(values) is not np.ndarray and isinstance(values, np.ma.MaskedArray):
            hidden = np.flatnonzero(np.ma.getmaskarray(values))
            if len(hidden):
                raise InvalidInputError(
                    f"{name} has {len(hidden):,} masked values, the first at position "
                    f"{hidden[0] + 1:,}; masks are ignored, and the value below a mask would be "
                    "counted: fill or drop masked values first"
                )
        if values.dtype != object:
            return values
        parts = np.asarray(values).ravel().tolist()
    elif isinstance(values, _TYPES_HOLDING_PLAIN) or not (
        hasattr(values, "__len__") and hasattr(values, "__getitem__")
    ):
        return values
    if not _PLAIN_TYPES.issuperset(map(type, parts)):
        for index, part in enumerate(parts, 1):
            if type(part) not in _PLAIN_TYPES:
                without_mask(part, f"element {index:,} of {name}", depth - 1)
    return values


def name_alone(kind: type[T]) -> type[T]:
    """Make the ``repr`` of a class's objects show its name alone, because the values are secret."""
    setattr(kind, "__repr__", lambda _: f"{kind.__name__}(secret)")  # noqa: B010 - as mypy has it
    return kind


def some_of(names: Sequence[str]) -> str:
    """Join the first eight names with commas, and add how many more there are."""
    shown = ", ".join(names[:8])
    if len(names) <= 8:
        return shown
    return f"{shown} and {len(names) - 8:,} more"


#: Largest number of names among which the nearest is looked for: it takes seconds for many.
_MOST_NAMES = 10_000


def suggest(name: object, names: Sequence[str]) -> str:
    """Return the question whether the nearest of some names was meant; "" if none is near.

    Args:
        name: a name that is not among the names.
        names: the public names of which one was meant.

    >>> suggest("Hom", ["home", "shop"]), suggest("x", ["home", "shop"])
    ("did you mean 'home'? ", '')
    """
    from difflib import get_close_matches
    from unicodedata import normalize

    folded: dict[str, str] = {}
    for known_name in names[:_MOST_NAMES]:
        folded.setdefault(normalize("NFC", known_name).casefold().strip(), known_name)
    wrong = normalize("NFC", str(name)).casefold().strip()
    near = [wrong] if wrong in folded else get_close_matches(wrong, folded, 1)
    return f"did you mean {folded[near[0]]!r}? " if near else ""


def with_capital(words: str) -> str:
    """Return a text with its first letter in upper case, and all others as they are."""
    return words[:1].upper() + words[1:]


def refuse_overflow(size: float, most: float, says: Callable[[], str]) -> None:
    """Refuse a sum of rows that would be too large to be computed and released exactly.

    A refusal that depends on exact sums discloses something about them. Only this function refuses
    rows because their sum would not be exact. A person who runs a job sees this refusal, and may
    see the rows. So does the one who has a service's token to write.
    """
    if size > most:
        raise SumOverflowError(says())
