"""Languages of charts and pages: words, signs of numbers, names of months and weekdays.

A text is written in English with placeholders in braces. `local_text` translates it into the
present language; `local_sentence` translates a finished text. `counton.base.language_files` reads
languages. Texts that a language lacks stay English.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from string import Formatter
from typing import Final

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONG_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True)
class Locale:
    """A language of charts and pages.

    Attributes:
        language: tag of the language in HTML, such as ``de``.
        decimal: the sign before the fraction of a number.
        thousands: the sign between thousands.
        months, long_months, weekdays: names, from January and from Monday on.
        words: translations of counton's own texts, by the English text, with the same placeholders
            in braces.
        sentences: translations of texts that databases and files keep in English, in the form of
            ``words``. If a text fits two of them, the first is used.
        names: translations of words in the data, such as units, columns and groups.
    """

    language: str = "en"
    decimal: str = "."
    thousands: str = ","
    months: tuple[str, ...] = _MONTHS
    long_months: tuple[str, ...] = _LONG_MONTHS
    weekdays: tuple[str, ...] = _WEEKDAYS
    words: Mapping[str, str] = field(default_factory=dict)
    sentences: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


#: The language of all texts in the source.
ENGLISH: Final = Locale()
_PRESENT: ContextVar[Locale] = ContextVar("locale", default=ENGLISH)


@contextmanager
def speaking(locale: Locale) -> Iterator[None]:
    """Write texts, numbers and dates in a language within the ``with`` block.

    >>> with speaking(Locale(decimal=",", words={"step {number}": "Schritt {number}"})):
    ...     print(local_text("step {number}", number=local_number("0.5")))
    Schritt 0,5
    """
    before = _PRESENT.set(locale)
    try:
        yield
    finally:
        _PRESENT.reset(before)


def present() -> Locale:
    """Return the language in which texts are written at present."""
    return _PRESENT.get()


def is_file_of_language(name: str | os.PathLike[str]) -> bool:
    """Return True if ``name`` is the path of a language's TOML file, False if it is a language's
    name.
    """
    return os.fspath(name).lower().endswith(".toml")


def with_capital(words: str) -> str:
    """Return a text with its first letter in upper case, and all others as they are.

    >>> with_capital("counts of NYC"), with_capital("")
    ('Counts of NYC', '')
    """
    return words[:1].upper() + words[1:]


def local_text(english: str, **values: str | int) -> str:
    """Translate an English text into the present language, and fill its placeholders with values;
    a whole number is written with the signs of the language.

    >>> local_text("step {number}", number="3"), local_text("step {number}", number=1024)
    ('step 3', 'step 1,024')
    """
    said = {
        name: local_number(f"{value:,}") if isinstance(value, int) else value
        for name, value in values.items()
    }
    return _PRESENT.get().words.get(english, english).format(**said)


def local_sentence(english: str) -> str:
    """Translate a finished English text, such as a note of a file, into the present language.

    The text is compared with the sentences of the language, which may have placeholders. Texts that
    stand in place of placeholders are translated in the same way. Numbers get the signs of the
    language; only numbers fit the placeholder ``{count}``. A text that fits no sentence is
    translated as a word of the data. In place of a placeholder days and times get the months of the
    language too.

    >>> both = {"up to {cells}": "bis zu {cells}", "{count} cells": "{count} Zellen"}
    >>> with speaking(Locale(thousands=".", sentences=both)):
    ...     print(local_sentence("up to 1,024 cells"), local_sentence("no cell"))
    bis zu 1.024 Zellen no cell
    >>> months = "Januar", "Februar", "März", *"????????", "Dezember"
    >>> with speaking(Locale(sentences={"up to {when}": "bis {when}"}, long_months=months)):
    ...     print(local_sentence("up to 7 March 2024"))
    bis 7 März 2024
    """
    for known, said in _PRESENT.get().sentences.items():
        if found := _pattern(known).fullmatch(english):
            parts = found.groupdict().items()
            return said.format(**{name: _local_part(part) for name, part in parts})
    return local_number(english) if _NUMBER.fullmatch(english) else local_name(english)


def _local_part(english: str) -> str:
    """Translate a text that stands in place of a placeholder: a span of time, or a sentence."""
    ends = [end for end in map(_local_end, english.split(" to ", 1)) if end is not None]
    if len(ends) != 1 + (" to " in english):
        return local_sentence(english)
    return ends[0] if len(ends) == 1 else local_text("{low} to {high}", low=ends[0], high=ends[1])


def _local_end(english: str) -> str | None:
    """Translate one end of a span of time, such as "7 March 2024" or "7 March 2024, 12:30"; None if
    the text is none.
    """
    found = _END.fullmatch(english)
    if found is None:
        return english if _TIME.fullmatch(english) else None
    day, month, year, time = found.groups()
    months = ENGLISH.long_months
    try:
        moment = date(int(year or 2024), months.index(month) + 1, int(day))
    except ValueError:
        return None
    said = local_day(moment, year=year is not None, long=True)
    return said if time is None else local_text("{date}, {time}", date=said, time=time)


#: Times in English notation: one of a day, and a day with or without its year and a time.
_TIME = re.compile(r"\d\d:\d\d")
_END = re.compile(r"(\d{1,2}) ([A-Z][a-z]+)(?: (\d{4}))?(?:, (\d\d:\d\d))?")


#: A number in English notation, also in percent: it alone fits the placeholder ``{count}``.
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?%?")


@cache
def _pattern(english: str) -> re.Pattern[str]:
    """Return the pattern of all texts that an English text with placeholders can become."""
    said = ""
    for text, name, *_ in Formatter().parse(english):
        fits = _NUMBER.pattern if name == "count" else ".+?"
        said += re.escape(text) + ("" if name is None else f"(?P<{name}>{fits})")
    return re.compile(said, re.DOTALL)


def local_name(name: str) -> str:
    """Translate a word of the data, such as a unit, into the present language; unknown words stay.

    >>> with speaking(Locale(names={"events": "Ereignisse"})):
    ...     print(local_name("events"), local_name("Strand"))
    Ereignisse Strand
    """
    return _PRESENT.get().names.get(name, name)


def local_unit(unit: str) -> str:
    """Translate the name of a protected unit, such as "reader" or "reader's day", into the present
    language.

    >>> with speaking(Locale(words={"{unit}'s {period}": "{unit}-{period}", "day": "Tag"})):
    ...     print(local_unit("reader's day"), local_unit("reader"))
    reader-Tag reader
    >>> local_unit("reader's {day}")
    "reader's {day}"
    """
    one, several, period = unit.rpartition("'s ")
    if not several:
        return local_name(unit)
    period = _PRESENT.get().words.get(period, period)  # words of the user are no text to fill
    return local_text("{unit}'s {period}", unit=local_name(one), period=period)


def local_number(shown: str) -> str:
    """Rewrite a number in English notation with the signs of the present language.

    >>> local_number("1,234.5")
    '1,234.5'
    """
    here = _PRESENT.get()
    if here is ENGLISH:
        return shown
    return shown.translate({ord(","): here.thousands, ord("."): here.decimal})


def local_month(moment: date, *, long: bool = False) -> str:
    """Return the name of a date's month in the present language."""
    here = _PRESENT.get()
    return (here.long_months if long else here.months)[moment.month - 1]


def local_weekday(moment: date) -> str:
    """Return the name of a date's day of the week in the present language."""
    return _PRESENT.get().weekdays[moment.weekday()]


def local_day(
    moment: date, *, year: bool = False, weekday: bool = False, long: bool = False
) -> str:
    """Return day and month of a date in the present language. On request the year is added, or the
    weekday.

    >>> friday = date(2024, 3, 29)
    >>> local_day(friday, weekday=True), local_day(friday, year=True, long=True)
    ('Fri 29 Mar', '29 March 2024')
    """
    parts = {"day": str(moment.day), "month": local_month(moment, long=long)}
    if weekday:
        return local_text("{weekday} {day} {month}", weekday=local_weekday(moment), **parts)
    if year:
        return local_text("{day} {month} {year}", year=str(moment.year), **parts)
    return local_text("{day} {month}", **parts)


def local_moment(moment: datetime, *, long: bool = False) -> str:
    """Return day, month, year and time of a moment, in the present language.

    >>> local_moment(datetime(2024, 3, 29, 12, 30))
    '29 Mar 2024, 12:30'
    """
    return local_text(
        "{date}, {time}", date=local_day(moment, year=True, long=long), time=f"{moment:%H:%M}"
    )
