"""English words for numbers of things, in the singular and the plural."""

from __future__ import annotations

#: Endings of words whose plural equals the singular, or that are plurals.
_ONE_FORM = (
    *("people", "children", "women", "aircraft", "spacecraft", "watercraft", "police", "staff"),
    *("fish", "sheep", "deer", "cattle", "data", "media", "personnel", "traffic", "freight"),
    *("information", "equipment", "software", "money", "energy"),
)
_PLURALS = {"person": "people", "child": "children", "woman": "women", "man": "men"}
#: Words that end in "man" with a plural in "s".
_HUMAN = ("human", "german", "roman", "ottoman", "talisman", "shaman")


def plural(unit: str) -> str:
    """Return the English plural of a unit's name; plurals and words without one are unchanged.

    >>> plural("departure"), plural("query"), plural("visits"), plural("sighting of an edge")
    ('departures', 'queries', 'visits', 'sightings of an edge')
    >>> plural("aircraft"), plural("address"), plural("salesperson"), plural("person's day")
    ('aircraft', 'addresses', 'salespeople', "person's days")
    """
    unit, separator, whole = unit.partition(" of ")
    if separator:
        return f"{plural(unit)} of {whole}"
    word = unit.lower()
    if word.endswith(_ONE_FORM) or word == "men":
        return unit
    if not word.endswith(_HUMAN):
        for ending, several in _PLURALS.items():
            if word.endswith(ending):
                return unit[: -len(ending)] + several
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{unit[:-1]}ies"
    if word.endswith(("ss", "x", "ch", "sh")) and not word.endswith("och"):
        return f"{unit}es"
    return unit if word.endswith("s") else f"{unit}s"


#: Words that begin with a vowel, which is spoken as a consonant.
_SPOKEN_AS_CONSONANT = ("eu", "one", "uni", "use", "usu")


def with_article(noun: str) -> str:
    """Return a noun with its indefinite article.

    >>> with_article("reader"), with_article("employee"), with_article("user")
    ('a reader', 'an employee', 'a user')
    """
    word = noun.lower()
    has_vowel = word.startswith(tuple("aeiou")) and not word.startswith(_SPOKEN_AS_CONSONANT)
    return f"{'an' if has_vowel else 'a'} {noun}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular or the plural.

    Args:
        number: how many there are.
        noun: the noun in the singular.

    >>> counted(1, "row"), counted(0, "row"), counted(1200, "query")
    ('1 row', '0 rows', '1,200 queries')
    """
    return f"{number:,} {noun if number == 1 else plural(noun)}"
