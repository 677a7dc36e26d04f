import copy
import importlib
import pickle
import pkgutil
from contextlib import suppress

import counton
from counton.base.errors import (
    CountonError,
    InvalidInputError,
    MissingDependencyError,
    MissingOptionError,
    param,
)


def test_quoted_value_in_message_is_not_a_field() -> None:
    error = InvalidInputError(f"{param('until', param('start', 3))} is odd")
    assert error.fields == ("until",)
    assert error.translate({"start": "--start", "until": "--until"}) == "--until ?start?3? is odd"


def test_a_field_without_another_name_keeps_its_own() -> None:
    error = CountonError(f"{param('stream')} and {param('every', '1h')}")
    assert error.translate({}) == str(error) == "stream and every=1h"


def test_pickled_errors_keep_fields_and_text() -> None:
    error = pickle.loads(pickle.dumps(InvalidInputError(f"give {param('append', True)}")))  # noqa: S301
    assert str(error) == "give append=True"
    assert error.translate({"append": "--append"}) == "give --append"
    absent = pickle.loads(pickle.dumps(MissingDependencyError("no polars", name="polars")))  # noqa: S301
    assert (str(absent), absent.name) == ("no polars", "polars")


def test_every_error_is_made_from_its_message_alone_and_copied() -> None:
    """Whoever adds to a message makes an error of the same kind; workers send theirs."""
    for found in pkgutil.walk_packages(counton.__path__, "counton."):
        if not found.name.endswith("__main__"):
            with suppress(ImportError):  # of an extra that is not there
                importlib.import_module(found.name)
    kinds = set[type[CountonError]]()
    waiting = [CountonError]
    while waiting:
        kinds.add(kind := waiting.pop())
        waiting += [one for one in kind.__subclasses__() if one not in kinds]
    assert MissingOptionError in kinds
    for kind in kinds:
        error = kind(f"give {param('append', True)}")
        for copied in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
            assert type(copied) is kind
            assert copied.translate({"append": "--append"}) == "give --append"
    absent = pickle.loads(pickle.dumps(MissingOptionError("no value", ["value"])))  # noqa: S301
    assert absent.names == ("value",)
