from __future__ import annotations

import pickle

from counton.errors import CountonError, InvalidInput, MissingExtra, field


def test_what_a_message_shows_cannot_pass_for_a_field() -> None:
    error = InvalidInput(f"{field('until', field('start', 3))} is odd")
    assert error.fields == ("until",)
    assert error.translate({"start": "--from", "until": "--until"}) == "--until ?start?3? is odd"


def test_a_field_without_another_name_keeps_its_own() -> None:
    error = CountonError(f"{field('name')} and {field('every', '1h')}")
    assert error.translate({}) == str(error) == "name and every=1h"


def test_an_error_that_went_to_another_process_still_knows_its_fields() -> None:
    error = pickle.loads(pickle.dumps(InvalidInput(f"give {field('append', True)}")))  # noqa: S301
    assert str(error) == "give append=True"
    assert error.translate({"append": "--append"}) == "give --append"
    absent = pickle.loads(pickle.dumps(MissingExtra("no polars", name="polars")))  # noqa: S301
    assert (str(absent), absent.name) == ("no polars", "polars")
