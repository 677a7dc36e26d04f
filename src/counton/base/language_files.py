"""Files of languages for charts and pages: built-in files, such as ``languages/de.toml``, and
users' files.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any, Final

from counton.base.errors import InvalidInput, field
from counton.base.locales import ENGLISH, Locale, is_file_of_language

#: Names of the built-in languages besides English.
LANGUAGES: Final = ("de",)
#: Number of names in each list of a language's file.
_LISTS = {"months": 12, "long_months": 12, "weekdays": 7}
#: Tables of texts by English texts.
_SECTIONS = ("words", "sentences", "names")
#: Characters that may stand between thousands: signs, spaces of three kinds, or none.
_THOUSANDS = (",", ".", "'", "’", " ", "\u00a0", "\u202f", "")


def locale_named(name: str | os.PathLike[str] | None) -> Locale:
    """Return a built-in language by its name, or a language from a TOML file.

    If the file's ``language`` is built in, the file states only the entries that differ.

    Raises:
        InvalidInput: the name is unknown, or the file cannot be read, has an unknown key, has a
            translation that lacks a placeholder, or has the same sign for decimals and thousands.

    >>> locale_named("de").months[2], locale_named(None).language
    ('März', 'en')
    """
    if name is None or name == "en":
        return ENGLISH
    if name in LANGUAGES:
        return _own_language(str(name))
    if not is_file_of_language(name):
        known = ", ".join(("en", *LANGUAGES))
        raise InvalidInput(
            f"{field('locale', str(name))} is not a known language: give one of {known}, or "
            f"a file of your own whose name ends in .toml"
        )
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{field('locale', str(name))} cannot be read ({error}): name a file of TOML in UTF-8"
        ) from error
    return _read(text, str(name))


@cache
def _own_language(name: str) -> Locale:
    return _read(_text(name), name, ENGLISH)


def _read(text: str, label: str, base: Locale | None = None) -> Locale:
    """Build a language from the content of its TOML file.

    Args:
        text: content of the file.
        label: name of the file in messages.
        base: language whose entries the file overrides; None: the built-in language that the file
            names, else English.
    """

    def refuse(why: str) -> InvalidInput:
        return InvalidInput(f"{field('locale', label)} {why}")

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refuse(f"is not valid TOML ({error}): correct it at that place") from error
    language = found.get("language")
    if not isinstance(language, str) or not language.isascii() or not language:
        raise refuse('does not say its language: add a line such as language = "de"')
    if base is None:
        base = locale_named(language) if language in ("en", *LANGUAGES) else ENGLISH
    values: dict[str, Any] = {}
    for key, value in found.items():
        if key in _LISTS:
            fits = isinstance(value, list) and len(value) == _LISTS[key]
            if not fits or not all(isinstance(one, str) and one for one in value):
                raise refuse(
                    f"has a wrong list {key}: give a list of all {_LISTS[key]} names, each a text"
                )
            values[key] = tuple(value)
        elif key in _SECTIONS:
            values[key] = {**getattr(base, key), **_checked_texts(key, value, refuse)}
        elif key in ("language", "decimal", "thousands"):
            values[key] = value
        else:
            keys = ("language", "decimal", "thousands", *_LISTS, *_SECTIONS)
            close = get_close_matches(key, keys, 1)
            hint = (
                f"did you mean {close[0]}?"
                if close
                else f"leave it out; allowed keys are {', '.join(keys)}"
            )
            raise refuse(f"has the key {key!r}, which no file of a language has: {hint}")
    locale = replace(base, **values)
    if locale.decimal not in (".", ",") or locale.thousands not in _THOUSANDS:
        raise refuse(
            f"has decimal = {locale.decimal!r} and thousands = {locale.thousands!r}: decimal must "
            "be . or , and thousands must be . or , or ' or a space, or empty"
        )
    if locale.decimal == locale.thousands:
        raise refuse(
            f"has {locale.decimal!r} for both decimal and thousands: give two different characters"
        )
    return locale


def _checked_texts(key: str, value: Any, refuse: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise refuse(
            f"has a wrong section {key}: give a table of texts that begins with the line [{key}]"
        )
    if key == "names":
        return value
    for english, text in value.items():
        if english not in texts(key):
            close = get_close_matches(english, texts(key), 1)
            remedy = (
                f"did you mean {close[0]!r}?"
                if close
                else ("leave it out, or put it into [names] if it is a name of yours")
            )
            raise refuse(
                f"has the entry {english!r} in [{key}], and counton writes no such text: {remedy}"
            )
        if _places(text) != _places(english):
            raise refuse(
                f"translates {english!r} to {text!r}: use each name in braces of the English text "
                "exactly once"
            )
    return value


def _places(text: str) -> list[str] | None:
    """Return the sorted names of the placeholders (names in braces) in a text; None if braces are
    malformed or hold more than a name.
    """
    try:
        parts = [part[1:] for part in Formatter().parse(text) if part[1] is not None]
    except ValueError:
        return None
    plain = all(not more and how is None for _, more, how in parts)
    return sorted(str(name) for name, *_ in parts) if plain else None


@cache
def texts(section: str = "words") -> frozenset[str]:
    """Return the English texts that a language may translate, in one section of a language file:
    "words", "sentences" or "names".
    """
    return frozenset(tomllib.loads(_text("de"))[section])


def _text(name: str) -> str:
    return files("counton.base").joinpath("languages", f"{name}.toml").read_text("utf-8")
