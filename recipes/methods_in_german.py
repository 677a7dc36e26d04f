"""Print a methods text in German for a released file.

    python recipes/methods_in_german.py visits.csv --was "Besuche"

The file carries its own description, so no state and no key is needed. Copy the program and change
its sentences for another language or another house style.
"""

from __future__ import annotations

import argparse

import counton

_UNITS = {"visit": "Besuch", "visitor": "Gast", "patient": "Fall", "event": "Ereignis"}
_RELATIONS = {"add_remove": "ob es {unit} gibt", "replace": "{unit} statt eines anderen"}


def number(value: float, digits: int = 0) -> str:
    """Write a number with German signs: 1.234,5."""
    return f"{value:,.{digits}f}".translate({ord(","): ".", ord("."): ","})


def methods(release: counton.Release, what: str) -> str:
    """Return three sentences: what was published, who is protected, and how large errors are."""
    design = release.numbers.design
    table = release.table()
    contribution = design.contribution
    unit = f"«{_UNITS.get(contribution.unit, contribution.unit)}»"
    difference = _RELATIONS[contribution.relation].format(unit=unit)
    if "series" in table.columns:
        table = table.filter(series=table["series"].to_list()[-1])
    half = float((table["upper"] - table["lower"]).max()) / 2  # type: ignore[arg-type]
    return (
        f"{what} wurden bisher {number(len(release.steps))} Mal veröffentlicht. Rauschen "
        f"begrenzt, wie gut jemand erkennen kann, {difference} ({design.guarantee}). Mit einer "
        f"Wahrscheinlichkeit von je {number(100 * release.numbers.level)} % weicht eine Zahl "
        f"höchstens um {number(half, 1)} von der wahren ab."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="released table")
    parser.add_argument("--was", default="Die Zahlen", help="what is published, in German")
    given = parser.parse_args()
    print(methods(counton.read(given.file), given.was))
